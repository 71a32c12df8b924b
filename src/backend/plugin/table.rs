//! [`BackendTable`]: what a plug-in's capsule points to.

use std::ffi::{CStr, c_char, c_int, c_void};

use pyo3::ffi::PyObject;

/// The version of [`BackendTable`], of `codec`, and of what they mean. Any change of one is a new
/// version.
pub const ABI_VERSION: u32 = 5;
/// The first word of every table, in every version.
pub const MAGIC: u64 = u64::from_be_bytes(*b"PdlSotRs");
/// The name of the capsule.
pub const CAPSULE: &CStr = c"paddle_sot_rs.backend";

/// A backend, as C functions over one pointer.
///
/// The fields before `name` are the same in all versions; nothing else may be read before `version`
/// was compared. All functions are called with the GIL held. Those that answer with a Python object
/// answer NULL, and `min_graph_size` and `configure` a negative number, with a Python exception
/// set.
#[repr(C)]
pub struct BackendTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`ABI_VERSION`] of the plug-in.
    pub version: u32,
    /// The size of this struct in the plug-in.
    pub size: u32,
    /// The version of the engine crate the plug-in was built with, NUL-terminated.
    pub engine: *const c_char,
    /// A new default configuration.
    pub make: unsafe extern "C" fn() -> *mut c_void,
    /// A copy of a configuration.
    pub clone: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    /// Ends a configuration.
    pub drop: unsafe extern "C" fn(*mut c_void),
    /// The backend's own name: a `str`.
    pub name: unsafe extern "C" fn(*const c_void) -> *mut PyObject,
    /// Takes a dict of options.
    pub configure: unsafe extern "C" fn(*mut c_void, *mut PyObject) -> c_int,
    /// Why a callee must not be captured: a `str` or `None`.
    pub refuses: unsafe extern "C" fn(*const c_void, *mut PyObject) -> *mut PyObject,
    /// Compiles a request; the answer is a callable.
    pub compile: unsafe extern "C" fn(*const c_void, *mut PyObject) -> *mut PyObject,
    /// Fewest statements for which compiling pays.
    pub min_graph_size: unsafe extern "C" fn(*const c_void) -> isize,
}

// SAFETY: a table is constant, and its functions are called under the GIL.
unsafe impl Sync for BackendTable {}
// SAFETY: as above.
unsafe impl Send for BackendTable {}
