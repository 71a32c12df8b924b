//! A graph that has computed the gradients of its results, which leave it as a backward leaves them.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::abi;
use crate::backend::CompiledGraph;
use crate::graph::StatementIr;

/// Such a graph.
pub(super) struct JoinedGraph {
    inner: Box<dyn CompiledGraph>,
    /// The outputs that autograd has gone through.
    spent: Vec<usize>,
}

impl JoinedGraph {
    /// The outputs of a graph that a backward in it goes through.
    pub(super) fn spent(sir: &StatementIr) -> Vec<usize> {
        let outputs = sir.outputs.iter().enumerate();
        let is_spent = |id| sir.has_gradient(id) && !sir.inputs.contains(&id);
        let spent = outputs.filter(|(_, id)| is_spent(**id));
        spent.map(|(at, _)| at).collect()
    }

    /// The outputs that are no gradients of it.
    pub(super) fn results(py: Python<'_>, sir: &StatementIr) -> usize {
        let mut gradients = Vec::new();
        for statement in &sir.statements {
            if statement.callee.makes_gradients(py) {
                let output = &statement.output;
                output.for_each_symbol(&mut |id| gradients.push(id));
            }
        }
        let outputs = sir.outputs.iter();
        outputs.filter(|id| !gradients.contains(id)).count()
    }

    pub(super) fn new(inner: Box<dyn CompiledGraph>, spent: Vec<usize>) -> Self {
        Self { inner, spent }
    }
}

impl CompiledGraph for JoinedGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let outputs = self.inner.call(py, inputs)?;
        for &at in &self.spent {
            abi::spend(outputs[at].bind(py))?;
        }
        Ok(outputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        self.inner.report()
    }

    fn fell_back(&self) -> Option<&str> {
        self.inner.fell_back()
    }

    fn backend_name(&self) -> &str {
        self.inner.backend_name()
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.inner.traverse(visit);
    }
}
