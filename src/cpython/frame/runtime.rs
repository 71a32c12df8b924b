//! Looking at CPython's runtime state: the parts that have no accessor.

use std::ffi::c_void;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use super::version::ThreadState;

unsafe extern "C" {
    fn PyInterpreterState_Get() -> *mut c_void;
}

/// The current thread's state.
pub(super) fn thread_state(_py: Python<'_>) -> *mut ThreadState {
    // SAFETY: the GIL is held.
    unsafe { ffi::PyThreadState_Get().cast() }
}

/// Whether `PyThreadState` is laid out as the engine was told, as far as that can be seen.
pub(super) fn layout_is_known(py: Python<'_>) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return *known;
    }
    let state = thread_state(py);
    // SAFETY: both fields lie within every thread state; the GIL is held.
    let known = unsafe {
        (*state).interp == PyInterpreterState_Get()
            && (*state).recursion_limit == ffi::Py_GetRecursionLimit()
    };
    *KNOWN.get_or_init(|| known)
}
