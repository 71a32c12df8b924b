//! [`Lowered`]: a program of this backend as another one has rewritten it.

use paddle_sot_backend::CompiledGraph;
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
    /// What goes around each run.
    pub surroundings: Option<Box<dyn Surroundings>>,
}

/// What goes around each run of a program, in the thread that runs it.
pub trait Surroundings: Send + Sync {
    /// Before a run.
    fn enter(&self);

    /// After it, whatever came of it.
    fn leave(&self);
}

impl CompiledGraph for Lowered {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let Some(surroundings) = &self.surroundings else {
            return self.program.call(py, inputs);
        };
        surroundings.enter();
        let answer = self.program.call(py, inputs);
        surroundings.leave();
        answer
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
