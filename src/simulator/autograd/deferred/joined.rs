//! A backward whose gradients are part of the graph: where a step of an optimizer and a clear
//! follow it at once, and the graph may take those as well.
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
use crate::tracker::TrackerRef;
use crate::variables::{Kind, TensorVar, VarId};

use super::{Act, DeferredCall};
use crate::tracer::function_graph::GraphInput;
use crate::{Tracer, arguments, partial_gradients};

/// Most operations of a graph, without those of its gradients: a longer one is run in pieces.
const MOST: usize = 250;

/// Most numbers of gradients that are copied to leaves: that takes as long as an operation which
/// hands them on.
const MOST_COPIED: i64 = 1 << 15;

/// A step that is a call of `minimize`, as `whole_steps.noting` names it.
const MINIMIZE: &str = "minimize";

/// A step of an optimizer that follows a backward, and clears the gradients again: nobody sees
/// those, and a program may update the parameters itself.
#[derive(Clone, Debug)]
pub struct WholeStep {
    /// The instruction of the backward.
    pub at: usize,
    /// The optimizer.
    pub optimizer: TrackerRef,
    /// Whether gradients become zeros.
    pub zeros: bool,
    /// Whether gradients were cleared before, and are seen behind the call.
    pub stay: bool,
    /// Whether the step is a call of `minimize`.
    pub minimizes: bool,
    /// The leaves that gradients arrive at, and what arrives there.
    pub arriving: Vec<(SymbolId, SymbolId)>,
}

