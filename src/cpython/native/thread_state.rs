//! Reads of what belongs to the running thread: the exception that it handles, and its context.

use pyo3::ffi;
use pyo3::prelude::*;

use super::object::Ptr;

/// `sys.exception()`.
pub fn handled_exception(_: Python<'_>) -> Ptr<'_> {
    // SAFETY: the GIL is held. The thread goes on handling it, so the reference is given back.
    unsafe {
        let exception = ffi::PyErr_GetHandledException();
        if exception.is_null() {
            return Ptr::new(ffi::Py_None());
        }
        ffi::Py_DECREF(exception);
        Ptr::new(exception)
    }
}

/// Whether no other thread of Python exists: what one call reads, no other call takes meanwhile.
pub fn is_alone(_: Python<'_>) -> bool {
    // SAFETY: the GIL is held. The states are read under CPython's own lock, and that of this
    // thread lives on.
    unsafe {
        let first = ffi::PyInterpreterState_ThreadHead(ffi::PyInterpreterState_Get());
        first == ffi::PyThreadState_Get() && ffi::PyThreadState_Next(first).is_null()
    }
}

/// What a `ContextVar` is set to; null where it is not set, whatever default it has.
pub fn context_value<'a>(variable: Ptr<'a>) -> Ptr<'a> {
    let variable = variable.as_ptr();
    // SAFETY: the type is checked, and variables are found by identity, which runs no code of the
    // user's. The context goes on holding the value. The variable itself stands for none.
    unsafe {
        if ffi::PyContextVar_CheckExact(variable) == 0 {
            return Ptr::NULL;
        }
        let mut value = std::ptr::null_mut();
        if ffi::PyContextVar_Get(variable, variable, &mut value) < 0 {
            ffi::PyErr_Clear();
            return Ptr::NULL;
        }
        ffi::Py_XDECREF(value);
        match value == variable {
            true => Ptr::NULL,
            false => Ptr::new(value),
        }
    }
}

/// The same, for a live variable.
pub fn value_in_context<'py>(variable: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let value = context_value(variable.into());
    // SAFETY: null, or an object that the context holds.
    unsafe { Bound::from_borrowed_ptr_or_opt(variable.py(), value.as_ptr()) }
}
