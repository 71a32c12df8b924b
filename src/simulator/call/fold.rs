//! Constant folding: running the real operation on immutable builtin values.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyInt, PyList, PyRange, PySet, PyString, PyTuple, PyType};

use crate::bytecode::CmpOp;
use crate::frame::TYPES;
use crate::obj::{is_attr, is_enum_meta};
use crate::reason::BreakKind;
use crate::texts::{ASCII, FORMAT, REPR};
use crate::variables::kinds::PARTS;
use crate::variables::{DictVar, Kind, SetVar, VarId};

use crate::call::describe;
use crate::variables::protocol;
use crate::{Kwargs, Step, Stop, Tracer};
use crate::{
    classes, dynamic_scalar, exceptions, format, iterate, keys, list_texts, numpy_scalars,
    process_state, texts,
};

/// Containers in containers deeper than this are left to the interpreter: the C stack is not
/// endless.
pub const MAX_NESTING: usize = 650;

/// Looks into a container; `None` where it is in too many others, or in itself.
pub fn deeper<'py, R>(t: &mut Tracer<'py>, look: impl FnOnce(&mut Tracer<'py>) -> R) -> Option<R> {
    if t.progress.nesting > MAX_NESTING {
        return None;
    }
    t.progress.nesting += 1;
    let found = look(t);
    t.progress.nesting -= 1;
    Some(found)
}

/// A fresh real object equal to the variable, when it is made of constants only.
pub fn to_object<'py>(t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    deeper(t, |t| protocol::to_object(t, id))?
}

/// The same of several.
pub(crate) fn to_objects<'py>(
    t: &mut Tracer<'py>,
    items: &[VarId],
) -> Option<Vec<Bound<'py, PyAny>>> {
    items.iter().map(|item| to_object(t, *item)).collect()
}

/// A union of classes, which is guarded.
pub(crate) fn union<'py>(t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    let union = t.value(id).filter(is_union)?;
    t.guard_identity(id);
    Some(union)
}

/// Whether it is `A | B` of classes, which nothing can change.
fn is_union(value: &Bound<'_, PyAny>) -> bool {
    is_attr(&value.get_type(), TYPES, "UnionType")
}

/// Whether comparing, hashing and looking into this class runs no user code.
pub fn has_plain_metaclass(class: &Bound<'_, PyAny>) -> bool {
    let meta = class.get_type();
    if meta.is(class.py().get_type::<PyType>()) {
        return true;
    }
    is_attr(&meta, "abc", "ABCMeta") || is_enum_meta(&meta)
}

/// The variable for a result of folding. Mutable results become values that the frame made.
pub fn from_object<'py>(t: &mut Tracer<'py>, value: &Bound<'py, PyAny>) -> Step<VarId> {
    let many = |t: &mut Tracer<'py>, items: Vec<Bound<'py, PyAny>>| {
        items
            .iter()
            .map(|item| from_object(t, item))
            .collect::<Step<Vec<_>>>()
    };
    if let Ok(list) = value.cast_exact::<PyList>() {
        let items = many(t, list.iter().collect())?;
        return Ok(t.add(Kind::List(items)));
    }
    if let (true, Ok(list)) = (t.is_size(value), value.cast::<PyList>()) {
        let items = many(t, list.iter().collect())?;
        return t.size(items);
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        let items = many(t, tuple.iter().collect())?;
        return Ok(t.add(Kind::Tuple(items, None)));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let mut made = DictVar::default();
        for (key, value) in dict.iter() {
            let key = from_object(t, &key)?;
            let value = from_object(t, &value)?;
            made.items.insert(keys::key_of(t, key)?, (key, value));
        }
        return Ok(t.add(Kind::Dict(made)));
    }
    if value.is_exact_instance_of::<PySet>() || value.is_exact_instance_of::<PyFrozenSet>() {
        // The order of a set depends on how it came about.
        if value.len()? > 1 {
            return t.unsupported("a set made by another operation than adding");
        }
        let mut made = SetVar {
            frozen: value.is_exact_instance_of::<PyFrozenSet>(),
            ..SetVar::default()
        };
        for item in value.try_iter()? {
            let item = from_object(t, &item?)?;
            made.items.insert(keys::key_of(t, item)?, item);
        }
        return Ok(t.add(Kind::Set(made)));
    }
    if value.is_exact_instance_of::<PyRange>() {
        return match PARTS.map(|part| value.getattr(part)?.extract::<i64>()) {
            [Ok(start), Ok(stop), Ok(step)] if iterate::is_short(start, stop, step) => {
                Ok(t.add(Kind::Range(start, stop, step)))
            }
            _ => t.unsupported("a range() of such numbers"),
        };
    }
    if crate::tracer::is_plain_constant(value) {
        return Ok(t.constant(value));
    }
    let id = t.constant(value);
    if is_union(value) {
        return Ok(id);
    }
    if let Kind::Const | Kind::Scalar | Kind::Class | Kind::Callable | Kind::Module =
        t.vars.kind(id)
    {
        Ok(id)
    } else {
        t.unsupported("the result of this call is not a constant")
    }
}

