//! The default backend: PIR programs run by `_C_ops.run_program`.
//!
//! One pass: while the simulator runs, every call is traced in static mode onto one program, and
//! the values that come back are the metadata. Compiling splits that program into forward and
//! backward; there is no second capture.

mod alike_pieces;
mod answer;
mod bridge;
mod double_backward;
mod eager_fallback;
mod edge_pruning;
mod flags;
mod foreign;
mod graph;
mod leaves;
mod lowered;
mod onednn;
mod ordered_sums;
mod parts;
mod pieces;
mod region;
mod results;
mod runtime;
mod scopes;
mod steady;
mod trace;
mod versions;

use paddle_sot_backend::graph::Callee;
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{
    self as backend, BackendError, BackendRegistration, CompileRequest, CompiledGraph,
    ExportRequest, GraphBackend, TraceSession,
};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub use bridge::{load_python, native};
pub use eager_fallback::EagerFallback;
pub use lowered::{Lowered, Surroundings};
pub use parts::{Compiler, Role, are_read, compile_parts};
pub use runtime::executor_lock::{Turn, try_exclusive};
pub use runtime::executors::before_dropping;

/// The backend named `paddle`.
#[derive(Clone, Default)]
pub struct PaddleBackend;

/// `run_program` costs about 5 us and 0.9 us an operator, an eager call about 2 us: from here on a
/// program pays. With its backward: 20 us and 2.2 us against 4 us, from twice as many on.
/// Paddle's Python code around an eager call is worth some operations more (`eager_cost`).
pub const MIN_GRAPH_SIZE: usize = 6;

impl GraphBackend for PaddleBackend {
    fn name(&self) -> &str {
        backend::DEFAULT
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        match options.keys().iter().next() {
            None => Ok(()),
            Some(name) => Err(PyValueError::new_err(format!(
                "options: the paddle backend has no option {name}"
            ))),
        }
    }

    fn refuses(&self, _py: Python<'_>, _callee: &Callee) -> Option<String> {
        None
    }

    fn begin(&self, py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        Ok(Box::new(trace::PaddleTrace::new(py, None)?))
    }

    fn takes_graphs_apart(&self) -> bool {
        true
    }

    fn takes_gradients(&self) -> bool {
        true
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let compiler = Compiler {
            backend: self,
            compile: &|request, role| compile_program(py, request, None, role),
            shares: true,
        };
        compile_parts(py, request, &compiler)
    }

    fn export(&self, py: Python<'_>, request: ExportRequest) -> Result<Obj, BackendError> {
        let session = own(request.session)?;
        let inputs: Vec<_> = request
            .inputs
            .iter()
            .map(|input| (&input.name, input.tensor.bind(py), &input.dynamic))
            .collect();
        let outputs = request
            .sir
            .outputs
            .iter()
            .map(|symbol| session.value(py, *symbol))
            .collect::<Result<Vec<_>, _>>()?;
        let export = bridge::module(py, "export")?;
        let given = (session.trace.bind(py), inputs, outputs);
        Ok(Obj::from(export.call_method1("export_program", given)?))
    }

    fn min_graph_size(&self) -> usize {
        MIN_GRAPH_SIZE
    }

    /// Paddle prepares a program for as long as some calls of it take.
    fn compile_at_call(&self) -> usize {
        2
    }
}

/// `NotImplementedError` says what a program cannot hold: no failure, a reason.
fn unsupported(py: Python<'_>, err: BackendError) -> BackendError {
    if let BackendError::Raised(raised) = &err {
        if raised.is_instance_of::<PyNotImplementedError>(py) {
            return BackendError::Refused(raised.value(py).to_string());
        }
    }
    err
}

fn own(session: Box<dyn TraceSession>) -> Result<Box<trace::PaddleTrace>, BackendError> {
    session
        .into_any()
        .downcast::<trace::PaddleTrace>()
        .map_err(|_| BackendError::Compile("the graph was traced by another backend".into()))
}

/// A trace for a backend that builds on this one: `inspect(callee, operations, result)` is called
/// in static mode with what each call appends and answers, and refuses the call by raising
/// `BlackListed` of `argument_checks.py`.
///
/// # Errors
/// When the Python part cannot be loaded.
pub fn begin_inspected(
    py: Python<'_>,
    inspect: &Bound<'_, PyAny>,
) -> Result<Box<dyn TraceSession>, BackendError> {
    Ok(Box::new(trace::PaddleTrace::new(py, Some(inspect))?))
}

/// Compiles one program, also for a backend that builds on this one: `lowering` is a `Lowering` of
/// `programs.py`.
///
/// # Errors
/// When the program cannot be compiled, and whatever `lowering` raises.
pub fn compile_program(
    py: Python<'_>,
    request: CompileRequest,
    lowering: Option<&Bound<'_, PyAny>>,
    role: Role,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    if !role.is_part && request.grad_enabled && request.sir.has_independent_gradients() {
        // A second backward would find this program used up: call by call each has its own nodes.
        return call_by_call(py, request);
    }
    let CompileRequest {
        sir,
        session,
        example_inputs,
        grad_enabled,
        ..
    } = request;
    let session = own(session)?;
    let weights = match lowering {
        Some(_) if !grad_enabled => weights(py, &example_inputs)?,
        _ => Vec::new(),
    };
    let way = (grad_enabled, role);
    graph::PaddleGraph::compile(py, sir, session, way, lowering, &weights)
        .map_err(|err| unsupported(py, err))
}

/// Positions of parameters and buffers among the inputs: they seldom change between calls.
fn weights(py: Python<'_>, inputs: &[Obj]) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let persists = input.bind(py).getattr(pyo3::intern!(py, "persistable"))?;
        if persists.is_truthy()? {
            found.push(at);
        }
    }
    Ok(found)
}

/// The graph, call by call.
fn call_by_call(
    py: Python<'_>,
    request: CompileRequest,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let eager = backend::get("eager").map_err(|err| BackendError::Compile(err.to_string()))?;
    eager.backend.compile(py, request)
}

inventory::submit! {
    BackendRegistration { name: backend::DEFAULT, make: || Box::new(PaddleBackend) }
}

/// Makes sure that the linker keeps this crate's registration.
pub fn link() {}
