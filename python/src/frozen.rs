//! A frozen graph, as Python calls it.

use paddle_sot::translate::FrozenGraph;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::PyTraverseError;

/// Takes the tensors of a call, and answers with those of the result.
#[pyclass(frozen, name = "FrozenGraph", module = "paddle_sot_rs._core")]
pub struct Frozen(pub FrozenGraph);

#[pymethods]
impl Frozen {
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        tensors: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        let tensors: Vec<_> = tensors.iter().collect();
        PyList::new(py, self.0.call(py, &tensors)?)
    }

    /// What the backend says of it, line by line.
    #[getter]
    fn report(&self) -> Vec<String> {
        self.0.report()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut answer = Ok(());
        self.0.traverse(&mut |object| {
            if answer.is_ok() {
                answer = visit.call(object);
            }
        });
        answer
    }
}
