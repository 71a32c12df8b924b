//! The graph computes with what a change in place makes of a tensor that exists.
//!
//! The change itself is made behind the graph, on the real tensor (see [`super::existing`]). For
//! what is computed until then, the tensor is the result of the operation without side effect. A
//! guard says that nothing else that the graph takes lies in its storage.
//!
//! That is done only where somebody asked for the changed tensor in an earlier attempt.

use std::ops::Range;

use pyo3::prelude::*;

use crate::abi;
use crate::graph::{Arg, Callee, SymbolId, SymbolKind};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::ops::{Fact, knows};
use crate::saved_for_backward::Statements;
use crate::tensors;
use crate::tracker::Tracker;
use crate::variables::{Kind, TensorVar, VarId};
use crate::{Step, Tracer, alias_analysis, carried_aliases};

use super::existing::own_symbol;
use super::{is_shared, items, operations, views_of};

/// Most pairs of tensors that are guarded to lie apart.
const MOST_PAIRS: usize = 2048;

/// A change in place among the deferred calls.
#[derive(Clone, Debug)]
pub struct Change {
    /// What changes.
    pub tensor: VarId,
    /// Whether the graph can compute what it makes.
    pub can_be_computed: bool,
    /// What the graph has computed of it.
    pub made: Option<Made>,
}

/// What the graph computes in the place of a change.
#[derive(Clone, Debug)]
pub struct Made {
    /// What the tensor was.
    before: SymbolId,
    /// What it is.
    after: SymbolId,
    /// The statements that compute it.
    statements: Range<usize>,
}

/// Whether the form of this name has an operation that makes the same.
pub(super) fn can_be(form: &str) -> bool {
    !knows(form, Fact::InPlaceDraws)
}

/// `tensor` is from now on, in the graph, what `tensor.form_(*args)` makes of it. `None` where
/// something else may be it, or the operation makes another kind of tensor.
pub(super) fn compute(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
) -> Step<Option<Made>> {
    let Some(before) = own_symbol(t, tensor) else {
        return Ok(None);
    };
    let is_alone = !is_shared(t, tensor, before)
        && !carried_aliases::is_of_two(t, before)
        && !is_operand_of_a_view(t, before);
    if !is_alone {
        return Ok(None);
    }
    let begin = t.graph.sir.statements.len();
    let result = operation(t, tensor, form, args)?;
    let metas = tensors::meta_of(t, tensor).zip(tensors::meta_of(t, result));
    let is_alike = metas.is_some_and(|(old, new)| {
        old.shape == new.shape && old.dtype == new.dtype && new.stop_gradient
    });
    let Kind::Tensor(TensorVar { symbol: after, .. }) = *t.kind(result) else {
        return Ok(None);
    };
    if !is_alike || result == tensor {
        return Ok(None);
    }
    // It is no change of the frame that is replayed: the deferred call is.
    t.vars.update(tensor, |var| {
        if let Kind::Tensor(var) = &mut var.kind {
            var.symbol = after;
        }
    });
    // No second name for it.
    t.vars.update(result, |var| var.kind = Kind::Null);
    let statements = begin..t.graph.sir.statements.len();
    Ok(Some(Made {
        before,
        after,
        statements,
    }))
}

/// The operation without side effect.
fn operation(t: &mut Tracer<'_>, tensor: VarId, form: &str, args: &[VarId]) -> Step<VarId> {
    match (form, args) {
        ("zero", []) => {
            let zero = t.int(0);
            operations::filled(t, tensor, zero)
        }
        (operations::FILL, [value]) => operations::filled(t, tensor, *value),
        (_, [value, ..]) if operations::is_copy(form) => operations::copied(t, *value),
        (items::SET, [key, value]) => tensors::control(t, items::SET, &[tensor, *key, *value]),
        _ => operations::method(t, tensor, form, args),
    }
}