/// Makes the gradients of a backward part of the graph, at the end of a trace, where a step and a
/// clear follow it at once. The calls behind the graph are told then that they may have been done.
/// `None` where the backward stays apart.
pub fn join(t: &mut Tracer<'_>) -> PyResult<Option<WholeStep>> {
    let first = clears_first(t);
    let calls = t.deferred.iter().skip(first);
    let calls = calls.filter(|call| call.act != Act::Nothing);
    let calls: Vec<DeferredCall> = calls.cloned().collect();
    let [backward, step, clears @ ..] = &calls[..] else {
        return Ok(None);
    };
    let (loss, stepped) = (args_of(t, backward), args_of(t, step));
    let &[loss] = &loss[..] else {
        return Ok(None);
    };
    let (optimizer, how) = match (backward.act, step.act, &stepped[..]) {
        (Act::Backward, Act::Steps, &[optimizer]) => (optimizer, "step"),
        (Act::Backward, Act::Steps, &[optimizer, _]) => (optimizer, MINIMIZE),
        (Act::Backward, Act::StepsFor, &[_, optimizer]) => (optimizer, "scaler_step"),
        _ => return Ok(None),
    };
    let minimizes = how == MINIMIZE;
    let Some(source) = t.source(optimizer) else {
        return Ok(None);
    };
    let stay = first > 0 && clears.is_empty();
    let cleared = match stay {
        true => clears_all(t, &source, first).then(Cleared::default),
        false => cleared(t, &source, clears),
    };
    let Some(cleared) = cleared else {
        return Ok(None);
    };
    let zeros = cleared.zeros;
    let Kind::Tensor(TensorVar { symbol, .. }) = *t.kind(loss) else {
        return Ok(None);
    };
    let is_apart = t.options.detours.apart.contains(&backward.at);
    if is_apart || !may_join(t, loss) {
        return Ok(None);
    }
    let arriving = gradients(t, symbol)?;
    if arriving.is_empty() {
        return Ok(None);
    }
    let value_of = |t: &Tracer<'_>, id: VarId| t.vars.get(id).value.clone();
    // Of tensors that are cleared one by one, those that gradients arrive at.
    let mut taken = Vec::new();
    for (at, id) in cleared.tensors.iter().enumerate() {
        let value = value_of(t, *id);
        let is_it = |(leaf, _): &(GraphInput, SymbolId)| {
            value.as_ref().is_some_and(|value| value.is(&leaf.value))
        };
        taken.extend(arriving.iter().any(is_it).then_some((at + 2, *id)));
    }
    let all_taken = arriving.iter().all(|(leaf, _)| {
        let mut taken = taken.iter().filter_map(|(_, id)| value_of(t, *id));
        taken.any(|value| value.is(&leaf.value))
    });
    if !cleared.tensors.is_empty() && !all_taken {
        return Ok(None);
    }
    let (mut leaves, mut made) = (Vec::new(), Vec::new());
    for (leaf, gradient) in &arriving {
        let Ok(gradient) = arguments::from_arg(t, &Arg::Symbol(*gradient), &[]) else {
            return Ok(None);
        };
        leaves.push(t.wrap(leaf.value.bind(t.py), leaf.tracker.clone()));
        made.push(gradient);
    }
    let size: i64 = arriving.iter().map(|(leaf, _)| size(t, leaf)).sum();
    let arrives = match size > MOST_COPIED {
        true => "arrive_uncopied",
        false => "arrive",
    };
    let arrives =
        t.py.module("paddle_sot_rs._graph.updates")?
            .getattr(arrives)?;
    let own = t.py.module("paddle_sot_rs._graph.whole_steps")?;
    let note = t.options.note_own_step.clone();
    let step_through = Obj::from(own.call_method1("noting", (how, note))?);
    let (clear, all_cleared) = match cleared.tensors.is_empty() {
        true => ("clear_unless_done", None),
        false => {
            let function = t.constant(&own.getattr("clear_parameters")?);
            let parameters = taken.iter().map(|(_, id)| *id).collect();
            let parameters = t.add(Kind::List(parameters));
            let zeros = t.bool(zeros);
            let args = vec![optimizer, parameters, zeros];
            let call = t.add(Kind::Partial {
                function,
                args,
                kwargs: Vec::new(),
            });
            ("clear_parameters_unless_done", Some(call))
        }
    };
    let clear = Obj::from(own.getattr(clear)?);
    let function = t.constant(&arrives);
    let leaves = t.add(Kind::List(leaves));
    let made = t.add(Kind::List(made));
    let call = t.add(Kind::Partial {
        function,
        args: vec![leaves, made],
        kwargs: Vec::new(),
    });
    let clear_at = taken.first().map_or(2, |(at, _)| *at);
    let clear_call = calls.get(clear_at).map(|call| call.call);
    let mut replaced = vec![(backward.call, Some(call))];
    replaced.extend(taken.iter().map(|(at, _)| (calls[*at].call, None)));
    if let (Some(clear), Some(all)) = (replaced.get_mut(1), all_cleared) {
        clear.1 = Some(all);
    }
    t.left_behind.retain_mut(|left| {
        let found = replaced.iter().find(|(old, _)| old == left);
        match found {
            Some((_, Some(new))) => *left = *new,
            Some((_, None)) => return false,
            None => {}
        }
        true
    });
    for deferred in t.deferred.iter_mut() {
        let through = if deferred.call == step.call {
            Some(&step_through)
        } else {
            (!stay && Some(deferred.call) == clear_call).then_some(&clear)
        };
        if let Some(through) = through {
            deferred.through = Some(through.clone());
            deferred.more = vec![made];
        }
        if let Some((_, Some(new))) = replaced.iter().find(|(old, _)| *old == deferred.call) {
            deferred.call = *new;
        }
    }
    let arriving = arriving.into_iter().map(|(leaf, made)| (leaf.symbol, made));
    Ok(Some(WholeStep {
        at: backward.at,
        optimizer: source,
        zeros,
        minimizes,
        stay,
        arriving: arriving.collect(),
    }))
}

/// How many calls clear gradients before the first backward.
pub fn clears_first(t: &Tracer<'_>) -> usize {
    let calls = t.deferred.iter();
    calls.take_while(|call| call.act == Act::Clears).count()
}

/// Whether another attempt may clear gradients behind the graph: in this one the frame computes
/// behind that, and nothing else was deferred.
pub fn may_clear_first(t: &Tracer<'_>) -> bool {
    t.options.detours.clears_first.is_none()
        && t.backend.takes_gradients()
        && clears_first(t) == t.deferred.len()
}

/// Whether the first calls clear the gradients of all that an optimizer has.
fn clears_all(t: &Tracer<'_>, optimizer: &TrackerRef, first: usize) -> bool {
    let mut calls = t.deferred.iter().take(first);
    calls.any(|call| {
        let of = args_of(t, call).first().and_then(|of| t.source(*of));
        of.as_ref() == Some(optimizer)
    })
}

