//! Reads of classes.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::frame::Modules;
use crate::obj::Obj;

use super::constants::const_equal;
use super::object::Ptr;
use super::references::WeakOrStrong;

unsafe extern "C" {
    fn _PyType_Lookup(
        class: *mut ffi::PyTypeObject,
        name: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// Whether these are the classes in the method resolution order of a class.
pub fn order_is(class: Ptr<'_>, classes: &[WeakOrStrong]) -> bool {
    let class = class.as_ptr();
    // SAFETY: the type is checked; its order is a tuple that is alive, and read without running
    // anything.
    unsafe {
        if ffi::PyType_Check(class) == 0 {
            return false;
        }
        let order = (*class.cast::<ffi::PyTypeObject>()).tp_mro;
        if order.is_null() || ffi::PyTuple_GET_SIZE(order) as usize != classes.len() {
            return false;
        }
        let mut classes = classes.iter().enumerate();
        classes.all(|(at, known)| known.is(Ptr::new(ffi::PyTuple_GET_ITEM(order, at as isize))))
    }
}

/// Whether a class can be changed by Python code, its name and bases too.
pub fn is_mutable(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    const HEAP: u64 = 1 << 9;
    const IMMUTABLE: u64 = 1 << 8;
    // SAFETY: it is a type object.
    let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) } as u64;
    flags & HEAP != 0 && flags & IMMUTABLE == 0
}

/// Whether `__name__` or the like of a function or class is this constant: read with the descriptor
/// of `function` or `type`, which runs no user code.
pub fn is_named(py: Python<'_>, object: Ptr<'_>, name: Ptr<'_>, value: Ptr<'_>) -> bool {
    let (object, name) = (object.as_ptr(), name.as_ptr());
    // SAFETY: all are live; new references are given back.
    unsafe {
        let of = match ffi::PyType_Check(object) {
            0 => ffi::Py_TYPE(object),
            _ => &raw mut ffi::PyType_Type,
        };
        let descriptor = _PyType_Lookup(of, name);
        if descriptor.is_null() {
            return false;
        }
        let Some(get) = (*ffi::Py_TYPE(descriptor)).tp_descr_get else {
            return false;
        };
        let found = get(descriptor, object, of.cast());
        if found.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let same = const_equal(py, Ptr::new(found), value);
        ffi::Py_DECREF(found);
        same
    }
}

/// Whether a class counts as a subclass of an abstract one. That changes with a registration only,
/// and those are counted.
pub struct Registered {
    class: WeakOrStrong,
    is: bool,
    /// The count when it was asked last.
    seen: AtomicU64,
}

impl Registered {
    /// What was found out now.
    pub fn new(py: Python<'_>, class: &Obj, is: bool) -> Self {
        Self {
            class: WeakOrStrong::root(py, class),
            is,
            seen: AtomicU64::new(registrations(py).unwrap_or(u64::MAX)),
        }
    }

    /// Whether it is still so.
    pub fn holds(&self, py: Python<'_>, class: Ptr<'_>) -> bool {
        let now = registrations(py);
        if now.is_some_and(|now| now == self.seen.load(Ordering::Relaxed)) {
            return true;
        }
        let abstract_ = self.class.get();
        if abstract_.is_null() {
            return false;
        }
        // SAFETY: both are live. The abstract classes are those of the standard library.
        let answer = unsafe { ffi::PyObject_IsSubclass(class.as_ptr(), abstract_.as_ptr()) };
        if answer < 0 {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyErr_Clear() };
        }
        let same = answer == i32::from(self.is);
        if let (true, Some(now)) = (same, now) {
            self.seen.store(now, Ordering::Relaxed);
        }
        same
    }
}

static REGISTRATIONS: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();

/// How often a class was registered with an abstract one.
fn registrations(py: Python<'_>) -> Option<u64> {
    let count = REGISTRATIONS.get_or_init(py, || {
        let count = py
            .module("_abc")
            .and_then(|abc| abc.getattr("get_cache_token"));
        count.ok().map(Bound::unbind)
    });
    let count = count.as_ref()?.call0(py).ok()?;
    count.extract(py).ok()
}

