//! Methods of tensors: most become statements; some are known, done behind the graph, or refused.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::{Callee, is_in_place};
use crate::ops::{CLONE, CONTIGUOUS, VIEW, WHERE};
use crate::reason::{BreakId, BreakKind};
use crate::subclasses::refuse_own;
use crate::variables::{Kind, VarId};
use crate::{
    Kwargs, Step, Tracer, alias_analysis, device, graph_arrays, inplace, item, numpy_scalars,
};

use super::kept_shape::keeps_shape;
use super::tensor_attributes::is_users;
use super::{Receiver, capture};

/// Methods and attributes that need the tensor's data in Python.
const VALUE_READERS: &[&str] = &[
    "numpy",
    "item",
    "tolist",
    "__bool__",
    "__int__",
    "__float__",
    "__long__",
    "__index__",
    "__array__",
    "__complex__",
    "__hash__",
    "__str__",
    "__repr__",
    "__format__",
    "__deepcopy__",
    "__copy__",
    "data_ptr",
    "__dlpack__",
    "cpu",
    "cuda",
    "pin_memory",
    "to_dense",
    "to_sparse_coo",
    "to_sparse_csr",
    "as_strided",
    "to",
    "_to",
    "nonzero_static",
];

/// Methods about the autograd graph or the object itself.
const OBJECT_METHODS: &[&str] = &[
    "backward",
    "register_hook",
    "clear_grad",
    "clear_gradient",
    "zero_grad",
    "set_value",
    "copy_",
    "gradient",
    "detach_",
    "get_tensor",
    "get_device",
    "value",
    "register_grad_hook",
    "retain_grads",
    "_share_buffer_to",
    "_clear_data",
    "apply",
    "apply_",
    "_grad_ivar",
    "_copy_to",
    "_clear",
    "register_backward_hook",
    "is_dense",
    "is_dist",
    "is_sparse",
    "is_contiguous",
    "get_strides",
    "stride",
    "strides",
    "storage_offset",
    "untyped_storage",
    "is_pinned",
    "offset",
];

fn is_inplace(name: &str) -> bool {
    is_in_place(name) || (name.starts_with("__i") && INPLACE_DUNDERS.contains(&name))
}

const INPLACE_DUNDERS: &[&str] = &[
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__ifloordiv__",
    "__imod__",
    "__ipow__",
];

/// `x[at]` for a tensor.
pub fn row(t: &mut Tracer<'_>, tensor: VarId, at: usize) -> Step<VarId> {
    let at = t.int(at as i64);
    method(t, tensor, "__getitem__", &[at], &[])
}

