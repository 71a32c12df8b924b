//! Objects to compare identities with, and what refers to them.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyModule, PyType};

use crate::obj::Obj;

use super::object::Ptr;

/// Whether objects of this type can be referenced weakly.
pub fn is_weakly_referenced(value: &Bound<'_, PyAny>) -> bool {
    let at = crate::obj::of_type(&value.get_type(), "__weakrefoffset__");
    at.and_then(|at| at.extract::<isize>().ok())
        .is_some_and(|at| at != 0)
}

/// Whether this may go while its users stay: a function that was defined inside of a function, or a
/// class or module that is not found where it says that it stands (`type()`, `namedtuple()`).
fn may_go(value: &Bound<'_, PyAny>) -> bool {
    if value.is_exact_instance_of::<PyFunction>() {
        return crate::obj::name_of(value).is_some_and(|name| name.contains("<locals>"));
    }
    match (value.cast::<PyType>(), value.cast::<PyModule>()) {
        (Ok(class), _) => super::is_mutable(class) && !is_found_by_name(class),
        (_, Ok(module)) => {
            let name = crate::obj::name_of(module);
            !name.is_some_and(|name| loaded(value.py(), &name).is_some_and(|it| it.is(module)))
        }
        _ => false,
    }
}

/// A module of `sys.modules`.
fn loaded<'py>(py: Python<'py>, name: &str) -> Option<Bound<'py, PyModule>> {
    // SAFETY: the GIL is held; the interpreter keeps the dict.
    let modules = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyImport_GetModuleDict()) };
    let found = modules?.cast_into::<PyDict>().ok()?.get_item(name).ok()??;
    found.cast_into().ok()
}

/// Whether its module has the class under the names that it has. Only tables are read.
fn is_found_by_name(class: &Bound<'_, PyType>) -> bool {
    let names = crate::obj::text_of(class, "__qualname__");
    let Some(module) = loaded(class.py(), &crate::obj::text_of(class, "__module__")) else {
        return false;
    };
    let mut names = names.split('.');
    let first = names
        .next()
        .and_then(|name| module.dict().get_item(name).ok()?);
    let found = names.try_fold(first, |holder, name| {
        let holder = holder?.cast_into::<PyType>().ok()?;
        let table = crate::obj::of_type(&holder, "__dict__")?;
        Some(table.get_item(name).ok())
    });
    found.flatten().is_some_and(|found| found.is(class))
}

/// A weak reference to an object whose class allows it.
pub fn weak_reference(value: &Bound<'_, PyAny>) -> Option<Obj> {
    if !is_weakly_referenced(value) {
        return None;
    }
    // SAFETY: the GIL is held, and the object is live.
    let made = unsafe {
        let made = ffi::PyWeakref_NewRef(value.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(value.py(), made)
    };
    made.ok().map(Obj::from)
}

/// An object to compare identities with: held weakly where its type allows.
#[derive(Debug)]
pub enum WeakOrStrong {
    /// A weak reference.
    Weak(Py<PyAny>),
    /// A strong reference.
    Strong(Obj),
}

impl WeakOrStrong {
    /// Refers to `object`.
    pub fn new(py: Python<'_>, object: &Obj) -> Self {
        let value = object.bind(py);
        let is_lasting = value.is_instance_of::<PyType>() || value.is_instance_of::<PyModule>();
        let fixed = is_lasting && !may_go(value);
        if let Some(weak) = (!fixed).then(|| weak_reference(value)).flatten() {
            return Self::Weak(weak.py(py));
        }
        Self::Strong(object.clone())
    }

    /// The start of a path: strongly, unless it may go again.
    pub fn root(py: Python<'_>, object: &Obj) -> Self {
        match may_go(object.bind(py)) {
            true => Self::new(py, object),
            false => Self::Strong(object.clone()),
        }
    }

    /// Whether this is a class that its instances may exchange for another: `x.__class__ = Other`.
    pub fn is_left_by_instances(&self) -> bool {
        let class = self.get().as_ptr();
        // SAFETY: the object is live while the reference is.
        unsafe {
            class.is_null()
                || ffi::PyType_Check(class) == 0
                || ffi::PyType_GetFlags(class.cast()) as u64 & (1 << 8) == 0
        }
    }

    /// The object, borrowed; null once it is dead.
    pub fn get(&self) -> Ptr<'_> {
        match self {
            Self::Strong(known) => known.into(),
            // SAFETY: the weak reference is live; it answers with a borrowed reference, `None` once
            // dead.
            #[allow(deprecated)]
            Self::Weak(weak) => unsafe {
                let found = ffi::PyWeakref_GetObject(weak.as_ptr());
                if found == ffi::Py_None() {
                    Ptr::NULL
                } else {
                    Ptr::new(found)
                }
            },
        }
    }

    /// Whether `object` is the one referred to.
    pub fn is(&self, object: Ptr<'_>) -> bool {
        // Nothing is equal to what is gone, not even a `None` in its place.
        !object.is_null() && self.get() == object
    }
}

/// How many references to an object there are.
pub fn references(value: &Bound<'_, PyAny>) -> usize {
    // SAFETY: the object is live.
    let references = unsafe { ffi::Py_REFCNT(value.as_ptr()) };
    usize::try_from(references).unwrap_or(usize::MAX)
}

/// Whether the garbage collector looks at an object.
pub fn is_tracked(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is live.
    unsafe { ffi::PyObject_GC_IsTracked(value.as_ptr()) != 0 }
}
