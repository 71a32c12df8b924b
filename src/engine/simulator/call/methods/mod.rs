//! Methods of builtin kinds.

mod dict;
mod list;
mod set;
mod sort;
mod tuple;

use pyo3::prelude::*;

use crate::reason::BreakId;
use crate::variables::{Kind, VarId};

use crate::simulator::variables::protocol;
use crate::simulator::{Kwargs, Step, Tracer};
use crate::simulator::{fold, generators, iterate, namespaces, subscript, truth};

pub(in crate::simulator) use dict::dict;
pub(in crate::simulator) use list::list;
pub(in crate::simulator) use set::set;
pub use sort::sort;
pub(in crate::simulator) use tuple::{named_tuple, sequence};

pub(in crate::simulator) const LIST: &[&str] = &[
    "append",
    "extend",
    "insert",
    "pop",
    "remove",
    "clear",
    "reverse",
    "copy",
    "index",
    "count",
    "sort",
    "__len__",
    "__getitem__",
    "__contains__",
    "__iter__",
    "__setitem__",
];

/// Methods that only a named tuple has.
pub(in crate::simulator) const NAMED_TUPLE: &[&str] = &["_replace", "_asdict"];

/// Methods that only an `OrderedDict` has.
pub(in crate::simulator) const ORDERED_DICT: &[&str] = &["move_to_end"];

pub(in crate::simulator) const TUPLE: &[&str] = &[
    "index",
    "count",
    "__len__",
    "__getitem__",
    "__contains__",
    "__iter__",
];

pub(in crate::simulator) const DICT: &[&str] = &[
    "get",
    "keys",
    "values",
    "items",
    "pop",
    "setdefault",
    "update",
    "copy",
    "clear",
    "popitem",
    "__len__",
    "__getitem__",
    "__contains__",
    "__iter__",
    "__setitem__",
];

pub(in crate::simulator) const SET: &[&str] = &[
    "add",
    "update",
    "discard",
    "remove",
    "clear",
    "copy",
    "union",
    "intersection",
    "difference",
    "issubset",
    "issuperset",
    "__len__",
    "__contains__",
    "__iter__",
];

/// Simulated methods, by class.
pub(in crate::simulator) const ROWS: &[(&str, &[&str])] = &[
    ("list", LIST),
    ("tuple", TUPLE),
    ("dict", DICT),
    ("set", SET),
    ("frozenset", SET),
];

pub(in crate::simulator) fn is_frozen_method(py: Python<'_>, name: &str) -> bool {
    let class = py.get_type::<pyo3::types::PyFrozenSet>();
    class.hasattr(name).unwrap_or(false)
}

pub use crate::simulator::variables::protocol::has_method as exists;

/// Does `append` and `extend` on a list that nothing has looked into; the answer is whether it did.
pub fn appends(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    if !kwargs.is_empty() || !t.is_unread_list(receiver) {
        return false;
    }
    match (name, args) {
        ("append", [_]) => t.append(receiver, args),
        ("extend", [more]) if *more != receiver => {
            if let Kind::List(items) | Kind::Tuple(items, _) = t.kind(*more).clone() {
                t.append(receiver, &items)
            } else {
                false
            }
        }
        _ => false,
    }
}

/// `receiver.name(*args, **kwargs)`
pub fn call(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let takes_names = matches!(
        (t.kind(receiver), name),
        (Kind::List(_), "sort")
            | (Kind::Dict(_), "update" | "move_to_end" | "popitem")
            | (Kind::Tuple(..), "_replace")
    ) || matches!(t.kind(receiver), Kind::Const) && !name.starts_with("__");
    if !kwargs.is_empty() && !takes_names {
        let message = format!("method {name} with keyword arguments");
        return t.stop(BreakId::ContainerMethod, message);
    }
    match (name, args) {
        ("__len__", []) => {
            let len = truth::len(t, receiver)?;
            return Ok(t.int(len));
        }
        ("__getitem__", [key]) => return subscript::get(t, receiver, *key),
        ("__setitem__", [key, value]) => {
            subscript::set(t, receiver, *key, *value)?;
            return Ok(t.none());
        }
        ("__delitem__", [key]) => {
            subscript::delete(t, receiver, *key)?;
            return Ok(t.none());
        }
        ("__contains__", [item]) => {
            let found = truth::contains(t, receiver, *item)?;
            return Ok(t.bool(found));
        }
        ("__iter__", []) => return iterate::get_iter(t, receiver),
        ("__next__", []) => return generators::next_or_stop(t, receiver),
        ("append", [value]) if matches!(t.kind(receiver), Kind::List(_)) => {
            t.vars.append(receiver, *value);
            return Ok(t.none());
        }
        _ => {}
    }
    if let Some(value) = namespaces::call(t, receiver, name, args)? {
        return Ok(value);
    }
    protocol::method(t, receiver, name, args, kwargs)
}

/// Methods of `str`, `int`, ... are pure.
pub(in crate::simulator) fn constant(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Some(value) = t.value(receiver) else {
        return t.stop(
            BreakId::ContainerMethod,
            "a method of a name that has no value here",
        );
    };
    let method = value.getattr(name)?;
    if name == "join" && args.len() == 1 {
        let items = iterate::collect_fast(t, args[0])?;
        let items = t.add(Kind::List(items));
        return fold::call_object(t, &method, &[items], kwargs);
    }
    fold::call_object(t, &method, args, kwargs)
}
