//! Methods of sets.
//!
//! The order of a set depends on how it came about: only sets made by adding are followed.

use rustc_hash::FxHashSet;

use crate::bytecode::BinOp;
use crate::containers::views::IS_DISJOINT;
use crate::methods::names::{CLEAR, COPY, UPDATE};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Key, Kind, SetVar, VarId};
use crate::{Step, Tracer, iterate, keys, operators, sets};

use super::row::{MANY, MethodCall, MethodRow};
use super::special::{CONTAINS, ITER, LEN};

/// Methods of sets and of frozen ones.
pub(crate) const SET: &[MethodRow] = &[
    MethodRow::new(COPY, (0, 0), copy),
    MethodRow::new("union", (0, MANY), |t, call| {
        let (state, others) = (state(t, call)?, elements(t, call)?);
        let mut next = state;
        for (key, item) in others {
            next.items.entry(key).or_insert(item);
        }
        made(t, next, "union")
    }),
    MethodRow::new("intersection", (1, 1), |t, call| {
        refuse_lazy(t, call, "intersection")?;
        retained(t, call, "intersection", true)
    }),
    MethodRow::new("difference", (0, MANY), |t, call| {
        retained(t, call, "difference", false)
    }),
    MethodRow::new("issubset", (1, 1), |t, call| {
        refuse_lazy(t, call, "issubset")?;
        let (state, others) = (state(t, call)?, known(elements(t, call)?));
        let answer = state.items.keys().all(|key| others.contains(key));
        Ok(t.bool(answer))
    }),
    MethodRow::new("issuperset", (1, 1), |t, call| {
        refuse_lazy(t, call, "issuperset")?;
        let (state, others) = (state(t, call)?, elements(t, call)?);
        let answer = others.iter().all(|(key, _)| state.items.contains_key(key));
        Ok(t.bool(answer))
    }),
    IS_DISJOINT,
    LEN,
    CONTAINS,
    ITER,
];

/// Methods that change a set: a frozen one has none of them.
pub(crate) const SET_CHANGES: &[MethodRow] = &[
    MethodRow::new("add", (1, 1), add).changes(),
    MethodRow::new(UPDATE, (0, MANY), update).changes(),
    MethodRow::new("discard", (1, 1), |t, call| {
        refuse_known(t, call, "discard")?;
        t.vars.mutate(call.receiver, |_| ());
        Ok(t.none())
    })
    .changes(),
    MethodRow::new("remove", (1, 1), |t, call| {
        refuse_known(t, call, "remove")?;
        t.stop(BreakKind::RaisesException, "KeyError")
    })
    .changes(),
    MethodRow::new(CLEAR, (0, 0), |t, call| {
        let next = SetVar::default();
        t.vars
            .mutate(call.receiver, |var| var.kind = Kind::Set(next));
        Ok(t.none())
    })
    .changes(),
];

fn refuse<T>(t: &Tracer<'_>, name: &str) -> Step<T> {
    t.stop(BreakId::ContainerMethod, format!("set method {name}"))
}

