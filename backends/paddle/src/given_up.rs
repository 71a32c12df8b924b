//! [`GivenUp`]: a graph that a backend runs call by call, counted as a fallback.

use paddle_sot::backend::CompiledGraph;
use pyo3::prelude::*;
use smallvec::SmallVec;

/// A graph that is not compiled: it runs call by call.
pub struct GivenUp {
    /// What runs it.
    pub calls: Box<dyn CompiledGraph>,
    /// Why.
    pub why: String,
    /// What it says of itself.
    pub name: &'static str,
}

impl CompiledGraph for GivenUp {
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
