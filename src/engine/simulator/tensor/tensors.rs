//! Tensors: calls that are captured, methods and attributes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyType};

use crate::backend::{ComparedDims, ComparedWith};
use crate::frame::Modules;
use crate::graph::{Arg, Callee, DType, Region, Statement, SymbolId, TensorMeta, is_in_place};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::ops::{CLONE, WHERE};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{Kind, NumberVar, TensorVar, VarId, Variable};

use crate::simulator::deferred::unchanged;
use crate::simulator::subclasses::refuse_own;
use crate::simulator::{
    Kwargs, Step, Tracer, alias_analysis, arguments, attributes, carried_aliases, classes, device,
    dynamic_scalar, inplace, item, numpy_scalars, program_numbers, provenance, pylayer, recompute,
};

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

/// Attributes that are known from the metadata.
const PROPERTIES: &[&str] = &["shape", "ndim", "size", "stop_gradient", "dtype", "type"];

/// Attributes that are tensors computed from this one.
const TENSOR_ATTRIBUTES: &[&str] = &["T", "mT", "H", "mH"];

/// Stops when the user listed this callee by name, or the backend refuses it (CDBL).
pub fn refuse_listed(t: &Tracer<'_>, callee: &Callee) -> Step<()> {
    if !t.options.black_names.is_empty() {
        let names = callee.api_names(t.py);
        let listed = |name: &&String| t.options.black_names.contains(*name);
        if let Some(name) = names.iter().find(listed) {
            let why = format!("{name}() is on the black list");
            return t.stop(BreakKind::BlackListed, why);
        }
    }
    match t.backend.refuses(t.py, callee) {
        Some(why) => t.stop(BreakKind::BlackListed, why),
        None => Ok(()),
    }
}

/// What a captured call is made on.
#[derive(Clone, Copy)]
pub enum Receiver {
    /// A method or attribute of a tensor.
    Tensor(VarId),
    /// A layer.
    Layer(SymbolId),
}

/// The metadata of a tensor.
pub fn meta_of(t: &mut Tracer<'_>, tensor: VarId) -> Option<TensorMeta> {
    symbol_and_meta(t, tensor).map(|(_, meta)| meta)
}

/// The symbol of a tensor, too.
pub fn symbol_and_meta(t: &mut Tracer<'_>, tensor: VarId) -> Option<(SymbolId, TensorMeta)> {
    let Kind::Tensor(TensorVar { symbol, .. }) = *t.kind(tensor) else {
        return None;
    };
    Some((symbol, t.graph.meta(symbol)?.clone()))
}

/// A constant that is a dtype of Paddle, or its name.
pub fn named_dtype(t: &mut Tracer<'_>, id: VarId) -> Option<DType> {
    let dtype = t.const_value(id)?;
    let known = dtype.is_exact_instance_of::<PyString>()
        || provenance::name_in_paddle(&dtype.get_type()).is_some_and(|name| name == "DataType");
    if !known {
        return None;
    }
    DType::from_name(&dtype.str().ok()?.to_string())
}

/// The dim of a tensor as a number; -1: it is open.
pub fn dim(t: &mut Tracer<'_>, (symbol, at): (SymbolId, usize), dim: i64) -> VarId {
    match dim {
        -1 => t.add(Kind::Int(NumberVar::Dim(symbol, at))),
        known => t.int(known),
    }
}

/// Sends a call of `paddle_sot_rs._graph.control.name` to the graph.
pub fn control(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let function = t.py.module("paddle_sot_rs._graph.control")?.getattr(name)?;
    let callee = Callee::Api(Obj::from(function));
    capture(t, callee, None, args, &[], &mut |_| None)
}

