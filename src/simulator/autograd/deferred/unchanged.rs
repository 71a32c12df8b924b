//! What is computed behind deferred calls from what they leave as it is: metrics, averages of
//! losses, predictions.
//!
//! The graph computes it in front of them, with the same result. Of its own results they change
//! none. Of what it takes they may change leaves, and whatever lies in the memory of parameters,
//! gradients and state of optimizers: of the tensors that are read, guards say that they do not.

use std::sync::Arc;

use crate::abi;
use crate::backend::BackendError;
use crate::graph::{Arg, Callee, SymbolId};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::SourceLoc;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId};

use crate::Tracer;
use crate::alias_analysis::root;
use crate::tracer::function_graph::GraphInput;

/// Most pairs of tensors and what they are apart from that are guarded.
const MOST_PAIRS: usize = 1024;

/// Sends a call to the graph; behind deferred calls it is one that they do not matter to.
pub(crate) fn call(
    t: &mut Tracer<'_>,
    callee: Callee,
    args: Vec<Arg>,
    kwargs: Vec<(Arc<str>, Arg)>,
    loc: SourceLoc,
    locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
) -> Result<Arg, BackendError> {
    let read = match t.graph.is_closed() && is_plain(t, &callee) {
        true => inputs(t, args.iter().chain(kwargs.iter().map(|(_, arg)| arg))),
        false => None,
    };
    let Some(read) = read else {
        return t.graph.call(t.py, callee, args, kwargs, loc, locate);
    };
    let output = t.graph.call_when_closed(t.py, callee, args, kwargs, loc)?;
    for input in read {
        if !t
            .deferred
            .read_behind
            .iter()
            .any(|it| it.value.is(&input.value))
        {
            t.deferred.read_behind.push(input);
        }
    }
    Ok(output)
}

/// Whether a call takes nothing but its arguments, and only calls of train steps are deferred.
fn is_plain(t: &Tracer<'_>, callee: &Callee) -> bool {
    let takes_arguments_only = match callee {
        Callee::Api(_) => !callee.makes_gradients(t.py),
        Callee::Method(_) | Callee::Attribute(_) => true,
        Callee::Layer(_) | Callee::Sir(_) => false,
    };
    takes_arguments_only
        && !callee.writes(t.py)
        && !t.deferred.is_empty()
        && t.deferred.iter().all(|call| call.change.is_none())
        && !t.flow.is_captured()
        && t.replays.operations.is_empty()
        && !t.grad.is_in_custom_operation()
        && !t.graph.sir.has_regions()
}

/// The tensors from outside whose storage is read through these arguments; `None` where deferred
/// calls may change one.
fn inputs<'a>(t: &Tracer<'_>, args: impl Iterator<Item = &'a Arg>) -> Option<Vec<GraphInput>> {
    let mut symbols = Vec::new();
    for arg in args {
        arg.for_each_symbol(&mut |symbol| symbols.push(symbol));
    }
    let mut found = Vec::new();
    for symbol in symbols {
        for read in roots(t, symbol)? {
            let Some(input) = t.graph.inputs.iter().find(|it| it.symbol == read) else {
                continue;
            };
            let stays = t.graph.meta(read).is_some_and(|meta| meta.stop_gradient);
            // It is made for each call.
            if matches!(*input.tracker, Tracker::Number(..)) {
                continue;
            }
            // The array is what may lie in their memory.
            if matches!(*input.tracker, Tracker::Array(..)) || !stays {
                return None;
            }
            found.push(input.clone());
        }
    }
    Some(found)
}

/// A symbol, and those of the tensors whose storage its tensor may share.
fn roots(t: &Tracer<'_>, symbol: SymbolId) -> Option<Vec<SymbolId>> {
    let mut found = vec![symbol];
    for id in (0..t.vars.len() as u32).map(VarId) {
        let tensor = t.vars.kind(id).tensor();
        if tensor.is_none_or(|tensor| tensor.symbol != symbol) {
            continue;
        }
        let Kind::Tensor(tensor) = t.vars.kind(root(&t.vars, id)) else {
            return None;
        };
        found.push(tensor.symbol);
    }
    Some(found)
}

/// Guards that deferred calls change nothing that was read behind them. The answer is the
/// instruction of the last of them, where they may.
pub fn settle(t: &mut Tracer<'_>) -> Option<usize> {
    let last = super::last(t)?;
    let read = std::mem::take(&mut t.deferred.read_behind);
    if read.is_empty() {
        return None;
    }
    let others = changed(t);
    if read.len() * others.len() > MOST_PAIRS {
        return Some(last);
    }
    for input in &read {
        for (other, value) in &others {
            let tensor = (&input.value).into();
            if !abi::is_apart_from_all(t.py, tensor, value.bind(t.py)) {
                return Some(last);
            }
            let guard = GuardKind::ApartFromAll(other.clone());
            t.guards.add(&input.tracker, guard);
        }
    }
    None
}

/// What holds the tensors that deferred calls change: leaves, and the objects that they are methods
/// of or take.
fn changed(t: &Tracer<'_>) -> Vec<(TrackerRef, Obj)> {
    let mut found = Vec::new();
    for input in &t.graph.inputs {
        if t.graph.sir.carries_gradient(input.symbol) {
            found.push((input.tracker.clone(), input.value.clone()));
        }
    }
    for call in t.deferred.iter() {
        if let Kind::Partial { args, .. } = t.vars.kind(call.call) {
            args.iter().for_each(|id| add(t, *id, &mut found));
        }
    }
    found
}

/// Adds an argument of a deferred call, or the items of a new list.
fn add(t: &Tracer<'_>, id: VarId, found: &mut Vec<(TrackerRef, Obj)>) {
    let var = t.vars.get(id);
    match (&var.kind, &var.value, &var.source) {
        (Kind::Const, ..) => {}
        (_, Some(value), Some(source)) => {
            let is_known = found.iter().any(|(_, known)| known.is(value));
            found.extend((!is_known).then(|| (source.clone(), value.clone())));
        }
        (Kind::List(items), ..) => items.iter().for_each(|id| add(t, *id, found)),
        _ => {}
    }
}
