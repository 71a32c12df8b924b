//! Subscription.

mod chosen;
pub mod index_range;

use pyo3::prelude::*;

use crate::reason::BreakId;
use crate::variables::{IterVar, Kind, VarId};

use crate::{Step, Tracer};
use crate::{comparisons, exceptions, fold, tensor_scalar};

pub use crate::variables::protocol::{del_item as delete, get_item as get, set_item as set};
pub(crate) use chosen::set as set_chosen;

/// Whether only the program knows this index.
pub(crate) fn is_chosen(t: &mut Tracer<'_>, key: VarId) -> bool {
    !matches!(t.kind(key), Kind::Const | Kind::Slice(_)) && tensor_scalar::is_captured(t, key)
}

/// The item of a list or tuple at an index that only the program knows.
pub(crate) fn get_chosen(t: &mut Tracer<'_>, items: &[VarId], key: VarId) -> Step<VarId> {
    match chosen::get(t, items, key)? {
        Some(item) => Ok(item),
        None => position(t, items.len(), key).map(|at| items[at]),
    }
}

/// What an item of a list or tuple, or a slice of one, is.
pub(crate) enum Picked {
    One(VarId),
    Many(Vec<VarId>),
}

pub(crate) fn picked(t: &mut Tracer<'_>, items: &[VarId], key: VarId) -> Step<Picked> {
    if let Kind::Slice(_) = t.kind(key) {
        let indices = slice_indices(t, key, items.len())?;
        return Ok(Picked::Many(
            indices.into_iter().map(|index| items[index]).collect(),
        ));
    }
    let index = position(t, items.len(), key)?;
    Ok(Picked::One(items[index]))
}

pub(crate) fn position(t: &mut Tracer<'_>, len: usize, key: VarId) -> Step<usize> {
    let Some(index) = t.const_int(key) else {
        return if let Kind::Tensor(_) = t.kind(key) {
            t.stop(BreakId::TensorIndex, "a tensor is used as an index")
        } else {
            t.stop(BreakId::Subscript, "an index that is not a constant")
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

pub(crate) fn slice_indices(t: &mut Tracer<'_>, key: VarId, len: usize) -> Step<Vec<usize>> {
    let Some(slice) = fold::to_object(t, key) else {
        return t.stop(BreakId::Subscript, "a slice that is not constant");
    };
    let bounds = match slice.call_method1("indices", (len,)) {
        Ok(bounds) => bounds,
        Err(err) => return fold::raise_error(t, &err),
    };
    let Ok((start, stop, step)) = bounds.extract::<(i64, i64, i64)>() else {
        return t.stop(
            BreakId::Subscript,
            "a slice with a step of more than 64 bits",
        );
    };
    let mut indices = Vec::new();
    let mut next = Some(start);
    while let Some(at) = next.filter(|at| (step > 0 && *at < stop) || (step < 0 && *at > stop)) {
        indices.push(at as usize);
        next = at.checked_add(step);
    }
    Ok(indices)
}

pub(crate) fn set_slice(
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
    let Some(slice) = fold::to_object(t, key) else {
        return t.stop(BreakId::Subscript, "a slice that is not constant");
    };
    let (start, stop, _): (usize, usize, i64) = match slice.call_method1("indices", (items.len(),))
    {
        Ok(bounds) => bounds.extract()?,
        Err(err) => return fold::raise_error(t, &err),
    };
    // Behind the bounds: where those fail, nothing has been taken of an iterator.
    let values = crate::iterate::collect_fast(t, value)?;
    // What the values come from may have changed the list meanwhile; its bounds stay those of
    // before.
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

/// An iterator over a dict notices keys that went away, even when others came: the interpreter
/// decides. That of an `OrderedDict` does from the start.
pub fn refuse_iterated(t: &Tracer<'_>, dict: VarId) -> Step<()> {
    let is_ordered = if let Kind::Dict(dict) = t.vars.kind(dict) {
        comparisons::is_ordered(t, dict)
    } else {
        false
    };
    let iterates = |id: VarId| {
        if let Kind::Iter(IterVar::Dict {
            over, keys, index, ..
        }) = t.vars.kind(id)
        {
            *over == dict && (is_ordered || *index > 0) && *index <= keys.len()
        } else {
            false
        }
    };
    if (0..t.vars.len() as u32).map(VarId).any(iterates) {
        return t.stop(
            BreakId::Subscript,
            "a deletion from a dict that is iterated over",
        );
    }
    Ok(())
}
