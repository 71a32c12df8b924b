//! Methods of builtin kinds.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use rustc_hash::FxHashSet;

use crate::bytecode::{CmpOp, OpTable};
use crate::native;
use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{DictVar, Key, Kind, VarId};

use crate::simulator::tracer::is_plain_constant;
use crate::simulator::variables::protocol;
use crate::simulator::{
    attributes, classes, comparisons, dynamic_scalar, exceptions, fold, generators, iterate, keys,
    namespaces, objects, sets, subscript, truth,
};
use crate::simulator::{Kwargs, Step, Stop, Tracer};

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

fn change_list(t: &mut Tracer<'_>, list: VarId, change: impl FnOnce(&mut Vec<VarId>)) -> VarId {
    t.vars.mutate(list, |var| {
        if let Kind::List(items) = &mut var.kind {
            change(items);
        }
    });
    t.none()
}

pub(in crate::simulator) fn sequence(
    t: &mut Tracer<'_>,
    items: &[VarId],
    name: &str,
    args: &[VarId],
) -> Step<VarId> {
    match (name, args) {
        ("index", [wanted]) => {
            for (at, item) in items.iter().enumerate() {
                if comparisons::equal_values(t, *item, *wanted)? {
                    return Ok(t.int(at as i64));
                }
            }
            t.stop(
                BreakKind::RaisesException,
                "the value is not in the sequence",
            )
        }
        ("count", [wanted]) => {
            let mut count = 0;
            for item in items {
                count += i64::from(comparisons::equal_values(t, *item, *wanted)?);
            }
            Ok(t.int(count))
        }
        _ => t.stop(BreakId::ContainerMethod, format!("sequence method {name}")),
    }
}

/// `_replace()` and `_asdict()`, as `collections.namedtuple` writes them.
pub(in crate::simulator) fn named_tuple(
    t: &mut Tracer<'_>,
    mut items: Vec<VarId>,
    class: &Obj,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let fields: Vec<String> = class.bind(t.py).getattr("_fields")?.extract()?;
    if !args.is_empty() || fields.len() != items.len() {
        return t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of a named tuple with these arguments"),
        );
    }
    if name == "_asdict" {
        let made = t.add(Kind::Dict(DictVar::default()));
        for (field, item) in fields.iter().zip(items) {
            let key = t.str(field);
            subscript::set(t, made, key, item)?;
        }
        return Ok(made);
    }
    objects::check_make(t, class.bind(t.py).cast::<PyType>().map_err(PyErr::from)?)?;
    for (given, value) in kwargs {
        match fields.iter().position(|field| **field == **given) {
            Some(at) => items[at] = *value,
            None => return t.stop(BreakKind::RaisesException, "_replace() of an unknown field"),
        }
    }
    Ok(t.add(Kind::Tuple(items, Some(class.clone()))))
}

