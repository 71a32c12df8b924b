//! Methods of dicts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::containers::views::IS_DISJOINT;
use crate::methods::names::{CLEAR, COPY, ITEMS, KEYS, UPDATE, VALUES};
use crate::native;
use crate::reason::{BreakId, BreakKind};
use crate::variables::kinds::DictViewKind;
use crate::variables::{DictVar, Key, Kind, VarId};
use crate::{
    Step, Stop, Tracer, attributes, classes, comparisons, exceptions, iterate, keys, subscript,
    truth,
};

use super::row::{MethodCall, MethodRow};
use super::special::{CONTAINS, GET_ITEM, ITER, LEN, SET_ITEM};

/// Methods of dicts.
pub(crate) const DICT: &[MethodRow] = &[
    MethodRow::new("get", (1, 2), get).reads(),
    MethodRow::new(KEYS, (0, 0), |t, call| {
        Ok(t.add(Kind::DictView(call.receiver, DictViewKind::Keys)))
    })
    .reads(),
    MethodRow::new(VALUES, (0, 0), |t, call| {
        Ok(t.add(Kind::DictView(call.receiver, DictViewKind::Values)))
    })
    .reads(),
    MethodRow::new(ITEMS, (0, 0), |t, call| {
        Ok(t.add(Kind::DictView(call.receiver, DictViewKind::Items)))
    })
    .reads(),
    MethodRow::new("pop", (1, 2), pop).writes(),
    MethodRow::new("setdefault", (1, 2), set_default).writes(),
    MethodRow::new(UPDATE, (0, 1), update).writes().named(),
    MethodRow::new(COPY, (0, 0), |t, call| {
        let copy = state(t, call)?;
        Ok(t.add(Kind::Dict(copy)))
    }),
    MethodRow::new(CLEAR, (0, 0), clear).writes(),
    MethodRow::new("popitem", (0, 1), pop_item).writes().named(),
    LEN,
    GET_ITEM,
    CONTAINS,
    ITER,
    SET_ITEM,
];

/// Methods that only an `OrderedDict` has.
pub(crate) const ORDERED_DICT: &[MethodRow] =
    &[MethodRow::new("move_to_end", (1, 2), move_to_end).named()];

/// Methods of views of dicts.
pub(crate) const VIEW: &[MethodRow] = &[LEN, ITER];

/// Methods that the values have none of.
pub(crate) const VIEW_AS_SET: &[MethodRow] = &[CONTAINS, IS_DISJOINT];

