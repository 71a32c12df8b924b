//! The callables of resume functions and of callees.

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

/// A function called by a part that runs natively: called by the evaluation hook with the frame's bound
/// arguments.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
pub struct CalleeFunction {
    inner: Arc<Translated>,
}

impl CalleeFunction {
    /// Wraps a translated callee.
    pub fn new(inner: Arc<Translated>) -> Self {
        Self { inner }
    }

    /// What it calls.
    pub fn inner(&self) -> &Translated {
        &self.inner
    }
}

#[pymethods]
impl CalleeFunction {
    #[pyo3(signature = (*args))]
    fn __call__(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        self.inner().call(py, args, None)
    }

    fn __repr__(&self) -> String {
        format!("<callee {}>", self.inner.location())
    }
}
