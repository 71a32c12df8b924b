//! [`LayerRef`]: a layer that a graph calls.

use std::sync::Arc;

use pyo3::prelude::*;

use paddle_sot_cpython::native;
use paddle_sot_cpython::obj::Obj;

/// A layer that a graph calls, held weakly unless it is kept: a graph lives as long as the function
/// that it was made for, and guards see that a layer is gone before anything calls it.
#[derive(Clone, Debug)]
pub struct LayerRef {
    of: Obj,
    weak: bool,
    class: Arc<str>,
}

impl LayerRef {
    /// Refers to `layer`.
    pub fn new(layer: &Bound<'_, PyAny>) -> Self {
        let weak = native::weak_reference(layer);
        Self {
            weak: weak.is_some(),
            of: weak.unwrap_or_else(|| Obj::from(layer)),
            class: match layer.get_type().name() {
                Ok(name) => name.to_string().into(),
                Err(_) => "Layer".into(),
            },
        }
    }

    /// Refers to `layer`, and keeps it.
    pub(super) fn kept(layer: &Bound<'_, PyAny>) -> Self {
        Self {
            of: Obj::from(layer),
            weak: false,
            ..Self::new(layer)
        }
    }

    /// The name of its class.
    pub fn class_name(&self) -> &str {
        &self.class
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
