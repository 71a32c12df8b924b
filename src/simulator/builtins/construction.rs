//! Builtins that make a value of their arguments: containers, numbers and strings, slices, partial
//! calls.

use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;

use crate::call::call;
use crate::frame::Modules;
use crate::methods::names::UPDATE;
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::variables::kinds::SLICE;
use crate::variables::{DictVar, Kind, SetVar, VarId};
use crate::{
    Kwargs, Step, Tracer, attributes, exceptions, fold, format, item, iterate, keys, methods, sets,
    subscript, tensors,
};

use super::reflection::is_callable;
use super::wrong;

pub(crate) fn sequence(
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

pub(crate) fn dict(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let made = t.add(Kind::Dict(DictVar::default()));
    methods::call(t, made, UPDATE, args, kwargs)?;
    Ok(made)
}

/// `dict.fromkeys(keys, value)`
pub(crate) fn from_keys(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, value) = match (args, kwargs) {
        ([over], []) => (*over, t.none()),
        ([over, value], []) => (*over, *value),
        _ => return wrong(t, "dict.fromkeys"),
    };
    let made = t.add(Kind::Dict(DictVar::default()));
    iterate::for_each(t, over, |t, key| subscript::set(t, made, key, value))?;
    Ok(made)
}

/// Stops where a constructor is given what cannot be called: what has no `__call__` raises there.
fn check_callable(t: &mut Tracer<'_>, value: VarId, name: &str) -> Step<()> {
    let callable = is_callable(t, value)?;
    let answer = t.const_value(callable);
    match answer.is_some_and(|answer| answer.is_truthy().unwrap_or(false)) {
        true => Ok(()),
        false => wrong(t, name),
    }
}

pub(crate) fn default_dict(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [factory, rest @ ..] = args else {
        return wrong(t, "defaultdict");
    };
    check_callable(t, *factory, "defaultdict")?;
    let class = Obj::from(t.py.collections()?.getattr("defaultdict")?);
    let made = dict(t, rest, kwargs)?;
    t.vars.update(made, |var| {
        if let Kind::Dict(dict) = &mut var.kind {
            dict.class = Some(class);
            dict.default_factory = Some(*factory);
        }
    });
    Ok(made)
}

pub(crate) fn ordered(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let class = Obj::from(t.py.collections()?.getattr("OrderedDict")?);
    let made = t.add(Kind::Dict(DictVar {
        class: Some(class),
        ..DictVar::default()
    }));
    methods::call(t, made, UPDATE, args, kwargs)?;
    Ok(made)
}

pub(crate) fn set(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    frozen: bool,
) -> Step<VarId> {
    let mut made = SetVar {
        frozen,
        ..SetVar::default()
    };
    match (args, kwargs) {
        ([], []) => {}
        ([over], []) => {
            let class = t.type_of(*over);
            if frozen && class.is_some_and(|class| class.is(t.py.get_type::<PyFrozenSet>())) {
                t.guard_class(*over);
                return Ok(*over);
            }
            let merges = sets::merges(t, *over);
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

pub(crate) fn convert(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
    name: &str,
) -> Step<VarId> {
    if let ([value], []) = (args, kwargs) {
        if let Some(number) = item::of_builtin(t, name, *value)? {
            return Ok(number);
        }
        // Of the class itself: the same object.
        if let ("float", Kind::Float(_)) | ("int", Kind::Int(_)) = (name, t.kind(*value)) {
            return Ok(*value);
        }
    }
    if let [value, ..] = args {
        if let Kind::Tensor(_) = t.kind(*value) {
            let id = match name {
                "str" => BreakId::TensorText,
                _ => BreakId::TensorValue,
            };
            return t.stop(id, format!("{name}() of a tensor"));
        }
        if let Kind::Object(_) = t.kind(*value) {
            if args.len() > 1 || !kwargs.is_empty() {
                return wrong(t, name);
            }
            if let ("str", Some(text)) = (name, exceptions::shown(t, *value, "str")?) {
                return Ok(text);
            }
            let class = t.builtin(name)?;
            if let Some(text) = format::of_instance(t, &class, args)? {
                return Ok(text);
            }
            let method = attributes::get_special(t, *value, &format!("__{name}__"))?;
            let result = call(t, method, &[], &[])?;
            let exact = t.builtin(name)?;
            let class = t.type_of(result);
            if !class.is_some_and(|class| class.is(&exact)) {
                return t.unsupported(format!("__{name}__() that answers with something else"));
            }
            return Ok(result);
        }
    }
    let class = t.builtin(name)?;
    fold::call_object(t, &class, args, kwargs)
}

pub(crate) fn dunder_or_fold(
    t: &mut Tracer<'_>,
    value: VarId,
    dunder: &str,
    name: &str,
) -> Step<VarId> {
    if let Kind::Tensor(_) = t.kind(value) {
        return tensors::method(t, value, name, &[], &[]);
    }
    if let Kind::Object(_) = t.kind(value) {
        let method = attributes::get_special(t, value, dunder)?;
        return call(t, method, &[], &[]);
    }
    let function = t.builtin(name)?;
    fold::call_object(t, &function, &[value], &[])
}

pub(crate) fn slice(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let none = t.none();
    let parts = match (args, kwargs) {
        ([stop], []) => [none, *stop, none],
        ([start, stop], []) => [*start, *stop, none],
        ([start, stop, step], []) => [*start, *stop, *step],
        _ => return wrong(t, SLICE),
    };
    Ok(t.add(Kind::Slice(parts)))
}

/// `functools.partial`
pub(crate) const PARTIAL: &str = "partial";

pub(crate) fn partial(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let [function, rest @ ..] = args else {
        return wrong(t, PARTIAL);
    };
    check_callable(t, *function, PARTIAL)?;
    Ok(t.add(Kind::Partial {
        function: *function,
        args: rest.to_vec(),
        kwargs: kwargs.to_vec(),
    }))
}
