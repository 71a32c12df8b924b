//! Where the numbers of tensors lie: two that share storage change together.

use std::ffi::c_void;
use std::ops::Range;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::tensor::tensor_of;
use crate::paddle::core_library;
use paddle_sot_cpython::frame::Modules;

type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type PointerFn = unsafe extern "C" fn(*const c_void) -> *const u8;
type SizeFn = unsafe extern "C" fn(*const c_void) -> usize;

pub(super) struct Reader {
    dense: BoolFn,
    initialized: BoolFn,
    data: PointerFn,
    /// Of a `phi::DenseTensor`: the bytes from its first number to the end of its memory.
    size: SizeFn,
    // The functions live as long as the library.
    _library: libloading::Library,
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

pub(super) fn open(py: Python<'_>) -> Result<Reader, String> {
    let path = core_library(py).map_err(|err| err.to_string())?;
    // SAFETY: Paddle is imported, so the library is loaded and its initialisers have run.
    let library = unsafe { libloading::Library::new(path) }.map_err(|err| err.to_string())?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures: const member functions without arguments, of
    // `paddle::Tensor` and, the last, of `phi::DenseTensor`.
    let reader = unsafe {
        Reader {
            dense: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor15is_dense_tensorEv\0")
                .map_err(text)?,
            initialized: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor11initializedEv\0")
                .map_err(text)?,
            data: *library
                .get::<PointerFn>(b"_ZNK6paddle6Tensor4dataEv\0")
                .map_err(text)?,
            size: *library
                .get::<SizeFn>(b"_ZNK3phi11DenseTensor11memory_sizeEv\0")
                .map_err(text)?,
            _library: library,
        }
    };
    match self_test(py, &reader) {
        Ok(true) => Ok(reader),
        Ok(false) => Err("two tensors lie elsewhere than they say".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// A row lies inside of what it is a row of, another tensor elsewhere.
fn self_test(py: Python<'_>, reader: &Reader) -> PyResult<bool> {
    let make = |dtype: &str| {
        let paddle = py.module("paddle")?;
        paddle.call_method1("full", (vec![4, 6], 0, dtype))
    };
    let (one, other) = (make("float32")?, make("int64")?);
    let row = one.get_item(2)?;
    let places = [&one, &other, &row].map(|tensor| reader.memory(tensor.as_ptr()));
    let [Some(one), Some(other), Some(row)] = places else {
        return Ok(false);
    };
    let holds = one.len() >= 96 && other.len() >= 192 && row.len() >= 24;
    let lies_inside = row.start == one.start + 48;
    Ok(holds && lies_inside && overlap(&one, &row) && !overlap(&one, &other))
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Reader {
    /// The memory from the first number of a tensor to the end of what was allocated.
    fn memory(&self, object: *mut ffi::PyObject) -> Option<Range<usize>> {
        let tensor = tensor_of(object);
        // SAFETY: callers know the object to be a `paddle.Tensor`. It begins with a pointer to its
        // implementation, null for an undefined one. The accessors raise for one without memory.
        unsafe {
            let dense = tensor.cast::<*const c_void>().read();
            if dense.is_null() || !(self.dense)(tensor) || !(self.initialized)(tensor) {
                return None;
            }
            let start = (self.data)(tensor) as usize;
            Some(start..start.checked_add((self.size)(dense))?)
        }
    }
}

/// Whether two objects, known to be `paddle.Tensor`s, surely have no memory in common. Their memory
/// counts up to the end of what was allocated, so that two rows of one tensor are not apart.
pub fn are_apart(py: Python<'_>, one: *mut ffi::PyObject, other: *mut ffi::PyObject) -> bool {
    let reader = READER.get_or_init(py, || match open(py) {
        Ok(reader) => Some(reader),
        Err(err) => {
            log::info!(target: "paddle_sot_rs.guards", "nobody knows where tensors lie: {err}");
            None
        }
    });
    let memory = |object| reader.as_ref()?.memory(object);
    match (memory(one), memory(other)) {
        (Some(one), Some(other)) => !overlap(&one, &other),
        _ => false,
    }
}
