//! Calls of Paddle's C functions that run kernels. Paddle turns the exceptions of C++ that it knows
//! into Python's; the others (`PD_CHECK` of custom operators, those of libraries) it lets through
//! from a program, and Rust cannot catch them: the process would end.

use std::ffi::{CStr, c_char, c_int, c_void};

use pyo3::exceptions::PyOSError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyTuple};

type Function = extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    /// See `foreign.cpp`: 0, or 1 with a message of at most `size` bytes.
    fn paddle_sot_call(
        function: Function,
        receiver: *mut c_void,
        args: *mut c_void,
        kwargs: *mut c_void,
        result: *mut *mut c_void,
        message: *mut c_char,
        size: usize,
    ) -> c_int;
}

/// `function(*args)`: what it throws is the `OSError` that eager mode raises for it.
///
/// # Errors
/// Those of the function.
#[pyfunction]
#[pyo3(signature = (function, *args))]
pub fn caught<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let Some((address, receiver)) = parts_of(function) else {
        return function.call1(args);
    };
    let mut result = std::ptr::null_mut();
    let mut message: [c_char; 1024] = [0; 1024];
    // SAFETY: the function takes its receiver, a tuple and no names, which live meanwhile; the two
    // last arguments are the room for the message.
    let threw = unsafe {
        paddle_sot_call(
            address,
            receiver.cast(),
            args.as_ptr().cast(),
            std::ptr::null_mut(),
            &raw mut result,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if threw != 0 {
        // SAFETY: the message ends with a zero.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        return Err(PyOSError::new_err(message.to_string_lossy().into_owned()));
    }
    // SAFETY: a C function answers with a new reference, or null and an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, result.cast()) }
}

/// The address and receiver of a C function that takes a tuple and a dict.
fn parts_of(function: &Bound<'_, PyAny>) -> Option<(Function, *mut ffi::PyObject)> {
    let function = function.cast_exact::<PyCFunction>().ok()?.as_ptr();
    // SAFETY: it is a C function; one with these flags has this signature.
    unsafe {
        if ffi::PyCFunction_GetFlags(function) != ffi::METH_VARARGS | ffi::METH_KEYWORDS {
            return None;
        }
        let address = ffi::PyCFunction_GetFunction(function)?;
        Some((
            std::mem::transmute::<ffi::PyCFunction, Function>(address),
            ffi::PyCFunction_GetSelf(function),
        ))
    }
}
