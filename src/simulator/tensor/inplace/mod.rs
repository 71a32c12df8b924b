//! In-place operations on tensors that the frame made itself: the operation without side effect,
//! whose result takes the tensor's place.
//!
//! They are captured only where nobody can tell the difference: nothing shares the tensor's
//! storage, and no earlier operation keeps what it was for its gradient. Eager mode raises in the
//! latter case.

mod checks;
mod computed;
mod existing;
mod forms;
mod gradient_flags;
mod items;
mod operations;
mod through_views;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::frame::{Modules, PADDLE};
use crate::graph::{Callee, DType, SymbolId};
use crate::obj::Obj;
use crate::ops::{ASSIGN, Fact, WHERE, knows};
use crate::variables::{Kind, TensorVar, VarId};

use crate::saved_for_backward::Statements;
use crate::tensors::{self, Receiver};
use crate::{Kwargs, Step, Tracer};
use crate::{alias_analysis, arguments, carried_aliases};
pub use computed::{Change, is_changed, settle, to_compute};
pub use existing::defer;
pub use gradient_flags::set_stop_gradient;
pub use items::set_item;

use checks::{takes_less, takes_numbers};
use forms::{changes_type, draws, goes_back, is_followed, is_form};

/// `tensor.name(*args)` for a name that ends with `_`; `None` when it cannot be captured.
pub fn method(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let form = name.strip_suffix('_').unwrap_or_default();
    if through_views::is_view(t, tensor) {
        return through_views::method(t, tensor, form, args, kwargs);
    }
    if matches!(form, operations::FILL | "zero") {
        return fill(t, tensor, form, args, kwargs);
    }
    if form == WHERE {
        return choose(t, &[&[tensor], args].concat(), kwargs);
    }
    if is_followed(form) {
        return followed(t, tensor, form, args, kwargs);
    }
    if differs(t, tensor, form, args, kwargs) || !is_captured(t, tensor, form)? {
        return Ok(None);
    }
    let callee = Callee::Method(Arc::from(form));
    let receiver = Some(Receiver::Tensor(tensor));
    let result = tensors::capture(t, callee, receiver, args, kwargs, &mut |_| None)?;
    put(t, tensor, form, result)
}

/// `function(tensor, *args)` for a function of Paddle that changes its first argument; `None` when
/// it cannot be captured.
pub fn function(
    t: &mut Tracer<'_>,
    module: &str,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if name == "increment" {
        return increment(t, args, kwargs);
    }
    let form = name.strip_suffix('_').unwrap_or_default();
    let [tensor, ..] = *args else {
        return Ok(None);
    };
    if form == WHERE {
        return choose(t, args, kwargs);
    }
    if is_followed(form) {
        return followed(t, tensor, form, &args[1..], kwargs);
    }
    let rest = &args[1..];
    if differs(t, tensor, form, rest, kwargs) || !is_captured(t, tensor, form)? {
        return Ok(None);
    }
    let home = match module.starts_with("paddle.nn.functional") {
        true => "paddle.nn.functional",
        false => PADDLE,
    };
    let Ok(function) = t.py.module(home)?.getattr(form) else {
        return Ok(None);
    };
    let callee = Callee::Api(Obj::from(function));
    let result = tensors::capture(t, callee, None, args, kwargs, &mut |_| None)?;
    put(t, tensor, form, result)
}

/// An operation that has no form without side effect but ours.
fn followed(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let draws = draws(form);
    let flows = tensors::meta_of(t, tensor).is_none_or(|meta| !meta.stop_gradient);
    if draws && flows || reads_itself(t, tensor, form, args, kwargs) {
        return Ok(None);
    }
    if !is_captured(t, tensor, items::SET)? {
        return Ok(None);
    }
    let name = if draws { &format!("{form}_like") } else { form };
    let function =
        t.py.module("paddle_sot_rs._graph.followed")?
            .getattr(name)?;
    let callee = Callee::Api(Obj::from(function));
    let given = [&[tensor], args].concat();
    let result = tensors::capture(t, callee, None, &given, kwargs, &mut |_| None)?;
    replace(t, tensor, result)
}

