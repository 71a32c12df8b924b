//! Builtin functions and classes, as a table.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyType};
use rustc_hash::FxHashMap;

use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::{DictVar, IterVar, Kind, SetVar, VarId};

use super::call::call;
use super::conversions;
use super::{
    attributes, classes, exceptions, fold, format, generators, iterate, keys, layers, methods,
    operators, printing, pylayer, regions, scalars, tensors,
};
use super::{Kwargs, Step, Stop, Tracer};

type Handler = fn(&mut Tracer<'_>, &[VarId], &Kwargs) -> Step<VarId>;

/// A row: module, name, what it does. Adding a builtin is adding a row.
const TABLE: &[(&str, &str, Handler)] = &[
    ("builtins", "len", |t, a, k| {
        one(t, a, k, |t, x| {
            let len = operators::len(t, x)?;
            Ok(t.int(len))
        })
    }),
    ("builtins", "isinstance", isinstance),
    ("builtins", "issubclass", is_subclass),
    ("builtins", "type", |t, a, k| one(t, a, k, type_of)),
    ("builtins", "getattr", get_attr),
    ("builtins", "hasattr", has_attr),
    ("builtins", "setattr", set_attr),
    ("builtins", "callable", |t, a, k| one(t, a, k, is_callable)),
    ("builtins", "range", range),
    ("builtins", "enumerate", enumerate),
    ("builtins", "zip", zip),
    ("builtins", "map", map),
    ("builtins", "filter", filter),
    ("builtins", "reversed", |t, a, k| one(t, a, k, reversed)),
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
            if let Some(number) = conversions::of_builtin(t, "bool", x)? {
                return Ok(number);
            }
            let truth = operators::truth(t, x)?;
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
    ("builtins", "object", |t, a, k| {
        let _ = (a, k);
        t.stop(BreakKind::UnsupportedCall, "object()")
    }),
    ("builtins", "print", |t, a, k| {
        if t.options.capture_print {
            if let Some(done) = printing::print(t, a, k)? {
                return Ok(done);
            }
        }
        t.stop(BreakKind::UnsupportedCall, "print()")
    }),
    ("builtins", "format", |t, a, k| {
        let _ = k;
        match a {
            [x] => format::format_value(t, *x, 0, None),
            [x, s] => format::format_value(t, *x, 0, Some(*s)),
            _ => wrong(t, "format"),
        }
    }),
    ("paddle_sot_rs._control", "apply_layer", |t, a, k| match a {
        [class, args @ ..] => pylayer::apply(t, *class, args, k),
        [] => wrong(t, "apply"),
    }),
    ("functools", "partial", partial),
    ("functools", "reduce", reduce),
    ("collections", "defaultdict", default_dict),
    ("collections", "OrderedDict", |t, a, k| {
        let made = dict(t, a, k)?;
        ordered(t, made)
    }),
    ("typing", "cast", |t, a, k| {
        let _ = k;
        match a {
            [_, x] => Ok(*x),
            _ => wrong(t, "cast"),
        }
    }),
    ("paddle", "is_tensor", |t, a, k| {
        one(t, a, k, |t, x| {
            let is = matches!(t.kind(x), Kind::Tensor(_));
            Ok(t.bool(is))
        })
    }),
    ("paddle", "is_grad_enabled", |t, a, k| {
        let _ = (a, k);
        let on = t.grad_enabled;
        Ok(t.bool(on))
    }),
    ("paddle.base.core", "_has_grad", |t, a, k| {
        let _ = (a, k);
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
            let function = t.py.import("paddle.base.data_feeder")?;
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
        let _ = (a, k);
        Ok(t.bool(true))
    }),
    ("paddle.base.framework", "in_dygraph_mode", |t, a, k| {
        let _ = (a, k);
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
        let _ = (a, k);
        let v = t.py.import("paddle")?.call_method0("get_default_dtype")?;
        Ok(t.constant(&v))
    }),
    ("paddle", "shape", |t, a, k| {
        let _ = k;
        match a {
            [_] => shape_statement(t, a[0]),
            _ => wrong(t, "shape"),
        }
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
const PURE_MODULES: &[&str] = &["math", "cmath"];

/// Functions of `operator` that change nothing and answer with something new.
const PURE_OPERATORS: &[&str] = &[
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
const PURE_BUILTINS: &[&str] = &[
    "round", "divmod", "pow", "chr", "ord", "hash", "repr", "ascii", "bin", "hex", "oct",
    "complex", "bytes",
];

/// Names of builtins with a row, and of those that are folded.
pub(super) fn names() -> (Vec<&'static str>, &'static [&'static str]) {
    let rows = TABLE.iter().filter(|row| row.0 == "builtins");
    (rows.map(|row| row.1).collect(), PURE_BUILTINS)
}

static HANDLERS: PyOnceLock<FxHashMap<usize, (Obj, Handler)>> = PyOnceLock::new();

fn handlers(py: Python<'_>) -> PyResult<&'static FxHashMap<usize, (Obj, Handler)>> {
    HANDLERS.get_or_try_init(py, || {
        let mut rows = FxHashMap::default();
        for (module, name, handler) in TABLE {
            let found = py.import(*module).and_then(|module| {
                let mut parts = name.split('.');
                parts.try_fold(module.into_any(), |found, part| found.getattr(part))
            });
            if let Ok(found) = found {
                rows.insert(found.as_ptr() as usize, (Obj::from(found), *handler));
            }
        }
        Ok(rows)
    })
}

/// Calls a builtin function or class of the table; `None` when it is not there.
pub fn try_call(
    t: &mut Tracer<'_>,
    callable: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(object) = t.value(callable) else {
        return Ok(None);
    };
    if let Some((_, handler)) = handlers(t.py)?.get(&(object.as_ptr() as usize)) {
        t.guard_identity(callable);
        return handler(t, args, kwargs).map(Some);
    }
    // A method of a class is a new object every time it is read.
    let dict_type = t.py.get_type::<pyo3::types::PyDict>();
    if kwargs.is_empty() && object.is_instance_of::<pyo3::types::PyCFunction>() {
        let of_dict = object
            .getattr("__self__")
            .is_ok_and(|owner| owner.is(&dict_type));
        if of_dict && object.getattr("__name__")?.eq("fromkeys")? {
            return from_keys(t, args).map(Some);
        }
    }
    if let Some(result) = unbound_method(t, &object, args, kwargs)? {
        return Ok(Some(result));
    }
    if matches!(t.kind(callable), Kind::Class) && !fold::has_plain_metaclass(&object) {
        return Ok(None);
    }
    let text = |name: &str| {
        object
            .getattr(name)
            .and_then(|value| value.extract::<String>())
            .unwrap_or_default()
    };
    let (module, name) = (text("__module__"), text("__name__"));
    let native = matches!(t.kind(callable), Kind::Callable | Kind::Class);
    let operator = matches!(module.as_str(), "operator" | "_operator");
    if native && operator {
        t.guard_identity(callable);
        if let Some(result) = operator_function(t, &name, args, kwargs)? {
            return Ok(Some(result));
        }
    }
    if kwargs.is_empty() && says_how_paddle_is_built(&object, &name) {
        t.guard_identity(callable);
        return fold::call_object(t, &object, args, kwargs).map(Some);
    }
    if native && kwargs.is_empty() {
        if let Some(result) = scalars::call(t, callable, &object, args)? {
            return Ok(Some(result));
        }
    }
    let pure = PURE_MODULES.contains(&module.as_str())
        || operator && PURE_OPERATORS.contains(&name.as_str())
        || module == "builtins" && PURE_BUILTINS.contains(&name.as_str());
    if !native || !pure {
        return Ok(None);
    }
    t.guard_identity(callable);
    if let ("repr" | "ascii", [value], []) = (name.as_str(), args, kwargs) {
        if let Some(text) = exceptions::shown(t, *value, &name)? {
            return Ok(Some(text));
        }
    }
    fold::call_object(t, &object, args, kwargs).map(Some)
}

/// Whether this is one of Paddle's functions whose answer does not change while the process lives.
fn says_how_paddle_is_built(object: &Bound<'_, PyAny>, name: &str) -> bool {
    let known = name.starts_with("is_compiled_with_")
        || matches!(
            name,
            "get_all_custom_device_type" | "get_all_device_type" | "get_custom_device_count"
        );
    let of_core = |name: &str| -> PyResult<bool> {
        let core = object.py().import("paddle.base.core")?;
        Ok(core.getattr(name)?.is(object))
    };
    known && of_core(name).unwrap_or(false)
}

/// `operator.add(x, y)` and its like on any kinds.
fn operator_function(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    use crate::bytecode::{BinOp, CmpOp};
    let stem = name.trim_end_matches('_').trim_start_matches('_');
    if !kwargs.is_empty() {
        return Ok(None);
    }
    if let ([value], "not" | "truth") = (args, stem) {
        let truth = operators::truth(t, *value)?;
        return Ok(Some(t.bool(truth == (stem == "truth"))));
    }
    if let ([value], Some(op)) = (args, operators::UnaryOp::named(stem)) {
        return operators::unary(t, op, *value).map(Some);
    }
    let binary = [
        BinOp::Add,
        BinOp::Sub,
        BinOp::Mul,
        BinOp::TrueDiv,
        BinOp::FloorDiv,
        BinOp::Rem,
        BinOp::Pow,
        BinOp::MatMul,
        BinOp::And,
        BinOp::Or,
        BinOp::Xor,
        BinOp::LShift,
        BinOp::RShift,
    ];
    let compare = [
        CmpOp::Lt,
        CmpOp::Le,
        CmpOp::Eq,
        CmpOp::Ne,
        CmpOp::Gt,
        CmpOp::Ge,
    ];
    let [a, b] = args else { return Ok(None) };
    if let Some(op) = binary.into_iter().find(|op| op.stem() == stem) {
        return operators::binary(t, op, false, *a, *b).map(Some);
    }
    if let Some(op) = compare
        .into_iter()
        .find(|op| op.dunder().trim_matches('_') == stem)
    {
        return operators::compare(t, op, *a, *b).map(Some);
    }
    Ok(match stem {
        "getitem" => Some(super::subscript::get(t, *a, *b)?),
        "contains" => {
            let found = operators::contains(t, *a, *b)?;
            Some(t.bool(found))
        }
        "is" | "is_not" => {
            let same = operators::is_same(t, *a, *b)?;
            Some(t.bool(same == (stem == "is")))
        }
        _ => None,
    })
}

/// `list.append(x, 1)`, `Tensor.reshape(x, ...)`, `str.upper(s)`, `object.__init__(x)`.
fn unbound_method(
    t: &mut Tracer<'_>,
    object: &Bound<'_, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let kind = object.get_type().name()?.to_string();
    if !matches!(
        kind.as_str(),
        "method_descriptor" | "wrapper_descriptor" | "instancemethod"
    ) {
        return Ok(None);
    }
    let name = object
        .getattr("__name__")
        .and_then(|name| name.extract::<String>())
        .unwrap_or_default();
    let Some((receiver, rest)) = args.split_first() else {
        return Ok(None);
    };
    if matches!(t.kind(*receiver), Kind::Tensor(_)) {
        return tensors::method(t, *receiver, &name, rest, kwargs).map(Some);
    }
    let object_type = t.py.get_type::<PyAny>();
    if name == "__init__"
        && object
            .getattr("__objclass__")
            .is_ok_and(|class| class.is(&object_type))
    {
        if !rest.is_empty() || !kwargs.is_empty() {
            return t.stop(
                BreakKind::RaisesException,
                "object.__init__() with arguments",
            );
        }
        return Ok(Some(t.none()));
    }
    if name == "__getattribute__"
        && object
            .getattr("__objclass__")
            .is_ok_and(|class| class.is(&object_type))
    {
        if let ([name], Kind::Object(state) | Kind::Layer(state)) =
            (rest, t.kind(*receiver).clone())
        {
            if let Some(name) = t.const_str(*name) {
                return attributes::generic_or_raise(t, *receiver, &state, &name).map(Some);
            }
        }
    }
    if name == "__setattr__"
        && object
            .getattr("__objclass__")
            .is_ok_and(|class| class.is(&object_type))
    {
        if let ([name, value], Kind::Object(_)) = (rest, t.kind(*receiver).clone()) {
            if let Some(name) = t.const_str(*name) {
                attributes::set_plainly(t, *receiver, &name, *value)?;
                return Ok(Some(t.none()));
            }
        }
    }
    if methods::exists(t, *receiver, &name)? {
        return methods::call(t, *receiver, &name, rest, kwargs).map(Some);
    }
    t.stop(BreakKind::UnsupportedCall, format!("the C method {name}"))
}

fn wrong<T>(t: &Tracer<'_>, name: &str) -> Step<T> {
    t.stop(
        BreakKind::UnsupportedCall,
        format!("{name}() with these arguments"),
    )
}

fn one(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    body: fn(&mut Tracer<'_>, VarId) -> Step<VarId>,
) -> Step<VarId> {
    match (args, kwargs) {
        ([value], []) => body(t, *value),
        _ => wrong(t, "a builtin"),
    }
}

fn type_of(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    match t.type_of(value) {
        Some(class) => Ok(t.constant(class.as_any())),
        None => t.unsupported("type() of this value"),
    }
}

fn isinstance(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([value, class], []) = (args, kwargs) else {
        return wrong(t, "isinstance");
    };
    let answer = is_instance(t, *value, *class)?;
    Ok(t.bool(answer))
}

/// `isinstance(value, class)`
pub fn is_instance(t: &mut Tracer<'_>, value: VarId, class: VarId) -> Step<bool> {
    let Some(of) = t.type_of(value) else {
        return t.unsupported("isinstance() of this value");
    };
    let answer = subclass(t, &of, class, true)?;
    if !answer && matches!(t.kind(value), Kind::Object(_) | Kind::Opaque) {
        attributes::own_class(t, &of)?;
    }
    Ok(answer)
}

fn is_subclass(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([value, class], []) = (args, kwargs) else {
        return wrong(t, "issubclass");
    };
    // Its identity is what the answer depends on.
    t.realize(*value);
    let Some(of) = t
        .value(*value)
        .and_then(|value| value.cast_into::<PyType>().ok())
    else {
        return wrong(t, "issubclass");
    };
    let answer = subclass(t, &of, *class, false)?;
    Ok(t.bool(answer))
}

/// `issubclass`, or `isinstance` of a value of class `of`, for classes whose metaclass does not decide itself.
fn subclass(
    t: &mut Tracer<'_>,
    of: &Bound<'_, PyType>,
    class: VarId,
    instance: bool,
) -> Step<bool> {
    if let Kind::Tuple(classes, None) = t.kind(class).clone() {
        for class in classes {
            if subclass(t, of, class, instance)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let id = class;
    let Some(class) = t.value(class) else {
        return t.unsupported("isinstance() with this class");
    };
    if let Ok(class) = class.cast::<PyType>() {
        if classes::inherits(t, of, class.as_any()) {
            return Ok(true);
        }
        let meta = class.get_type();
        let plain = meta.is(t.py.get_type::<PyType>());
        if plain {
            return Ok(false);
        }
        let abstract_ = meta.name()?.to_string();
        let std = class
            .getattr("__module__")?
            .extract::<String>()
            .unwrap_or_default();
        if abstract_ == "ABCMeta" && (std.starts_with("collections") || std == "numbers") {
            return classes::is_registered(t, of, class);
        }
        classes::guard_names(t, &meta, &["__instancecheck__", "__subclasscheck__"]);
        let own = |name: &str| -> PyResult<bool> {
            let default = t.py.get_type::<PyType>().getattr(name)?;
            Ok(!super::attributes::lookup(&meta, name).is_some_and(|found| found.is(&default)))
        };
        if !own("__instancecheck__")? && !own("__subclasscheck__")? {
            return Ok(of.is_subclass(class)?);
        }
        if !own("__subclasscheck__")? && meta.getattr("__module__")?.eq("paddle.base.framework")? {
            // In dynamic mode tensors are instances of static mode's classes, but no subclasses.
            if !instance {
                return Ok(of.is_subclass(class)?);
            }
            let base = match abstract_.as_str() {
                "VariableMetaClass" => Some(t.paddle.tensor.bind(t.py).clone()),
                "ParameterMetaClass" => {
                    let framework = t.py.import("paddle.base.framework")?;
                    Some(framework.getattr("EagerParamBase")?)
                }
                _ => None,
            };
            if let Some(base) = base {
                return Ok(of.is_subclass(&base)?);
            }
        }
        return t.unsupported("isinstance() with a class that decides itself");
    }
    if class.get_type().name()? == "UnionType" {
        t.guard_identity(id);
        let args = class.getattr("__args__")?;
        for class in args.try_iter()? {
            let class = t.constant(&class?);
            if subclass(t, of, class, instance)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    // `typing.Sequence` without parameters stands for the class of `collections.abc`.
    if class
        .get_type()
        .is(&t.py.import("typing")?.getattr("_SpecialGenericAlias")?)
    {
        t.guard_identity(id);
        let origin = t.constant(&class.getattr("__origin__")?);
        return subclass(t, of, origin, instance);
    }
    t.unsupported("isinstance() with something that is not a class")
}

fn get_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "getattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "getattr");
    };
    match rest {
        [] => attributes::get(t, *object, &name),
        [default] => match attribute_or_none(t, *object, &name)? {
            Some(value) => Ok(value),
            None => Ok(*default),
        },
        _ => wrong(t, "getattr"),
    }
}

/// An attribute, with `AttributeError` turned into `None`.
pub fn attribute_or_none(t: &mut Tracer<'_>, object: VarId, name: &str) -> Step<Option<VarId>> {
    if matches!(t.kind(object), Kind::Tensor(_)) && tensors::lacks(t, object, name)? {
        return Ok(None);
    }
    match attributes::try_get(t, object, name) {
        Err(Stop::Raise(exception)) => {
            let class = t.py.import("builtins")?.getattr("AttributeError")?;
            let class = t.constant(&class);
            if exceptions::matches(t, exception, class)? {
                Ok(None)
            } else {
                Err(Stop::Raise(exception))
            }
        }
        answer => answer,
    }
}

fn has_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name], []) = (args, kwargs) else {
        return wrong(t, "hasattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "hasattr");
    };
    let found = attribute_or_none(t, *object, &name)?;
    Ok(t.bool(found.is_some()))
}

fn set_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name, value], []) = (args, kwargs) else {
        return wrong(t, "setattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "setattr");
    };
    attributes::set(t, *object, &name, *value)?;
    Ok(t.none())
}

fn is_callable(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let answer = match t.kind(value).clone() {
        Kind::Function(_)
        | Kind::Method { .. }
        | Kind::BoundBuiltin { .. }
        | Kind::Class
        | Kind::Partial { .. }
        | Kind::Layer(_) => true,
        Kind::Object(_) => attributes::try_get_special(t, value, "__call__")?.is_some(),
        Kind::Const | Kind::Callable => t.value(value).is_some_and(|value| value.is_callable()),
        Kind::Opaque => return t.unsupported("callable() of an opaque object"),
        _ => false,
    };
    Ok(t.bool(answer))
}

fn range(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    if let Some(range) = regions::range(t, args, kwargs)? {
        return Ok(range);
    }
    let mut numbers = Vec::new();
    for arg in args {
        match (t.const_int(*arg), t.kind(*arg)) {
            (Some(number), _) => numbers.push(number),
            (None, Kind::Tensor(_)) => {
                return t.stop(BreakKind::TensorValue, "range() of a tensor")
            }
            _ => return wrong(t, "range"),
        }
    }
    let (start, stop, step) = match (numbers[..].as_ref(), kwargs) {
        ([stop], []) => (0, *stop, 1),
        ([start, stop], []) => (*start, *stop, 1),
        ([start, stop, step], []) if *step != 0 => (*start, *stop, *step),
        _ => return wrong(t, "range"),
    };
    Ok(t.add(Kind::Range(start, stop, step)))
}

fn iterators(t: &mut Tracer<'_>, values: &[VarId]) -> Step<Vec<VarId>> {
    values
        .iter()
        .map(|value| iterate::get_iter(t, *value))
        .collect()
}

fn enumerate(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, start) = match (args, kwargs) {
        ([over], []) => (*over, None),
        ([over, start], []) => (*over, Some(*start)),
        ([over], [(name, start)]) if &**name == "start" => (*over, Some(*start)),
        _ => return wrong(t, "enumerate"),
    };
    let count = match start {
        Some(start) => t.const_int(start),
        None => Some(0),
    };
    let Some(count) = count else {
        return wrong(t, "enumerate");
    };
    let inner = iterate::get_iter(t, over)?;
    Ok(t.add(Kind::Iter(IterVar::Enumerate { inner, count })))
}

fn zip(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let strict = match kwargs {
        [] => false,
        [(name, value)] if &**name == "strict" => operators::truth(t, *value)?,
        _ => return wrong(t, "zip"),
    };
    let inner = iterators(t, args)?;
    Ok(t.add(Kind::Iter(IterVar::Zip { inner, strict })))
}

fn map(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([function, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "map");
    };
    if rest.is_empty() {
        return wrong(t, "map");
    }
    let inner = iterators(t, rest)?;
    Ok(t.add(Kind::Iter(IterVar::Map {
        function: *function,
        inner,
    })))
}

fn filter(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([function, over], []) = (args, kwargs) else {
        return wrong(t, "filter");
    };
    let function = (!t.is_none(*function)).then_some(*function);
    let inner = iterate::get_iter(t, *over)?;
    Ok(t.add(Kind::Iter(IterVar::Filter { function, inner })))
}

fn reversed(t: &mut Tracer<'_>, over: VarId) -> Step<VarId> {
    match t.kind(over).clone() {
        Kind::List(items) | Kind::Tuple(items, _) => Ok(t.add(Kind::Iter(IterVar::Reversed {
            over,
            left: items.len(),
        }))),
        Kind::Range(..) | Kind::Const => {
            let mut items = iterate::collect(t, over)?;
            items.reverse();
            Ok(t.add(Kind::Iter(IterVar::Fixed {
                over: None,
                items,
                index: 0,
            })))
        }
        _ => wrong(t, "reversed"),
    }
}

fn sorted(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [over] = args else {
        return wrong(t, "sorted");
    };
    let items = iterate::collect_for_list(t, *over)?;
    let items = methods::sort(t, items, kwargs)?;
    Ok(t.add(Kind::List(items)))
}

fn next(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([iterator, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "next");
    };
    match rest {
        [] => generators::next_or_stop(t, *iterator),
        [default] => Ok(iterate::next(t, *iterator)?.unwrap_or(*default)),
        _ => wrong(t, "next"),
    }
}

fn sequence(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    make: fn(Vec<VarId>) -> Kind,
) -> Step<VarId> {
    let items = match (args, kwargs) {
        ([], []) => Vec::new(),
        ([over], []) => {
            let unchanged = matches!(
                (t.kind(*over), make(Vec::new())),
                (Kind::Tuple(_, None), Kind::Tuple(..))
            );
            if unchanged {
                return Ok(*over);
            }
            iterate::collect_for_list(t, *over)?
        }
        _ => return wrong(t, "list or tuple"),
    };
    Ok(t.add(make(items)))
}

fn dict(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let made = t.add(Kind::Dict(DictVar::default()));
    methods::call(t, made, "update", args, kwargs)?;
    Ok(made)
}

/// `dict.fromkeys(keys, value)`
fn from_keys(t: &mut Tracer<'_>, args: &[VarId]) -> Step<VarId> {
    let (over, value) = match args {
        [over] => (*over, t.none()),
        [over, value] => (*over, *value),
        _ => return wrong(t, "dict.fromkeys"),
    };
    let made = t.add(Kind::Dict(DictVar::default()));
    for key in iterate::collect(t, over)? {
        super::subscript::set(t, made, key, value)?;
    }
    Ok(made)
}

fn default_dict(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [factory, rest @ ..] = args else {
        return wrong(t, "defaultdict");
    };
    // Checked by the constructor: what has no `__call__` raises there.
    let callable = is_callable(t, *factory)?;
    if t.const_value(callable)
        .is_none_or(|answer| !answer.is_truthy().unwrap_or(false))
    {
        return wrong(t, "defaultdict");
    }
    let class = Obj::from(t.py.import("collections")?.getattr("defaultdict")?);
    let made = dict(t, rest, kwargs)?;
    t.vars.update(made, |var| {
        if let Kind::Dict(dict) = &mut var.kind {
            dict.class = Some(class);
            dict.default_factory = Some(*factory);
        }
    });
    Ok(made)
}

fn ordered(t: &mut Tracer<'_>, dict: VarId) -> Step<VarId> {
    let class = Obj::from(t.py.import("collections")?.getattr("OrderedDict")?);
    t.vars.update(dict, |var| {
        if let Kind::Dict(dict) = &mut var.kind {
            dict.class = Some(class);
        }
    });
    Ok(dict)
}

fn set(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs, frozen: bool) -> Step<VarId> {
    let mut made = SetVar {
        frozen,
        ..SetVar::default()
    };
    match (args, kwargs) {
        ([], []) => {}
        ([over], []) => {
            let merges = matches!(t.kind(*over), Kind::Set(_) | Kind::Dict(_));
            for item in iterate::collect_for_set(t, *over)? {
                let key = keys::key_of(t, item)?;
                made.items.entry(key).or_insert(item);
            }
            if merges && made.items.len() > 1 {
                return wrong(t, "set");
            }
        }
        _ => return wrong(t, "set"),
    }
    Ok(t.add(Kind::Set(made)))
}

fn sum(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, start) = match (args, kwargs) {
        ([over], []) => (*over, t.int(0)),
        ([over, start], []) => (*over, *start),
        ([over], [(name, start)]) if &**name == "start" => (*over, *start),
        _ => return wrong(t, "sum"),
    };
    // Numbers are added by the real function: floats are compensated since 3.12.
    let mut items = iterate::collect(t, over)?;
    let mut total = start;
    if matches!(t.kind(start), Kind::Const) {
        let tail = items
            .iter()
            .position(|item| !matches!(t.kind(*item), Kind::Const));
        let rest = items.split_off(tail.unwrap_or(items.len()));
        let function = t.py.import("builtins")?.getattr("sum")?;
        let numbers = t.add(Kind::List(items));
        total = fold::call_object(t, &function, &[numbers, start], &[])?;
        items = rest;
    }
    for item in items {
        total = operators::binary(t, crate::bytecode::BinOp::Add, false, total, item)?;
    }
    Ok(total)
}

fn quantify(t: &mut Tracer<'_>, over: VarId, wanted: bool) -> Step<VarId> {
    let iterator = iterate::get_iter(t, over)?;
    while let Some(item) = iterate::next(t, iterator)? {
        if operators::truth(t, item)? == wanted {
            return Ok(t.bool(wanted));
        }
    }
    Ok(t.bool(!wanted))
}

fn extreme(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    name: &str,
    op: crate::bytecode::CmpOp,
) -> Step<VarId> {
    let mut key = None;
    let mut default = None;
    for (keyword, value) in kwargs {
        match &**keyword {
            "key" => key = (!t.is_none(*value)).then_some(*value),
            "default" => default = Some(*value),
            _ => return wrong(t, name),
        }
    }
    let items = match args {
        [over] => iterate::collect(t, *over)?,
        [_, _, ..] if default.is_none() => args.to_vec(),
        _ => return wrong(t, name),
    };
    let mut best: Option<(VarId, VarId)> = None;
    for item in items {
        let by = match key {
            Some(key) => call(t, key, &[item], &[])?,
            None => item,
        };
        let better = match best {
            None => true,
            Some((known, _)) => {
                let verdict = operators::compare(t, op, by, known)?;
                operators::truth(t, verdict)?
            }
        };
        if better {
            best = Some((by, item));
        }
    }
    match (best, default) {
        (Some((_, item)), _) => Ok(item),
        (None, Some(default)) => Ok(default),
        _ => exceptions::throw(t, "ValueError"),
    }
}

fn convert(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs, name: &str) -> Step<VarId> {
    if let ([value], []) = (args, kwargs) {
        if let Some(number) = conversions::of_builtin(t, name, *value)? {
            return Ok(number);
        }
    }
    if let [value, ..] = args {
        match t.kind(*value).clone() {
            Kind::Tensor(_) => {
                return t.stop(BreakKind::TensorValue, format!("{name}() of a tensor"))
            }
            Kind::Object(_) => {
                if args.len() > 1 || !kwargs.is_empty() {
                    return wrong(t, name);
                }
                if let ("str", Some(text)) = (name, exceptions::shown(t, *value, "str")?) {
                    return Ok(text);
                }
                let method = attributes::get_special(t, *value, &format!("__{name}__"))?;
                let result = call(t, method, &[], &[])?;
                let exact = t.py.import("builtins")?.getattr(name)?;
                let class = t.type_of(result);
                if !class.is_some_and(|class| class.is(&exact)) {
                    return t.unsupported(format!("__{name}__() that answers with something else"));
                }
                return Ok(result);
            }
            _ => {}
        }
    }
    let class = t.py.import("builtins")?.getattr(name)?;
    fold::call_object(t, &class, args, kwargs)
}

fn dunder_or_fold(t: &mut Tracer<'_>, value: VarId, dunder: &str, name: &str) -> Step<VarId> {
    match t.kind(value).clone() {
        Kind::Tensor(_) => tensors::method(t, value, name, &[], &[]),
        Kind::Object(_) => {
            let method = attributes::get_special(t, value, dunder)?;
            call(t, method, &[], &[])
        }
        _ => {
            let function = t.py.import("builtins")?.getattr(name)?;
            fold::call_object(t, &function, &[value], &[])
        }
    }
}

fn slice(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let none = t.none();
    let parts = match (args, kwargs) {
        ([stop], []) => [none, *stop, none],
        ([start, stop], []) => [*start, *stop, none],
        ([start, stop, step], []) => [*start, *stop, *step],
        _ => return wrong(t, "slice"),
    };
    Ok(t.add(Kind::Slice(parts)))
}

fn super_(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([class, receiver], []) = (args, kwargs) else {
        return wrong(t, "super");
    };
    t.realize(*class);
    match (t.kind(*class).clone(), t.value(*class)) {
        (Kind::Class, Some(object)) => {
            let of = match t.kind(*receiver) {
                Kind::Class => t
                    .value(*receiver)
                    .and_then(|receiver| receiver.cast_into::<PyType>().ok()),
                _ => t.type_of(*receiver),
            };
            if !of.is_some_and(|of| classes::inherits(t, &of, &object)) {
                return wrong(t, "super");
            }
            Ok(t.add(Kind::Super {
                class: Obj::from(object),
                receiver: *receiver,
            }))
        }
        _ => wrong(t, "super"),
    }
}

fn partial(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [function, rest @ ..] = args else {
        return wrong(t, "partial");
    };
    Ok(t.add(Kind::Partial {
        function: *function,
        args: rest.to_vec(),
        kwargs: kwargs.to_vec(),
    }))
}

fn reduce(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([function, over, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "reduce");
    };
    let mut items = iterate::collect(t, *over)?.into_iter();
    let first = match rest {
        [initial] => Some(*initial),
        _ => items.next(),
    };
    let Some(mut total) = first else {
        return wrong(t, "reduce");
    };
    for item in items {
        total = call(t, *function, &[total, item], &[])?;
    }
    Ok(total)
}

fn shape_statement(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let function = t.py.import("paddle")?.getattr("shape")?;
    let callee = crate::graph::Callee::Api(Obj::from(function));
    tensors::capture(t, callee, None, &[tensor], &[], &mut |_| None)
}