/// What `name` resolves to along the MRO, unbound.
pub fn type_attr<'a>(class: Ptr<'a>, name: Ptr<'_>) -> Ptr<'a> {
    let class = class.as_ptr();
    // SAFETY: the type is checked; `_PyType_Lookup` answers with a borrowed reference and never
    // raises for exact strings.
    unsafe {
        if ffi::PyType_Check(class) == 0 {
            return Ptr::NULL;
        }
        Ptr::new(_PyType_Lookup(class.cast(), name.as_ptr()))
    }
}

/// The bases of a class in the order of lookups; empty while the class is being made.
pub fn mro<'py>(class: &Bound<'py, pyo3::types::PyType>) -> Bound<'py, PyTuple> {
    // SAFETY: it is a type object, and its order is a tuple or NULL.
    let order = unsafe {
        let order = (*class.as_type_ptr()).tp_mro;
        Bound::from_borrowed_ptr_or_opt(class.py(), order)
    };
    let order = order.and_then(|order| order.cast_into::<PyTuple>().ok());
    order.unwrap_or_else(|| PyTuple::empty(class.py()))
}

/// Whether instances are made as those of `base`. The slot remembers a `__new__` in Python that was
/// deleted.
pub fn is_made_like(
    class: &Bound<'_, pyo3::types::PyType>,
    base: &Bound<'_, pyo3::types::PyType>,
) -> bool {
    // SAFETY: both are type objects.
    unsafe {
        let slot = |class: *mut ffi::PyTypeObject| (*class).tp_new.map(|new| new as usize);
        slot(class.as_type_ptr()) == slot(base.as_type_ptr())
    }
}

/// Whether a class has abstract methods, so that no instance of it can be made.
pub fn is_abstract(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    // SAFETY: it is a type object.
    unsafe { (*class.as_type_ptr()).tp_flags & ffi::Py_TPFLAGS_IS_ABSTRACT != 0 }
}

/// Whether objects of this class, which is written in C, look their attributes up in their own way:
/// weak proxies do.
pub fn has_own_lookup(class: &Bound<'_, pyo3::types::PyType>) -> bool {
    let class_ptr = class.as_type_ptr();
    // SAFETY: it is a type object.
    let (slot, flags) = unsafe { ((*class_ptr).tp_getattro, (*class_ptr).tp_flags) };
    let generic: ffi::getattrofunc = ffi::PyObject_GenericGetAttr;
    let py = class.py();
    let known = class
        .is_subclass_of::<pyo3::types::PyModule>()
        .unwrap_or(true)
        || class.is(py.get_type::<pyo3::types::PyType>());
    flags & ffi::Py_TPFLAGS_HEAPTYPE == 0
        && !known
        && slot.map(|slot| slot as usize) != Some(generic as usize)
}

/// Whether two slots that classes show as methods (`object.__getattribute__`) run the same C
/// function.
pub fn acts_like(slot: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> bool {
    match (slot_function(slot.as_ptr()), slot_function(other.as_ptr())) {
        (Some(own), Some(of_other)) => own == of_other,
        _ => false,
    }
}

/// The address of the C function; `None` for anything else than such a method.
fn slot_function(descriptor: *mut ffi::PyObject) -> Option<usize> {
    #[repr(C)]
    struct Wrapper {
        head: ffi::PyObject,
        class: *mut ffi::PyObject,
        name: *mut ffi::PyObject,
        qualname: *mut ffi::PyObject,
        base: *const std::ffi::c_void,
        wrapped: usize,
    }
    // SAFETY: the object is live, and its type says what the layout is
    // (`Include/cpython/descrobject.h`).
    unsafe {
        let is_wrapper = ffi::Py_TYPE(descriptor) == &raw mut ffi::PyWrapperDescr_Type;
        is_wrapper.then(|| (*descriptor.cast::<Wrapper>()).wrapped)
    }
}
