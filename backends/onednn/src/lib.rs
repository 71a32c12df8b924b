//! The backend named `onednn`: what runs without gradients on a CPU uses oneDNN's kernels.
//!
//! It takes the programs of the default backend. One that goes backward runs as that backend runs
//! it. Of another, operators become oneDNN's where the table in `lowering.py` lets them, and
//! fusions are made that hold with parameters that change.

mod caches;
mod compared;
mod direct;
mod scopes;

use std::sync::Arc;

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{
    self as backend, BackendError, BackendRegistration, CompileRequest, CompiledGraph,
    ExportRequest, GraphBackend, TraceSession,
};
use paddle_sot_backend_paddle::{Compiler, Lowered, Role, Surroundings, are_read, compile_parts};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use caches::Caches;
use direct::{DirectCalls, Recipe};

/// The backend named `onednn`.
#[derive(Clone)]
pub struct OnednnBackend {
    /// Whether weights are taken once: `freeze` gives tensors that nobody else has.
    frozen: bool,
    /// Whether oneDNN computes in bfloat16 what it can.
    in_bfloat16: bool,
    /// Elements that results have on average, where no convolution is: programs of fewer stay with
    /// Paddle's kernels.
    least: usize,
}

impl Default for OnednnBackend {
    fn default() -> Self {
        Self {
            frozen: false,
            in_bfloat16: false,
            least: 1 << 15,
        }
    }
}

static PLACEMENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The Python part, made at first use.
fn placement(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let module = PLACEMENT.get_or_try_init(py, || {
        // Its names are imported by this one.
        paddle_sot_backend_paddle::load_python(py)?;
        let module = py.module("paddle_sot_rs._onednn.lowering")?;
        Ok::<_, PyErr>(module.unbind())
    })?;
    Ok(module.bind(py))
}

impl OnednnBackend {
    /// A program that computes what eager mode does: on oneDNN, or as the default backend has it.
    fn compile_placed(
        &self,
        py: Python<'_>,
        request: CompileRequest,
        role: Role,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let (sir, examples) = (Arc::clone(&request.sir), request.example_inputs.clone());
        let (grad_enabled, least) = (request.grad_enabled, request.least);
        let why = match self.compile_on_onednn(py, request, role.clone()) {
            Ok((graph, false)) => return Ok(graph),
            Ok((graph, true)) => {
                let made_for = (&sir, &examples[..]);
                match compared::difference(py, &*graph, made_for, self.in_bfloat16)? {
                    None => return Ok(graph),
                    Some(difference) => difference,
                }
            }
            Err(err) if err.is_interrupt(py) => return Err(err),
            Err(BackendError::Raised(raised)) => match are_read(py, &raised)? {
                // It asks for views behind the program.
                true => return Err(raised.into()),
                false => format!("it raises {raised}"),
            },
            Err(err) => return Err(err),
        };
        let why = format!("oneDNN: not used, {why}");
        log::warn!(target: "paddle_sot_rs.backend", "a graph runs without oneDNN, which computes it otherwise than eager mode: {why}");
        default(|backend| {
            let session = backend::retrace(py, backend, &sir, &examples)?;
            let request = CompileRequest {
                sir,
                session,
                example_inputs: examples,
                grad_enabled,
                least,
            };
            let program = paddle_sot_backend_paddle::compile_program(py, request, None, role)?;
            let lowered = Lowered {
                program,
                report: vec![why],
                backend: "onednn",
                surroundings: None,
            };
            Ok(Box::new(lowered) as Box<dyn CompiledGraph>)
        })
    }

