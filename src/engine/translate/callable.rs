//! The callables of resume functions and of callees.

use std::fmt;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::frame::{FrameView, Instead};
use crate::sync::lock;

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

    /// A callable that goes on here, once, whatever it is called with.
    fn hold(this: Bound<'_, Self>, args: Py<PyTuple>) -> Continuation {
        Continuation {
            function: this.unbind(),
            args: Mutex::new(Some(args)),
        }
    }

    fn __repr__(&self) -> String {
        format!("<resume function of {}>", self.inner.location())
    }
}

/// Stands in the place of an inlined callee that broke the graph, with the state it broke in.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
pub struct Continuation {
    function: Py<ResumeFunction>,
    args: Mutex<Option<Py<PyTuple>>>,
}

#[pymethods]
impl Continuation {
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        // Handed over: what the callee drops must die.
        let args = lock(&self.args).take();
        let args = args.ok_or_else(|| PyRuntimeError::new_err("a callee cannot go on twice"))?;
        self.function.get().inner().resume(py, args.into_bound(py))
    }

    fn __repr__(&self) -> String {
        format!("<rest of {}>", self.function.get().inner().location())
    }
}

/// A function called by a part that runs natively. The evaluation hook runs its frames; as a Python
/// object it only holds the function.
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
    pub fn inner(&self) -> &Arc<Translated> {
        &self.inner
    }
}

#[pymethods]
impl CalleeFunction {
    fn __repr__(&self) -> String {
        format!("<callee {}>", self.inner.location())
    }
}

/// One frame of a callee, with its bound arguments.
pub(super) struct CalleeFrame {
    function: Arc<Translated>,
    arguments: SmallVec<[Py<PyAny>; 8]>,
}

impl CalleeFrame {
    pub(super) fn new(py: Python<'_>, function: Arc<Translated>, view: &FrameView<'_>) -> Self {
        let arguments = (0..view.arguments().len())
            .filter_map(|index| view.argument(py, index).map(Bound::unbind))
            .collect();
        Self {
            function,
            arguments,
        }
    }
}

impl fmt::Debug for CalleeFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<frame of {}>", self.function.location())
    }
}

impl Instead for CalleeFrame {
    fn run(self: Box<Self>, py: Python<'_>, release: &dyn Fn()) -> Option<PyResult<Py<PyAny>>> {
        let arguments = self.arguments.into_iter();
        let bound = arguments.map(|value| value.into_bound(py)).collect();
        self.function.call_frame(py, bound, release)
    }
}
