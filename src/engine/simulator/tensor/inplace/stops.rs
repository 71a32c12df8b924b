//! Where gradients stop, and where they begin: `tensor.stop_gradient = ...` of a tensor that the frame
//! made.

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::Callee;
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use super::{own, replace, views_of};
use crate::simulator::{arrays, tensors, Step, Tracer};

/// `tensor.stop_gradient = True` for a tensor that the frame made: what is done with it from now on
/// has no gradient. Whether it was captured.
pub fn stop_gradient(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    if !t.grad_enabled || own(t, tensor).is_none() || views_of(t, tensor).next().is_some() {
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
pub fn begin_gradient(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    let is_cut = tensors::meta_of(t, tensor)
        .is_some_and(|meta| meta.stop_gradient && meta.dtype.is_differentiable());
    let is_followed = t.backward.is_some() || t.custom_gradients > 0 || t.runs_again;
    let is_plain = t.grad_enabled && t.entry_grad && t.regions == 0 && !is_followed && is_cut;
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
