//! Reads of functions and methods.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use super::classes::type_attr;
use super::containers::tuple_item;
use super::object::{Ptr, type_of};

unsafe extern "C" {
    static mut PyMethod_Type: ffi::PyTypeObject;
    fn PyFunction_GetCode(function: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyFunction_GetGlobals(function: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyFunction_GetDefaults(function: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyFunction_GetKwDefaults(function: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyFunction_GetClosure(function: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyMethod_Self(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
    fn PyMethod_Function(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// Fields of a function object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FunctionField {
    /// `__code__`
    Code,
    /// `__globals__`
    Globals,
    /// `__defaults__`
    Defaults,
    /// `__kwdefaults__`
    KwDefaults,
    /// `__closure__[i]`, a cell
    ClosureCell(usize),
}

/// Whether a function is called the way functions are: C code may have set another way.
pub fn is_called_as_usual(function: &Bound<'_, PyAny>) -> bool {
    function.is_instance_of::<pyo3::types::PyFunction>() && called_as_usual(function.into())
}

/// The same for what is known to be a function.
fn called_as_usual(function: Ptr<'_>) -> bool {
    // SAFETY: the caller checked that it is a function.
    let way = |function: Ptr<'_>| unsafe {
        let way = (*function.as_ptr().cast::<ffi::PyFunctionObject>()).vectorcall;
        way.map_or(0, |way| way as usize)
    };
    // Not every version exports the function that a new function object starts with.
    static USUAL: OnceLock<usize> = OnceLock::new();
    let usual = USUAL.get_or_init(|| {
        Python::attach(|py| {
            let fresh = py.eval(c"lambda: None", None, None);
            fresh.map_or(0, |fresh| way((&fresh).into()))
        })
    });
    *usual == 0 || way(function) == *usual
}

/// A field of a function object.
pub fn function_field<'a>(function: Ptr<'a>, field: &FunctionField) -> Ptr<'a> {
    let of = function.as_ptr();
    // SAFETY: the type is checked; the accessors answer with borrowed references, null where the
    // attribute reads `None`.
    unsafe {
        if ffi::PyFunction_Check(of) == 0 {
            return Ptr::NULL;
        }
        let none_if_null = |value: *mut ffi::PyObject| {
            if value.is_null() {
                ffi::Py_None()
            } else {
                value
            }
        };
        Ptr::new(match field {
            FunctionField::Code if !called_as_usual(function) => return Ptr::NULL,
            FunctionField::Code => PyFunction_GetCode(of),
            FunctionField::Globals => PyFunction_GetGlobals(of),
            FunctionField::Defaults => none_if_null(PyFunction_GetDefaults(of)),
            FunctionField::KwDefaults => none_if_null(PyFunction_GetKwDefaults(of)),
            FunctionField::ClosureCell(index) => {
                let cells = PyFunction_GetClosure(of);
                if cells.is_null() {
                    return Ptr::NULL;
                }
                return tuple_item(Ptr::new(cells), *index);
            }
        })
    }
}

/// `__self__` or `__func__` of a bound method.
pub fn method_part<'a>(method: Ptr<'a>, receiver: bool) -> Ptr<'a> {
    let method = method.as_ptr();
    // SAFETY: the type is checked; the accessors borrow. The class keeps its method.
    unsafe {
        if ffi::Py_TYPE(method) == &raw mut ffi::PyCFunction_Type {
            let of = ffi::PyCFunction_GetSelf(method);
            let of = Ptr::new(of);
            if receiver || of.is_null() {
                return of;
            }
            let definition = (*method.cast::<ffi::PyCFunctionObject>()).m_ml;
            let name = ffi::PyUnicode_InternFromString((*definition).ml_name);
            if name.is_null() {
                ffi::PyErr_Clear();
                return Ptr::NULL;
            }
            let found = type_attr(type_of(of), Ptr::new(name));
            ffi::Py_DECREF(name);
            return found;
        }
        if ffi::Py_TYPE(method) != &raw mut PyMethod_Type {
            return Ptr::NULL;
        }
        Ptr::new(if receiver {
            PyMethod_Self(method)
        } else {
            PyMethod_Function(method)
        })
    }
}