/// `paddle.where_(condition, x, y)`: what changes is `x`, where it has the shape of the result.
fn choose(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let ([condition, x, y], []) = (args, kwargs) else {
        return Ok(None);
    };
    let metas = [*condition, *x, *y].map(|id| tensors::meta_of(t, id));
    let [Some(condition_meta), Some(x_meta), Some(y_meta)] = metas else {
        return Ok(None);
    };
    let plain = condition_meta.dtype == DType::Bool
        && x_meta.dtype == y_meta.dtype
        && condition_meta.shape == x_meta.shape
        && y_meta.shape == x_meta.shape;
    let shares = [*condition, *y]
        .into_iter()
        .any(|id| alias_analysis::root(&t.vars, id) == *x);
    if !plain || shares || !is_captured(t, *x, items::SET)? {
        return Ok(None);
    }
    let callee = Callee::Api(Obj::from(t.py.paddle()?.getattr(WHERE)?));
    let result = tensors::capture(t, callee, None, args, kwargs, &mut |_| None)?;
    replace(t, *x, result)
}

/// `tensor.copy_(value, blocking)`: `None` where it is not captured. It answers with another
/// object for the tensor.
pub fn copy(
    t: &mut Tracer<'_>,
    tensor: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let value = match (args, kwargs) {
        ([value], []) => *value,
        ([value, blocking], []) if t.const_value(*blocking).is_some_and(is_bool) => *value,
        _ => return Ok(None),
    };
    match set_value(t, tensor, value)? {
        true => Ok(Some(t.made_natively())),
        false => Ok(None),
    }
}

fn is_bool(value: Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyBool>()
}

/// `paddle.assign(value, tensor)` where nothing takes a gradient; `None` where it is not captured.
pub fn assign(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let (value, tensor) = match (args, kwargs) {
        ([value, tensor], []) => (*value, *tensor),
        ([value], [(name, tensor)]) if &**name == "output" => (*value, *tensor),
        _ => return Ok(None),
    };
    // Eager mode takes them for a result of the value, whose way back raises.
    let flows =
        |t: &mut Tracer<'_>, id| tensors::meta_of(t, id).is_none_or(|meta| !meta.stop_gradient);
    if t.grad.enabled && flows(t, value) {
        return Ok(None);
    }
    if set_value(t, tensor, value)? {
        return Ok(Some(tensor));
    }
    existing::defer(t, tensor, ASSIGN, &[value], &[])
}

