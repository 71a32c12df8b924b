//! Operations without side effect that make what a change in place makes.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::Callee;
use crate::obj::Obj;
use crate::ops::{CLONE, FULL_LIKE};
use crate::tensors::{self, Receiver};
use crate::variables::VarId;
use crate::{Step, Tracer, arrays};

/// The form of `fill_`.
pub(super) const FILL: &str = "fill";

/// The method that takes over the numbers of another tensor.
pub(super) const COPIES: &str = "copy_";

/// The one that does the same and answers with nothing.
pub(super) const SET_VALUE: &str = "set_value";

/// Whether this is the form of the two.
pub(super) fn is_copy(form: &str) -> bool {
    COPIES.strip_suffix('_') == Some(form)
}

/// One number everywhere: what `fill_` makes.
pub(super) fn filled(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<VarId> {
    let callee = Callee::Api(Obj::from(t.py.paddle()?.getattr(FULL_LIKE)?));
    tensors::capture(t, callee, None, &[tensor, value], &[], &mut |_| None)
}

/// The same of a tensor that gradients flow to, and go on flowing to.
pub(super) fn filled_with_gradient(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<VarId> {
    let function = t.py.module("paddle_sot_rs._graph.followed")?;
    let callee = Callee::Api(Obj::from(function.getattr(FILL)?));
    tensors::capture(t, callee, None, &[tensor, value], &[], &mut |_| None)
}

/// The numbers of another tensor, without its gradient: what `copy_` and `set_value` make.
pub(super) fn copied(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let value = arrays::detached(t, value)?;
    let copy = Callee::Method(Arc::from(CLONE));
    let receiver = Some(Receiver::Tensor(value));
    tensors::capture(t, copy, receiver, &[], &[], &mut |_| None)
}

/// What a method makes that has a form in place.
pub(super) fn method(t: &mut Tracer<'_>, tensor: VarId, form: &str, args: &[VarId]) -> Step<VarId> {
    let callee = Callee::Method(Arc::from(form));
    let receiver = Some(Receiver::Tensor(tensor));
    tensors::capture(t, callee, receiver, args, &[], &mut |_| None)
}
