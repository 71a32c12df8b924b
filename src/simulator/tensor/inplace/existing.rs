//! Changes in place of tensors that exist before the call and that no gradient flows to: averages
//! of weights, queues, running statistics.
//!
//! The generated code makes them behind the graph, on the real tensors, like the calls of a train
//! step (see [`deferred`]): storage, versions and aliases are eager mode's. Where something is
//! computed behind them, the graph computes what they make too: see [`super::computed`]. They
//! cannot raise, so it does not matter in which frame they stand.

use pyo3::prelude::*;

use crate::bytecode::Loc;
use crate::deferred::{self, DeferredCall};
use crate::frame::Modules;
use crate::graph::{DType, SymbolId, TensorMeta};
use crate::ops::{ASSIGN, Fact, InPlaceTakes, facts, said};
use crate::variables::{Kind, TensorVar, VarId};
use crate::{Kwargs, Step, Tracer, alias_analysis, carried_aliases, pylayer, tensors};

use super::computed::{self, Change};
use super::{fits, give_up_views, is_outside, items, operations, views_of};

/// The operation that a method does in place, and what it takes besides the tensor.
fn known(name: &str) -> Option<(&str, InPlaceTakes)> {
    let name = match name == operations::SET_VALUE || name == ASSIGN {
        true => operations::COPIES,
        false => name,
    };
    let form = name.strip_suffix('_')?;
    said!(facts(form), Fact::InPlaceOfExisting(takes) => (form, *takes))
}

/// Defers `tensor.name(*args)`, or `paddle.assign(value, tensor)`; the answer is its result, `None`
/// where it is not deferred.
pub fn defer(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let known = known(name);
    if known.is_none() && name != "__setitem__" || !kwargs.is_empty() || !can_defer(t, tensor) {
        return Ok(None);
    }
    let Some(meta) = tensors::meta_of(t, tensor).filter(is_plain) else {
        return Ok(None);
    };
    let mut given = vec![tensor];
    match (known, args) {
        (Some((_, InPlaceTakes::Alike)), [value]) => match value_for(t, tensor, *value, &meta) {
            Some(value) => given.push(value),
            None => return Ok(None),
        },
        (Some((_, InPlaceTakes::Alike)), [value, blocking]) if name == "copy_" => {
            let is_bool = t.const_value(*blocking).is_some_and(super::is_bool);
            match value_for(t, tensor, *value, &meta) {
                Some(value) if is_bool => given.extend([value, *blocking]),
                _ => return Ok(None),
            }
        }
        (Some((_, InPlaceTakes::Alike)), _) => return Ok(None),
        (Some((_, takes)), numbers) => {
            if !takes_numbers(t, tensor, takes, numbers) {
                return Ok(None);
            }
            given.extend(numbers);
        }
        (None, [key, value]) => {
            let Some(shape) = selected(t, &meta.shape, *key) else {
                return Ok(None);
            };
            let is_tensor = tensors::meta_of(t, *value).is_some();
            let meta = TensorMeta {
                shape: shape.into(),
                ..meta
            };
            let value = match is_tensor {
                true => value_for(t, tensor, *value, &meta),
                false => fits(t, tensor, *value).then_some(*value),
            };
            match value {
                Some(value) => given.extend([*key, value]),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    }
    let form = known.map_or(items::SET, |(form, _)| form);
    let can_be_computed = computed::can_be(form);
    give_up_views(t, tensor);
    let made = match can_be_computed && t.options.detours.computed.contains(&t.frames.outermost) {
        true => computed::compute(t, tensor, form, &given[1..])?,
        false => None,
    };
    if made.is_some() {
        computed::keep_as_they_are(t, &mut given[1..]);
    }
    let mut function = match name == ASSIGN {
        true => {
            given.reverse();
            t.py.paddle()?.getattr(ASSIGN)?
        }
        false => t.paddle.tensor.bind(t.py).getattr(name)?,
    };
    let flows = |id: &VarId| tensors::meta_of(t, *id).is_some_and(|meta| !meta.stop_gradient);
    if given.iter().any(flows) {
        let called = t.constant(&function);
        given.insert(0, called);
        let module = t.py.module("paddle_sot_rs._graph.followed")?;
        function = module.getattr("without_gradients")?;
    }
    let function = t.constant(&function);
    let call = t.add(Kind::Partial {
        function,
        args: given,
        kwargs: Vec::new(),
    });
    t.left_behind.push(call);
    if made.is_none() {
        t.graph.close(deferred::CLOSED);
    }
    let change = Change {
        tensor,
        can_be_computed,
        made,
    };
    t.deferred.push(DeferredCall {
        call,
        through: None,
        more: Vec::new(),
        at: t.frames.outermost,
        // No exception shows it.
        loc: Loc::default(),
        frames: Vec::new(),
        change: Some(change),
        act: deferred::Act::Other,
    });
    Ok(Some(match name {
        "copy_" => t.made_natively(),
        "__setitem__" | operations::SET_VALUE => t.none(),
        _ => tensor,
    }))
}

/// Whether the tensor is one that exists, and nothing of this call has its storage or keeps it.
fn can_defer(t: &mut Tracer<'_>, tensor: VarId) -> bool {
    let Some(symbol) = own_symbol(t, tensor) else {
        return false;
    };
    let views: Vec<VarId> = views_of(t, tensor).collect();
    let is_usual = !t.flow.is_captured()
        && !t.options.forward_only
        && t.grad.is_plain()
        && t.replays.operations.is_empty()
        && !t.graph.sir.has_regions()
        && !t.options.detours.not_deferred.contains(&t.frames.outermost);
    is_usual
        && t.vars.get(tensor).source.is_some()
        && is_outside(t, tensor, symbol)
        && !views.iter().any(|view| is_waited_for(t, *view))
        && !computed::is_kept(t, tensor, &views)
        && !carried_aliases::is_of_two(t, symbol)
        && !pylayer::keeps(t, &[symbol])
}

/// The symbol of a tensor or parameter that is no view and of no class of the user's.
pub(super) fn own_symbol(t: &mut Tracer<'_>, tensor: VarId) -> Option<SymbolId> {
    let Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class,
    }) = t.kind(tensor).clone()
    else {
        return None;
    };
    let is_plain = class.as_ref().is_none_or(|it| it.is(&t.paddle.parameter));
    is_plain.then_some(symbol)
}

