//! [`retrace`]: the trace of a graph that was changed after it was captured.

use pyo3::prelude::*;

use crate::graph::{Arg, StatementIr, SymbolKind};
use crate::obj::Obj;
use crate::{BackendError, GraphBackend, InferredOutput, TraceSession};

fn differs(what: impl std::fmt::Display) -> BackendError {
    BackendError::Compile(format!(
        "the changed graph differs from its metadata: {what}"
    ))
}

/// Traces every statement of `sir` in a new session. `inputs` are the tensors of `sir.inputs`,
/// layers left out.
///
/// # Errors
/// When a statement cannot be traced, or its results are not what the metadata says.
pub fn retrace(
    py: Python<'_>,
    backend: &dyn GraphBackend,
    sir: &StatementIr,
    inputs: &[Obj],
) -> Result<Box<dyn TraceSession>, BackendError> {
    let mut session = backend.begin(py)?;
    let tensors = sir.inputs.iter().filter_map(|id| match sir.kind(*id) {
        SymbolKind::Tensor(meta) => Some((*id, meta)),
        SymbolKind::Layer(_) => None,
    });
    let tensors: Vec<_> = tensors.collect();
    if tensors.len() != inputs.len() {
        return Err(differs(format_args!(
            "{} input tensors for {} symbols",
            inputs.len(),
            tensors.len()
        )));
    }
    for ((symbol, meta), tensor) in tensors.into_iter().zip(inputs) {
        session.add_input(py, symbol, tensor, meta)?;
    }
    for statement in &sir.statements {
        session.set_grad_enabled(statement.grad_enabled);
        let answer = session.call(
            py,
            sir,
            &statement.callee,
            &statement.args,
            &statement.kwargs,
            &statement.loc,
        )?;
        if !answer.captured.is_empty() {
            return Err(differs("a statement uses a tensor that is not an input"));
        }
        bind(py, session.as_mut(), sir, &statement.output, answer.output)?;
    }
    Ok(session)
}

fn bind(
    py: Python<'_>,
    session: &mut dyn TraceSession,
    sir: &StatementIr,
    expected: &Arg,
    found: InferredOutput,
) -> Result<(), BackendError> {
    match (expected, found) {
        (Arg::Symbol(symbol), InferredOutput::Tensor(meta, value)) => {
            let known = sir.meta(*symbol);
            if known != Some(&meta) {
                let name = sir.symbol_name(*symbol);
                return Err(differs(format_args!("{name}: {known:?} became {meta:?}")));
            }
            session.bind_output(*symbol, value)
        }
        (Arg::Symbol(symbol), InferredOutput::Existing(known)) if *symbol == known => Ok(()),
        (Arg::Const(value), InferredOutput::Const(found))
            if value.is(&found) || value.bind(py).eq(found.bind(py))? =>
        {
            Ok(())
        }
        (Arg::List(expected), InferredOutput::List(found))
        | (Arg::Tuple(expected), InferredOutput::Tuple(found))
        | (Arg::NamedTuple(_, expected), InferredOutput::NamedTuple(_, found))
            if expected.len() == found.len() =>
        {
            for (expected, found) in expected.iter().zip(found) {
                bind(py, session, sir, expected, found)?;
            }
            Ok(())
        }
        (Arg::Dict(expected), InferredOutput::Dict(found)) if expected.len() == found.len() => {
            for ((_, expected), (_, found)) in expected.iter().zip(found) {
                bind(py, session, sir, expected, found)?;
            }
            Ok(())
        }
        (expected, found) => Err(differs(format_args!("{expected:?} became {found:?}"))),
    }
}