/// What the graph made goes into the deferred call as it is now: it may change behind this.
pub(super) fn keep_as_they_are(t: &mut Tracer<'_>, args: &mut [VarId]) {
    for arg in args {
        if t.vars.get(*arg).source.is_none() {
            if let Kind::Tensor(var) = t.kind(*arg).clone() {
                *arg = t.add(Kind::Tensor(var));
            }
        }
    }
}

/// Whether a view is made with it as a size or place: where that leaves, it is made again.
fn is_operand_of_a_view(t: &Tracer<'_>, symbol: SymbolId) -> bool {
    let ids = (0..t.vars.len() as u32).map(VarId);
    ids.into_iter().any(|id| {
        let Kind::Tensor(TensorVar {
            view: Some(view), ..
        }) = t.vars.kind(id)
        else {
            return false;
        };
        let mut found = false;
        let given = view
            .args
            .iter()
            .chain(view.kwargs.iter().map(|(_, arg)| arg));
        given.for_each(|arg: &Arg| arg.for_each_symbol(&mut |used| found |= used == symbol));
        found && view.base_symbol != symbol
    })
}

/// Whether the graph computes with something else than what the real tensor holds by now.
pub fn is_changed(t: &Tracer<'_>, tensor: VarId) -> bool {
    changes(t).any(|(_, change)| change.tensor == tensor && change.made.is_some())
}

/// Whether something keeps, for a gradient, what the graph has computed of a tensor, or a view of
/// that: eager mode sees that it changes.
pub(super) fn is_kept(t: &Tracer<'_>, tensor: VarId, views: &[VarId]) -> bool {
    let graph = Statements::of_graph(t);
    let keep =
        |id: &VarId| matches!(t.vars.kind(*id), Kind::Tensor(var) if graph.keep(t, var.symbol));
    let has_gradients = t.goes_backward();
    has_gradients && is_changed(t, tensor) && views.iter().chain([&tensor]).any(keep)
}

fn changes<'a>(t: &'a Tracer<'_>) -> impl Iterator<Item = (usize, &'a Change)> {
    let deferred = t.deferred.iter();
    deferred.filter_map(|call| Some((call.at, call.change.as_ref()?)))
}

/// The instructions whose changes the graph has to compute, in another attempt, so that it can go
/// on behind them. `None` where it cannot.
pub fn to_compute(t: &Tracer<'_>) -> Option<Vec<usize>> {
    let is_open = |change: &Change| change.made.is_some() || change.can_be_computed;
    if changes(t).filter(|(_, it)| is_open(it)).count() < t.deferred.iter().count() {
        return None;
    }
    let missing = changes(t).filter(|(_, change)| change.made.is_none());
    let places: Vec<usize> = missing.map(|(at, _)| at).collect();
    let is_new = |at: &usize| !t.options.detours.computed.contains(at);
    (!places.is_empty() && places.iter().all(is_new)).then_some(places)
}

/// Guards what the graph takes for granted of the tensors whose changes it computes. The answer is
/// the instruction of a change that it cannot compute after all.
pub fn settle(t: &mut Tracer<'_>) -> PyResult<Option<usize>> {
    let found = changes(t).filter_map(|(at, it)| Some((at, it.tensor, it.made.clone()?)));
    let all: Vec<(usize, VarId, Made)> = found.collect();
    let is_of_a_change = |at: usize| all.iter().any(|(_, _, made)| made.statements.contains(&at));
    let count = t.graph.sir.statements.len();
    // Behind the last one that something else is computed behind, nothing is taken for granted.
    let Some(last) = (0..count).rfind(|at| !is_of_a_change(*at)) else {
        return Ok(None);
    };
    let read: Vec<_> = all
        .iter()
        .filter(|(_, _, made)| made.statements.start < last)
        .collect();
    if let (Some((at, ..)), true) = (read.first(), read.len() * t.graph.inputs.len() > MOST_PAIRS) {
        return Ok(Some(*at));
    }
    for (at, tensor, made) in read {
        let alike = is_computed_alike(t, *tensor, made)? && takes_what_stays(t, *at, made);
        if !alike || !lies_apart(t, *tensor)? {
            return Ok(Some(*at));
        }
    }
    Ok(None)
}