fn state(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<SetVar> {
    if let Kind::Set(state) = t.kind(call.receiver) {
        Ok(state.clone())
    } else {
        t.stop(BreakId::ContainerMethod, "a set method")
    }
}

/// A set that is changed. What made it decides on the order of what is added later.
fn changed(t: &mut Tracer<'_>, call: MethodCall<'_>, name: &str) -> Step<SetVar> {
    let state = state(t, call)?;
    match state.made_by {
        Some(_) => refuse(t, name),
        None => Ok(state),
    }
}

/// What the arguments hold.
fn elements(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<Vec<(Key, VarId)>> {
    let mut others = Vec::new();
    for arg in call.args {
        for item in iterate::collect_for_set(t, *arg)? {
            others.push((keys::key_of(t, item)?, item));
        }
    }
    Ok(others)
}

fn known(elements: Vec<(Key, VarId)>) -> FxHashSet<Key> {
    elements.into_iter().map(|(key, _)| key).collect()
}

/// A new set, whose order is known where it has one element at most.
fn made(t: &mut Tracer<'_>, set: SetVar, name: &str) -> Step<VarId> {
    if set.items.len() > 1 {
        return refuse(t, name);
    }
    Ok(t.add(Kind::Set(SetVar {
        made_by: None,
        ..set
    })))
}

fn copy(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let copy = state(t, call)?;
    if copy.items.len() > 1 {
        return refuse(t, COPY);
    }
    if copy.frozen {
        return t.stop(BreakId::ContainerMethod, "this method of a frozenset");
    }
    made(t, copy, COPY)
}

/// A set of the elements that the arguments have, or lack.
fn retained(t: &mut Tracer<'_>, call: MethodCall<'_>, name: &str, has: bool) -> Step<VarId> {
    let (mut next, others) = (state(t, call)?, known(elements(t, call)?));
    next.items.retain(|key, _| others.contains(key) == has);
    made(t, next, name)
}

/// Whether a set may be seen between two items of this: other sets and dicts are merged at once.
fn is_taken_one_by_one(t: &mut Tracer<'_>, arg: VarId) -> bool {
    iterate::is_lazy(t, arg) && !sets::merges(t, arg)
}

fn refuse_lazy(t: &mut Tracer<'_>, call: MethodCall<'_>, name: &str) -> Step<()> {
    if is_taken_one_by_one(t, call.args[0]) {
        return t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of an iterator, which may not come to its end"),
        );
    }
    Ok(())
}

/// A table keeps a mark where an element was, which decides on the order of what is added later.
fn refuse_known(t: &mut Tracer<'_>, call: MethodCall<'_>, name: &str) -> Step<()> {
    let set = changed(t, call, name)?;
    let key = keys::key_of(t, call.args[0])?;
    let is_kept = name == "discard" && set.items.len() > 1;
    match set.items.contains_key(&key) || is_kept {
        true => refuse(t, name),
        false => Ok(()),
    }
}

fn add(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    changed(t, call, "add")?;
    let item = call.args[0];
    let key = keys::key_of(t, item)?;
    insert(t, call.receiver, key, item);
    Ok(t.none())
}

fn insert(t: &mut Tracer<'_>, set: VarId, key: Key, item: VarId) {
    t.vars.mutate(set, |var| {
        if let Kind::Set(set) = &mut var.kind {
            set.items.entry(key).or_insert(item);
        }
    });
}

fn update(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let before = changed(t, call, UPDATE)?;
    // What a display of constants is made of.
    if let (true, &[constant]) = (
        before.items.is_empty() && t.source(call.receiver).is_none(),
        call.args,
    ) {
        if matches!(t.kind(constant), Kind::Set(set) if set.frozen) {
            return merged(t, call.receiver, constant);
        }
    }
    let mut args = call.args.iter();
    if args.any(|arg| is_taken_one_by_one(t, *arg)) {
        return update_one_by_one(t, call);
    }
    // Merging a table keeps its size and order; one by one does not.
    let merges = call.args.iter().any(|arg| sets::merges(t, *arg));
    let mut next = state(t, call)?;
    for (key, item) in elements(t, call)? {
        next.items.entry(key).or_insert(item);
    }
    if merges && next.items.len() > 1 {
        return refuse(t, UPDATE);
    }
    t.vars
        .mutate(call.receiver, |var| var.kind = Kind::Set(next));
    Ok(t.none())
}

/// `set.update(frozen)` of an empty set that the frame made: the table is that of their union.
fn merged(t: &mut Tracer<'_>, set: VarId, frozen: VarId) -> Step<VarId> {
    let empty = t.add(Kind::Set(SetVar::default()));
    let union = operators::binary(t, BinOp::Or, false, empty, frozen)?;
    let union = t.kind(union).clone();
    t.vars.mutate(set, |var| var.kind = union);
    Ok(t.none())
}

/// `set.update(*args)` where the set can be seen between two items.
fn update_one_by_one(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    for arg in call.args {
        if !is_taken_one_by_one(t, *arg) {
            let args = std::slice::from_ref(arg);
            update(t, MethodCall { args, ..call })?;
            continue;
        }
        iterate::refuse_set(t, *arg)?;
        iterate::for_each(t, *arg, |t, item| {
            let key = keys::key_of(t, item)?;
            insert(t, call.receiver, key, item);
            Ok(())
        })?;
    }
    Ok(t.none())
}