/// `x.name(*args, **kwargs)` for a tensor.
pub fn method(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Kind::Tensor(var) = t.kind(tensor).clone() else {
        return t.unsupported("a method of tensors on another object");
    };
    let Some(meta) = t.graph.meta(var.symbol).cloned() else {
        return t.unsupported("a tensor without metadata");
    };
    refuse_own(t, tensor, &[name])?;
    if is_users(t, name) {
        return t.stop(
            BreakId::TensorObject,
            format!("Tensor.{name}() was replaced"),
        );
    }
    if let [number] = args {
        crate::operators::check_number(t, name, tensor, *number)?;
    }
    match (name, args) {
        ("dim" | "ndimension", []) => return Ok(t.int(meta.shape.len() as i64)),
        ("__len__", []) => {
            let len = crate::truth::len(t, tensor)?;
            return Ok(t.int(len));
        }
        ("is_floating_point", []) => {
            return Ok(t.bool(meta.dtype.is_floating()));
        }
        _ => {}
    }
    let moved = match name {
        "to" => device::to(t, tensor, args, kwargs)?,
        "cpu" if args.is_empty() && kwargs.is_empty() => device::cpu(t, tensor)?,
        _ => None,
    };
    if let Some(moved) = moved {
        return Ok(moved);
    }
    if name == "item" && args.is_empty() && kwargs.is_empty() {
        if let Some(number) = item::of(t, tensor, item::To::Item)? {
            return Ok(number);
        }
    }
    if name == "item" && kwargs.is_empty() {
        if let Some(number) = item::at(t, tensor, args)? {
            return Ok(number);
        }
    }
    if name == "numpy" && args.is_empty() && kwargs.is_empty() {
        if let Some(array) = graph_arrays::of_tensor(t, tensor)? {
            return Ok(array);
        }
    }
    if name == CONTIGUOUS && args.is_empty() && kwargs.is_empty() {
        return alias_analysis::contiguous(t, tensor);
    }
    let shape;
    let (name, args, kwargs) = match alias_analysis::asks_for_shape(name) {
        true => {
            shape = [alias_analysis::asked_shape(
                t,
                tensor,
                (name, args, kwargs),
            )?];
            (VIEW, &shape[..], &[][..])
        }
        false => (name, args, kwargs),
    };
    if VALUE_READERS.contains(&name) {
        return t.stop(
            BreakKind::TensorValue,
            format!("Tensor.{name}() needs the value in Python"),
        );
    }
    // Tensors of several processes are not captured at all.
    if name == "is_dist" && args.is_empty() && kwargs.is_empty() {
        let real = t.value(tensor);
        let is_dist = real.map(|real| real.call_method0("is_dist")?.is_truthy());
        if !is_dist.transpose()?.unwrap_or(false) {
            return Ok(t.bool(false));
        }
    }
    if let ("set_value", [value], []) = (name, args, kwargs) {
        if inplace::set_value(t, tensor, *value)? {
            return Ok(t.none());
        }
    }
    if name == "copy_" {
        if let Some(copied) = inplace::copy(t, tensor, args, kwargs)? {
            return Ok(copied);
        }
    }
    if let Some(done) = inplace::defer(t, tensor, name, args, kwargs)? {
        return Ok(done);
    }
    if OBJECT_METHODS.contains(&name) {
        return t.stop(
            BreakId::TensorObject,
            format!("Tensor.{name}() acts on the tensor object"),
        );
    }
    if let ("__setitem__", [key, value], []) = (name, args, kwargs) {
        if inplace::set_item(t, tensor, *key, *value)? {
            return Ok(t.none());
        }
    }
    if is_inplace(name) {
        if let Some(done) = inplace::method(t, tensor, name, args, kwargs)? {
            return Ok(done);
        }
    }
    if is_inplace(name) || name == "__setitem__" {
        let why = format!("Tensor.{name}() changes the tensor in place");
        return alias_analysis::changed(t, tensor, why);
    }
    if let ([value], []) = (args, kwargs) {
        numpy_scalars::refuse(t, meta.dtype, name, *value)?;
        if let Some(other) = numpy_scalars::of_bool(t, (tensor, meta.dtype), name, *value)? {
            return method(t, tensor, name, &[other], &[]);
        }
        if numpy_scalars::subtracts_nothing(t, meta.dtype, name, *value) {
            return method(t, tensor, CLONE, &[], &[]);
        }
        if matches!(t.kind(*value), Kind::Scalar) {
            return match numpy_scalars::operand(t, tensor, name, *value)? {
                Some(number) => method(t, tensor, name, &[number], &[]),
                None => t.stop(
                    BreakId::TensorObject,
                    format!("Tensor.{name}() with a scalar of NumPy"),
                ),
            };
        }
    }
    for arg in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
        if matches!(t.kind(*arg), Kind::Opaque | Kind::Object(_)) {
            return t.stop(
                BreakId::TensorObject,
                format!("Tensor.{name}() with an object as argument"),
            );
        }
    }
    if let Some(tensor) = keeps_shape(t, name, &[&[tensor], args].concat(), kwargs)? {
        return Ok(tensor);
    }
    if let Some(function) = t.py.paddle()?.getattr("Tensor")?.getattr_opt(name)? {
        let given: Vec<VarId> = [&[tensor], args].concat();
        crate::api::check_asked(t, &function, &given, kwargs)?;
    }
    if name == WHERE {
        crate::api::check_condition(t, tensor)?;
    }
    let given = [&[tensor], args].concat();
    crate::differences::check(t, name, &given, kwargs)?;
    let changed = crate::scalar_arguments::of_call(t, name, &given, kwargs)?;
    let (given, kwargs) = match &changed {
        Some((given, kwargs)) => (&given[..], &kwargs[..]),
        None => (&given[..], kwargs),
    };
    if name == WHERE {
        // In a program the method adds zeros to reach one shape.
        if let Some(result) = crate::api::choice(t, given, kwargs)? {
            return Ok(result);
        }
    }
    let args = &given[1..];
    let callee = Callee::Method(Arc::from(name));
    let receiver = Some(Receiver::Tensor(tensor));
    let result = capture(t, callee, receiver, args, kwargs, &mut |_| None)?;
    if matches!(t.kind(result), Kind::Tensor(made) if made.symbol == var.symbol) {
        return Ok(tensor);
    }
    Ok(result)
}

/// `x[key] = value`
pub fn set_item(t: &mut Tracer<'_>, tensor: VarId, key: VarId, value: VarId) -> Step<()> {
    method(t, tensor, "__setitem__", &[key, value], &[]).map(drop)
}
