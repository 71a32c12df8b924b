//! [`Lowered`]: a program of this backend as another one has rewritten it.

use paddle_sot::backend::CompiledGraph;
use pyo3::prelude::*;
use smallvec::SmallVec;

/// A program that a `Lowering` of another backend has rewritten.
pub struct Lowered {
    /// What runs it.
    pub program: Box<dyn CompiledGraph>,
    /// What became of it.
    pub report: Vec<String>,
    /// The name of that backend.
    pub backend: &'static str,
    /// What goes before each run.
    pub prepare: fn(Python<'_>) -> PyResult<()>,
}

impl CompiledGraph for Lowered {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        (self.prepare)(py)?;
        self.program.call(py, inputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.program.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        [self.report.clone(), self.program.report()].concat()
    }

    fn backend_name(&self) -> &str {
        self.backend
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.program.traverse(visit);
    }
}
