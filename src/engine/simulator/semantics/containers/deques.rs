//! `collections.deque`: an object that holds a list, which its methods change at both ends.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::simulator::tracer::contents::{LIST_WRITERS, SEQUENCES};
use crate::variables::{IterVar, Kind, ObjectVar, VarId};

use crate::bytecode::CmpOp;
use crate::simulator::{Kwargs, Step, Tracer};
use crate::simulator::{comparisons, iterate, methods, subscript};

/// Methods that change it in a way that its iterators notice. Those of lists that are not among
/// them change what it holds, and not its length.
const NOTICED: &[&str] = &[
    "__delitem__",
    "append",
    "appendleft",
    "clear",
    "extend",
    "extendleft",
    "insert",
    "pop",
    "popleft",
    "remove",
    "rotate",
];

/// Methods that do something else than those of lists.
const OWN: &[&str] = &[
    "__add__",
    "__eq__",
    "__iadd__",
    "__ne__",
    "append",
    "appendleft",
    "copy",
    "extend",
    "extendleft",
    "pop",
    "popleft",
    "rotate",
];

/// `collections.deque`.
fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(py.module("collections")?.getattr("deque")?.cast_into()?)
}

/// Whether a class is this one, and none of its subclasses.
pub fn is_exact(of: &Bound<'_, PyAny>) -> bool {
    class(of.py()).is_ok_and(|class| of.is(&class))
}

/// Whether this is a method that is simulated.
pub fn has(name: &str) -> bool {
    SEQUENCES.contains(&name) || OWN.contains(&name) || writes(name)
}

fn writes(name: &str) -> bool {
    NOTICED.contains(&name) || LIST_WRITERS.contains(&name)
}

/// `deque(iterable, maxlen)`.
pub fn new(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, most) = match (args, kwargs) {
        ([], []) => (None, None),
        ([over], []) => (Some(*over), None),
        ([over, most], []) => (Some(*over), Some(*most)),
        ([], [(name, most)]) if &**name == "maxlen" => (None, Some(*most)),
        ([over], [(name, most)]) if &**name == "maxlen" => (Some(*over), Some(*most)),
        _ => return t.stop(BreakId::ContainerMethod, "deque() with these arguments"),
    };
    let most = match most {
        Some(most) if !t.is_none(most) => match t.const_int(most).map(usize::try_from) {
            Some(Ok(most)) => Some(most),
            _ => return t.stop(BreakId::ContainerMethod, "deque() with this maxlen"),
        },
        _ => None,
    };
    let deque = of(t, most)?;
    if let Some(over) = over {
        let contents = contents_of(t, deque)?;
        call(t, (deque, contents), "extend", &[over], &Vec::new())?;
    }
    Ok(deque)
}

/// A new deque without items.
fn of(t: &mut Tracer<'_>, most: Option<usize>) -> Step<VarId> {
    let class = Obj::from(class(t.py)?);
    let contents = t.add(Kind::List(Vec::new()));
    let deque = t.add(Kind::Object(ObjectVar {
        contents: Some(contents),
        most,
        ..ObjectVar::of(class)
    }));
    t.vars.update(contents, |var| var.owner = Some(deque));
    Ok(deque)
}

fn contents_of(t: &Tracer<'_>, deque: VarId) -> Step<VarId> {
    if let Kind::Object(ObjectVar {
        contents: Some(contents),
        ..
    }) = t.vars.kind(deque)
    {
        Ok(*contents)
    } else {
        t.stop(
            BreakId::ContainerMethod,
            "a deque whose items are not known",
        )
    }
}

/// What an exact deque holds; `None` for anything else.
fn contents_of_deque(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    t.realize(id);
    let class = class(t.py)?;
    if !t.type_of(id).is_some_and(|own| own.is(&class)) {
        return Ok(None);
    }
    let len = class.getattr("__len__")?;
    Ok(t.contents(id, &len, "__len__"))
}

