//! Builtin functions and classes, as a table: a new one is a row here.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::simulator::call::call;
use crate::simulator::containers::deques;
use crate::simulator::{
    attributes, exceptions, fold, format, item, iterate, layers, printing, pylayer, recompute,
    rows, tensors, truth, Kwargs, Step, Tracer,
};
use crate::variables::{protocol, Kind, ObjectVar, VarId};

use super::construction::{
    convert, default_dict, dict, dunder_or_fold, ordered, partial, sequence, set, slice,
};
use super::iteration::{
    enumerate, extreme, filter, map, next, quantify, range, reduce, sorted, sum, zip,
};
use super::reflection::{
    del_attr, get_attr, has_attr, is_callable, is_subclass, isinstance, set_attr, super_, type_of,
};
use super::{context_variables, getters, itertools, warned};
use super::{one, wrong};

/// A call of a function of Paddle's that is followed in another form: see `_graph/followed.py`.
fn followed_as(t: &mut Tracer<'_>, name: &str, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let function =
        t.py.module("paddle_sot_rs._graph.followed")?
            .getattr(name)?;
    let function = t.constant(&function);
    call(t, function, args, kwargs)
}

pub(super) type Handler = fn(&mut Tracer<'_>, &[VarId], &Kwargs) -> Step<VarId>;

/// A row: module, name, what it does. Adding a builtin is adding a row.
pub(super) const TABLE: &[(&str, &str, Handler)] = &[
    ("builtins", "len", |t, a, k| {
        one(t, a, k, |t, x| {
            if let Some(rows) = rows::len(t, x) {
                return Ok(rows);
            }
            let len = truth::len(t, x)?;
            Ok(t.int(len))
        })
    }),
    ("builtins", "isinstance", isinstance),
    ("builtins", "issubclass", is_subclass),
    ("builtins", "type", |t, a, k| one(t, a, k, type_of)),
    ("builtins", "getattr", get_attr),
    ("builtins", "hasattr", has_attr),
    ("builtins", "setattr", set_attr),
    ("builtins", "delattr", del_attr),
    ("builtins", "callable", |t, a, k| one(t, a, k, is_callable)),
    ("builtins", "range", range),
    ("builtins", "enumerate", enumerate),
    ("builtins", "zip", zip),
    ("builtins", "map", map),
    ("builtins", "filter", filter),
    ("builtins", "reversed", |t, a, k| {
        one(t, a, k, protocol::reversed)
    }),
    ("builtins", "sorted", sorted),
    ("builtins", "iter", |t, a, k| {
        one(t, a, k, iterate::get_iter)
    }),
    ("builtins", "next", next),
    ("builtins", "list", |t, a, k| sequence(t, a, k, Kind::List)),
    ("builtins", "tuple", |t, a, k| {
        sequence(t, a, k, |items| Kind::Tuple(items, None))
    }),
    ("builtins", "dict", dict),
    ("builtins", "set", |t, a, k| set(t, a, k, false)),
    ("builtins", "frozenset", |t, a, k| set(t, a, k, true)),
    ("builtins", "sum", sum),
    ("builtins", "any", |t, a, k| {
        one(t, a, k, |t, x| quantify(t, x, true))
    }),
    ("builtins", "all", |t, a, k| {
        one(t, a, k, |t, x| quantify(t, x, false))
    }),
    ("builtins", "min", |t, a, k| {
        extreme(t, a, k, "min", crate::bytecode::CmpOp::Lt)
    }),
    ("builtins", "max", |t, a, k| {
        extreme(t, a, k, "max", crate::bytecode::CmpOp::Gt)
    }),
    ("builtins", "bool", |t, a, k| {
        one(t, a, k, |t, x| {
            if let Some(number) = item::of_builtin(t, "bool", x)? {
                return Ok(number);
            }
            let truth = truth::truth(t, x)?;
            Ok(t.bool(truth))
        })
    }),
    ("builtins", "str", |t, a, k| convert(t, a, k, "str")),
    ("builtins", "int", |t, a, k| convert(t, a, k, "int")),
    ("builtins", "float", |t, a, k| convert(t, a, k, "float")),
    ("builtins", "abs", |t, a, k| {
        one(t, a, k, |t, x| dunder_or_fold(t, x, "__abs__", "abs"))
    }),
    ("builtins", "slice", slice),
    ("builtins", "super", super_),
    ("builtins", "object", |t, a, k| match (a, k) {
        ([], []) => {
            let class = t.original("builtins", "object")?;
            Ok(t.add(Kind::Object(ObjectVar::of(Obj::from(class)))))
        }
        _ => wrong(t, "object"),
    }),
    ("builtins", "print", |t, a, k| {
        if t.options.capture_print {
            if let Some(done) = printing::print(t, a, k)? {
                return Ok(done);
            }
        }
        t.stop(BreakKind::UnsupportedCall, "print()")
    }),
    ("builtins", "format", |t, a, k| match a {
        [x] if k.is_empty() => format::format_value(t, *x, 0, None),
        [x, s] if k.is_empty() => format::format_value(t, *x, 0, Some(*s)),
        _ => wrong(t, "format"),
    }),
    (
        "paddle_sot_rs._graph.control",
        "apply_layer",
        |t, a, k| match a {
            [class, args @ ..] => pylayer::apply(t, *class, args, k),
            [] => wrong(t, "apply"),
        },
    ),
    (
        "paddle.nn.layer.rnn",
        "RNNCellBase.get_initial_states",
        |t, a, k| followed_as(t, "initial_states", a, k),
    ),
    ("functools", "partial", partial),
    ("functools", "reduce", reduce),
    ("itertools", "accumulate", itertools::accumulate),
    ("itertools", "batched", itertools::batched),
    ("itertools", "chain", itertools::chain),
    ("itertools", "combinations", itertools::combinations),
    (
        "itertools",
        "combinations_with_replacement",
        itertools::combinations_with_replacement,
    ),
    ("itertools", "compress", itertools::compress),
    ("itertools", "count", itertools::count),
    ("itertools", "cycle", |t, a, k| {
        one(t, a, k, itertools::cycle)
    }),
    ("itertools", "dropwhile", itertools::drop_while),
    ("itertools", "filterfalse", itertools::filter_false),
    ("itertools", "islice", itertools::islice),
    ("itertools", "pairwise", |t, a, k| {
        one(t, a, k, itertools::pairwise)
    }),
    ("itertools", "permutations", itertools::permutations),
    ("itertools", "product", itertools::product),
    ("itertools", "repeat", itertools::repeat),
    ("itertools", "starmap", itertools::starmap),
    ("itertools", "takewhile", itertools::take_while),
    ("itertools", "zip_longest", itertools::zip_longest),
    ("collections", "defaultdict", default_dict),
    ("collections", "OrderedDict", ordered),
    ("collections", "deque", deques::new),
    ("collections", "_count_elements", |t, a, k| {
        followed_as(t, "count_elements", a, k)
    }),
    ("logging", "Logger.isEnabledFor", |t, a, k| {
        followed_as(t, "is_enabled_for", a, k)
    }),
    ("contextvars", "ContextVar.get", context_variables::get),
    ("types", "SimpleNamespace", |t, a, k| {
        if !a.is_empty() {
            return wrong(t, "SimpleNamespace");
        }
        let class = t.py.module("types")?.getattr("SimpleNamespace")?;
        let made = t.add(Kind::Object(ObjectVar::of(Obj::from(class))));
        for (name, value) in k {
            attributes::write(t, made, name, Some(*value))?;
        }
        Ok(made)
    }),
    ("operator", "attrgetter", |t, a, k| {
        getters::new(t, "attrgetter", a, k)
    }),
    ("operator", "itemgetter", |t, a, k| {
        getters::new(t, "itemgetter", a, k)
    }),
    ("warnings", "warn", warned::warn),
    ("sys", "exc_info", |t, a, k| match (a, k) {
        ([], []) => exceptions::handled_parts(t),
        _ => wrong(t, "exc_info"),
    }),
    ("sys", "exception", |t, a, k| match (a, k) {
        ([], []) => Ok(exceptions::handled(t)),
        _ => wrong(t, "exception"),
    }),
    ("typing", "cast", |t, a, k| match (a, k) {
        ([_, x], []) => Ok(*x),
        _ => wrong(t, "cast"),
    }),
    ("paddle", "is_tensor", |t, a, k| {
        one(t, a, k, |t, x| {
            let is = matches!(t.kind(x), Kind::Tensor(_));
            Ok(t.bool(is))
        })
    }),
    ("paddle", "is_grad_enabled", |t, a, k| {
        if !(a.is_empty() && k.is_empty()) {
            return wrong(t, "is_grad_enabled");
        }
        recompute::check_reads(t)?;
        pylayer::check_reads(t, None)?;
        let on = t.grad_enabled;
        Ok(t.bool(on))
    }),
    ("paddle.base.core", "_has_grad", |t, a, k| {
        if !(a.is_empty() && k.is_empty()) {
            return wrong(t, "_has_grad");
        }
        let on = t.grad_enabled;
        Ok(t.bool(on))
    }),
    // `no_grad.__enter__` and `__exit__` of objects that exist already end here.
    ("paddle.base.core", "_set_has_grad", |t, a, k| {
        one(t, a, k, |t, mode| {
            let mode = t.const_value(mode);
            // What else is true or false Paddle refuses, or asks user code about.
            let mode = mode.filter(|mode| mode.is_none() || mode.cast::<PyInt>().is_ok());
            match mode.map(|mode| mode.is_truthy()) {
                None => t.unsupported("a grad mode that is no bool"),
                Some(Ok(on)) if t.entry_grad || !on => {
                    t.grad_enabled = on;
                    t.cut_off += usize::from(!on);
                    Ok(t.none())
                }
                _ => t.stop(
                    BreakKind::UnsupportedOperation,
                    "gradients are switched on in a function that is called without them",
                ),
            }
        })
    }),
    ("paddle.nn", "Layer.__setattr__", |t, a, k| match (a, k) {
        ([layer, name, value], []) if matches!(t.kind(*layer), Kind::Layer(_)) => {
            let Some(name) = t.const_str(*name) else {
                return wrong(t, "__setattr__");
            };
            attributes::set_on_layer(t, *layer, &name, *value)?;
            Ok(t.none())
        }
        _ => wrong(t, "__setattr__"),
    }),
    ("paddle.nn", "Layer.__getattr__", |t, a, k| match (a, k) {
        ([layer, name], []) if matches!(t.kind(*layer), Kind::Layer(_)) => {
            let Some(name) = t.const_str(*name) else {
                return wrong(t, "__getattr__");
            };
            if let Some(value) = layers::registered(t, *layer, &name)? {
                return Ok(value);
            }
            let Kind::Layer(state) = t.kind(*layer).clone() else {
                return wrong(t, "__getattr__");
            };
            attributes::generic_or_raise(t, *layer, &state, &name)
        }
        _ => wrong(t, "__getattr__"),
    }),
    ("paddle.base.data_feeder", "convert_dtype", |t, a, k| {
        one(t, a, k, |t, dtype| {
            let function = t.py.module("paddle.base.data_feeder")?;
            let function = function.getattr("convert_dtype")?;
            fold::call_object(t, &function, &[dtype], &[])
        })
    }),
    (
        "paddle.base.dygraph.base",
        "in_to_static_mode",
        |t, a, k| {
            let _ = (a, k);
            Ok(t.bool(false))
        },
    ),
    ("paddle", "in_dynamic_mode", |t, a, k| {
        if !(a.is_empty() && k.is_empty()) {
            return wrong(t, "in_dynamic_mode");
        }
        Ok(t.bool(true))
    }),
    ("paddle.base.framework", "in_dygraph_mode", |t, a, k| {
        if !(a.is_empty() && k.is_empty()) {
            return wrong(t, "in_dygraph_mode");
        }
        Ok(t.bool(true))
    }),
    (
        "paddle.base.framework",
        "in_dynamic_or_pir_mode",
        |t, a, k| {
            let _ = (a, k);
            Ok(t.bool(true))
        },
    ),
    ("paddle.base.framework", "in_pir_mode", |t, a, k| {
        let _ = (a, k);
        Ok(t.bool(false))
    }),
    (
        "paddle.base.data_feeder",
        "check_variable_and_dtype",
        |t, a, k| {
            let _ = (a, k);
            Ok(t.none())
        },
    ),
    ("paddle.base.data_feeder", "check_type", |t, a, k| {
        let _ = (a, k);
        Ok(t.none())
    }),
    ("paddle", "get_default_dtype", |t, a, k| {
        if !(a.is_empty() && k.is_empty()) {
            return wrong(t, "get_default_dtype");
        }
        let v = t.py.module("paddle")?.call_method0("get_default_dtype")?;
        Ok(t.constant(&v))
    }),
    ("paddle", "shape", |t, a, k| match (a, k) {
        ([x], []) => shape_statement(t, *x),
        _ => wrong(t, "shape"),
    }),
    ("paddle_sot_rs", "graph_break", |t, a, k| {
        let _ = k;
        let text = a.first().and_then(|x| t.const_str(*x));
        t.stop(
            BreakKind::UserBreak,
            text.map_or("graph_break()".to_owned(), |x| x.to_string()),
        )
    }),
    ("paddle_sot_rs", "is_compiling", |t, a, k| {
        let _ = (a, k);
        Ok(t.bool(true))
    }),
];

/// Modules whose builtin functions are pure: they are folded when all arguments are constants.
pub(super) const PURE_MODULES: &[&str] = &["math", "cmath"];

/// Functions of `operator` that change nothing and answer with something new.
pub(super) const PURE_OPERATORS: &[&str] = &[
    "abs",
    "neg",
    "pos",
    "inv",
    "invert",
    "index",
    "concat",
    "countOf",
    "indexOf",
    "length_hint",
];

/// Builtins that are pure on constants and need no row.
pub(super) const PURE_BUILTINS: &[&str] = &[
    "round", "divmod", "pow", "chr", "ord", "hash", "repr", "ascii", "bin", "hex", "oct",
    "complex", "bytes",
];

/// Names of builtins with a row, and of those that are folded.
pub(in crate::simulator) fn names() -> (Vec<&'static str>, &'static [&'static str]) {
    let rows = TABLE.iter().filter(|row| row.0 == "builtins");
    (rows.map(|row| row.1).collect(), PURE_BUILTINS)
}

fn shape_statement(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let function = t.py.module("paddle")?.getattr("shape")?;
    let callee = crate::graph::Callee::Api(Obj::from(function));
    tensors::capture(t, callee, None, &[tensor], &[], &mut |_| None)
}
