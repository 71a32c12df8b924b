//! The registry of backends, for Python.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use paddle_sot_backend::plugin::{self, CalledGraph};
use paddle_sot_backend::{
    self as backend, BackendError, CompileRequest, CompiledGraph, GraphBackend, RegistryError,
};
use paddle_sot_cpython::obj::Obj;
use paddle_sot_ops::{Fact, names};
use pyo3::exceptions::{PyException, PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};

fn to_py(err: RegistryError) -> PyErr {
    match err {
        RegistryError::Unknown { .. } => PyKeyError::new_err(err.to_string()),
        RegistryError::Taken(_) => PyValueError::new_err(err.to_string()),
    }
}

/// Loads what the backends have in Python: the first translation does not wait for it.
#[pyfunction]
pub fn load_python(py: Python<'_>) -> PyResult<()> {
    paddle_sot_backend_paddle::load_python(py)
}

/// The names of the registered backends, sorted.
#[pyfunction]
pub fn list_backends() -> Vec<String> {
    backend::list()
}

/// Removes a backend.
#[pyfunction]
pub fn unregister_backend(name: &str) -> PyResult<()> {
    backend::unregister(name).map(drop).map_err(to_py)
}

/// How tensors are read by guards: `native` or `attributes`.
#[pyfunction]
pub fn tensor_reader(py: Python<'_>) -> &'static str {
    paddle_sot_ops::abi::reader_name(py)
}

/// What of Paddle's objects is not as it is known to be.
#[pyfunction]
pub fn layout_faults(py: Python<'_>) -> Vec<(&'static str, String)> {
    paddle_sot_ops::abi::layout_faults(py)
}

/// How guards notice writes of attributes.
#[pyfunction]
pub fn attribute_writes(py: Python<'_>) -> &'static str {
    paddle_sot_cpython::native::versions_name(py)
}

/// The table of calls that the `cinn` backend leaves to the interpreter: (name, always), else only
/// where a dim of the result is unknown.
#[pyfunction]
pub fn cdbl() -> Vec<(&'static str, bool)> {
    let always = names(Fact::UnknownDims).map(|name| (name, true));
    let by_result = names(Fact::MayHaveUnknownDims).map(|name| (name, false));
    let mut rows: Vec<_> = always.chain(by_result).collect();
    rows.sort_unstable();
    rows
}

/// The names of the operators that something is known of: `draws`, `view`, `shares_storage` or
/// `call` of operators of programs, `whole_in_lists` of functions.
#[pyfunction]
pub fn operators(fact: &str) -> PyResult<HashSet<&'static str>> {
    let fact = match fact {
        "draws" => Fact::Draws,
        "view" => Fact::ProgramView,
        "shares_storage" => Fact::ProgramShares,
        "call" => Fact::ProgramCall,
        "whole_in_lists" => Fact::WholeInLists,
        _ => return Err(PyValueError::new_err(format!("fact: unknown: {fact:?}"))),
    };
    Ok(names(fact).collect())
}

/// The table of operators: what each row says.
#[pyfunction]
pub fn operator_facts() -> HashMap<&'static str, Vec<String>> {
    paddle_sot_ops::rows()
        .map(|(name, facts)| (name, facts.iter().map(|fact| format!("{fact:?}")).collect()))
        .collect()
}

/// The functions whose arguments are whole numbers and lists of them, and from which place on.
#[pyfunction]
pub fn whole_arguments() -> HashMap<&'static str, usize> {
    paddle_sot_ops::whole_arguments().collect()
}

/// Registers a callable `(ir, metas) -> callable`, or a plug-in's capsule, as a backend.
#[pyfunction]
pub fn register_python_backend(name: &str, compiler: &Bound<'_, PyAny>) -> PyResult<()> {
    backend::register(name, make(name, compiler)?).map_err(to_py)
}

/// Replaces a registered backend.
#[pyfunction]
pub fn swap_python_backend(name: &str, compiler: &Bound<'_, PyAny>) -> PyResult<()> {
    backend::swap(name, make(name, compiler)?)
        .map(drop)
        .map_err(to_py)
}

/// Replaces a registered backend by itself: what was compiled is compiled anew.
#[pyfunction]
pub fn renew_backend(name: &str) -> PyResult<()> {
    let same = backend::get(name).map_err(to_py)?.backend;
    backend::swap(name, same).map(drop).map_err(to_py)
}

fn make(name: &str, compiler: &Bound<'_, PyAny>) -> PyResult<Arc<dyn GraphBackend>> {
    if compiler.is_exact_instance_of::<PyCapsule>() {
        return plugin::load(name, compiler);
    }
    if !compiler.is_callable() {
        return Err(PyTypeError::new_err(
            "backend: expected a callable (ir, metas) -> callable",
        ));
    }
    Ok(Arc::new(PythonBackend {
        name: name.to_owned(),
        compiler: Obj::from(compiler),
    }))
}

/// A backend written in Python. It traces with the default backend's inference.
#[derive(Clone)]
struct PythonBackend {
    name: String,
    compiler: Obj,
}

impl GraphBackend for PythonBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        if options.is_empty() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "options: the backend {:?} takes none",
            self.name
        )))
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let ir = request.sir.to_string();
        let eager = backend::get("eager").map_err(|err| BackendError::Compile(err.to_string()))?;
        let metas = PyList::empty(py);
        for tensor in &request.example_inputs {
            let tensor = tensor.bind(py);
            metas.append((
                tensor.getattr("shape")?,
                tensor.getattr("dtype")?,
                tensor.getattr("stop_gradient")?,
            ))?;
        }
        let outputs = request.sir.outputs.len();
        let run = eager.backend.compile(py, request)?;
        let run = Bound::new(py, PythonIr { ir, run })?;
        let named = |err: PyErr| match BackendError::from(err) {
            BackendError::Raised(err) if err.is_instance_of::<PyException>(py) => {
                BackendError::Compile(format!("the backend {:?} raised {err}", self.name))
            }
            other @ (BackendError::Refused(_)
            | BackendError::BlackListed(_)
            | BackendError::Raised(_)
            | BackendError::Compile(_)
            | BackendError::DeadSymbol(_)) => other,
        };
        let compiled = self.compiler.bind(py).call1((run, metas)).map_err(named)?;
        let graph = CalledGraph::new(&self.name, &compiled, outputs)
            .map_err(|err| BackendError::Compile(err.to_string()))?;
        Ok(Box::new(graph))
    }
}

/// The graph as a Python backend sees it: text, and a callable that runs it call by call.
#[pyclass(frozen, name = "StatementIR", module = "paddle_sot_rs._core")]
pub struct PythonIr {
    ir: String,
    run: Box<dyn CompiledGraph>,
}

#[pymethods]
impl PythonIr {
    #[pyo3(signature = (*inputs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let inputs: Vec<Bound<'_, PyAny>> = inputs.iter().collect();
        PyTuple::new(py, self.run.call(py, &inputs)?)
    }

    fn __str__(&self) -> &str {
        &self.ir
    }

    fn __repr__(&self) -> &str {
        &self.ir
    }
}