pub(in crate::simulator) fn list(
    t: &mut Tracer<'_>,
    list: VarId,
    items: Vec<VarId>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    match (name, args) {
        ("extend", [values]) => {
            if iterate::is_lazy(t, *values) {
                let iterator = match iterate::for_list(t, *values)? {
                    Some(iterator) => iterator,
                    None => iterate::get_iter(t, *values)?,
                };
                iterate::drain(t, iterator, |t, value| {
                    change_list(t, list, |items| items.push(value));
                    Ok(())
                })?;
                return Ok(t.none());
            }
            let values = iterate::collect(t, *values)?;
            Ok(change_list(t, list, |items| items.extend(values)))
        }
        ("insert", [at, value]) => {
            let Some(at) = t.const_int(*at) else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "insert() at a position that is not constant",
                );
            };
            let len = items.len() as i64;
            let at = if at < 0 {
                (at + len).max(0)
            } else {
                at.min(len)
            } as usize;
            Ok(change_list(t, list, |items| items.insert(at, *value)))
        }
        ("pop", []) | ("pop", [_]) => {
            let at = match args {
                [at] => t.const_int(*at),
                _ => Some(-1),
            };
            let Some(at) = at else {
                return t.stop(
                    BreakId::ContainerMethod,
                    "pop() at a position that is not constant",
                );
            };
            let at = if at < 0 { at + items.len() as i64 } else { at };
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < items.len()) else {
                return exceptions::throw(t, "IndexError");
            };
            t.release(list, items[at])?;
            change_list(t, list, |items| {
                items.remove(at);
            });
            Ok(items[at])
        }
        ("remove", [value]) => {
            for (at, item) in items.iter().enumerate() {
                if comparisons::equal_values(t, *item, *value)? {
                    t.release(list, *item)?;
                    return Ok(change_list(t, list, |items| {
                        items.remove(at);
                    }));
                }
            }
            exceptions::throw(t, "ValueError")
        }
        ("clear", []) => {
            for item in items {
                t.release(list, item)?;
            }
            Ok(change_list(t, list, Vec::clear))
        }
        ("reverse", []) => Ok(change_list(t, list, |items| items.reverse())),
        ("copy", []) => {
            let copy = t.add(Kind::List(items));
            Ok(t.inherit_class(copy, list))
        }
        ("sort", []) => {
            // Code that runs meanwhile sees an empty list, and may not change it.
            change_list(t, list, Vec::clear);
            let empty = Rc::clone(t.vars.get(list));
            let sorted = match sort(t, items, kwargs) {
                Err(Stop::Raise(_)) => {
                    return t.stop(BreakKind::RaisesException, "an exception inside of sort()")
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
        _ => sequence(t, &items, name, args),
    }
}

/// A stable sort with `key=` and `reverse=`.
pub fn sort(t: &mut Tracer<'_>, items: Vec<VarId>, kwargs: &Kwargs) -> Step<Vec<VarId>> {
    let mut reverse = false;
    let mut key = None;
    for (name, value) in kwargs {
        match &**name {
            "key" if t.is_none(*value) => {}
            "key" => key = Some(*value),
            "reverse" => reverse = is_reversed(t, *value)?,
            _ => return t.stop(BreakKind::RaisesException, "sort() got an unknown keyword"),
        }
    }
    let mut pairs = Vec::with_capacity(items.len());
    for item in items {
        let by = match key {
            Some(key) => crate::simulator::call::call(t, key, &[item], &[])?,
            None => item,
        };
        pairs.push((by, item));
    }
    if let Some(order) = order_of_constants(t, &pairs, reverse)? {
        return Ok(order.into_iter().map(|at| pairs[at].1).collect());
    }
    if reverse {
        pairs.reverse();
    }
    if pairs.len() > 2 {
        for (key, _) in &pairs {
            check_order(t, *key)?;
        }
    }
    // Stable, and every comparison may be simulated code that stops.
    let mut sorted: Vec<(VarId, VarId)> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (mut from, mut to) = (0, sorted.len());
        while from < to {
            let middle = (from + to) / 2;
            let less = comparisons::compare(t, CmpOp::Lt, pair.0, sorted[middle].0)?;
            match truth::truth(t, less)? {
                true => to = middle,
                false => from = middle + 1,
            }
        }
        sorted.insert(from, pair);
    }
    if reverse {
        sorted.reverse();
    }
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

/// What `reverse=` says: its truth, but where the version makes a C integer of it.
fn is_reversed(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    let is_integer = OpTable::get(t.py).is_ok_and(|table| table.dialect.sort_reverse_is_integer());
    let is_known = |t: &mut Tracer<'_>| {
        let constant = t.const_value(value);
        constant.is_some_and(|value| is_plain_constant(&value) && value.extract::<i32>().is_ok())
    };
    match is_integer && !is_known(t) {
        true => t.stop(
            BreakId::ContainerMethod,
            "sort(reverse=) of something that Python 3.11 converts to a number",
        ),
        false => truth::truth(t, value),
    }
}

/// Stops where a key may be neither less nor greater than another one: where that comes is CPython's affair.
fn check_order(t: &mut Tracer<'_>, key: VarId) -> Step<()> {
    if let Some(items) = t.kind(key).items().map(<[VarId]>::to_vec) {
        let each = |t: &mut Tracer<'_>| {
            let mut items = items.into_iter();
            items.try_for_each(|item| check_order(t, item))
        };
        return match fold::deeper(t, each) {
            Some(checked) => checked,
            None => t.stop(
                BreakId::ContainerMethod,
                "a sort of containers that are in too many others",
            ),
        };
    }
    let kind = t.kind(key);
    let why = if let Kind::Set(_) = kind {
        "a sort of sets"
    } else if kind.object().is_some() {
        // How often they are compared, and which, is CPython's affair.
        "a sort of objects that compare themselves"
    } else if let Kind::Float(_) = kind {
        match dynamic_scalar::compare(t, CmpOp::Eq, key, key)? {
            Some(true) => return Ok(()),
            _ => "a sort of what may be nan",
        }
    } else if comparisons::is_nan(t, key) {
        "a sort of nan"
    } else {
        return Ok(());
    };
    t.stop(BreakId::ContainerMethod, why)
}

/// Where CPython puts keys that are constants: what is neither less nor greater (`nan`) comes where its algorithm leaves it.
fn order_of_constants(
    t: &mut Tracer<'_>,
    pairs: &[(VarId, VarId)],
    reverse: bool,
) -> Step<Option<Vec<usize>>> {
    let keys = PyList::empty(t.py);
    for (key, _) in pairs {
        match fold::to_object(t, *key) {
            Some(object) if is_made_of_constants(t, *key) => keys.append(object)?,
            _ => return Ok(None),
        }
    }
    let positions = PyList::new(t.py, 0..pairs.len())?;
    let by = PyDict::new(t.py);
    by.set_item("key", keys.getattr("__getitem__")?)?;
    by.set_item("reverse", reverse)?;
    match positions.call_method("sort", (), Some(&by)) {
        Ok(_) => Ok(Some(positions.extract()?)),
        // A list that is sorted in place is left half-way.
        Err(_) => t.stop(BreakKind::RaisesException, "a sort that raises"),
    }
}

fn is_made_of_constants(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Tuple(items, None) = t.kind(id).clone() {
        return items.into_iter().all(|item| is_made_of_constants(t, item));
    }
    t.const_value(id)
        .is_some_and(|value| is_plain_constant(&value))
}

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
                    )
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
