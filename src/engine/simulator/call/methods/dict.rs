//! Methods of dicts.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::native;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Key, Kind, VarId};

use crate::simulator::{Kwargs, Step, Stop, Tracer};
use crate::simulator::{
    attributes, classes, comparisons, exceptions, iterate, keys, subscript, truth,
};

pub(in crate::simulator) fn dict(
    t: &mut Tracer<'_>,
    dict: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Kind::Dict(state) = t.kind(dict).clone() else {
        return t.stop(BreakId::ContainerMethod, "a dict method");
    };
    match (name, args) {
        ("get", [key]) | ("get", [key, _]) => {
            let simulated = keys::key_of(t, *key)?;
            match (state.items.get(&simulated), args) {
                (Some((_, value)), _) => Ok(*value),
                (None, [_, default]) => Ok(*default),
                (None, _) => Ok(t.none()),
            }
        }
        ("keys", []) => Ok(t.add(Kind::DictView(dict, 0))),
        ("values", []) => Ok(t.add(Kind::DictView(dict, 1))),
        ("items", []) => Ok(t.add(Kind::DictView(dict, 2))),
        ("copy", []) => Ok(t.add(Kind::Dict(state))),
        ("clear", []) => {
            for (_, value) in state.items.values() {
                t.release(dict, *value)?;
            }
            subscript::refuse_iterated(t, dict)?;
            change_dict(t, dict, |items| items.clear());
            Ok(t.none())
        }
        ("pop", [key]) | ("pop", [key, _]) => {
            let simulated = keys::key_of(t, *key)?;
            match (state.items.get(&simulated), args) {
                (Some((_, value)), _) => {
                    t.release(dict, *value)?;
                    subscript::refuse_iterated(t, dict)?;
                    change_dict(t, dict, |items| {
                        items.shift_remove(&simulated);
                    });
                    Ok(*value)
                }
                (None, [_, default]) => Ok(*default),
                (None, _) => {
                    let class = t.original("builtins", "KeyError")?;
                    Err(crate::simulator::Stop::Raise(exceptions::new(
                        t,
                        &class,
                        vec![*key],
                    )))
                }
            }
        }
        ("setdefault", [key]) | ("setdefault", [key, _]) => {
            let simulated = keys::key_of(t, *key)?;
            if let Some((_, value)) = state.items.get(&simulated) {
                return Ok(*value);
            }
            let value = match args {
                [_, value] => *value,
                _ => t.none(),
            };
            subscript::set(t, dict, *key, value)?;
            Ok(value)
        }
        ("update", []) | ("update", [_]) => {
            if let [other] = args {
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
            for (name, value) in kwargs {
                let key = t.str(name);
                subscript::set(t, dict, key, *value)?;
            }
            Ok(t.none())
        }
        ("popitem", []) if t.vars.get(dict).source.is_some() => {
            // It changes how the table is laid out, which no replay through items does.
            t.stop(BreakId::ContainerMethod, "popitem() of a dict that exists")
        }
        ("move_to_end", [key]) | ("move_to_end", [key, _]) => {
            subscript::refuse_iterated(t, dict)?;
            let last = match (args.get(1), kwargs) {
                (Some(last), []) => truth::truth(t, *last)?,
                (None, [(name, last)]) if &**name == "last" => truth::truth(t, *last)?,
                (None, []) => true,
                _ => {
                    return t.stop(
                        BreakId::ContainerMethod,
                        "move_to_end() with these arguments",
                    );
                }
            };
            let simulated = keys::key_of(t, *key)?;
            let Some(at) = state.items.get_index_of(&simulated) else {
                let class = t.original("builtins", "KeyError")?;
                return Err(crate::simulator::Stop::Raise(exceptions::new(
                    t,
                    &class,
                    vec![*key],
                )));
            };
            change_dict(t, dict, |items| {
                let to = if last { items.len() - 1 } else { 0 };
                items.move_index(at, to);
            });
            Ok(t.none())
        }
        ("popitem", [] | [_]) => {
            subscript::refuse_iterated(t, dict)?;
            let last = match (args, kwargs) {
                ([], []) => true,
                ([last], []) => truth::truth(t, *last)?,
                ([], [(name, last)]) if &**name == "last" => truth::truth(t, *last)?,
                _ => return t.stop(BreakId::ContainerMethod, "popitem() with these arguments"),
            };
            let is_asked = !args.is_empty() || !kwargs.is_empty();
            if is_asked && !comparisons::is_ordered(t, &state) {
                return t.stop(BreakKind::RaisesException, "popitem() of a dict takes none");
            }
            let end = if last {
                state.items.len().wrapping_sub(1)
            } else {
                0
            };
            let Some((_, (key, value))) = state.items.get_index(end) else {
                return t.stop(BreakKind::RaisesException, "popitem(): dictionary is empty");
            };
            let pair = vec![*key, *value];
            change_dict(t, dict, |items| {
                items.shift_remove_index(end);
            });
            Ok(t.add(Kind::Tuple(pair, None)))
        }
        _ => t.stop(BreakId::ContainerMethod, format!("dict method {name}")),
    }
}

/// Stops where an object has its own idea of its keys or items, which an `OrderedDict` asks it for. A dict reads what it holds.
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