/// Whether eager mode would do the same with the changed tensor.
fn is_computed_alike(t: &mut Tracer<'_>, tensor: VarId, made: &Made) -> PyResult<bool> {
    // A later change of the tensor has to be seen by what keeps it.
    let views: Vec<VarId> = views_of(t, tensor).collect();
    if is_kept(t, tensor, &views) {
        return Ok(false);
    }
    // What runs again on the way back reads the real tensor.
    if !t.replays.operations.is_empty() || t.graph.sir.has_regions() {
        return Ok(false);
    }
    let Some(now) = own_symbol(t, tensor) else {
        return Ok(false);
    };
    if is_shared(t, tensor, now) {
        return Ok(false);
    }
    // The program would write what it has computed itself.
    let behind = &t.graph.sir.statements[made.statements.end..];
    let writes = |symbol| {
        let mut all = t.graph.sir.statements.iter();
        all.any(|statement| statement.updates.contains(&symbol))
    };
    if writes(made.before) || writes(made.after) {
        return Ok(false);
    }
    // Layers read what they hold by themselves.
    let Some(real) = t.vars.get(tensor).value.clone() else {
        return Ok(false);
    };
    for statement in behind {
        let Callee::Layer(layer) = statement.callee else {
            continue;
        };
        let Some(SymbolKind::Layer(layer)) = t.graph.sir.symbols.get(layer.0 as usize) else {
            return Ok(false);
        };
        for held in ["parameters", "buffers"] {
            for held in layer.bind(t.py).call_method0(held)?.try_iter()? {
                if held?.is(real.bind(t.py)) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Whether the graph does not write, behind a change, what the change itself takes when it is made:
/// running statistics that are added to an average.
fn takes_what_stays(t: &Tracer<'_>, at: usize, made: &Made) -> bool {
    let behind = &t.graph.sir.statements[made.statements.end..];
    let written = |symbol: SymbolId| behind.iter().any(|it| it.updates.contains(&symbol));
    let mut calls = t.deferred.iter().filter(|call| call.at == at);
    calls.all(|call| {
        let Kind::Partial { args, .. } = t.vars.kind(call.call) else {
            return true;
        };
        let roots = args.iter().map(|arg| alias_analysis::root(&t.vars, *arg));
        let mut all = args.iter().copied().chain(roots);
        !all.any(|id| matches!(t.vars.kind(id), Kind::Tensor(var) if written(var.symbol)))
    })
}

/// Guards that nothing else that the graph takes has memory in common with a tensor.
fn lies_apart(t: &mut Tracer<'_>, tensor: VarId) -> PyResult<bool> {
    let var = t.vars.get(tensor);
    let (Some(real), Some(source)) = (var.value.clone(), var.source.clone()) else {
        return Ok(false);
    };
    let mut others = Vec::new();
    for input in &t.graph.inputs {
        let is_tensor = matches!(
            t.graph.sir.symbols.get(input.symbol.0 as usize),
            Some(SymbolKind::Tensor(_))
        );
        if !is_tensor || input.value.is(&real) {
            continue;
        }
        // It is made for each call.
        if matches!(*input.tracker, Tracker::Number(..)) {
            continue;
        }
        // The array is what may lie in its storage.
        if matches!(*input.tracker, Tracker::Array(..)) {
            return Ok(false);
        }
        let other = input.value.bind(t.py);
        if !abi::are_apart(t.py, real.bind(t.py).into(), other.into()) {
            return Ok(false);
        }
        others.push((input.tracker.clone(), Obj::from(other.get_type())));
    }
    for (other, class) in others {
        t.guards.add(&other, GuardKind::TypeIs(class));
        t.guards.add(&source, GuardKind::Apart(other));
    }
    Ok(true)
}
