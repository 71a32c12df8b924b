//! Tensors: operators, methods, attributes, and conversion between variables and graph arguments.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// The graph argument for a variable.
pub fn to_arg(t: &mut Tracer<'_>, value: VarId) -> Step<crate::graph::Arg> {
    let _ = (value,);
    t.unsupported("tensors::to_arg is not simulated")
}

/// The variable for a statement's output.
pub fn from_arg(t: &mut Tracer<'_>, value: &crate::graph::Arg) -> Step<VarId> {
    let _ = (value,);
    t.unsupported("tensors::from_arg is not simulated")
}

/// `x.name` for a tensor.
pub fn attribute(t: &mut Tracer<'_>, tensor: VarId, name: &str) -> Step<VarId> {
    let _ = (tensor, name);
    t.unsupported("tensors::attribute is not simulated")
}

/// `x.name(*args, **kwargs)` for a tensor.
pub fn method(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let _ = (tensor, name, args, kwargs);
    t.unsupported("tensors::method is not simulated")
}
