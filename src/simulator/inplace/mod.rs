//! In-place operations on tensors that the frame made itself: the operation without side effect, whose result
//! takes the tensor's place.
//!
//! They are captured only where nobody can tell the difference: nothing shares the tensor's storage, and no
//! earlier operation keeps what it was for its gradient. Eager mode raises in the latter case.

mod forms;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::bytecode::CmpOp;
use crate::frame::Modules;
use crate::graph::{Callee, DType, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::variables::{Kind, NumberVar, TensorVar, VarId};

use super::kept::Statements;
use super::tensors::{self, Receiver};
use super::{aliases, arguments, graph_numbers, number_arguments, numbers, views};
use super::{Kwargs, Step, Tracer};
use forms::{APART, DIFFERENTIABLE, FORMS};

/// `tensor.name(*args)` for a name that ends with `_`; `None` when it cannot be captured.
pub fn method(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let form = name.strip_suffix('_').unwrap_or_default();
    if matches!(form, "fill" | "zero") {
        return fill(t, tensor, form, args, kwargs);
    }
    if reads_itself(t, tensor, form, args, kwargs) || !is_captured(t, tensor, form)? {
        return Ok(None);
    }
    let callee = Callee::Method(Arc::from(form));
    let receiver = Some(Receiver::Tensor(tensor));
    let result = tensors::capture(t, callee, receiver, args, kwargs, &mut |_| None)?;
    replace(t, tensor, result)
}

/// `function(tensor, *args)` for a function of Paddle that changes its first argument; `None` when it cannot be captured.
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
    if reads_itself(t, tensor, form, &args[1..], kwargs) || !is_captured(t, tensor, form)? {
        return Ok(None);
    }
    let home = match module.starts_with("paddle.nn.functional") {
        true => "paddle.nn.functional",
        false => "paddle",
    };
    let Ok(function) = t.py.module(home)?.getattr(form) else {
        return Ok(None);
    };
    let callee = Callee::Api(Obj::from(function));
    let result = tensors::capture(t, callee, None, args, kwargs, &mut |_| None)?;
    replace(t, tensor, result)
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
    let fits = tensors::meta_of(t, tensor)
        .is_some_and(|meta| meta.stop_gradient && meta.shape.iter().all(|dim| *dim == 1));
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

/// `tensor[key] = value`; whether it was captured.
pub fn set_item(t: &mut Tracer<'_>, tensor: VarId, key: VarId, value: VarId) -> Step<bool> {
    let basic = is_basic(t, key);
    if basic && !is_in_range(t, tensor, key)? {
        return Ok(false);
    }
    if !basic && !is_advanced(t, tensor, key, value)? || !is_captured(t, tensor, "set_item")? {
        return Ok(false);
    }
    let value = match number_arguments::of_item(t, tensor, value)? {
        Some(number) => number,
        None if fits(t, tensor, value) => value,
        None => return Ok(false),
    };
    // Eager mode lets gradients flow to the tensor even without gradients: it becomes a leaf.
    if !t.grad_enabled && tensors::meta_of(t, value).is_some_and(|meta| !meta.stop_gradient) {
        return Ok(false);
    }
    if t.entry_grad && views::root(&t.vars, value) == tensor {
        let mut flows = |id| tensors::meta_of(t, id).is_some_and(|meta| !meta.stop_gradient);
        // Eager mode keeps the value for the gradient, sees that it changes with the tensor, and refuses.
        if flows(tensor) || flows(value) {
            return Ok(false);
        }
    }
    let operation = if basic { "set_item" } else { "put_items" };
    let result = tensors::control(t, operation, &[tensor, key, value])?;
    Ok(replace(t, tensor, result)?.is_some())
}

/// Whether an argument is a view of the tensor. The kernel reads numbers there that it has changed before
/// (`y.add_(y[0])`), which no operation without side effect does. With the tensor itself it reads each before it changes it.
fn reads_itself(
    t: &Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let named = kwargs.iter().map(|(_, value)| *value);
    let given = arguments::parts(t, args.iter().copied().chain(named));
    let apart = APART.contains(&form);
    given
        .into_iter()
        .any(|arg| (apart || arg != tensor) && views::root(&t.vars, arg) == tensor)
}

/// `tensor.fill_(number)` and `tensor.zero_()` of one that no gradient flows to: in eager mode it
/// would stay one that they flow to.
fn fill(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let value = match (form, args, kwargs) {
        ("zero", [], []) => t.int(0),
        ("fill", [value], []) => *value,
        _ => return Ok(None),
    };
    let is_cut = tensors::meta_of(t, tensor).is_some_and(|meta| meta.stop_gradient);
    if !is_cut || tensors::meta_of(t, value).is_some() || !fits(t, tensor, value) {
        return Ok(None);
    }
    if !is_captured(t, tensor, "set_item")? {
        return Ok(None);
    }
    let callee = Callee::Api(Obj::from(t.py.module("paddle")?.getattr("full_like")?));
    let result = tensors::capture(t, callee, None, &[tensor, value], &[], &mut |_| None)?;
    replace(t, tensor, result)
}

/// Whole numbers, slices of them, `...` and `None`: other keys have rules of their own.
fn is_basic(t: &mut Tracer<'_>, key: VarId) -> bool {
    match t.kind(key).clone() {
        Kind::Tuple(items, None) => items
            .into_iter()
            .all(|item| !matches!(t.kind(item), Kind::Tuple(..)) && is_basic(t, item)),
        Kind::Slice(parts) => parts
            .into_iter()
            .all(|part| t.is_none(part) || is_whole(t, part)),
        Kind::Const => {
            is_whole(t, key)
                || t.value(key)
                    .is_some_and(|value| value.is_none() || value.is(t.py.Ellipsis()))
        }
        _ => false,
    }
}

/// Whether each whole number of such a key is a place along its dim, guarded where that is open: eager mode raises for
/// another one, a program looks at some of them only.
fn is_in_range(t: &mut Tracer<'_>, tensor: VarId, key: VarId) -> Step<bool> {
    let Some((symbol, meta)) = tensors::symbol_and_meta(t, tensor) else {
        return Ok(false);
    };
    let items = match t.kind(key).clone() {
        Kind::Tuple(items, None) => items,
        _ => vec![key],
    };
    let rank = meta.shape.len();
    let mut takes = |id: &VarId| matches!(t.kind(*id), Kind::Slice(_)) || is_whole(t, *id);
    let Some(left_out) = rank.checked_sub(items.iter().filter(|id| takes(id)).count()) else {
        return Ok(false);
    };
    let mut axis = 0;
    for item in items {
        if let Some(at) = t.const_int(item) {
            if !is_place(t, (symbol, axis), meta.shape[axis], at)? {
                return Ok(false);
            }
        } else if !matches!(t.kind(item), Kind::Slice(_)) {
            // The ellipsis, or a new axis.
            axis += if t.is_none(item) { 0 } else { left_out };
            continue;
        }
        axis += 1;
    }
    Ok(true)
}

/// Whether there is such a place along a dim.
fn is_place(t: &mut Tracer<'_>, dim: (SymbolId, usize), known: i64, at: i64) -> Step<bool> {
    let least = match at {
        0.. => at.saturating_add(1),
        _ => at.saturating_neg(),
    };
    // Nobody guards what is exported.
    if known >= 0 || !t.options.guards_outcomes {
        return Ok(known < 0 || known >= least);
    }
    let open = NumberVar::Dim(dim.0, dim.1);
    let (dim, least) = (t.add(Kind::Int(open)), t.int(least));
    if let Some(holds) = numbers::compare(t, CmpOp::Ge, dim, least)? {
        return Ok(holds);
    }
    // A dim that differs from round to round: the graph fails where there is no such place.
    if t.regions == 0 {
        return Ok(false);
    }
    let now = arguments::number_statement(t, open)?;
    let least = arguments::to_arg(t, least)?;
    let fits = graph_numbers::method(t, "__ge__", now, vec![least])?;
    let fits = t.add(Kind::SymNumber(fits));
    graph_numbers::statement(t, "check", &[fits])?;
    Ok(true)
}

/// A mask for the first dims, or tensors of whole numbers for them, and one number or exactly what they select for a value.
/// Keys of no dims are numbers, in eager mode.
fn is_advanced(t: &mut Tracer<'_>, tensor: VarId, key: VarId, value: VarId) -> Step<bool> {
    let Some((of, shape)) = tensors::symbol_and_meta(t, tensor).map(|(of, meta)| (of, meta.shape))
    else {
        return Ok(false);
    };
    let keys = match t.kind(key).clone() {
        Kind::Tuple(keys, None) => keys,
        _ => vec![key],
    };
    let shares = |id: &VarId| views::root(&t.vars, *id) == tensor;
    let (key_shares, value_shares) = (keys.iter().any(shares), shares(&value));
    let keys: Option<Vec<(SymbolId, TensorMeta)>> = keys
        .into_iter()
        .map(|key| tensors::symbol_and_meta(t, key).filter(|(_, meta)| !meta.shape.is_empty()))
        .collect();
    let value = tensors::meta_of(t, value);
    // Eager mode computes a gradient of its own for it, which depends on memory that nobody has written.
    if t.entry_grad && value.as_ref().is_some_and(|value| !value.stop_gradient) {
        return Ok(false);
    }
    let is_number = value
        .as_ref()
        .is_none_or(|value| value.shape.iter().all(|dim| *dim == 1));
    match keys.as_deref() {
        Some([(mask, meta)]) if meta.dtype == DType::Bool => {
            if !is_number || meta.shape.len() > shape.len() {
                return Ok(false);
            }
            // A program would take one row for all.
            for at in 0..meta.shape.len() {
                if !is_same_dim(t, (*mask, meta.shape[at]), (of, shape[at]), at)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some([(_, first), rest @ ..]) => {
            let whole = |key: &TensorMeta| matches!(key.dtype, DType::Int32 | DType::Int64);
            let keys = || [first].into_iter().chain(rest.iter().map(|(_, key)| key));
            let alike = keys().all(|key| key.shape == first.shape);
            let selected = first.shape.iter().chain(shape.iter().skip(rest.len() + 1));
            // Where nothing is selected, eager mode raises for a number.
            let fits = match is_number {
                true => first.shape.iter().all(|dim| *dim > 0),
                false => value.is_some_and(|value| value.shape.iter().eq(selected)),
            };
            // Eager mode's kernel goes from one place to the next, and reads what it has written to those before.
            let apart = !key_shares && (is_number || !value_shares);
            Ok(keys().all(whole) && alike && fits && apart && rest.len() < shape.len())
        }
        _ => Ok(false),
    }
}

/// Whether two tensors have the same dim at a place, where those are open too.
fn is_same_dim(
    t: &mut Tracer<'_>,
    a: (SymbolId, i64),
    b: (SymbolId, i64),
    at: usize,
) -> Step<bool> {
    if a.1 >= 0 && b.1 >= 0 {
        return Ok(a.1 == b.1);
    }
    let mut dim = |symbol| t.add(Kind::Int(NumberVar::Dim(symbol, at)));
    let (a, b) = (dim(a.0), dim(b.0));
    Ok(numbers::compare(t, CmpOp::Eq, a, b)? == Some(true))
}

fn is_whole(t: &mut Tracer<'_>, id: VarId) -> bool {
    t.const_value(id)
        .is_some_and(|value| value.is_exact_instance_of::<PyInt>())
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

/// `tensor.stop_gradient = True` for a tensor that the frame made: what is done with it from now on has no gradient.
/// Whether it was captured.
pub fn stop_gradient(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    if !t.grad_enabled || own(t, tensor).is_none() || views_of(t, tensor).next().is_some() {
        return Ok(false);
    }
    let callee = Callee::Method(Arc::from("detach"));
    let receiver = Some(Receiver::Tensor(tensor));
    let result = tensors::capture(t, callee, receiver, &[], &[], &mut |_| None)?;
    let replaced = replace(t, tensor, result)?.is_some();
    if replaced {
        // It is no leaf, whatever `stop_gradient` says: nothing else is such a tensor.
        t.only_the_interpreter_makes(tensor);
    }
    Ok(replaced)
}

fn is_captured(t: &mut Tracer<'_>, tensor: VarId, form: &str) -> Step<bool> {
    let at = FORMS.iter().position(|known| *known == form);
    if at.is_none() && form != "set_item" && !APART.contains(&form) {
        return Ok(false);
    }
    let Some(symbol) = own(t, tensor) else {
        return Ok(false);
    };
    let Some(cut) = t.graph.meta(symbol).map(|meta| meta.stop_gradient) else {
        return Ok(false);
    };
    if !t.entry_grad {
        return Ok(true);
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
    let differentiable = form == "set_item" || at.is_some_and(|at| at < DIFFERENTIABLE);
    Ok(t.grad_enabled && differentiable && Statements::of_graph(t).make_and_forget(t, symbol))
}

/// The symbol of a plain tensor that the frame made, and no other value is.
fn own(t: &mut Tracer<'_>, tensor: VarId) -> Option<SymbolId> {
    let Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }) = *t.kind(tensor)
    else {
        return None;
    };
    let free = !is_outside(t, tensor, symbol)
        && !is_shared(t, tensor, symbol)
        && !aliases::is_of_two(t, symbol);
    free.then_some(symbol)
}

/// Whether the tensor exists, or comes from outside.
pub fn is_outside(t: &Tracer<'_>, tensor: VarId, symbol: SymbolId) -> bool {
    let var = t.vars.get(tensor);
    var.source.is_some()
        || var.value.is_some()
        || t.graph.inputs.iter().any(|input| input.symbol == symbol)
}

/// Whether another value is it, as far as anyone knows. Views of it do not count: see [`give_up_views`].
fn is_shared(t: &Tracer<'_>, tensor: VarId, symbol: SymbolId) -> bool {
    (0..t.vars.len()).any(|at| {
        let id = VarId(at as u32);
        match t.vars.kind(id) {
            Kind::Tensor(other) => id != tensor && other.symbol == symbol,
            Kind::SymNumber(other) => *other == symbol,
            _ => false,
        }
    })
}

fn views_of<'a>(t: &'a Tracer<'_>, tensor: VarId) -> impl Iterator<Item = VarId> + 'a {
    (0..t.vars.len())
        .map(|at| VarId(at as u32))
        .filter(move |id| *id != tensor && matches!(t.vars.kind(*id), Kind::Tensor(_)))
        .filter(move |id| views::root(&t.vars, *id) == tensor)
}

/// Views of a tensor that changes would change with it, but keep the gradient of what they were. Most are not used any
/// more (`x[0] += 1` makes one); one that is takes the change back: the interpreter makes it.
fn give_up_views(t: &mut Tracer<'_>, tensor: VarId) {
    let views: Vec<VarId> = views_of(t, tensor).collect();
    for view in views {
        t.vars.update(view, |var| var.kind = Kind::Opaque);
        t.only_the_interpreter_makes(view);
    }
}

/// `tensor` is what `result` is from now on. `None` when that is another kind of tensor.
fn replace(t: &mut Tracer<'_>, tensor: VarId, result: VarId) -> Step<Option<VarId>> {
    let (before, after) = (tensors::meta_of(t, tensor), tensors::meta_of(t, result));
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(None);
    };
    let Kind::Tensor(made) = t.kind(result).clone() else {
        return Ok(None);
    };
    // Eager mode gives a tensor that gradients begin to flow to a gradient of its own: nothing else is such a tensor.
    let begins = before.stop_gradient && !after.stop_gradient;
    let same = before.shape == after.shape && before.dtype == after.dtype;
    if !same || result == tensor {
        return Ok(None);
    }
    if begins {
        if t.regions > 0 || t.options.filled.contains(&t.outermost) {
            return Ok(None);
        }
        t.only_the_interpreter_makes(tensor);
        t.fills.insert(t.outermost);
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