/// Sends a call to the graph; the answer is its result.
pub fn capture(
    t: &mut Tracer<'_>,
    callee: Callee,
    receiver: Option<Receiver>,
    args: &[VarId],
    kwargs: &Kwargs,
    locate: &mut dyn FnMut(&Obj) -> Option<TrackerRef>,
) -> Step<VarId> {
    refuse_listed(t, &callee)?;
    let symbol = match receiver {
        None => None,
        Some(Receiver::Layer(symbol)) => Some(symbol),
        Some(Receiver::Tensor(tensor)) => {
            if let Kind::Tensor(tensor) = t.kind(tensor) {
                Some(tensor.symbol)
            } else {
                return t.unsupported("a method of tensors on another object");
            }
        }
    };
    let mut given: Vec<Arg> = symbol.into_iter().map(Arg::Symbol).collect();
    for arg in args {
        given.push(arguments::to_arg(t, *arg)?);
    }
    let mut named = Vec::with_capacity(kwargs.len());
    for (name, value) in kwargs {
        named.push((name.clone(), arguments::to_arg(t, *value)?));
    }
    let loc = t.loc();
    t.graph.set_grad_enabled(t.grad_enabled);
    let of_tensor = match receiver {
        Some(Receiver::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    let args: Vec<VarId> = of_tensor.into_iter().chain(args.iter().copied()).collect();
    let named_args = kwargs.iter().map(|(_, value)| *value);
    let all = arguments::parts(t, args.iter().copied().chain(named_args));
    alias_analysis::refuse_kept_gradients(t, &all)?;
    let view = alias_analysis::recipe(t, &callee, (&args, kwargs), (&given, &named))?;
    let output = unchanged::call(t, callee, given, named, loc, locate)?;
    guard_compared(t)?;
    alias_analysis::refuse_updated(t)?;
    let named = kwargs.iter().map(|(_, value)| *value);
    let known = arguments::parts(t, args.into_iter().chain(named));
    let result = arguments::from_arg(t, &output, &known)?;
    if let Some(view) = alias_analysis::unless_copied(t, view)? {
        alias_analysis::mark(t, view, result, &known)?;
    }
    Ok(result)
}

/// A function of Paddle's has compared open dims in Python, which are all -1 there, or an operation does something else where
/// one is 0 or 1: guards keep the answer.
fn guard_compared(t: &mut Tracer<'_>) -> Step<()> {
    for compared in t.graph.take_compared() {
        // Nobody guards what is exported.
        if !t.options.varies.guards_outcomes {
            continue;
        }
        let is_so = match compared {
            ComparedDims::Known {
                left: (symbol, at),
                op,
                right,
                holds,
            } => {
                let left = t.add(Kind::Int(NumberVar::Dim(symbol, at)));
                let right = match right {
                    ComparedWith::Dim(symbol, at) => t.add(Kind::Int(NumberVar::Dim(symbol, at))),
                    ComparedWith::Number(number) => t.int(number),
                };
                dynamic_scalar::compare(t, op, left, right)? == Some(holds)
            }
            ComparedDims::Unknown => false,
        };
        if !is_so {
            return t.unsupported("what is done depends on a dim that differs between calls");
        }
    }
    Ok(())
}

/// The tensor that `reshape` is called with, where that has nothing to do: eager mode answers with
/// the same tensor. The receiver of a method is the first argument.
pub fn keeps_shape(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if name != "reshape" {
        return Ok(None);
    }
    let (mut tensor, mut shape, mut rest, mut has_name) = (None, None, args, false);
    for (name, value) in kwargs {
        let place = match &**name {
            "x" | "input" => &mut tensor,
            "shape" => &mut shape,
            "name" => {
                has_name = true;
                continue;
            }
            _ => return Ok(None),
        };
        if place.replace(*value).is_some() {
            return Ok(None);
        }
    }
    let tensor = match (tensor, rest) {
        (None, [first, others @ ..]) => {
            rest = others;
            *first
        }
        (Some(tensor), []) => tensor,
        _ => return Ok(None),
    };
    let is_list = |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::List(_) | Kind::Tuple(..));
    let shape = match (shape, rest) {
        (Some(shape), []) => shape,
        (None, [shape]) if is_list(t, *shape) => *shape,
        (None, [shape, _name]) if !has_name && is_list(t, *shape) => *shape,
        (None, [_, ..]) => t.add(Kind::Tuple(rest.to_vec(), None)),
        _ => return Ok(None),
    };
    let Some(meta) = meta_of(t, tensor) else {
        return Ok(None);
    };
    Ok(is_shape(t, &meta, shape)?.then_some(tensor))
}

/// Whether these are the dims of a tensor.
fn is_shape(t: &mut Tracer<'_>, meta: &TensorMeta, shape: VarId) -> Step<bool> {
    let (Kind::List(dims) | Kind::Tuple(dims, _)) = t.kind(shape).clone() else {
        return Ok(false);
    };
    if !meta.is_static() || dims.len() != meta.shape.len() {
        return Ok(false);
    }
    for (dim, known) in dims.iter().zip(&meta.shape) {
        if t.const_int(*dim) != Some(*known) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stops where a property of tensors is the user's; guards that it is the one it is.
fn refuse_patched(t: &mut Tracer<'_>, class: &Obj, name: &str) -> Step<()> {
    let class = class.bind(t.py).clone();
    let Ok(class) = class.cast::<PyType>() else {
        return t.unsupported("tensors without a class");
    };
    classes::guard_names(t, class, &[name]);
    let getter = attributes::lookup(class, name).and_then(|found| found.getattr("fget").ok());
    if getter.is_some_and(|getter| !provenance::is_of_paddle(&getter)) {
        return t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor is not Paddle's"),
        );
    }
    Ok(())
}

/// Whether it is a parameter, and of no class of the user's.
fn is_parameter(t: &mut Tracer<'_>, tensor: VarId) -> bool {
    let class = t.type_of(tensor);
    class.is_some_and(|class| class.is(t.paddle.parameter.bind(t.py)))
}

/// Whether a tensor has no attribute of this name, guarded.
pub fn lacks(t: &mut Tracer<'_>, tensor: VarId, name: &str) -> Step<bool> {
    let Some(class) = t.type_of(tensor) else {
        return Ok(false);
    };
    if attributes::lookup(&class, name).is_some() {
        return Ok(false);
    }
    if let (Some(value), Some(source)) = (t.value(tensor), t.source(tensor)) {
        if value.getattr("__dict__")?.contains(name)? {
            return Ok(false);
        }
        let dict = Arc::new(Tracker::InstanceDict(source));
        let tracker = Tracker::DictItem(dict, DictKey::Str(Arc::from(name)));
        t.guards.add(&Arc::new(tracker), GuardKind::Absent);
    }
    classes::guard_names(t, &class, &[name, "__getattr__", "__getattribute__"]);
    Ok(true)
}

/// Whether a tensor that has gradients may have none on some way through captured control flow.
pub fn may_stop(t: &Tracer<'_>, tensor: VarId) -> bool {
    let given = if let Kind::Tensor(TensorVar { symbol, .. }) = *t.vars.kind(tensor) {
        t.graph.is_input(symbol)
    } else {
        false
    };
    let decides = |statement: &Statement| match &statement.callee {
        Callee::Sir(region) => matches!(**region, Region::If { .. } | Region::While { .. }),
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => false,
    };
    !given && (t.regions > 0 || t.graph.sir.statements.iter().any(decides))
}

/// `x.name` for a tensor.
pub fn attribute(t: &mut Tracer<'_>, tensor: VarId, name: &str) -> Step<VarId> {
    let Kind::Tensor(var) = t.kind(tensor).clone() else {
        return t.unsupported("a method of tensors on another object");
    };
    let Some(meta) = t.graph.meta(var.symbol).cloned() else {
        return t.unsupported("a tensor without metadata");
    };
    if PROPERTIES.contains(&name) || TENSOR_ATTRIBUTES.contains(&name) {
        refuse_patched(t, &t.paddle.tensor, name)?;
    }
    match name {
        "trainable" if is_parameter(t, tensor) => {
            refuse_patched(t, &t.paddle.parameter, name)?;
            attribute(t, tensor, "stop_gradient")?;
            return Ok(t.bool(!meta.stop_gradient));
        }
        "shape" if meta.is_static() => {
            let dims = meta.shape.iter().map(|dim| t.int(*dim)).collect();
            return t.size(dims);
        }
        "shape" => {
            let dims = meta.shape.iter().enumerate();
            let dims = dims
                .map(|(at, dim)| self::dim(t, (var.symbol, at), *dim))
                .collect();
            return t.size(dims);
        }
        "ndim" => return Ok(t.int(meta.shape.len() as i64)),
        "size" if meta.is_static() => {
            let class =
                t.py.module("paddle.base.dygraph.math_op_patch")?
                    .getattr("TensorSize")?;
            let size = Obj::from(class.call1((meta.shape.to_vec(),))?);
            return Ok(t.vars.add(Variable {
                value: Some(size),
                ..Variable::new(Kind::Const)
            }));
        }
        "size" if program_numbers::computes_dims(t) => {
            let dims = meta.shape.iter().enumerate();
            let dims: Vec<VarId> = dims
                .map(|(at, dim)| self::dim(t, (var.symbol, at), *dim))
                .collect();
            return program_numbers::product(t, &dims);
        }
        "stop_gradient" => {
            recompute::check_reads(t)?;
            pylayer::check_reads(t, Some(var.symbol))?;
            let is_kept = alias_analysis::keeps_gradient(t, tensor);
            if is_kept || !meta.stop_gradient && may_stop(t, tensor) {
                return t
                    .unsupported("whether gradients stop, which captured control flow decides");
            }
            return Ok(t.bool(meta.stop_gradient));
        }
        "dtype" => {
            let dtype = t.paddle.module.bind(t.py).getattr(meta.dtype.as_str())?;
            return Ok(t.constant(&dtype));
        }
        "type" => {
            let core = t.py.module("paddle.base.core")?;
            let kinds = core.getattr("VarDesc")?.getattr("VarType")?;
            return Ok(t.constant(&kinds.getattr("DENSE_TENSOR")?));
        }
        "place" => {
            if let Some(place) = device::of_tensors(t)? {
                return Ok(place);
            }
        }
        "__class__" => {
            if carried_aliases::other_class(t, tensor).is_some() {
                return t.unsupported(carried_aliases::CLASS);
            }
            if let Some(class) = t.type_of(tensor) {
                return Ok(t.constant(class.as_any()));
            }
        }
        _ if TENSOR_ATTRIBUTES.contains(&name) => {
            return capture(
                t,
                Callee::Attribute(Arc::from(name)),
                Some(Receiver::Tensor(tensor)),
                &[],
                &[],
                &mut |_| None,
            );
        }
        _ => {}
    }
    let class = t.paddle.tensor.bind(t.py).clone();
    if var
        .class
        .as_ref()
        .is_some_and(|class| !class.is(&t.paddle.parameter))
    {
        return t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor subclass"),
        );
    }
    match class.getattr(name) {
        Ok(found) if found.is_callable() => {
            if is_users(t, name) {
                let function = t.constant(&found);
                return Ok(t.add(Kind::Method {
                    receiver: tensor,
                    function,
                }));
            }
            Ok(t.add(Kind::BoundBuiltin {
                receiver: tensor,
                name: Arc::from(name),
            }))
        }
        _ => t.stop(
            BreakId::TensorObject,
            format!("attribute {name} of a tensor"),
        ),
    }
}

/// Whether a method of tensors is the user's; the class is guarded to have the method it has now.
pub(in crate::simulator) fn is_users(t: &mut Tracer<'_>, name: &str) -> bool {
    let class = t.paddle.tensor.clone();
    let found = match class.bind(t.py).cast::<PyType>() {
        Ok(class) => attributes::lookup(class, name),
        Err(_) => None,
    };
    attributes::guard_type_attr(t, &class, name, found.as_ref());
    let Some(found) = found else {
        return false;
    };
    if found.is_exact_instance_of::<PyFunction>() {
        return !provenance::is_of_paddle(&found);
    }
    let module = found.getattr("__module__").and_then(|of| of.extract());
    module.is_ok_and(|of: String| !provenance::is_name_of_paddle(&of) && of != "builtins")
}

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
        crate::simulator::operators::check_number(t, name, tensor, *number)?;
    }
    match (name, args) {
        ("dim" | "ndimension", []) => return Ok(t.int(meta.shape.len() as i64)),
        ("__len__", []) => {
            let len = crate::simulator::truth::len(t, tensor)?;
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
    if name == "contiguous" && args.is_empty() && kwargs.is_empty() {
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
            (alias_analysis::VIEW, &shape[..], &[][..])
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
    if let Some(function) =
        t.py.module("paddle")?
            .getattr("Tensor")?
            .getattr_opt(name)?
    {
        let given: Vec<VarId> = [&[tensor], args].concat();
        crate::simulator::api::check_asked(t, &function, &given, kwargs)?;
    }
    if name == WHERE {
        crate::simulator::api::check_condition(t, tensor)?;
    }
    let given = [&[tensor], args].concat();
    crate::simulator::differences::check(t, name, &given, kwargs)?;
    let changed = crate::simulator::scalar_arguments::of_call(t, name, &given, kwargs)?;
    let (given, kwargs) = match &changed {
        Some((given, kwargs)) => (&given[..], &kwargs[..]),
        None => (&given[..], kwargs),
    };
    if name == WHERE {
        // In a program the method adds zeros to reach one shape.
        if let Some(result) = crate::simulator::api::choice(t, given, kwargs)? {
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
