//! Subscription.

mod chosen;
pub mod index_range;

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::reason::{BreakId, BreakKind};
use crate::variables::{IterVar, Kind, VarId};

use crate::simulator::call::{call, describe};
use crate::simulator::{
    arrays, attributes, comparisons, exceptions, fold, keys, layers, made_arrays, namespaces,
    tensor_scalar, tensors,
};
use crate::simulator::{Step, Tracer};

/// `container[key]`
pub fn get(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<VarId> {
    match t.kind(container).clone() {
        Kind::Tensor(_) => {
            let key = arrays::index(t, key)?;
            index_range::check(t, container, key)?;
            tensors::method(t, container, "__getitem__", &[key], &[])
        }
        Kind::List(items) | Kind::Tuple(items, _)
            if !matches!(t.kind(key), Kind::Const | Kind::Slice(_))
                && tensor_scalar::is_captured(t, key) =>
        {
            match chosen::get(t, &items, key)? {
                Some(item) => Ok(item),
                None => position(t, items.len(), key).map(|at| items[at]),
            }
        }
        Kind::List(items) => match picked(t, &items, key)? {
            Picked::One(item) => Ok(item),
            Picked::Many(items) => {
                let slice = t.add(Kind::List(items));
                Ok(t.inherit_class(slice, container))
            }
        },
        Kind::Tuple(items, _) => match picked(t, &items, key)? {
            Picked::One(item) => Ok(item),
            // All of an exact tuple is that tuple.
            Picked::Many(part)
                if part == items && matches!(t.kind(container), Kind::Tuple(_, None)) =>
            {
                Ok(container)
            }
            Picked::Many(items) => Ok(t.add(Kind::Tuple(items, None))),
        },
        Kind::Dict(dict) => {
            let simulated = keys::key_of(t, key)?;
            if let Some((_, value)) = dict.items.get(&simulated) {
                return Ok(*value);
            }
            if let Some(factory) = dict.default_factory {
                let value = call(t, factory, &[], &[])?;
                set(t, container, key, value)?;
                return Ok(value);
            }
            let class = t.original("builtins", "KeyError")?;
            Err(crate::simulator::Stop::Raise(exceptions::new(
                t,
                &class,
                vec![key],
            )))
        }
        Kind::Array(_) => made_arrays::get_item(t, container, key),
        Kind::Const | Kind::Range(..) => fold::operator(t, "getitem", &[container, key]),
        Kind::Layers { class, items } => {
            let index = t.const_value(key);
            if index.is_some_and(|index| index.is_instance_of::<PyBool>()) {
                // The layers of a list are under the texts of their numbers.
                return t.stop(BreakId::Subscript, "an index that is a bool");
            }
            match picked(t, &items, key)? {
                Picked::One(item) => Ok(item),
                Picked::Many(items) => Ok(layers::made(t, class, items)),
            }
        }
        Kind::Layer(_) | Kind::Object(_) => {
            if let Some(value) = layers::get_item(t, container, key)? {
                return Ok(value);
            }
            let method = attributes::get_special(t, container, "__getitem__")?;
            call(t, method, &[key], &[])
        }
        kind => {
            if let Some(value) = namespaces::get_item(t, container, key)? {
                return Ok(value);
            }
            let what = describe(t, container, &kind);
            t.stop(BreakId::Subscript, format!("subscription of {what}"))
        }
    }
}

enum Picked {
    One(VarId),
    Many(Vec<VarId>),
}

fn picked(t: &mut Tracer<'_>, items: &[VarId], key: VarId) -> Step<Picked> {
    if let Kind::Slice(_) = t.kind(key) {
        let indices = slice_indices(t, key, items.len())?;
        return Ok(Picked::Many(
            indices.into_iter().map(|index| items[index]).collect(),
        ));
    }
    let index = position(t, items.len(), key)?;
    Ok(Picked::One(items[index]))
}

fn position(t: &mut Tracer<'_>, len: usize, key: VarId) -> Step<usize> {
    let Some(index) = t.const_int(key) else {
        return match t.kind(key) {
            Kind::Tensor(_) => t.stop(BreakId::TensorIndex, "a tensor is used as an index"),
            _ => t.stop(BreakId::Subscript, "an index that is not a constant"),
        };
    };
    let from_start = if index < 0 { index + len as i64 } else { index };
    match usize::try_from(from_start)
        .ok()
        .filter(|index| *index < len)
    {
        Some(index) => Ok(index),
        None => exceptions::throw(t, "IndexError"),
    }
}

fn slice_indices(t: &mut Tracer<'_>, key: VarId, len: usize) -> Step<Vec<usize>> {
    let Some(slice) = fold::to_object(t, key) else {
        return t.stop(BreakId::Subscript, "a slice that is not constant");
    };
    let (start, stop, step): (i64, i64, i64) = slice.call_method1("indices", (len,))?.extract()?;
    let mut indices = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        indices.push(at as usize);
        at += step;
    }
    Ok(indices)
}

