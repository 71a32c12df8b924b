//! `tensor.stop_gradient = value`: whether gradients flow to a tensor from now on.
//!
//! A tensor that the frame made becomes another one of the graph. One that exists and that the
//! graph has not used is set in front of the graph: gradients flow to the tensor itself.

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::{Callee, SymbolId};
use crate::obj::Obj;
use crate::variables::{Kind, VarId};
use crate::{Step, Tracer, alias_analysis, arrays, carried_aliases, tensors};

use super::existing::own_symbol;
use super::{is_shared, own, replace, views_of};

/// Sets the flag of a tensor that has another one. Whether it was captured.
pub fn set_stop_gradient(t: &mut Tracer<'_>, tensor: VarId, stops: bool) -> Step<bool> {
    if let Some(symbol) = existing(t, tensor) {
        return Ok(t.graph.set_stop_gradient(t.py, symbol, stops)?);
    }
    match stops {
        true => stop_gradient(t, tensor),
        false => begin_gradient(t, tensor),
    }
}

/// The symbol of a tensor that exists, where nobody but its own name sees the flag of it.
fn existing(t: &mut Tracer<'_>, tensor: VarId) -> Option<SymbolId> {
    let symbol = own_symbol(t, tensor)?;
    let meta = tensors::meta_of(t, tensor)?;
    let is_followed = t.grad.is_in_custom_operation() || t.replays.is_inside;
    let is_usual = !t.flow.is_captured()
        && !is_followed
        && t.replays.operations.is_empty()
        && t.deferred.is_empty()
        && !t.graph.is_closed()
        // Elsewhere, what is written may need a gradient that it does not record.
        && t.grad.enabled == t.grad.at_entry;
    let is_it = t.vars.get(tensor).source.is_some() && t.graph.is_input(symbol);
    let is_alone = !is_shared(t, tensor, symbol)
        && !carried_aliases::is_of_two(t, symbol)
        && alias_analysis::root(&t.vars, tensor) == tensor
        && views_of(t, tensor).next().is_none();
    (is_usual && is_it && is_alone && meta.dtype.is_differentiable()).then_some(symbol)
}

/// `tensor.stop_gradient = True` for a tensor that the frame made: what is done with it from now on
/// has no gradient. Whether it was captured.
fn stop_gradient(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    if !t.grad.enabled || own(t, tensor).is_none() || views_of(t, tensor).next().is_some() {
        return Ok(false);
    }
    let result = arrays::detached(t, tensor)?;
    let replaced = replace(t, tensor, result)?.is_some();
    if replaced {
        // It is no leaf, whatever `stop_gradient` says: nothing else is such a tensor.
        t.only_the_interpreter_makes(tensor);
    }
    Ok(replaced)
}

/// `tensor.stop_gradient = False` for a tensor that the frame made without gradients: it is a leaf,
/// to which gradients of what is computed from it flow from now on. Whether it was captured.
fn begin_gradient(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    let is_cut = tensors::meta_of(t, tensor)
        .is_some_and(|meta| meta.stop_gradient && meta.dtype.is_differentiable());
    let is_followed = t.grad.is_in_custom_operation() || t.replays.is_inside;
    let is_plain =
        t.grad.enabled && t.grad.at_entry && !t.flow.is_captured() && !is_followed && is_cut;
    if !is_plain || own(t, tensor).is_none() || views_of(t, tensor).next().is_some() {
        return Ok(false);
    }
    // One that was stopped goes on with its history.
    if t.raised_at(tensor).is_some() {
        return Ok(false);
    }
    let function =
        t.py.module("paddle_sot_rs._graph.control")?
            .getattr("begin_gradient")?;
    let callee = Callee::Api(Obj::from(function));
    let result = tensors::capture(t, callee, None, &[tensor], &[], &mut |_| None)?;
    let Kind::Tensor(made) = t.kind(result).clone() else {
        return Ok(false);
    };
    t.vars.mutate(tensor, |var| {
        if let Kind::Tensor(var) = &mut var.kind {
            var.symbol = made.symbol;
        }
    });
    t.vars.update(result, |var| var.kind = Kind::Null);
    // Its gradient is found on it.
    t.only_the_interpreter_makes(tensor);
    Ok(true)
}
