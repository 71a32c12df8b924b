//! Reads of Python objects that run no user code: here and in the modules beside this one, every
//! function takes a live object and answers with a borrowed reference, or null when there is
//! nothing to read.

use pyo3::ffi;
use pyo3::prelude::*;

use super::classes::type_attr;

/// An object that somebody else keeps alive.
pub type Ptr = *mut ffi::PyObject;

/// `type(x)`
pub fn type_of(object: Ptr) -> Ptr {
    // SAFETY: the object is live.
    unsafe { ffi::Py_TYPE(object).cast() }
}

/// The instance dictionary, made if it was not; null when the type has none.
pub fn instance_dict(py: Python<'_>, object: Ptr) -> Ptr {
    // SAFETY: the object is live; `PyObject_GenericGetDict` reads or makes its dictionary and runs
    // no user code. The reference it returns is given back: the object keeps its dictionary.
    unsafe {
        if ffi::PyModule_Check(object) != 0 {
            return ffi::PyModule_GetDict(object);
        }
        if ffi::PyType_Check(object) != 0 {
            return std::ptr::null_mut();
        }
        let dict = ffi::PyObject_GenericGetDict(object, std::ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
            return dict;
        }
        let _ = py;
        ffi::Py_DECREF(dict);
        dict
    }
}

/// The content of a cell.
pub fn cell_contents(cell: Ptr) -> Ptr {
    // SAFETY: the type is checked; the cell keeps its content while it is not changed, and nothing
    // runs between this read and the use of the slot.
    unsafe {
        if ffi::PyCell_Check(cell) == 0 {
            return std::ptr::null_mut();
        }
        let content = ffi::PyCell_Get(cell);
        if !content.is_null() {
            ffi::Py_DECREF(content);
        }
        content
    }
}

/// Whether a member descriptor reads a field that holds an object: those of numbers make a new
/// object at each read.
pub fn is_object_member(descriptor: &Bound<'_, PyAny>) -> bool {
    holds_object(descriptor.as_ptr())
}

fn holds_object(descriptor: Ptr) -> bool {
    // SAFETY: the type says what the layout is, and the definition lives as long as its descriptor.
    unsafe {
        if ffi::Py_TYPE(descriptor) != &raw mut ffi::PyMemberDescr_Type {
            return false;
        }
        const T_OBJECT: std::ffi::c_int = 6;
        let definition = (*descriptor.cast::<ffi::PyMemberDescrObject>()).d_member;
        matches!((*definition).type_code, T_OBJECT | ffi::Py_T_OBJECT_EX)
    }
}

/// A `__slots__` member, read through its member descriptor, or the `__mro__` of a class.
pub fn member(py: Python<'_>, object: Ptr, name: Ptr) -> Ptr {
    // SAFETY: the object and the name, a string, are alive; the class keeps its order, or has NULL.
    unsafe {
        if ffi::PyType_Check(object) != 0
            && ffi::PyUnicode_CompareWithASCIIString(name, c"__mro__".as_ptr()) == 0
        {
            return (*object.cast::<ffi::PyTypeObject>()).tp_mro;
        }
    }
    let descriptor = type_attr(type_of(object), name);
    if descriptor.is_null() {
        return descriptor;
    }
    if !holds_object(descriptor) {
        return std::ptr::null_mut();
    }
    // SAFETY: the descriptor reads a field; the object keeps the value, so the reference is given
    // back.
    unsafe {
        let Some(get) = (*ffi::Py_TYPE(descriptor)).tp_descr_get else {
            return std::ptr::null_mut();
        };
        let value = get(descriptor, object, type_of(object));
        if value.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DECREF(value);
        }
        let _ = py;
        value
    }
}

/// A new reference to a slot's value.
pub fn to_bound(py: Python<'_>, object: Ptr) -> Bound<'_, PyAny> {
    // SAFETY: slots hold objects that the arguments of the running call keep alive.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}