/// `tensor.set_value(value)` of one that no gradient flows to: it has the numbers of a tensor like
/// it. Whether it was captured.
pub fn set_value(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<bool> {
    let metas = tensors::meta_of(t, tensor).zip(tensors::meta_of(t, value));
    let alike = metas.is_some_and(|(own, given)| {
        let same = own.shape == given.shape && own.dtype == given.dtype;
        same && own.stop_gradient && !own.shape.contains(&-1)
    });
    if !alike
        || alias_analysis::root(&t.vars, value) == tensor
        || !is_captured(t, tensor, items::SET)?
    {
        return Ok(false);
    }
    let result = operations::copied(t, value)?;
    Ok(replace(t, tensor, result)?.is_some())
}

/// `paddle.increment(tensor, value)`: a whole number is added in place. It has no gradient.
fn increment(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let (tensor, value) = match (args, kwargs) {
        ([tensor], []) => (*tensor, None),
        ([tensor, value], []) => (*tensor, Some(*value)),
        ([tensor], [(name, value)]) if &**name == "value" => (*tensor, Some(*value)),
        _ => return Ok(None),
    };
    t.realize(tensor);
    // Eager mode raises for more than one number.
    let fits = tensors::meta_of(t, tensor).is_some_and(|meta| {
        let counts = matches!(
            meta.dtype,
            DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64
        );
        counts && meta.stop_gradient && meta.shape.iter().all(|dim| *dim == 1)
    });
    if !fits || !is_captured(t, tensor, "add")? {
        return Ok(None);
    }
    let step: f64 = match value {
        None => 1.0,
        Some(value) => match t.const_value(value).map(|value| value.extract()) {
            Some(Ok(step)) => step,
            _ => return Ok(None),
        },
    };
    if step.fract() != 0.0 || step.abs() > f64::from(1 << 24) || step == 0.0 {
        return Ok(None);
    }
    let step = t.int(step as i64);
    let receiver = Some(Receiver::Tensor(tensor));
    let callee = Callee::Method(Arc::from("__add__"));
    let result = tensors::capture(t, callee, receiver, &[step], &[], &mut |_| None)?;
    replace(t, tensor, result)
}

/// Whether the form in place may do something else than the operation with these.
fn differs(t: &mut Tracer<'_>, tensor: VarId, form: &str, args: &[VarId], kwargs: &Kwargs) -> bool {
    reads_itself(t, tensor, form, args, kwargs)
        || keeps_itself(t, tensor, form, args, kwargs)
        || takes_numbers(t, tensor, form, args, kwargs)
        || takes_less(t, tensor, form, args, kwargs)
}

/// Whether an argument is a view of the tensor. The kernel reads numbers there that it has changed
/// before (`y.add_(y[0])`), which no operation without side effect does. With the tensor itself it
/// reads each before it changes it.
fn reads_itself(
    t: &Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let given = arguments::parts_of_call(t, args, kwargs);
    let apart = knows(form, Fact::InPlaceApart);
    given
        .into_iter()
        .any(|arg| (apart || arg != tensor) && alias_analysis::root(&t.vars, arg) == tensor)
}

/// Whether eager mode keeps a copy of the tensor for the gradient, and the tensor itself as another
/// argument: the way back finds it changed.
fn keeps_itself(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let given = arguments::parts_of_call(t, args, kwargs);
    knows(form, Fact::InPlaceCopies)
        && given.contains(&tensor)
        && tensors::meta_of(t, tensor).is_none_or(|meta| !meta.stop_gradient)
}

/// `tensor.fill_(number)` and `tensor.zero_()`. One that gradients flow to stays one: they are
/// zeros in front of it.
fn fill(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let value = match (form, args, kwargs) {
        ("zero", [], []) => t.int(0),
        (operations::FILL, [value], []) => *value,
        _ => return Ok(None),
    };
    let Some(is_cut) = tensors::meta_of(t, tensor).map(|meta| meta.stop_gradient) else {
        return Ok(None);
    };
    let is_number = tensors::meta_of(t, value).is_none() && fits(t, tensor, value);
    if !is_number || !is_captured(t, tensor, items::SET)? {
        return Ok(None);
    }
    let result = match is_cut {
        true => operations::filled(t, tensor, value)?,
        false => operations::filled_with_gradient(t, tensor, value)?,
    };
    replace(t, tensor, result)
}

/// Whether the value needs no conversion.
fn fits(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> bool {
    let Some(meta) = tensors::meta_of(t, tensor) else {
        return false;
    };
    if let Some(value) = tensors::meta_of(t, value) {
        return value.dtype == meta.dtype;
    }
    let number = t.const_value(value);
    number.is_some_and(|number| {
        number.is_exact_instance_of::<PyInt>()
            || number.is_exact_instance_of::<PyBool>()
            || number.is_exact_instance_of::<PyFloat>() && meta.dtype.is_differentiable()
    })
}

fn is_captured(t: &mut Tracer<'_>, tensor: VarId, form: &str) -> Step<bool> {
    let is_item = form == items::SET;
    if !is_item && !is_form(form) {
        return Ok(false);
    }
    let Some(symbol) = own(t, tensor) else {
        return Ok(false);
    };
    let Some(cut) = t.graph.meta(symbol).map(|meta| meta.stop_gradient) else {
        return Ok(false);
    };
    // Nothing goes backward through what is exported.
    if !t.goes_backward() {
        return Ok(true);
    }
    // What was done with it before it was stopped may have kept it.
    if cut && t.raised_at(tensor).is_some() {
        return Ok(false);
    }
    // A view that is kept changes with the tensor, and eager mode sees that.
    let graph = Statements::of_graph(t);
    let kept = |id| matches!(t.vars.kind(id), Kind::Tensor(var) if graph.keep(t, var.symbol));
    if views_of(t, tensor).chain([tensor]).any(kept) {
        return Ok(false);
    }
    if cut {
        return Ok(true);
    }
    // Without gradients, the tensor keeps the history of what it was.
    let differentiable = is_item || goes_back(form);
    Ok(t.grad.enabled && differentiable && Statements::of_graph(t).make_and_forget(t, symbol))
}

/// The symbol of a tensor that is no view and of no subclass.
fn plain(t: &mut Tracer<'_>, tensor: VarId) -> Option<SymbolId> {
    if let Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }) = *t.kind(tensor)
    {
        Some(symbol)
    } else {
        None
    }
}