/// Arguments as fresh real objects; `None` when one is not made of constants.
pub fn arguments<'py>(
    t: &mut Tracer<'py>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<(Bound<'py, PyTuple>, Bound<'py, PyDict>)>> {
    let mut objects = Vec::with_capacity(args.len());
    for arg in args {
        match to_object(t, *arg) {
            Some(object) => objects.push(object),
            None => return Ok(None),
        }
    }
    let named = PyDict::new(t.py);
    for (name, value) in kwargs {
        match to_object(t, *value) {
            Some(object) => named.set_item(&**name, object)?,
            None => return Ok(None),
        }
    }
    Ok(Some((PyTuple::new(t.py, objects)?, named)))
}

/// Calls a pure callable on constants.
pub fn call_object<'py>(
    t: &mut Tracer<'py>,
    callable: &Bound<'py, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    if kwargs.is_empty() {
        if let Some(text) = format::of_instance(t, callable, args)? {
            return Ok(text);
        }
        if let Some(number) = dynamic_scalar::called(t, callable, args)? {
            return Ok(number);
        }
        if let Some(text) = list_texts::shown(t, callable, args)? {
            return Ok(text);
        }
        if let Some(text) = texts::shown(t, callable, args)? {
            return Ok(text);
        }
    }
    let name = crate::obj::text_of(callable, "__name__");
    let mut objects = Vec::with_capacity(args.len() + kwargs.len());
    let given: Vec<VarId> = args
        .iter()
        .chain(kwargs.iter().map(|(_, value)| value))
        .copied()
        .collect();
    let mutable = any_mutable(t, &given);
    for arg in args {
        match to_object(t, *arg) {
            Some(object) => objects.push(object),
            None => {
                let kind = t.kind(*arg).clone();
                let what = describe(t, *arg, &kind);
                return t.stop(BreakKind::UnsupportedCall, format!("{name}() of {what}"));
            }
        }
    }
    let args = PyTuple::new(t.py, &objects)?;
    let named = PyDict::new(t.py);
    for (name, value) in kwargs {
        match to_object(t, *value) {
            Some(object) => {
                named.set_item(&**name, &object)?;
                objects.push(object);
            }
            None => {
                return t.stop(
                    BreakKind::UnsupportedCall,
                    format!("{name}= is not a constant"),
                );
            }
        }
    }
    refuse_huge(t, &name, &objects)?;
    refuse_members(t, &name, &objects)?;
    process_state::check(t, callable, &name, &objects)?;
    if objects.iter().any(crate::native::is_scalar) {
        let value = numpy_scalars::compute(t, callable, &args, &named)?;
        let simple = crate::tracer::is_plain_constant(&value) || crate::native::is_scalar(&value);
        return match simple {
            true => from_object(t, &value),
            false => t.unsupported("a computation with a scalar that gives no number"),
        };
    }
    let Some(made) = process_state::call(t, callable, &args, &named)? else {
        return t.unsupported("a computation that warns");
    };
    match made {
        // What comes out of a copy is not what is in the original.
        Ok(value) if mutable && !crate::tracer::is_plain_constant(&value) => {
            t.unsupported("a part of a container that was copied")
        }
        Ok(value) => from_object(t, &value),
        Err(err) => raise_error(t, &err),
    }
}

