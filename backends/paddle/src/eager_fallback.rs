//! [`EagerFallback`]: a graph that a backend runs call by call, counted as a fallback.

use paddle_sot_backend::{BackendError, CompileRequest, CompiledGraph};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::call_by_call;

/// A graph that is not compiled: it runs call by call.
pub struct EagerFallback {
    /// What runs it.
    calls: Box<dyn CompiledGraph>,
    /// Why.
    why: String,
    /// What it says of itself.
    name: &'static str,
}

impl EagerFallback {
    /// Makes the graph run call by call, and says so.
    ///
    /// # Errors
    /// When it cannot run call by call.
    pub fn run(
        py: Python<'_>,
        request: CompileRequest,
        why: String,
        name: &'static str,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        log::info!(target: "paddle_sot_rs.backend", "a graph runs call by call: {why}");
        let calls = call_by_call(py, request)?;
        Ok(Box::new(Self { calls, why, name }))
    }
}

impl CompiledGraph for EagerFallback {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        self.calls.call(py, inputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.calls.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        vec![format!("runs call by call: {}", self.why)]
    }

    fn fell_back(&self) -> Option<&str> {
        Some(&self.why)
    }

    fn backend_name(&self) -> &str {
        self.name
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.calls.traverse(visit);
    }
}
