//! Sums of gradients in eager mode's order: see `ordered_sums.rs` of the graphs and
//! `ordered_sums.py`.

use std::sync::Arc;

use paddle_sot_backend::CompileRequest;
use paddle_sot_backend::graph::{Arrivals, Makers, Part, Parted, StatementIr, SymbolId};
use paddle_sot_backend::obj::Obj;
use pyo3::prelude::*;

use crate::bridge;
use crate::parts::LEAST;
use crate::trace::PaddleTrace;

/// The position of a value, and how far from the results it is.
type Made = (usize, usize);

/// What `ordered_sums.py` answers: sums, by positions of values, and operations of each call.
type Found = (Vec<(usize, Vec<Made>)>, Vec<usize>);

/// See [`TraceSession::arrivals`](paddle_sot_backend::TraceSession::arrivals), and where it is of
/// the program [`TraceSession::sums`](paddle_sot_backend::TraceSession::sums).
pub fn arrivals(
    py: Python<'_>,
    trace: &PaddleTrace,
    sir: &StatementIr,
    is_program: bool,
) -> PyResult<Option<Arrivals>> {
    let (mut values, mut numbers) = (Vec::new(), Vec::new());
    for number in 0..sir.symbols.len() as u32 {
        if let Ok(value) = trace.value(py, SymbolId(number)) {
            values.push(value);
            numbers.push(SymbolId(number));
        }
    }
    let of = |id: &SymbolId| numbers.iter().position(|known| known == id);
    let inputs: Vec<usize> = sir.tensor_inputs().filter_map(|id| of(&id)).collect();
    let outputs: Vec<usize> = sir.outputs.iter().filter_map(of).collect();
    let found = bridge::module(py, "gradients.ordered_sums")?.call_method1(
        "arrivals",
        (trace.trace.bind(py), values, inputs, outputs, is_program),
    )?;
    let found: Option<Found> = found.extract()?;
    let symbol = |(at, level): Made| (numbers[at], level);
    let symbols = |found: Vec<Made>| found.into_iter().map(symbol).collect();
    Ok(found.map(|(sums, operations)| {
        let sums = sums.into_iter();
        Arrivals {
            sums: sums
                .map(|(at, made)| (numbers[at], symbols(made)))
                .collect(),
            operations: numbers.iter().copied().zip(operations).collect(),
        }
    }))
}

/// The graph and its parts, where these would add gradients in another order: with statements that
/// add them in that of eager mode. `None`: they do not, or nobody knows.
///
/// # Errors
/// When Python cannot look at what was traced.
pub fn in_order(
    py: Python<'_>,
    request: &CompileRequest,
    parts: &[Part],
) -> PyResult<Option<(Arc<StatementIr>, Vec<Part>)>> {
    let sir = &request.sir;
    if sir.has_control_flow() {
        return Ok(None);
    }
    let Some(arrivals) = request.session.arrivals(py, sir)? else {
        return Ok(None);
    };
    let makers = makers(py, request)?;
    let Some(whole) = sir.with_ordered_sums(py, parts, &arrivals, &makers)? else {
        return Ok(None);
    };
    Ok(match whole.parts(py) {
        Parted::Parts(parts) => Some((Arc::new(whole), parts)),
        Parted::One | Parted::Never(_) => None,
    })
}

/// What makes aliases of the tensors of a graph.
pub fn makers(py: Python<'_>, request: &CompileRequest) -> PyResult<Makers> {
    let module = bridge::module(py, "gradients.ordered_sums")?;
    let inputs = request.sir.tensor_inputs();
    Ok(Makers {
        aliases: Obj::from(module.getattr("aliases")?),
        place_of: Obj::from(module.getattr("place_of")?),
        with_aliases: Obj::from(module.getattr("WithAliases")?),
        chained: Obj::from(module.getattr("chained")?),
        inputs: inputs.zip(request.example_inputs.iter().cloned()).collect(),
        least: request.least.max(LEAST),
    })
}