/// What clears gradients behind a step.
#[derive(Default)]
struct Cleared {
    /// Whether they become zeros.
    zeros: bool,
    /// The tensors that are cleared one by one; none where the optimizer clears all of its own.
    tensors: Vec<VarId>,
}

/// The first of these calls, which clears the gradients of an optimizer, or those that clear
/// tensors.
fn cleared(t: &mut Tracer<'_>, optimizer: &TrackerRef, clears: &[DeferredCall]) -> Option<Cleared> {
    let mut found: Option<Cleared> = None;
    for call in clears.iter().take_while(|call| call.act == Act::Clears) {
        let given = args_of(t, call);
        let (of, how) = (*given.first()?, given.get(1));
        let zeros = match how {
            Some(how) => t.const_value(*how)?.extract().ok()?,
            None => true,
        };
        if !matches!(t.kind(of), Kind::Tensor(_)) {
            let is_own = t.source(of).as_ref() == Some(optimizer);
            let tensors = Vec::new();
            return found.or(is_own.then_some(Cleared { zeros, tensors }));
        }
        let known = found.get_or_insert(Cleared {
            zeros,
            tensors: Vec::new(),
        });
        if known.zeros != zeros {
            break;
        }
        known.tensors.push(of);
    }
    found
}

/// What a call of a train step is given.
pub(super) fn args_of(t: &Tracer<'_>, call: &DeferredCall) -> Vec<VarId> {
    let mut given = Vec::new();
    if let Kind::Partial { args, .. } = t.vars.kind(call.call) {
        given.clone_from(args);
    }
    given
}

/// The gradients of a result, computed in the graph: those that arrive at leaves. None where it
/// cannot hold them.
pub(super) fn gradients(
    t: &mut Tracer<'_>,
    symbol: SymbolId,
) -> PyResult<Vec<(GraphInput, SymbolId)>> {
    let leaves = t.graph.inputs.iter();
    let leaves = leaves.filter(|input| t.graph.sir.carries_gradient(input.symbol));
    let leaves: Vec<GraphInput> = leaves.cloned().collect();
    let now = |leaf: &GraphInput| Arg::Symbol(t.graph.renewed.current(leaf.symbol));
    let callee = partial_gradients::callee(t.py)?;
    let flag = |flag: bool| Arg::Const(Obj::from(PyBool::new(t.py, flag).to_owned().into_any()));
    let inputs = leaves.iter().map(now).collect();
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
    let made = t
        .graph
        .call_when_closed(t.py, callee, args, Vec::new(), loc);
    let made = match made {
        Ok(Arg::List(made)) => made,
        Err(BackendError::Raised(err))
            if !err.is_instance_of::<pyo3::exceptions::PyException>(t.py) =>
        {
            return Err(err);
        }
        refused => {
            let why = refused.err().map(|err| err.to_string());
            log::debug!(target: "paddle_sot_rs.backend", "a backward stays apart: {}", why.unwrap_or_default());
            return Ok(Vec::new());
        }
    };
    let made = made.iter().map(Arg::as_symbol);
    let all = leaves.into_iter().zip(made);
    Ok(all.filter_map(|(leaf, made)| Some((leaf, made?))).collect())
}

/// How many numbers an input has.
fn size(t: &Tracer<'_>, input: &GraphInput) -> i64 {
    let meta = t.graph.meta(input.symbol);
    meta.map_or(0, |meta| meta.shape.iter().product())
}

/// Whether nothing but the backward looks at what the graph keeps for it.
pub(super) fn may_join(t: &Tracer<'_>, loss: VarId) -> bool {
    t.backend.takes_gradients()
        && abi::can_spend(t.py)
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

/// What another attempt is made for, in which the backward stays apart.
pub const APART: &str = "somebody looks at what a backward goes through";

/// Whether somebody could tell that a backward was part of the graph, of which `outputs` leave, or
/// nothing is won. `least`: operations from which on a graph that trains is a program.
pub fn is_seen(t: &Tracer<'_>, outputs: &[SymbolId], least: usize) -> PyResult<bool> {
    let sir = &t.graph.sir;
    let session = t.graph.session();
    let calls = t.deferred.iter();
    let backwards = calls.filter(|call| call.act == Act::Backward).count();
    if !t.replays.operations.is_empty()
        || sir.has_regions()
        || session.eager_cost(t.py, sir) < least
        || backwards > 1
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