/// The symbol of a plain tensor that the frame made, and no other value is.
fn own(t: &mut Tracer<'_>, tensor: VarId) -> Option<SymbolId> {
    let symbol = plain(t, tensor)?;
    let free = !is_outside(t, tensor, symbol)
        && !is_shared(t, tensor, symbol)
        && !carried_aliases::is_of_two(t, symbol);
    free.then_some(symbol)
}

/// Whether the tensor exists, or comes from outside.
pub fn is_outside(t: &Tracer<'_>, tensor: VarId, symbol: SymbolId) -> bool {
    let var = t.vars.get(tensor);
    var.source.is_some() || var.value.is_some() || t.graph.is_input(symbol)
}

/// Whether another value is it, as far as anyone knows. Views of it do not count: see
/// [`give_up_views`].
fn is_shared(t: &Tracer<'_>, tensor: VarId, symbol: SymbolId) -> bool {
    (0..t.vars.len()).any(|at| {
        let id = VarId(at as u32);
        id != tensor && t.vars.kind(id).of_graph() == Some(symbol)
    })
}

fn views_of<'a>(t: &'a Tracer<'_>, tensor: VarId) -> impl Iterator<Item = VarId> + 'a {
    (0..t.vars.len())
        .map(|at| VarId(at as u32))
        .filter(move |id| *id != tensor && matches!(t.vars.kind(*id), Kind::Tensor(_)))
        .filter(move |id| alias_analysis::root(&t.vars, *id) == tensor)
}

/// Views of a tensor that changes would change with it, but keep the gradient of what they were.
/// Most are not used any more (`x[0] += 1` makes one); the interpreter makes what is.
fn give_up_views(t: &mut Tracer<'_>, tensor: VarId) {
    let views: Vec<VarId> = views_of(t, tensor).collect();
    give_up(t, views);
}

/// The same of views that are known.
pub fn give_up(t: &mut Tracer<'_>, views: Vec<VarId>) {
    for view in views {
        t.vars.update(view, |var| var.kind = Kind::Opaque);
        t.only_the_interpreter_makes(view);
    }
}

/// `tensor` is what the form made of it from now on. `None` when it cannot be.
fn put(t: &mut Tracer<'_>, tensor: VarId, form: &str, result: VarId) -> Step<Option<VarId>> {
    let mut flows = |id| tensors::meta_of(t, id).is_some_and(|meta| !meta.stop_gradient);
    if flows(tensor) && !flows(result) {
        // In eager mode the tensor keeps the history of what it was.
        return Ok(None);
    }
    match changes_type(form) {
        true => reform(t, tensor, result),
        false => replace(t, tensor, result),
    }
}

/// `tensor` is what `result` is from now on. `None` when that has another shape or dtype.
fn replace(t: &mut Tracer<'_>, tensor: VarId, result: VarId) -> Step<Option<VarId>> {
    let (before, after) = (tensors::meta_of(t, tensor), tensors::meta_of(t, result));
    let same = before
        .zip(after)
        .is_some_and(|(before, after)| before.shape == after.shape && before.dtype == after.dtype);
    match same {
        true => reform(t, tensor, result),
        false => Ok(None),
    }
}

/// `tensor` is what `result` is from now on. `None` when that is another kind of tensor.
fn reform(t: &mut Tracer<'_>, tensor: VarId, result: VarId) -> Step<Option<VarId>> {
    let (before, after) = (tensors::meta_of(t, tensor), tensors::meta_of(t, result));
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(None);
    };
    let Kind::Tensor(made) = t.kind(result).clone() else {
        return Ok(None);
    };
    // Eager mode gives a tensor that gradients begin to flow to a gradient of its own: nothing else
    // is such a tensor.
    let begins = before.stop_gradient && !after.stop_gradient;
    if result == tensor {
        // As it was: a shape that it has already.
        return Ok(Some(tensor));
    }
    // Nobody asks for one of what is exported.
    if begins && !t.options.forward_only {
        if t.flow.is_captured() || t.options.detours.filled.contains(&t.frames.outermost) {
            return Ok(None);
        }
        t.only_the_interpreter_makes(tensor);
        t.grad.fills.insert(t.frames.outermost);
    }
    give_up_views(t, tensor);
    t.vars.mutate(tensor, |var| {
        if let Kind::Tensor(var) = &mut var.kind {
            var.symbol = made.symbol;
        }
    });
    // No second name for it.
    t.vars.update(result, |var| var.kind = Kind::Null);
    Ok(Some(tensor))
}
