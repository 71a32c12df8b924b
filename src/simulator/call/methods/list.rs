//! Methods of lists.

use std::rc::Rc;

use crate::methods::names::{APPEND, CLEAR, COPY, EXTEND, REVERSE};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Kind, VarId};
use crate::{Step, Stop, Tracer, comparisons, exceptions, iterate};

use super::row::{MethodCall, MethodRow};
use super::sequence::{self, COUNT, INDEX};
use super::sort;
use super::special::{CONTAINS, GET_ITEM, ITER, LEN, SET_ITEM};

/// Methods of lists.
pub(crate) const LIST: &[MethodRow] = &[
    MethodRow::new(APPEND, (1, 1), |t, call| {
        t.vars.append(call.receiver, call.args[0]);
        Ok(t.none())
    })
    .writes(),
    MethodRow::new(EXTEND, (1, 1), extend).writes(),
    MethodRow::new("insert", (2, 2), insert).writes(),
    MethodRow::new("pop", (0, 1), pop).writes(),
    MethodRow::new("remove", (1, 1), remove).changes(),
    MethodRow::new(CLEAR, (0, 0), clear).writes(),
    MethodRow::new(REVERSE, (0, 0), |t, call| {
        Ok(change_list(t, call.receiver, |items| items.reverse()))
    })
    .writes(),
    MethodRow::new(COPY, (0, 0), |t, call| {
        let items = sequence::items(t, call.receiver)?;
        let copy = t.add(Kind::List(items));
        Ok(t.inherit_class(copy, call.receiver))
    }),
    INDEX,
    COUNT,
    MethodRow::new("sort", (0, 0), sort_in_place)
        .changes()
        .named(),
    LEN,
    GET_ITEM,
    CONTAINS,
    ITER,
    SET_ITEM,
];

fn change_list(t: &mut Tracer<'_>, list: VarId, change: impl FnOnce(&mut Vec<VarId>)) -> VarId {
    t.vars.mutate(list, |var| {
        if let Kind::List(items) = &mut var.kind {
            change(items);
        }
    });
    t.none()
}

fn extend(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (list, values) = (call.receiver, call.args[0]);
    if iterate::is_lazy(t, values) {
        let iterator = match iterate::for_list(t, values)? {
            Some(iterator) => iterator,
            None => iterate::get_iter(t, values)?,
        };
        iterate::drain(t, iterator, |t, value| {
            change_list(t, list, |items| items.push(value));
            Ok(())
        })?;
        return Ok(t.none());
    }
    let values = iterate::collect(t, values)?;
    Ok(change_list(t, list, |items| items.extend(values)))
}

fn insert(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let Some(at) = t.const_int(call.args[0]) else {
        return t.stop(
            BreakId::ContainerMethod,
            "insert() at a position that is not constant",
        );
    };
    let len = sequence::items(t, call.receiver)?.len() as i64;
    let at = if at < 0 {
        (at + len).max(0)
    } else {
        at.min(len)
    } as usize;
    Ok(change_list(t, call.receiver, |items| {
        items.insert(at, call.args[1]);
    }))
}

fn pop(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let at = match call.args.first() {
        Some(at) => t.const_int(*at),
        None => Some(-1),
    };
    let Some(at) = at else {
        return t.stop(
            BreakId::ContainerMethod,
            "pop() at a position that is not constant",
        );
    };
    let items = sequence::items(t, call.receiver)?;
    let at = if at < 0 { at + items.len() as i64 } else { at };
    let Some(at) = usize::try_from(at).ok().filter(|at| *at < items.len()) else {
        return exceptions::throw(t, "IndexError");
    };
    t.release(call.receiver, items[at])?;
    change_list(t, call.receiver, |items| {
        items.remove(at);
    });
    Ok(items[at])
}

fn remove(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    for (at, item) in sequence::items(t, call.receiver)?.into_iter().enumerate() {
        if comparisons::equal_values(t, item, call.args[0])? {
            t.release(call.receiver, item)?;
            return Ok(change_list(t, call.receiver, |items| {
                items.remove(at);
            }));
        }
    }
    exceptions::throw(t, "ValueError")
}

fn clear(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    for item in sequence::items(t, call.receiver)? {
        t.release(call.receiver, item)?;
    }
    Ok(change_list(t, call.receiver, Vec::clear))
}

fn sort_in_place(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let list = call.receiver;
    let items = sequence::items(t, list)?;
    // Code that runs meanwhile sees an empty list, and may not change it.
    change_list(t, list, Vec::clear);
    let empty = Rc::clone(t.vars.get(list));
    let sorted = match sort(t, items, call.kwargs) {
        Err(Stop::Raise(_)) => {
            return t.stop(BreakKind::RaisesException, "an exception inside of sort()");
        }
        sorted => sorted?,
    };
    if !Rc::ptr_eq(&empty, t.vars.get(list)) {
        return t.stop(
            BreakKind::RaisesException,
            "a list that is used while it is sorted",
        );
    }
    Ok(change_list(t, list, |items| *items = sorted))
}
