//! Programs beside eager mode, when they are made: see `compared.py`.

use std::sync::Arc;

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::StatementIr;
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{self as backend, BackendError, CompileRequest, CompiledGraph};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// What a program computes otherwise than eager mode; `None` where nothing is otherwise, or eager
/// mode raises for what the program is made for.
///
/// # Errors
/// Interrupts.
pub fn difference(
    py: Python<'_>,
    program: &dyn CompiledGraph,
    (sir, examples): (&Arc<StatementIr>, &[Obj]),
    in_bfloat16: bool,
) -> Result<Option<String>, BackendError> {
    let module = py.module("paddle_sot_rs._onednn.compared")?;
    let eager = backend::get("eager").map_err(|err| BackendError::Compile(err.to_string()))?;
    let calls = eager.backend.compile(
        py,
        CompileRequest {
            sir: Arc::clone(sir),
            session: eager.backend.begin(py)?,
            example_inputs: Vec::new(),
            grad_enabled: false,
            least: 0,
        },
    )?;
    let Some(tracer) = abi::tracer(py)? else {
        return Ok(None);
    };
    // Hands on interrupts.
    let failed = |err: PyErr| {
        let what = err.to_string();
        BackendError::Raised(err).reason(py).map(|_| what)
    };
    let compare = || {
        let examples = PyList::new(py, examples.iter().map(|it| it.bind(py)))?;
        let runs: Vec<Vec<Bound<'_, PyAny>>> =
            module.call_method1("inputs", (examples,))?.extract()?;
        for inputs in runs {
            let wanted = match calls.call(py, &inputs) {
                Err(err) => return failed(err).map(|_| None),
                Ok(wanted) => wanted.into_vec(),
            };
            let found = match program.call(py, &inputs) {
                Err(err) => return failed(err).map(|what| Some(format!("it raises {what}"))),
                Ok(found) => found.into_vec(),
            };
            let given = (found, wanted, in_bfloat16);
            let difference: Option<String> = module.call_method1("difference", given)?.extract()?;
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    };
    Ok(abi::without_gradients(&tracer, compare)?)
}
