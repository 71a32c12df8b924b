//! Reads of Python objects that run no user code: here and in the modules beside this one, every
//! function takes a live object and answers with a borrowed reference, or null when there is
//! nothing to read.

use std::marker::PhantomData;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::obj::Obj;

use super::classes::type_attr;

/// An object that somebody else keeps alive for `'a`, or null. Only `unsafe` code makes one of a
/// bare pointer, and says there who keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ptr<'a>(*mut ffi::PyObject, PhantomData<&'a ffi::PyObject>);

impl Ptr<'_> {
    /// No object.
    pub const NULL: Self = Self(std::ptr::null_mut(), PhantomData);

    /// # Safety
    /// The pointer is null, or of an object that is alive for this lifetime.
    pub const unsafe fn new(object: *mut ffi::PyObject) -> Self {
        Self(object, PhantomData)
    }

    /// The bare pointer.
    pub const fn as_ptr(self) -> *mut ffi::PyObject {
        self.0
    }

    /// Where it lies; 0 of no object.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Whether there is none.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<'a, T> From<&'a Bound<'_, T>> for Ptr<'a> {
    fn from(object: &'a Bound<'_, T>) -> Self {
        Self(object.as_ptr(), PhantomData)
    }
}

impl<'a, T> From<&'a Py<T>> for Ptr<'a> {
    fn from(object: &'a Py<T>) -> Self {
        Self(object.as_ptr(), PhantomData)
    }
}

impl<'a> From<&'a Obj> for Ptr<'a> {
    fn from(object: &'a Obj) -> Self {
        Self(object.as_ptr(), PhantomData)
    }
}

/// `type(x)`
pub fn type_of<'a>(object: Ptr<'a>) -> Ptr<'a> {
    // SAFETY: the object is live, and its type with it.
    unsafe { Ptr::new(ffi::Py_TYPE(object.as_ptr()).cast()) }
}

/// The instance dictionary, made if it was not; null when the type has none.
pub fn instance_dict<'a>(py: Python<'_>, object: Ptr<'a>) -> Ptr<'a> {
    let object = object.as_ptr();
    // SAFETY: the object is live; `PyObject_GenericGetDict` reads or makes its dictionary and runs
    // no user code. The reference it returns is given back: the object keeps its dictionary.
    unsafe {
        if ffi::PyModule_Check(object) != 0 {
            return Ptr::new(ffi::PyModule_GetDict(object));
        }
        if ffi::PyType_Check(object) != 0 {
            return Ptr::NULL;
        }
        let dict = ffi::PyObject_GenericGetDict(object, std::ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
            return Ptr::NULL;
        }
        let _ = py;
        ffi::Py_DECREF(dict);
        Ptr::new(dict)
    }
}

/// The content of a cell.
pub fn cell_contents<'a>(cell: Ptr<'a>) -> Ptr<'a> {
    let cell = cell.as_ptr();
    // SAFETY: the type is checked; the cell keeps its content while it is not changed, and nothing
    // runs between this read and the use of the slot.
    unsafe {
        if ffi::PyCell_Check(cell) == 0 {
            return Ptr::NULL;
        }
        let content = ffi::PyCell_Get(cell);
        if !content.is_null() {
            ffi::Py_DECREF(content);
        }
        Ptr::new(content)
    }
}

/// Whether a member descriptor reads a field that holds an object: those of numbers make a new
/// object at each read.
pub fn is_object_member(descriptor: &Bound<'_, PyAny>) -> bool {
    holds_object(descriptor.into())
}

fn holds_object(descriptor: Ptr<'_>) -> bool {
    let descriptor = descriptor.as_ptr();
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
pub fn member<'a>(py: Python<'_>, object: Ptr<'a>, name: Ptr<'_>) -> Ptr<'a> {
    // SAFETY: the object and the name, a string, are alive; the class keeps its order, or has NULL.
    unsafe {
        if ffi::PyType_Check(object.as_ptr()) != 0
            && ffi::PyUnicode_CompareWithASCIIString(name.as_ptr(), c"__mro__".as_ptr()) == 0
        {
            return Ptr::new((*object.as_ptr().cast::<ffi::PyTypeObject>()).tp_mro);
        }
    }
    let descriptor = type_attr(type_of(object), name);
    if descriptor.is_null() {
        return descriptor;
    }
    if !holds_object(descriptor) {
        return Ptr::NULL;
    }
    // SAFETY: the descriptor reads a field; the object keeps the value, so the reference is given
    // back.
    unsafe {
        let descriptor = descriptor.as_ptr();
        let Some(get) = (*ffi::Py_TYPE(descriptor)).tp_descr_get else {
            return Ptr::NULL;
        };
        let value = get(descriptor, object.as_ptr(), type_of(object).as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
        } else {
            ffi::Py_DECREF(value);
        }
        let _ = py;
        Ptr::new(value)
    }
}

/// A new reference to a slot's value.
pub fn to_bound<'py>(py: Python<'py>, object: Ptr<'_>) -> Bound<'py, PyAny> {
    // SAFETY: it is alive.
    unsafe { Bound::from_borrowed_ptr(py, object.as_ptr()) }
}