    /// A program on oneDNN, and whether it may run beside eager mode to be compared with that.
    fn compile_on_onednn(
        &self,
        py: Python<'_>,
        request: CompileRequest,
        role: Role,
    ) -> Result<(Box<dyn CompiledGraph>, bool), BackendError> {
        let caches = Caches::new(py)?.map(|it| Py::new(py, it)).transpose()?;
        let grad = request.grad_enabled;
        let given = (grad, &caches, self.frozen, self.least, self.in_bfloat16);
        let lowering = placement(py)?.getattr("Lowering")?.call1(given)?;
        let inputs = request.sir.tensor_inputs().count();
        let program =
            paddle_sot_backend_paddle::compile_program(py, request, Some(&lowering), role)?;
        let report = lowering.getattr("report")?.extract()?;
        let may_be_compared = lowering.getattr("may_be_compared")?.extract()?;
        let calls: Option<Recipe> = lowering.call_method0("recipe")?.extract()?;
        // A program does not take what it does not use.
        let calls = calls.filter(|calls| calls.0 == inputs);
        let surroundings = caches.map(|it| Box::new(Session(it)) as Box<dyn Surroundings>);
        let program = Box::new(Lowered {
            program,
            report,
            backend: "onednn",
            surroundings,
        });
        Ok(match calls {
            Some(calls) => (Box::new(DirectCalls::new(py, calls, program)?), false),
            None => (program, may_be_compared),
        })
    }
}

/// The state of the thread that runs a program.
struct Session(Py<Caches>);

impl Surroundings for Session {
    fn enter(&self) {
        self.0.get().enter();
    }

    fn leave(&self) {
        self.0.get().leave();
    }
}

impl GraphBackend for OnednnBackend {
    fn name(&self) -> &str {
        "onednn"
    }

    fn configure(&mut self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        for (name, value) in options {
            match name.extract::<String>()?.as_str() {
                "frozen" => self.frozen = value.extract()?,
                "least_elements" => {
                    self.least = value.extract().map_err(|_| {
                        PyValueError::new_err(
                            "options: least_elements: expected a number from 0 on",
                        )
                    })?;
                }
                "bfloat16" => {
                    self.in_bfloat16 = value.extract().map_err(|_| {
                        PyValueError::new_err("options: bfloat16: expected True or False")
                    })?;
                }
                name => {
                    return Err(PyValueError::new_err(format!(
                        "options: the onednn backend has no option {name}"
                    )));
                }
            }
        }
        let compiled = py
            .module("paddle.base.core")?
            .call_method0("is_compiled_with_mkldnn");
        if !compiled
            .and_then(|answer| answer.is_truthy())
            .unwrap_or(false)
        {
            return Err(PyRuntimeError::new_err(
                "backend: onednn: this Paddle is built without oneDNN; use another of list_backends()",
            ));
        }
        let framework = py.module("paddle.base.framework")?;
        let place = framework.call_method0("_current_expected_place_")?;
        if !abi::is_cpu_place(&place)? {
            return Err(PyRuntimeError::new_err(format!(
                "backend: onednn: it computes on CPUs, and the device is {place}; \
                 call paddle.set_device(\"cpu\") before, or use another of list_backends()",
            )));
        }
        if self.in_bfloat16 && !has_bfloat16(py)? {
            return Err(PyValueError::new_err(
                "options: bfloat16: this processor lacks the instructions (avx512_bf16); leave it out",
            ));
        }
        Ok(())
    }

    fn begin(&self, py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        default(|backend| backend.begin(py))
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
        // It trains, although nothing goes backward from its results.
        if request.sir.makes_gradients(py) {
            return default(|backend| backend.compile(py, request));
        }
        let compiler = Compiler {
            backend: self,
            compile: &|request, role| self.compile_placed(py, request, role),
            shares: false,
        };
        compile_parts(py, request, &compiler)
    }

    fn export(&self, py: Python<'_>, request: ExportRequest) -> Result<Obj, BackendError> {
        // Saved programs stay in Paddle's own operators: who loads them decides how to run them.
        default(|backend| backend.export(py, request))
    }

    fn min_graph_size(&self) -> usize {
        paddle_sot_backend_paddle::MIN_GRAPH_SIZE
    }
}

/// Whether the processor computes in bfloat16, and does not only emulate it.
fn has_bfloat16(py: Python<'_>) -> PyResult<bool> {
    py.module("paddle.base.core")?
        .call_method0("supports_bfloat16_fast_performance")?
        .extract()
}

/// What the default backend answers.
fn default<T>(
    ask: impl FnOnce(&dyn GraphBackend) -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let paddle =
        backend::get(backend::DEFAULT).map_err(|err| BackendError::Compile(err.to_string()))?;
    ask(&*paddle.backend)
}

inventory::submit! {
    BackendRegistration { name: "onednn", make: || Box::<OnednnBackend>::default() }
}

/// Makes sure that the linker keeps this crate's registration.
pub fn link() {}
