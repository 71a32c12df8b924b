//! [`OnednnGraph`]: a program with operators of oneDNN.

use paddle_sot::backend::CompiledGraph;
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::layout;

/// A program with operators of oneDNN.
pub struct OnednnGraph {
    /// What runs it.
    pub program: Box<dyn CompiledGraph>,
    /// What was placed, and why not everything.
    pub report: Vec<String>,
}

impl CompiledGraph for OnednnGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        layout::reset(py)?;
        self.program.call(py, inputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.program.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        [self.report.clone(), self.program.report()].concat()
    }

    fn backend_name(&self) -> &str {
        "onednn"
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.program.traverse(visit);
    }
}
