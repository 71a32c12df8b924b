//! [`LayerRef`]: a layer that a graph calls.

use pyo3::prelude::*;

use crate::guard::native;
use crate::obj::Obj;

/// A layer that a graph calls, held weakly: a graph lives as long as the function that it was made
/// for, and guards see that a layer is gone before anything calls it.
#[derive(Clone, Debug)]
pub struct LayerRef {
    of: Obj,
    weak: bool,
}

impl LayerRef {
    /// Refers to `layer`.
    pub fn new(layer: &Bound<'_, PyAny>) -> Self {
        match native::weak_reference(layer) {
            Some(of) => Self { of, weak: true },
            None => Self {
                of: Obj::from(layer),
                weak: false,
            },
        }
    }

    /// The layer; `None` of Python once it is gone.
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        let of = self.of.bind(py);
        match self.weak {
            true => of.call0().unwrap_or_else(|_| py.None().into_bound(py)),
            false => of.clone(),
        }
    }
}