/// `container[key] = value`
pub fn set(t: &mut Tracer<'_>, container: VarId, key: VarId, value: VarId) -> Step<()> {
    match t.kind(container).clone() {
        Kind::Tensor(_) => tensors::set_item(t, container, key, value),
        Kind::List(items) => {
            if let Kind::Slice([_, _, step]) = t.kind(key).clone() {
                return set_slice(t, container, &items, key, step, value);
            }
            // What is not set stays the object that it is, in a list that others have.
            let changed = match t.source(container) {
                None => chosen::set(t, &items, key, value)?,
                Some(_) => None,
            };
            if let Some(changed) = changed {
                for item in &items {
                    t.release(container, *item)?;
                }
                t.vars
                    .mutate(container, |var| var.kind = Kind::List(changed));
                return Ok(());
            }
            let index = position(t, items.len(), key)?;
            t.release(container, items[index])?;
            t.vars.mutate(container, |var| {
                if let Kind::List(items) = &mut var.kind {
                    items[index] = value;
                }
            });
            Ok(())
        }
        Kind::Dict(dict) => {
            let simulated = keys::key_of(t, key)?;
            if let Some((_, old)) = dict.items.get(&simulated) {
                t.release(container, *old)?;
            }
            t.vars.mutate(container, |var| {
                if let Kind::Dict(dict) = &mut var.kind {
                    dict.items.entry(simulated).or_insert((key, value)).1 = value;
                }
            });
            Ok(())
        }
        Kind::Array(_) => made_arrays::set_item(t, container, key, value),
        Kind::Layer(_) | Kind::Object(_) => {
            let method = attributes::get_special(t, container, "__setitem__")?;
            call(t, method, &[key, value], &[]).map(drop)
        }
        kind => {
            let what = describe(t, container, &kind);
            t.stop(
                BreakId::ItemAssignment,
                format!("item assignment to {what}"),
            )
        }
    }
}

fn set_slice(
    t: &mut Tracer<'_>,
    list: VarId,
    items: &[VarId],
    key: VarId,
    step: VarId,
    value: VarId,
) -> Step<()> {
    if !t.is_none(step) && t.const_int(step) != Some(1) {
        return t.stop(BreakId::ItemAssignment, "assignment to an extended slice");
    }
    let values = crate::simulator::iterate::collect_fast(t, value)?;
    let Some(slice) = fold::to_object(t, key) else {
        return t.stop(BreakId::Subscript, "a slice that is not constant");
    };
    let (start, stop, _): (usize, usize, i64) =
        slice.call_method1("indices", (items.len(),))?.extract()?;
    // What the values come from may have changed the list meanwhile; its bounds stay those of before.
    let Kind::List(items) = t.kind(list).clone() else {
        return t.stop(BreakId::Subscript, "a list that became something else");
    };
    let start = start.min(items.len());
    let stop = stop.clamp(start, items.len());
    for item in &items[start..stop] {
        t.release(list, *item)?;
    }
    t.vars.mutate(list, |var| {
        if let Kind::List(items) = &mut var.kind {
            items.splice(start..stop, values);
        }
    });
    Ok(())
}

/// An iterator over a dict notices keys that went away, even when others came: the interpreter decides. That of an
/// `OrderedDict` does from the start.
pub fn refuse_iterated(t: &Tracer<'_>, dict: VarId) -> Step<()> {
    let is_ordered = match t.vars.kind(dict) {
        Kind::Dict(dict) => comparisons::is_ordered(t, dict),
        _ => false,
    };
    let iterates = |id: VarId| match t.vars.kind(id) {
        Kind::Iter(IterVar::Dict {
            over, keys, index, ..
        }) => *over == dict && (is_ordered || *index > 0) && *index <= keys.len(),
        _ => false,
    };
    if (0..t.vars.len() as u32).map(VarId).any(iterates) {
        return t.stop(
            BreakId::Subscript,
            "a deletion from a dict that is iterated over",
        );
    }
    Ok(())
}

/// `del container[key]`
pub fn delete(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<()> {
    match t.kind(container).clone() {
        Kind::List(items) => {
            let gone = match t.kind(key) {
                Kind::Slice(_) => slice_indices(t, key, items.len())?,
                _ => vec![position(t, items.len(), key)?],
            };
            for at in &gone {
                t.release(container, items[*at])?;
            }
            let kept = items
                .iter()
                .enumerate()
                .filter(|(at, _)| !gone.contains(at))
                .map(|(_, item)| *item)
                .collect();
            t.vars.mutate(container, |var| var.kind = Kind::List(kept));
            Ok(())
        }
        Kind::Dict(dict) => {
            let simulated = keys::key_of(t, key)?;
            let Some((_, old)) = dict.items.get(&simulated) else {
                return t.stop(BreakKind::RaisesException, "KeyError");
            };
            t.release(container, *old)?;
            refuse_iterated(t, container)?;
            t.vars.mutate(container, |var| {
                if let Kind::Dict(dict) = &mut var.kind {
                    dict.items.shift_remove(&simulated);
                }
            });
            Ok(())
        }
        Kind::Layer(_) | Kind::Object(_) => {
            let method = attributes::get_special(t, container, "__delitem__")?;
            call(t, method, &[key], &[]).map(drop)
        }
        _ => t.stop(BreakId::ItemAssignment, "deletion of an item"),
    }
}
