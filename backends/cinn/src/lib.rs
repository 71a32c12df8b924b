//! The backend named `cinn`: graphs with static shapes, in primitive operators, for the CINN
//! compiler.
//!
//! It traces with the default backend, refuses calls that would make a dim unknown (CDBL),
//! decomposes forward and backward programs, and hands them to CINN where Paddle is built with it.
//! Elsewhere the decomposed program runs on the executor. A graph that cannot be brought into that
//! form, or takes too long, runs call by call and is counted as a fallback.

mod options;

use std::sync::{Arc, Once};

use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::Callee;
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::ops::{Fact, knows};
use paddle_sot_backend::{
    self as backend, BackendError, BackendRegistration, CompileRequest, CompiledGraph,
    ExportRequest, GraphBackend, TraceSession,
};
use paddle_sot_backend_paddle::{Compiler, EagerFallback, Lowered, Role, are_read, compile_parts};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The backend named `cinn`.
#[derive(Clone, Default)]
pub struct CinnBackend {
    options: options::Options,
    /// `dynamic=True`: unknown dims are let through.
    dynamic: bool,
}

static LOWERING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The Python part, made at first use.
fn lowering(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let module = LOWERING.get_or_try_init(py, || {
        // Its names are imported by this one.
        paddle_sot_backend_paddle::load_python(py)?;
        py.own("paddle_sot_rs._cinn.kept")?;
        py.own("paddle_sot_rs._cinn.lowering").map(Bound::unbind)
    })?;
    Ok(module.bind(py))
}

fn has_cinn(py: Python<'_>) -> PyResult<bool> {
    let paddle = py.paddle()?;
    paddle.call_method0("is_compiled_with_cinn")?.is_truthy()
}

impl CinnBackend {
    fn lets_open_dims_through(&self) -> bool {
        self.dynamic || !self.options.removed.is_empty()
    }

    fn compile_decomposed(
        &self,
        py: Python<'_>,
        request: CompileRequest,
        role: Role,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let with_cinn = has_cinn(py)?;
        if !with_cinn {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                log::warn!(target: "paddle_sot_rs.backend", "Paddle is built without CINN: graphs of the cinn backend run decomposed on the executor");
            });
        }
        let given = (
            self.lets_open_dims_through(),
            self.options.compile_budget,
            with_cinn,
        );
        let lowering = lowering(py)?.getattr("Lowering")?.call1(given)?;
        let program =
            paddle_sot_backend_paddle::compile_program(py, request, Some(&lowering), role)?;
        let report = lowering.call_method0("finished")?.extract()?;
        Ok(Box::new(Lowered {
            program,
            report,
            backend: "cinn",
            surroundings: None,
        }))
    }

    /// One program, or call by call.
    fn compile_or_give_up(
        &self,
        py: Python<'_>,
        request: CompileRequest,
        role: Role,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let sir = Arc::clone(&request.sir);
        let grad_enabled = request.grad_enabled;
        let err = match self.compile_decomposed(py, request, role) {
            Ok(graph) => return Ok(graph),
            Err(err) => err,
        };
        if err.is_interrupt(py) {
            return Err(err);
        }
        let why = match &err {
            BackendError::Raised(raised) if are_read(py, raised)? => return Err(err),
            BackendError::Raised(raised) => {
                let given_up = lowering(py)?.getattr("GivenUp")?;
                match raised.matches(py, given_up) {
                    Ok(true) => raised.value(py).to_string(),
                    _ => format!("the program could not be decomposed: {raised}"),
                }
            }
            other @ (BackendError::Refused(_)
            | BackendError::BlackListed(_)
            | BackendError::Compile(_)
            | BackendError::DeadSymbol(_)) => other.to_string(),
        };
        let eager = backend::get("eager").map_err(|err| BackendError::Compile(err.to_string()))?;
        let request = CompileRequest {
            sir,
            session: eager.backend.begin(py)?,
            example_inputs: Vec::new(),
            grad_enabled,
            least: 0,
        };
        EagerFallback::run(py, request, why, "eager (given up by cinn)")
    }
}

impl GraphBackend for CinnBackend {
    fn name(&self) -> &str {
        "cinn"
    }

    fn configure(&mut self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        self.options = options::Options::parse(options)?;
        if self.options.require_cinn && !has_cinn(py)? {
            return Err(PyRuntimeError::new_err(
                "options: require_cinn: this Paddle is built without CINN",
            ));
        }
        Ok(())
    }

    fn dims_may_vary(&mut self, asked: Option<bool>) -> bool {
        self.dynamic = asked.unwrap_or(false);
        self.dynamic
    }

    fn takes_graphs_apart(&self) -> bool {
        true
    }

    fn refuses(&self, py: Python<'_>, callee: &Callee) -> Option<String> {
        let names = callee.api_names(py);
        if let Some(name) = names.iter().find(|name| self.options.added.contains(*name)) {
            return Some(format!(
                "{name}() was added to the cinn backend's black list"
            ));
        }
        let removed = names.iter().any(|name| self.options.removed.contains(name));
        if self.dynamic || removed {
            return None;
        }
        let name = names.iter().find(|name| knows(name, Fact::UnknownDims))?;
        Some(format!(
            "{name}() is on the cinn backend's black list: a dim of its result is unknown until it runs"
        ))
    }

    fn begin(&self, py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        if self.dynamic {
            let inspect = lowering(py)?.getattr("of_unknown_dims")?;
            return paddle_sot_backend_paddle::begin_inspected(py, &inspect);
        }
        let removed = self.options.removed.clone();
        let inspect = lowering(py)?.getattr("inspector")?.call1((removed,))?;
        paddle_sot_backend_paddle::begin_inspected(py, &inspect)
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let compiler = Compiler {
            backend: self,
            compile: &|request, role| self.compile_or_give_up(py, request, role),
            shares: true,
        };
        compile_parts(py, request, &compiler)
    }

    fn export(&self, py: Python<'_>, request: ExportRequest) -> Result<Obj, BackendError> {
        // Saved programs stay in Paddle's own operators: whoever loads them decides how to run
        // them.
        backend::get(backend::DEFAULT)
            .map_err(|err| BackendError::Compile(err.to_string()))?
            .backend
            .export(py, request)
    }

    fn min_graph_size(&self) -> usize {
        // As for the default backend: fewer operators run faster call by call.
        paddle_sot_backend_paddle::MIN_GRAPH_SIZE
    }
}

inventory::submit! {
    BackendRegistration { name: "cinn", make: || Box::<CinnBackend>::default() }
}

/// Makes sure that the linker keeps this crate's registration.
pub fn link() {}
