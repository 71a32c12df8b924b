//! [`CinnGraph`]: a decomposed program.

use paddle_sot::backend::CompiledGraph;
use pyo3::prelude::*;
use smallvec::SmallVec;

/// A decomposed program.
pub struct CinnGraph {
    /// What runs it.
    pub program: Box<dyn CompiledGraph>,
    /// Operators before and after, and the results of the checks.
    pub report: Vec<String>,
}

impl CompiledGraph for CinnGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        self.program.call(py, inputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.program.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        [self.report.clone(), self.program.report()].concat()
    }

    fn backend_name(&self) -> &str {
        "cinn"
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.program.traverse(visit);
    }
}