/// `deque.name(*args)`.
pub fn call(
    t: &mut Tracer<'_>,
    (deque, contents): (VarId, VarId),
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    if writes(name) {
        refuse_iterated(t, contents)?;
        // Iterators of others would notice how it is replayed.
        if !NOTICED.contains(&name) && t.source(deque).is_some() {
            return t.stop(
                BreakId::ContainerMethod,
                format!("{name}() of a deque that exists"),
            );
        }
    }
    let items = len(t, contents)?;
    let on_list = |t: &mut Tracer<'_>, name: &str, args: &[VarId]| {
        methods::call(t, contents, name, args, &Vec::new())
    };
    match (name, args) {
        _ if !kwargs.is_empty() => {
            t.stop(BreakId::ContainerMethod, "a method of a deque with names")
        }
        ("append", [item]) => add(t, (deque, contents), *item, true),
        ("appendleft", [item]) => add(t, (deque, contents), *item, false),
        ("extend" | "extendleft", [over]) if *over != deque => {
            let last = name == "extend";
            iterate::for_each(t, *over, |t, item| {
                add(t, (deque, contents), item, last).map(drop)
            })?;
            Ok(t.none())
        }
        ("__iadd__", [over]) if *over != deque => {
            refuse_iterated(t, contents)?;
            call(t, (deque, contents), "extend", &[*over], kwargs)?;
            Ok(deque)
        }
        ("__add__", [other]) => {
            let Some(more) = contents_of_deque(t, *other)? else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "a deque and another object are added",
                );
            };
            let made = call(t, (deque, contents), "copy", &[], kwargs)?;
            let target = contents_of(t, made)?;
            call(t, (made, target), "extend", &[more], kwargs)?;
            Ok(made)
        }
        ("__eq__" | "__ne__", [other]) => {
            let Some(others) = contents_of_deque(t, *other)? else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "a deque and another object are compared",
                );
            };
            let op = if name == "__eq__" {
                CmpOp::Eq
            } else {
                CmpOp::Ne
            };
            comparisons::compare(t, op, contents, others)
        }
        ("popleft", []) if items > 0 => {
            let first = t.int(0);
            on_list(t, "pop", &[first])
        }
        ("pop", []) if items > 0 => on_list(t, "pop", &[]),
        ("insert", [..]) if most(t, deque)?.is_some() => t.stop(
            BreakId::ContainerMethod,
            "insert() into a deque with a maxlen",
        ),
        ("rotate", []) => rotate(t, contents, 1),
        ("rotate", [by]) => match t.const_int(*by) {
            Some(by) => rotate(t, contents, by),
            None => t.stop(
                BreakId::ContainerMethod,
                "rotate() by a number that is not constant",
            ),
        },
        ("copy", []) => {
            let most = most(t, deque)?;
            let made = of(t, most)?;
            let target = contents_of(t, made)?;
            methods::call(t, target, "extend", &[contents], kwargs)?;
            Ok(made)
        }
        ("__getitem__" | "__delitem__", [key]) | ("__setitem__", [key, _]) => {
            // A deque has no slices.
            if t.const_int(*key).is_none() {
                return t.stop(
                    BreakId::ContainerMethod,
                    "an item of a deque at such a place",
                );
            }
            if name == "__delitem__" {
                subscript::delete(t, contents, *key)?;
                return Ok(t.none());
            }
            on_list(t, name, args)
        }
        _ if !OWN.contains(&name) => on_list(t, name, args),
        _ => t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of a deque with these arguments"),
        ),
    }
}

fn len(t: &mut Tracer<'_>, contents: VarId) -> Step<usize> {
    if let Kind::List(items) = t.kind(contents) {
        Ok(items.len())
    } else {
        t.stop(
            BreakId::ContainerMethod,
            "a deque that holds something else",
        )
    }
}

/// An item at the right or left end: the one at the other end goes where there are too many.
fn add(
    t: &mut Tracer<'_>,
    (deque, contents): (VarId, VarId),
    item: VarId,
    last: bool,
) -> Step<VarId> {
    let first = t.int(0);
    match last {
        true => methods::call(t, contents, "append", &[item], &Vec::new())?,
        false => methods::call(t, contents, "insert", &[first, item], &Vec::new())?,
    };
    if most(t, deque)?.is_some_and(|most| most < len(t, contents).unwrap_or(0)) {
        let gone: &[VarId] = if last { &[first] } else { &[] };
        methods::call(t, contents, "pop", gone, &Vec::new())?;
    }
    Ok(t.none())
}

/// `maxlen`, guarded where the deque exists.
pub fn most(t: &mut Tracer<'_>, deque: VarId) -> Step<Option<usize>> {
    if t.source(deque).is_none() {
        let made = if let Kind::Object(made) = t.kind(deque) {
            made.most
        } else {
            None
        };
        return Ok(made);
    }
    let Some(value) = t.value(deque) else {
        return t.stop(
            BreakId::ContainerMethod,
            "a deque whose maxlen is not known",
        );
    };
    let most = value.getattr("maxlen")?.extract()?;
    t.guard(deque, GuardKind::MaxLen(most));
    Ok(most)
}

fn rotate(t: &mut Tracer<'_>, contents: VarId, by: i64) -> Step<VarId> {
    t.vars.mutate(contents, |var| {
        if let Kind::List(items) = &mut var.kind {
            if !items.is_empty() {
                let by = by.rem_euclid(items.len() as i64);
                items.rotate_right(by as usize);
            }
        }
    });
    Ok(t.none())
}

/// Its iterators notice every change, also one that is undone.
fn refuse_iterated(t: &Tracer<'_>, contents: VarId) -> Step<()> {
    let iterates = |id: VarId| matches!(t.vars.kind(id), Kind::Iter(IterVar::Sequence { over, .. }) if *over == contents);
    match (0..t.vars.len() as u32).map(VarId).any(iterates) {
        true => t.stop(
            BreakId::ContainerMethod,
            "a change of a deque that is iterated over",
        ),
        false => Ok(()),
    }
}
