//! Builtins and the standard library: a new one is a row here.

use pyo3::prelude::*;

use crate::builtins::construction::PARTIAL;
use crate::builtins::construction::{
    convert, default_dict, dict, dunder_or_fold, from_keys, ordered, partial, sequence, set, slice,
};
use crate::builtins::consumers;
use crate::builtins::iteration::{
    enumerate, extreme, filter, map, next, range, reduce, sorted, sum, zip,
};
use crate::builtins::reflection::{
    del_attr, get_attr, has_attr, is_callable, is_subclass, isinstance, set_attr, super_, type_of,
};
use crate::builtins::{context_variables, getters, itertools, one, own_new, warned, wrong};
use crate::containers::{deques, proxies};
use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::kinds::{RANGE, SLICE, SUPER};
use crate::variables::{Kind, ObjectVar, protocol};
use crate::{
    attributes, contexts, exceptions, format, grown_lists, item, iterate, objects, printing, texts,
    truth,
};

use super::Action::{Context, Fold, Operator, Polyfill, Simulate};
use super::Row;

/// What is folded changes nothing, and answers with something new.
pub(super) const ROWS: &[Row] = &[
    (
        "builtins",
        "round divmod pow chr ord hash repr ascii bin hex oct complex bytes",
        Fold,
    ),
    ("functools", "cmp_to_key", Polyfill("cmp_to_key")),
    (
        "functools",
        "singledispatch.<locals>.dispatch",
        Polyfill("dispatch"),
    ),
    ("itertools", "groupby", Polyfill("groupby")),
    (
        "dataclasses",
        "_recursive_repr.<locals>.wrapper",
        Polyfill("repr_once"),
    ),
    (
        "reprlib",
        "recursive_repr.<locals>.decorating_function.<locals>.wrapper",
        Polyfill("repr_once"),
    ),
    ("math", "*", Fold),
    ("cmath", "*", Fold),
    (
        "_operator",
        "abs neg pos inv invert index concat countOf indexOf length_hint",
        Operator { folds: true },
    ),
    ("_operator", "*", Operator { folds: false }),
    ("contextlib", "nullcontext", Context(contexts::null)),
    (
        "builtins",
        "len",
        Simulate(|t, a, k| {
            one(t, a, k, |t, x| {
                if let Some(rows) = grown_lists::len_of(t, x)? {
                    return Ok(rows);
                }
                if let Some(len) = texts::len_of(t, x)? {
                    return Ok(len);
                }
                let len = truth::len(t, x)?;
                Ok(t.int(len))
            })
        }),
    ),
    ("builtins", "isinstance", Simulate(isinstance)),
    ("builtins", "issubclass", Simulate(is_subclass)),
    (
        "builtins",
        "type",
        Simulate(|t, a, k| one(t, a, k, type_of)),
    ),
    ("builtins", "getattr", Simulate(get_attr)),
    ("builtins", "hasattr", Simulate(has_attr)),
    ("builtins", "setattr", Simulate(set_attr)),
    ("builtins", "delattr", Simulate(del_attr)),
    (
        "builtins",
        "callable",
        Simulate(|t, a, k| one(t, a, k, is_callable)),
    ),
    ("builtins", RANGE, Simulate(range)),
    ("builtins", "enumerate", Simulate(enumerate)),
    ("builtins", "zip", Simulate(zip)),
    ("builtins", "map", Simulate(map)),
    ("builtins", "filter", Simulate(filter)),
    (
        "builtins",
        "reversed",
        Simulate(|t, a, k| one(t, a, k, protocol::reversed)),
    ),
    ("builtins", "sorted", Simulate(sorted)),
    (
        "builtins",
        "iter",
        Simulate(|t, a, k| one(t, a, k, iterate::get_iter)),
    ),
    ("builtins", "next", Simulate(next)),
    (
        "builtins",
        "list",
        Simulate(|t, a, k| sequence(t, a, k, Kind::List)),
    ),
    (
        "builtins",
        "tuple",
        Simulate(|t, a, k| sequence(t, a, k, |items| Kind::Tuple(items, None))),
    ),
    ("builtins", "dict", Simulate(dict)),
    ("builtins", "dict.fromkeys", Simulate(from_keys)),
    ("builtins", "tuple.__new__", Simulate(objects::new_tuple)),
    ("builtins", "object.__new__", Simulate(own_new::new_object)),
    ("builtins", "set", Simulate(|t, a, k| set(t, a, k, false))),
    (
        "builtins",
        "frozenset",
        Simulate(|t, a, k| set(t, a, k, true)),
    ),
    ("builtins", "sum", Simulate(sum)),
    (
        "builtins",
        "any",
        Simulate(|t, a, k| one(t, a, k, |t, x| consumers::quantify(t, x, true))),
    ),
    (
        "builtins",
        "all",
        Simulate(|t, a, k| one(t, a, k, |t, x| consumers::quantify(t, x, false))),
    ),
    (
        "builtins",
        "min",
        Simulate(|t, a, k| extreme(t, a, k, "min", crate::bytecode::CmpOp::Lt)),
    ),
    (
        "builtins",
        "max",
        Simulate(|t, a, k| extreme(t, a, k, "max", crate::bytecode::CmpOp::Gt)),
    ),
    (
        "builtins",
        "bool",
        Simulate(|t, a, k| {
            one(t, a, k, |t, x| {
                if let Some(number) = item::of_builtin(t, "bool", x)? {
                    return Ok(number);
                }
                let truth = truth::truth(t, x)?;
                Ok(t.bool(truth))
            })
        }),
    ),
    (
        "builtins",
        "str",
        Simulate(|t, a, k| convert(t, a, k, "str")),
    ),
    (
        "builtins",
        "int",
        Simulate(|t, a, k| convert(t, a, k, "int")),
    ),
    (
        "builtins",
        "float",
        Simulate(|t, a, k| convert(t, a, k, "float")),
    ),
    (
        "builtins",
        "abs",
        Simulate(|t, a, k| one(t, a, k, |t, x| dunder_or_fold(t, x, "__abs__", "abs"))),
    ),
    ("builtins", SLICE, Simulate(slice)),
    ("builtins", SUPER, Simulate(super_)),
    (
        "builtins",
        "object",
        Simulate(|t, a, k| match (a, k) {
            ([], []) => {
                let class = t.builtin("object")?;
                Ok(t.add(Kind::Object(ObjectVar::of(Obj::from(class)))))
            }
            _ => wrong(t, "object"),
        }),
    ),
    (
        "builtins",
        "print",
        Simulate(|t, a, k| {
            if t.options.capture_print {
                if let Some(done) = printing::print(t, a, k)? {
                    return Ok(done);
                }
            }
            t.stop(BreakKind::UnsupportedCall, "print()")
        }),
    ),
    (
        "builtins",
        "format",
        Simulate(|t, a, k| match a {
            [x] if k.is_empty() => format::format_value(t, *x, 0, None),
            [x, s] if k.is_empty() => format::format_value(t, *x, 0, Some(*s)),
            _ => wrong(t, "format"),
        }),
    ),
    ("functools", PARTIAL, Simulate(partial)),
    ("functools", "reduce", Simulate(reduce)),
    ("itertools", "accumulate", Simulate(itertools::accumulate)),
    ("itertools", "batched", Simulate(itertools::batched)),
    ("itertools", "chain", Simulate(itertools::chain)),
    (
        "itertools",
        "chain.from_iterable",
        Simulate(|t, a, k| one(t, a, k, itertools::chain_of)),
    ),
    (
        "itertools",
        "combinations",
        Simulate(itertools::combinations),
    ),
    (
        "itertools",
        "combinations_with_replacement",
        Simulate(itertools::combinations_with_replacement),
    ),
    ("itertools", "compress", Simulate(itertools::compress)),
    ("itertools", "count", Simulate(itertools::count)),
    (
        "itertools",
        "cycle",
        Simulate(|t, a, k| one(t, a, k, itertools::cycle)),
    ),
    ("itertools", "dropwhile", Simulate(itertools::drop_while)),
    (
        "itertools",
        "filterfalse",
        Simulate(itertools::filter_false),
    ),
    ("itertools", "islice", Simulate(itertools::islice)),
    (
        "itertools",
        "pairwise",
        Simulate(|t, a, k| one(t, a, k, itertools::pairwise)),
    ),
    (
        "itertools",
        "permutations",
        Simulate(itertools::permutations),
    ),
    ("itertools", "product", Simulate(itertools::product)),
    ("itertools", "repeat", Simulate(itertools::repeat)),
    ("itertools", "starmap", Simulate(itertools::starmap)),
    ("itertools", "takewhile", Simulate(itertools::take_while)),
    ("itertools", "zip_longest", Simulate(itertools::zip_longest)),
    ("collections", "defaultdict", Simulate(default_dict)),
    ("collections", "OrderedDict", Simulate(ordered)),
    ("collections", "deque", Simulate(deques::new)),
    ("types", proxies::NAME, Simulate(proxies::new)),
    ("collections", "_count_elements", Polyfill("count_elements")),
    ("logging", "Logger.isEnabledFor", Polyfill("is_enabled_for")),
    (
        "contextvars",
        "ContextVar.get",
        Simulate(context_variables::get),
    ),
    (
        "types",
        "SimpleNamespace",
        Simulate(|t, a, k| {
            if !a.is_empty() {
                return wrong(t, "SimpleNamespace");
            }
            let class = t.py.types()?.getattr("SimpleNamespace")?;
            let made = t.add(Kind::Object(ObjectVar::of(Obj::from(class))));
            for (name, value) in k {
                attributes::write(t, made, name, Some(*value))?;
            }
            Ok(made)
        }),
    ),
    (
        "operator",
        "attrgetter",
        Simulate(|t, a, k| getters::new(t, "attrgetter", a, k)),
    ),
    (
        "operator",
        "itemgetter",
        Simulate(|t, a, k| getters::new(t, "itemgetter", a, k)),
    ),
    ("warnings", "warn", Simulate(warned::warn)),
    (
        "sys",
        "exc_info",
        Simulate(|t, a, k| match (a, k) {
            ([], []) => exceptions::handled_parts(t),
            _ => wrong(t, "exc_info"),
        }),
    ),
    (
        "sys",
        "exception",
        Simulate(|t, a, k| match (a, k) {
            ([], []) => Ok(exceptions::handled(t)),
            _ => wrong(t, "exception"),
        }),
    ),
    (
        "typing",
        "cast",
        Simulate(|t, a, k| match (a, k) {
            ([_, x], []) => Ok(*x),
            _ => wrong(t, "cast"),
        }),
    ),
];