fn state(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<DictVar> {
    if let Kind::Dict(state) = t.kind(call.receiver) {
        Ok(state.clone())
    } else {
        t.stop(BreakId::ContainerMethod, "a dict method")
    }
}

fn key_error(t: &mut Tracer<'_>, key: VarId) -> Step<VarId> {
    let class = t.builtin("KeyError")?;
    Err(Stop::Raise(exceptions::new(t, &class, vec![key])))
}

fn get(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let state = state(t, call)?;
    let key = keys::key_of(t, call.args[0])?;
    match (state.items.get(&key), call.args.get(1)) {
        (Some((_, value)), _) => Ok(*value),
        (None, Some(default)) => Ok(*default),
        (None, None) => Ok(t.none()),
    }
}

fn pop(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (dict, state) = (call.receiver, state(t, call)?);
    let key = keys::key_of(t, call.args[0])?;
    match (state.items.get(&key), call.args.get(1)) {
        (Some((_, value)), _) => {
            t.release(dict, *value)?;
            subscript::refuse_iterated(t, dict)?;
            change_dict(t, dict, |items| {
                items.shift_remove(&key);
            });
            Ok(*value)
        }
        (None, Some(default)) => Ok(*default),
        (None, None) => key_error(t, call.args[0]),
    }
}

fn set_default(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let state = state(t, call)?;
    let key = keys::key_of(t, call.args[0])?;
    if let Some((_, value)) = state.items.get(&key) {
        return Ok(*value);
    }
    let value = call.args.get(1).copied().unwrap_or_else(|| t.none());
    subscript::set(t, call.receiver, call.args[0], value)?;
    Ok(value)
}

fn update(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (dict, state) = (call.receiver, state(t, call)?);
    if let [other] = call.args {
        if state.class.is_some() && state.default_factory.is_none() {
            check_read_as_dict(t, *other)?;
        }
        let other = t.merged(*other).unwrap_or(*other);
        if let Kind::Dict(other) = t.kind(other).clone() {
            for (key, value) in other.items.into_values() {
                subscript::set(t, dict, key, value)?;
            }
        } else if t.kind(other).object().is_some() {
            return t.stop(BreakId::ContainerMethod, "update() from an object");
        } else {
            iterate::for_each(t, other, |t, pair| {
                let pair = iterate::collect_fast(t, pair)?;
                let [key, value] = pair[..] else {
                    return t.stop(BreakId::ContainerMethod, "update() with these items");
                };
                subscript::set(t, dict, key, value)
            })?;
        }
    }
    for (name, value) in call.kwargs {
        let key = t.str(name);
        subscript::set(t, dict, key, *value)?;
    }
    Ok(t.none())
}

fn clear(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let dict = call.receiver;
    for (_, value) in state(t, call)?.items.values() {
        t.release(dict, *value)?;
    }
    subscript::refuse_iterated(t, dict)?;
    change_dict(t, dict, |items| items.clear());
    Ok(t.none())
}

/// Whether the end is the last one, as an argument at this place or the keyword `last` says; `None`
/// for other arguments.
fn takes_last(t: &mut Tracer<'_>, call: MethodCall<'_>, at: usize) -> Step<Option<bool>> {
    Ok(match (call.args.get(at), call.kwargs) {
        (None, []) => Some(true),
        (Some(last), []) => Some(truth::truth(t, *last)?),
        (None, [(name, last)]) if &**name == "last" => Some(truth::truth(t, *last)?),
        _ => None,
    })
}

fn move_to_end(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (dict, state) = (call.receiver, state(t, call)?);
    subscript::refuse_iterated(t, dict)?;
    let Some(last) = takes_last(t, call, 1)? else {
        return t.stop(
            BreakId::ContainerMethod,
            "move_to_end() with these arguments",
        );
    };
    let key = keys::key_of(t, call.args[0])?;
    let Some(at) = state.items.get_index_of(&key) else {
        return key_error(t, call.args[0]);
    };
    change_dict(t, dict, |items| {
        let to = if last { items.len() - 1 } else { 0 };
        items.move_index(at, to);
    });
    Ok(t.none())
}

fn pop_item(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (dict, state) = (call.receiver, state(t, call)?);
    let ordered = comparisons::is_ordered(t, &state);
    let Some(last) = takes_last(t, call, 0)? else {
        return t.stop(BreakId::ContainerMethod, "popitem() with these arguments");
    };
    let is_asked = !call.args.is_empty() || !call.kwargs.is_empty();
    if is_asked && !ordered {
        return t.stop(BreakKind::RaisesException, "popitem() of a dict takes none");
    }
    let end = match last {
        true => state.items.len().wrapping_sub(1),
        false => 0,
    };
    let Some((_, (key, value))) = state.items.get_index(end) else {
        let message = match ordered {
            true => "dictionary is empty",
            false => "popitem(): dictionary is empty",
        };
        let message = t.str(message);
        return key_error(t, message);
    };
    let exists = t.vars.get(dict).source.is_some();
    if exists && !ordered && !has_lost_its_last(t, dict, &state) {
        return t.stop(
            BreakId::ContainerMethod,
            "popitem() of a dict that exists and whose keys were changed",
        );
    }
    t.release(dict, *value)?;
    subscript::refuse_iterated(t, dict)?;
    let pair = vec![*key, *value];
    t.vars.mutate(dict, |var| {
        if let Kind::Dict(dict) = &mut var.kind {
            dict.items.shift_remove_index(end);
            dict.popped += usize::from(exists);
        }
    });
    Ok(t.add(Kind::Tuple(pair, None)))
}

/// Whether a dict that exists has the keys it came with, but for those that `popitem()` took.
fn has_lost_its_last(t: &mut Tracer<'_>, dict: VarId, state: &DictVar) -> bool {
    let real = t
        .value(dict)
        .and_then(|dict| dict.cast_into::<PyDict>().ok());
    let Some(real) = real.filter(|real| real.len() == state.items.len() + state.popped) else {
        return false;
    };
    let same = |(key, (real, _)): (VarId, (Bound<'_, PyAny>, Bound<'_, PyAny>))| {
        t.value(key).is_some_and(|key| key.is(&real))
    };
    state.keys().zip(real.iter()).all(same)
}

/// Stops where an object has its own idea of its keys or items, which an `OrderedDict` asks it for.
/// A dict reads what it holds.
fn check_read_as_dict(t: &mut Tracer<'_>, other: VarId) -> Step<()> {
    t.realize(other);
    if !matches!(t.kind(other), Kind::Object(_)) {
        return Ok(());
    }
    let Some(class) = t.type_of(other) else {
        return t.stop(
            BreakId::ContainerMethod,
            "update() from an object of an unknown class",
        );
    };
    let mut order = native::mro(&class).iter();
    let is_of_c = |base: &Bound<'_, PyType>| {
        !native::is_mutable(base) && attributes::lookup(base, "keys").is_some()
    };
    let base = order.find_map(|base| base.cast_into().ok().filter(is_of_c));
    let own = |name: &str| {
        base.as_ref()
            .and_then(|base| attributes::lookup(base, name))
    };
    let is_own = |found: Option<&Bound<'_, PyAny>>, name: &str| matches!((found, own(name)), (Some(found), Some(own)) if found.is(&own));
    classes::guard_names(t, &class, &["__getitem__"]);
    // An object may have one of its own.
    let keys = match attributes::try_get(t, other, "keys") {
        Err(Stop::Raise(_)) => None,
        keys => match keys?.map(|keys| t.kind(keys).clone()) {
            Some(Kind::Method { receiver, function }) if receiver == other => t.value(function),
            _ => None,
        },
    };
    let getitem = attributes::lookup(&class, "__getitem__");
    match is_own(keys.as_ref(), "keys") && is_own(getitem.as_ref(), "__getitem__") {
        true => Ok(()),
        false => t.stop(
            BreakId::ContainerMethod,
            "an OrderedDict of an object with its own keys() or items",
        ),
    }
}

fn change_dict(
    t: &mut Tracer<'_>,
    dict: VarId,
    change: impl FnOnce(&mut indexmap::IndexMap<Key, (VarId, VarId)>),
) {
    t.vars.mutate(dict, |var| {
        if let Kind::Dict(dict) = &mut var.kind {
            change(&mut dict.items);
        }
    });
}
