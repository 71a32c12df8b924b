//! A backward whose gradients are part of the graph.
//!
//! The graph computes what arrives at each leaf, and runs without autograd; the deferred call adds
//! it to the leaf, as the walk back to there does. Behind that nobody can tell: what the backward
//! went through is freed in eager mode, so each result of the graph that has a history has one that
//! no backward goes through again. Where a result has another one, the backward stays apart.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::abi;
use crate::backend::BackendError;
use crate::frame::Modules;
use crate::graph::{Arg, SymbolId};
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use super::{Act, Called};
use crate::simulator::tracer::function_graph::GraphInput;
use crate::simulator::{Step, Tracer, arguments, partial_gradients};

/// Most operations of a graph, without those of its gradients: a longer one is run in pieces.
const MOST: usize = 250;

/// Most numbers of gradients that are copied to leaves: that takes as long as an operation which
/// hands them on.
const MOST_COPIED: i64 = 1 << 15;

/// The backward of a result, where the graph computes its gradients; `None` where it stays apart.
pub(super) fn backward(t: &mut Tracer<'_>, loss: VarId, symbol: SymbolId) -> Step<Option<Called>> {
    if !may_join(t, loss) {
        return Ok(None);
    }
    let leaves = t.graph.inputs.iter().filter(|input| flows(t, input));
    let leaves: Vec<GraphInput> = leaves.cloned().collect();
    if t.graph.is_closed() && !leaves.iter().all(|leaf| is_parameter(t, leaf)) {
        // One may be a gradient that is cleared.
        return Ok(None);
    }
    let callee = partial_gradients::callee(t.py)?;
    let flag = |flag: bool| Arg::Const(Obj::from(PyBool::new(t.py, flag).to_owned().into_any()));
    let inputs = leaves.iter().map(|leaf| Arg::Symbol(leaf.symbol)).collect();
    let args = vec![
        Arg::List(vec![Arg::Symbol(symbol)]),
        Arg::List(inputs),
        Arg::List(Vec::new()),
        flag(false),
        flag(false),
        flag(true),
    ];
    t.graph.set_grad_enabled(true);
    let loc = t.loc();
    let made = match t.graph.is_closed() {
        true => t
            .graph
            .call_when_closed(t.py, callee, args, Vec::new(), loc),
        false => t
            .graph
            .call(t.py, callee, args, Vec::new(), loc, &mut |_| None),
    };
    let made = match made {
        Ok(Arg::List(made)) => made,
        Ok(_) | Err(BackendError::Refused(_) | BackendError::BlackListed(_)) => return Ok(None),
        Err(BackendError::Raised(err))
            if err.is_instance_of::<pyo3::exceptions::PyException>(t.py) =>
        {
            log::debug!(target: "paddle_sot_rs.backend", "a backward stays apart: {err}");
            return Ok(None);
        }
        Err(err) => return Err(err.into()),
    };
    let (mut reached, mut arriving) = (Vec::new(), Vec::new());
    for (leaf, gradient) in leaves.iter().zip(&made) {
        if matches!(gradient, Arg::Symbol(_)) {
            reached.push(t.wrap(leaf.value.bind(t.py), leaf.tracker.clone()));
            arriving.push(arguments::from_arg(t, gradient, &[])?);
        }
    }
    if t.graph.is_closed() {
        // Where one is the gradient that is cleared, eager mode's backward reads zeros.
        let is_other =
            |input: &&GraphInput| t.graph.meta(input.symbol).is_some() && !flows(t, input);
        let others = t.graph.inputs.iter().filter(is_other);
        let others: Vec<GraphInput> = others.cloned().collect();
        t.deferred.read_behind.extend(others);
    }
    let size: i64 = leaves.iter().map(|leaf| size(t, leaf)).sum();
    let name = if size > MOST_COPIED {
        "arrive_uncopied"
    } else {
        "arrive"
    };
    let function = t.py.module("paddle_sot_rs._graph.updates")?;
    let reached = t.add(Kind::List(reached));
    let arriving = t.add(Kind::List(arriving));
    Ok(Some(Called {
        function: Obj::from(function.getattr(name)?),
        args: vec![reached, arriving],
        through: None,
        changes: true,
        act: Act::Joined,
    }))
}

/// Whether gradients flow to an input.
fn flows(t: &Tracer<'_>, input: &GraphInput) -> bool {
    t.graph.sir.carries_gradient(input.symbol)
}

/// How many numbers an input has.
fn size(t: &Tracer<'_>, input: &GraphInput) -> i64 {
    let meta = t.graph.meta(input.symbol);
    meta.map_or(0, |meta| meta.shape.iter().product())
}

fn is_parameter(t: &Tracer<'_>, input: &GraphInput) -> bool {
    let class = t.paddle.parameter.bind(t.py);
    input.value.bind(t.py).get_type().is(class)
}

/// Whether nothing but the backward looks at what the graph keeps for it, and nothing has changed
/// that it reads.
fn may_join(t: &Tracer<'_>, loss: VarId) -> bool {
    t.backend.takes_gradients()
        && abi::can_spend(t.py)
        && !t.options.detours.apart.contains(&t.frames.outermost)
        && (t.deferred.iter()).all(|call| call.act == Act::Clears)
        && t.graph.session().operations(t.graph.sir.statements.len()) <= MOST
        && !has_sparse_gradients(t)
        && partial_gradients::may_be_in_graph(t, loss)
}

/// Whether the gradient of a statement may be rows of a table, which no program makes.
fn has_sparse_gradients(t: &Tracer<'_>) -> bool {
    let sir = &t.graph.sir;
    let mut statements = sir.statements.iter();
    statements.any(|it| it.may_select_rows(t.py, &sir.symbols))
}

/// The instruction of the backward that is part of the graph, if one is.
pub fn joins(t: &Tracer<'_>) -> Option<usize> {
    let joined = t.deferred.iter().find(|call| call.act == Act::Joined);
    joined.map(|call| call.at)
}

/// What another attempt is made for, in which the backward stays apart.
pub const APART: &str = "somebody looks at what a backward goes through";

/// Whether somebody could tell that a backward was part of the graph, of which `outputs` leave, or
/// nothing is won. `least`: operations from which on a graph that trains is a program.
pub fn is_seen(t: &Tracer<'_>, outputs: &[SymbolId], least: usize) -> PyResult<bool> {
    let sir = &t.graph.sir;
    let session = t.graph.session();
    if !t.replays.operations.is_empty()
        || sir.has_regions()
        || session.eager_cost(t.py, sir) < least
        || t.deferred.iter().any(|call| call.act == Act::Backward)
    {
        return Ok(true);
    }
    for output in outputs {
        let is_made = !t.graph.is_input(*output) && sir.has_gradient(*output);
        if is_made && !session.is_gone_through(t.py, *output)? {
            return Ok(true);
        }
    }
    Ok(false)
}
