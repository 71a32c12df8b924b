//! Running other code with the arguments of a call.

use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};
use smallvec::SmallVec;

use super::view::{FrameView, code_fields, signature};

/// Calls by vectorcall; null when an exception is set.
///
/// # Safety
/// The objects must be alive, and `names` null or a tuple of `args.len() - positional` strings.
pub(super) unsafe fn call(
    _py: Python<'_>,
    function: *mut PyObject,
    args: &[*mut PyObject],
    names: *mut PyObject,
    positional: usize,
) -> *mut PyObject {
    ffi::PyObject_Vectorcall(function, args.as_ptr(), positional, names)
}

/// Calls with owned arguments; null when an exception is set.
pub(super) fn call_owned(
    py: Python<'_>,
    function: &Py<PyAny>,
    args: &[Py<PyAny>],
) -> *mut PyObject {
    let args: SmallVec<[*mut PyObject; 8]> = args.iter().map(Py::as_ptr).collect();
    // SAFETY: all are owned by the caller.
    unsafe {
        call(
            py,
            function.as_ptr(),
            &args,
            std::ptr::null_mut(),
            args.len(),
        )
    }
}

/// Runs `code` with the arguments, globals, builtins and closure of a call.
///
/// Null when an exception is set.
///
/// # Errors
/// `ValueError` when `code` has other parameters or free variables than the call's own code.
pub(super) fn run_code(
    py: Python<'_>,
    view: &FrameView<'_>,
    code: &Bound<'_, PyCode>,
) -> PyResult<*mut PyObject> {
    let function = function_of(py, view, code)?;
    // SAFETY: `code` is a code object.
    let shape = unsafe { signature(code.as_ptr()) };
    if shape.slots() == shape.positional {
        // SAFETY: the call owns its arguments, and both codes have the same parameters.
        return Ok(unsafe {
            call(
                py,
                function.as_ptr(),
                view.arguments,
                std::ptr::null_mut(),
                shape.positional,
            )
        });
    }
    let mut args: SmallVec<[Bound<'_, PyAny>; 8]> = SmallVec::new();
    let mut names: SmallVec<[Bound<'_, PyAny>; 8]> = SmallVec::new();
    let argument = |index| view.argument(py, index).ok_or_else(too_few);
    for index in 0..shape.positional {
        args.push(argument(index)?);
    }
    if shape.varargs {
        let extra = argument(shape.named())?;
        args.extend(extra.cast::<PyTuple>()?.iter());
    }
    let positional = args.len();
    let known = crate::obj::locals_of_code(code)?;
    for index in shape.positional..shape.named() {
        names.push(known.get_item(index)?);
        args.push(argument(index)?);
    }
    if shape.varkw {
        for (name, value) in argument(shape.slots() - 1)?.cast::<PyDict>()?.iter() {
            names.push(name);
            args.push(value);
        }
    }
    let names = PyTuple::new(py, names)?;
    let values = args;
    let args: SmallVec<[*mut PyObject; 8]> = values.iter().map(|value| value.as_ptr()).collect();
    // SAFETY: the values are owned here and by the call; `names` has one string per keyword.
    Ok(unsafe { call(py, function.as_ptr(), &args, names.as_ptr(), positional) })
}

fn too_few() -> PyErr {
    PyValueError::new_err("the call has fewer arguments than the new code has parameters")
}

fn function_of<'py>(
    py: Python<'py>,
    view: &FrameView<'_>,
    code: &Bound<'py, PyCode>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are code objects; a view's function is null or a Python function, whose closure
    // is null or a tuple with one cell per free variable of its code.
    unsafe {
        let (old, new) = (view.code, code.as_ptr());
        if signature(old) != signature(new)
            || code_fields(old).nfreevars != code_fields(new).nfreevars
        {
            return Err(PyValueError::new_err(
                "the new code must have the parameters and free variables of the code it replaces",
            ));
        }
        let made = ffi::PyFunction_New(new, view.globals);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        if code_fields(new).nfreevars > 0 {
            let closure = match view.function.is_null() {
                true => std::ptr::null_mut(),
                false => ffi::PyFunction_GetClosure(view.function),
            };
            if closure.is_null() {
                return Err(PyValueError::new_err("the frame has no closure"));
            }
            if ffi::PyFunction_SetClosure(made.as_ptr(), closure) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        // `PyFunction_New` looks builtins up again; the frame's own are the ones that count.
        let builtins = &mut (*made.as_ptr().cast::<ffi::PyFunctionObject>()).func_builtins;
        if *builtins != view.builtins {
            ffi::Py_INCREF(view.builtins);
            let old = std::mem::replace(builtins, view.builtins);
            ffi::Py_XDECREF(old);
        }
        Ok(made)
    }
}
