//! Compiled graphs on their way across: [`GraphObject`] is one as a Python callable,
//! [`CalledGraph`] the way back.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use crate::CompiledGraph;
use crate::paddle::Paddle;

use crate::caught;

/// A compiled graph: call it with the input tensors, the answer is a tuple of the output tensors.
#[pyclass(frozen, name = "CompiledGraph", module = "paddle_sot_rs._core")]
pub struct GraphObject {
    graph: Box<dyn CompiledGraph>,
}

impl GraphObject {
    /// Wraps a graph.
    pub fn new(graph: Box<dyn CompiledGraph>) -> Self {
        Self { graph }
    }
}

#[pymethods]
impl GraphObject {
    #[pyo3(signature = (*inputs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let name = self.graph.backend_name();
        caught(
            py,
            format_args!("a graph of the backend {name:?} panicked"),
            || {
                let inputs: SmallVec<[Bound<'_, PyAny>; 8]> = inputs.iter().collect();
                PyTuple::new(py, self.graph.call(py, &inputs)?)
            },
        )
    }

    /// Readable text of the program.
    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.graph.backend_name();
        caught(
            py,
            format_args!("a graph of the backend {name:?} panicked"),
            || self.graph.program_text(py),
        )
    }

    /// The name of the backend that made it.
    #[getter]
    fn backend_name(&self) -> &str {
        self.graph.backend_name()
    }
}

/// A Python callable as a compiled graph.
pub struct CalledGraph {
    name: String,
    callable: Py<PyAny>,
    outputs: usize,
}

impl CalledGraph {
    /// A graph of the backend `name` with this number of outputs.
    ///
    /// # Errors
    /// `TypeError` when it cannot be called.
    pub fn new(name: &str, callable: &Bound<'_, PyAny>, outputs: usize) -> PyResult<Self> {
        if !callable.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the backend {name:?} did not return a callable"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            callable: callable.clone().unbind(),
            outputs,
        })
    }
}

impl CompiledGraph for CalledGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let answer = self.callable.bind(py).call1(PyTuple::new(py, inputs)?)?;
        // A tensor is iterable, too: by its rows.
        if !answer.is_instance_of::<PyTuple>() && !answer.is_instance_of::<PyList>() {
            return Err(PyTypeError::new_err(format!(
                "the backend {:?} returned {} instead of a tuple of tensors",
                self.name,
                answer.get_type().name()?
            )));
        }
        let paddle = Paddle::get(py)?;
        let mut outputs: SmallVec<[Py<PyAny>; 4]> = SmallVec::new();
        for output in answer.try_iter()? {
            let output = output?;
            if !paddle.is_tensor(&output) {
                return Err(PyTypeError::new_err(format!(
                    "the backend {:?} returned {} for a tensor",
                    self.name,
                    output.get_type().name()?
                )));
            }
            outputs.push(output.unbind());
        }
        if outputs.len() != self.outputs {
            return Err(PyRuntimeError::new_err(format!(
                "the backend {:?} returned {} tensors for a graph with {} outputs",
                self.name,
                outputs.len(),
                self.outputs
            )));
        }
        Ok(outputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        let callable = self.callable.bind(py);
        match callable.getattr_opt("program_text")? {
            Some(text) => text.call0()?.extract(),
            None => Ok(String::new()),
        }
    }

    fn backend_name(&self) -> &str {
        &self.name
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.callable);
    }
}
