//! The callable that generated code uses for resume functions.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::Translated;

/// A resume function: called by generated code, translated like any other function.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
pub struct ResumeFunction {
    inner: Arc<Translated>,
}

impl ResumeFunction {
    /// Wraps a translated resume function.
    pub fn new(inner: Arc<Translated>) -> Self {
        Self { inner }
    }

    /// What it calls.
    pub fn inner(&self) -> &Translated {
        &self.inner
    }
}

#[pymethods]
impl ResumeFunction {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.inner().call(py, args, kwargs)
    }

    fn __repr__(&self) -> String {
        format!("<resume function of {}>", self.inner.location())
    }
}
