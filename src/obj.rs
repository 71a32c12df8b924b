//! [`Obj`]: a Python object that can be cloned, stored and dropped without the GIL in hand.

use std::fmt;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

/// A shared strong reference to a Python object.
///
/// `Py<T>` is not `Clone` without the GIL; the engine's data structures (trackers, guards, IR)
/// must be, so they hold this. Equality is identity.
#[derive(Clone)]
pub struct Obj(Arc<Py<PyAny>>);

impl Obj {
    /// Wraps an owned reference.
    pub fn new(value: Py<PyAny>) -> Self {
        Self(Arc::new(value))
    }

    /// The object, borrowed for as long as the GIL is held.
    pub fn bind<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        self.0.bind(py)
    }

    /// The one reference behind all clones, for the cycle collector: visit it from one owner only.
    pub fn reference(&self) -> &Py<PyAny> {
        &self.0
    }

    /// A new strong reference.
    pub fn py(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py)
    }

    /// The address: the object's identity while it is alive.
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Obj) -> bool {
        self.as_ptr() == other.as_ptr()
    }
}

impl<T> From<Bound<'_, T>> for Obj {
    fn from(value: Bound<'_, T>) -> Self {
        Self::new(value.into_any().unbind())
    }
}

impl<T> From<&Bound<'_, T>> for Obj {
    fn from(value: &Bound<'_, T>) -> Self {
        Self::new(value.clone().into_any().unbind())
    }
}

impl PartialEq for Obj {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for Obj {}

impl std::hash::Hash for Obj {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.as_ptr() as usize).hash(state);
    }
}

impl fmt::Debug for Obj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Obj({:p})", self.as_ptr())
    }
}