/// Whether a call that is deferred takes it.
fn is_waited_for(t: &Tracer<'_>, id: VarId) -> bool {
    t.deferred
        .iter()
        .any(|deferred| {
            !matches!(t.vars.kind(deferred.call), Kind::Partial { args, .. } if !args.contains(&id))
        })
}

/// Whether no gradient flows to it, and its size and dtype are known.
fn is_plain(meta: &TensorMeta) -> bool {
    let known = matches!(
        meta.dtype,
        DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64
    );
    known && meta.stop_gradient && meta.shape.iter().all(|dim| *dim > 0)
}

/// Whether a method takes these numbers, whatever the tensor holds.
fn takes_numbers(
    t: &mut Tracer<'_>,
    tensor: VarId,
    takes: InPlaceTakes,
    numbers: &[VarId],
) -> bool {
    let floats = tensors::meta_of(t, tensor).is_some_and(|meta| meta.dtype.is_differentiable());
    let mut values: Vec<f64> = Vec::new();
    for number in numbers {
        let is_one = tensors::meta_of(t, *number).is_none() && fits(t, tensor, *number);
        let value = t
            .const_value(*number)
            .filter(|value| !super::is_bool(value.clone()));
        match value.and_then(|value| value.extract().ok()) {
            Some(value) if is_one => values.push(value),
            _ => return false,
        }
    }
    match (takes, &values[..]) {
        (InPlaceTakes::Nothing, []) => true,
        (InPlaceTakes::OneNumber, [value]) => floats || value.abs() < f64::from(i32::MAX),
        (InPlaceTakes::NumbersOfFloats, [_] | [_, _]) => floats,
        (InPlaceTakes::BoundsOfFloats, [least, most]) => floats && least <= most,
        (InPlaceTakes::NothingOfFloats, []) => floats,
        _ => false,
    }
}

/// What is written to a tensor of this shape and dtype, without its gradient.
fn value_for(t: &mut Tracer<'_>, tensor: VarId, value: VarId, meta: &TensorMeta) -> Option<VarId> {
    let own = tensors::meta_of(t, value)?;
    let alike = own.shape == meta.shape && own.dtype == meta.dtype;
    let shares = value != tensor && alias_analysis::root(&t.vars, value) == tensor;
    (alike && !shares && (own.stop_gradient || !t.grad.enabled)).then_some(value)
}

/// The shape of `tensor[key]` for whole numbers and slices in range.
fn selected(t: &mut Tracer<'_>, shape: &[i64], key: VarId) -> Option<Vec<i64>> {
    let keys = t
        .kind(key)
        .exact_tuple()
        .map_or_else(|| vec![key], <[VarId]>::to_vec);
    if keys.len() > shape.len() {
        return None;
    }
    let mut found = Vec::new();
    for (key, size) in keys.iter().zip(shape) {
        let Kind::Slice([start, stop, step]) = *t.kind(*key) else {
            let at = place(t, *key)?;
            if at < -size || at >= *size {
                return None;
            }
            continue;
        };
        let step = if t.is_none(step) { 1 } else { place(t, step)? };
        let mut end = |part, default| match t.is_none(part) {
            true => Some(default),
            false => place(t, part),
        };
        let (start, stop) = (end(start, 0)?, end(stop, *size)?);
        if step != 1 || start < 0 || stop > *size || start >= stop {
            return None;
        }
        found.push(stop - start);
    }
    found.extend(&shape[keys.len()..]);
    Some(found)
}

fn place(t: &mut Tracer<'_>, id: VarId) -> Option<i64> {
    items::is_whole(t, id).then(|| t.const_int(id)).flatten()
}