/// Whether this is a list, dict or set, a view of one, or a tuple of such.
pub fn holds_mutable(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Tuple(items, _) = t.kind(id).clone() {
        return any_mutable(t, &items);
    }
    matches!(
        t.kind(id),
        Kind::List(_) | Kind::Dict(_) | Kind::DictView(..) | Kind::Set(_)
    )
}

/// Whether one of these is such a thing.
pub fn any_mutable(t: &mut Tracer<'_>, items: &[VarId]) -> bool {
    let any = |t: &mut Tracer<'_>| items.iter().any(|item| holds_mutable(t, *item));
    deeper(t, any).unwrap_or(true)
}

/// The members of an enumeration may have methods of the user's, which must run in every call.
fn refuse_members(t: &Tracer<'_>, name: &str, args: &[Bound<'_, PyAny>]) -> Step<()> {
    if matches!(name, REPR | ASCII | "str" | FORMAT | "hash" | "len") {
        return Ok(());
    }
    for arg in args.iter().filter_map(|arg| arg.cast::<PyType>().ok()) {
        if arg.get_type().hasattr("__iter__")? {
            return t.unsupported(format!("{name}() of the members of a class"));
        }
    }
    Ok(())
}

/// Folding must not take for ever or fill the memory.
fn refuse_huge(t: &Tracer<'_>, name: &str, args: &[Bound<'_, PyAny>]) -> Step<()> {
    let big = |value: &Bound<'_, PyAny>, limit: i64| {
        value.is_instance_of::<PyInt>()
            && value
                .extract::<i64>()
                .map_or(true, |number| number.abs() > limit)
    };
    let refuse = match name {
        "pow" | "ipow" | "lshift" | "ilshift" => {
            args.len() > 1 && big(&args[1], 4096) && args[0].is_instance_of::<PyInt>()
        }
        "mul" | "imul" => {
            args.iter().any(|arg| {
                arg.is_instance_of::<PyString>() || crate::truth::is_sequence_object(arg)
            }) && args.iter().any(|arg| big(arg, 100_000))
        }
        _ => false,
    };
    if refuse {
        return t.unsupported("a constant that is too large to compute while compiling");
    }
    Ok(())
}

/// The program raises what the real operation raised.
pub fn raise_error<T>(t: &mut Tracer<'_>, err: &PyErr) -> Step<T> {
    let value = err.value(t.py);
    let class = value.get_type();
    let args = value.getattr("args")?;
    let args = from_object(t, &args)?;
    let Kind::Tuple(args, _) = t.kind(args).clone() else {
        return t.unsupported("an exception without args");
    };
    Err(Stop::Raise(exceptions::new(t, class.as_any(), args)))
}

/// An item of a constant.
pub(crate) fn get_item(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<VarId> {
    operator(t, "getitem", &[container, key])
}

/// `operator.<name>(*args)` on constants.
pub fn operator(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let stem = name.trim_matches('_');
    let forward = format!("__{stem}__");
    let reflected = match CmpOp::from_dunder(&forward) {
        Some(op) => op.reflected().dunder().to_owned(),
        None => format!("__r{stem}__"),
    };
    let names = [forward, reflected];
    for arg in args {
        classes::check_member(t, *arg, &[&names[0], &names[1]])?;
    }
    let function = t.operator(name)?;
    call_object(t, &function, args, &[])
}
