//! Methods of sets.

use rustc_hash::FxHashSet;

use crate::reason::{BreakId, BreakKind};
use crate::variables::{Key, Kind, VarId};

use crate::simulator::{Step, Tracer};
use crate::simulator::{iterate, keys, sets};

pub(in crate::simulator) fn set(
    t: &mut Tracer<'_>,
    set: VarId,
    name: &str,
    args: &[VarId],
) -> Step<VarId> {
    let Kind::Set(state) = t.kind(set).clone() else {
        return t.stop(BreakId::ContainerMethod, "a set method");
    };
    let arity = match name {
        "add" | "discard" | "remove" | "issubset" | "issuperset" | "intersection" => Some(1),
        "clear" | "copy" => Some(0),
        _ => None,
    };
    if arity.is_some_and(|arity| arity != args.len()) {
        let message = format!("set method {name} with these arguments");
        return t.stop(BreakId::ContainerMethod, message);
    }
    if matches!(name, "issuperset" | "issubset" | "intersection") && is_taken_one_by_one(t, args[0])
    {
        return t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of an iterator, which may not come to its end"),
        );
    }
    if name == "update" && args.iter().any(|arg| is_taken_one_by_one(t, *arg)) {
        return update_one_by_one(t, set, args);
    }
    let mut others = Vec::new();
    // Merging a table keeps its size and order; one by one does not.
    let mut one_by_one = matches!(name, "add" | "update" | "clear");
    for arg in args {
        one_by_one &= name == "add" || !sets::merges(t, *arg);
        if matches!(name, "add" | "discard" | "remove") {
            others.push((keys::key_of(t, *arg)?, *arg));
            continue;
        }
        for item in iterate::collect_for_set(t, *arg)? {
            others.push((keys::key_of(t, item)?, item));
        }
    }
    let mut next = state.clone();
    let known: FxHashSet<Key> = others.iter().map(|(key, _)| key.clone()).collect();
    let has = |key: &Key| known.contains(key);
    match name {
        "add" | "update" | "union" => {
            for (key, item) in others {
                next.items.entry(key).or_insert(item);
            }
        }
        "discard" | "remove" => {
            for (key, _) in others {
                // Its table keeps a mark where an element was, which decides on the order of what is added later.
                if next.items.contains_key(&key) {
                    return t.stop(BreakId::ContainerMethod, format!("set method {name}"));
                }
                if name == "remove" {
                    return t.stop(BreakKind::RaisesException, "KeyError");
                }
            }
        }
        "difference" => next.items.retain(|key, _| !has(key)),
        "intersection" => next.items.retain(|key, _| has(key)),
        "clear" => next.items.clear(),
        "copy" => {}
        "issubset" => {
            let answer = state.items.keys().all(has);
            return Ok(t.bool(answer));
        }
        "issuperset" => {
            let answer = others.iter().all(|(key, _)| state.items.contains_key(key));
            return Ok(t.bool(answer));
        }
        _ => return t.stop(BreakId::ContainerMethod, format!("set method {name}")),
    }
    // The order of a set depends on how it came about: only sets made by adding are followed.
    if !one_by_one && next.items.len() > 1 {
        return t.stop(BreakId::ContainerMethod, format!("set method {name}"));
    }
    if state.frozen && (one_by_one || name == "copy") {
        return t.stop(BreakId::ContainerMethod, "this method of a frozenset");
    }
    if matches!(name, "union" | "difference" | "intersection" | "copy") {
        return Ok(t.add(Kind::Set(next)));
    }
    t.vars.mutate(set, |var| var.kind = Kind::Set(next));
    Ok(t.none())
}

/// Whether a set may be seen between two items of this: other sets and dicts are merged at once.
fn is_taken_one_by_one(t: &mut Tracer<'_>, arg: VarId) -> bool {
    iterate::is_lazy(t, arg) && !sets::merges(t, arg)
}

/// `set.update(*args)` where the set can be seen between two items.
fn update_one_by_one(t: &mut Tracer<'_>, set: VarId, args: &[VarId]) -> Step<VarId> {
    for arg in args {
        if !is_taken_one_by_one(t, *arg) {
            self::set(t, set, "update", &[*arg])?;
            continue;
        }
        iterate::refuse_set(t, *arg)?;
        iterate::for_each(t, *arg, |t, item| {
            let key = keys::key_of(t, item)?;
            t.vars.mutate(set, |var| {
                if let Kind::Set(set) = &mut var.kind {
                    set.items.entry(key).or_insert(item);
                }
            });
            Ok(())
        })?;
    }
    Ok(t.none())
}
