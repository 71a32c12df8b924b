//! Builtin functions and classes: what the rows of the call registry do, functions of `operator`,
//! and methods read off a class.

pub(super) mod construction;
pub(super) mod consumers;
pub(super) mod context_variables;
pub(super) mod getters;
pub(super) mod iteration;
pub(super) mod itertools;
pub(super) mod own_new;
pub(super) mod reflection;
pub mod warned;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::frame::Modules;
use crate::methods::names::EXTEND;
use crate::native;
use crate::obj::{is_named, text_of};
use crate::reason::BreakKind;
use crate::tracker::Tracker;
use crate::variables::{Kind, VarId};

use super::call::call;
use super::containers::{deques, subclasses};
use super::{Kwargs, Step, Tracer};
use super::{
    attributes, classes, comparisons, exceptions, methods, objects, operators, pylayer, tensors,
    truth,
};

pub(super) use getters::call as call_getter;
pub use reflection::{attribute_or_none, is_instance};

/// `SomeLayer.apply(...)` of a PyLayer: a bound method of C code, and another object each time.
pub(super) fn call_apply<'py>(
    t: &mut Tracer<'py>,
    (callee, object): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(class) = pylayer::owner(t, object)? else {
        return Ok(None);
    };
    t.guard_identity(callee);
    let class = match t.source(callee) {
        Some(source) => t.wrap(&class, Arc::new(Tracker::MethodSelf(source))),
        None => t.constant(&class),
    };
    pylayer::apply(t, class, args, kwargs).map(Some)
}

/// `operator.add(x, y)` and its like on any kinds.
pub(super) fn operator_function(
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
        let truth = truth::truth(t, *value)?;
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
        return comparisons::compare(t, op, *a, *b).map(Some);
    }
    Ok(match stem {
        "getitem" => Some(super::subscript::get(t, *a, *b)?),
        "contains" => {
            let found = truth::contains(t, *a, *b)?;
            Some(t.bool(found))
        }
        "is" | "is_not" => {
            let same = comparisons::is_same(t, *a, *b)?;
            Some(t.bool(same == (stem == "is")))
        }
        _ => None,
    })
}

/// `list.append(x, 1)`, `Tensor.reshape(x, ...)`, `str.upper(s)`, `object.__init__(x)`.
pub(super) fn unbound_method<'py>(
    t: &mut Tracer<'py>,
    (_, object): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let is_method = ["method_descriptor", "wrapper_descriptor", "instancemethod"]
        .iter()
        .any(|kind| is_named(object, kind));
    if !is_method {
        return Ok(None);
    }
    let name = text_of(object, "__name__");
    let Some((receiver, rest)) = args.split_first() else {
        return Ok(None);
    };
    // Methods of tensors that are written in C++ do not say whose they are.
    let home = object.getattr_opt("__objclass__")?;
    let is_of = |class: Bound<'_, PyType>| home.as_ref().is_some_and(|home| home.is(&class));
    let is_other_dict = matches!(t.kind(*receiver), Kind::Dict(dict) if dict.class.is_some());
    if is_other_dict && is_of(t.py.get_type::<PyDict>()) {
        return t.unsupported(format!("dict.{name}() of another class"));
    }
    // `list.__len__(b"")` raises, and `object.__hash__("")` is not what `hash("")` is.
    let is_found = t
        .type_of(*receiver)
        .is_some_and(|own| attributes::lookup(&own, &name).is_some_and(|found| found.is(object)));
    if matches!(t.kind(*receiver), Kind::Tensor(_)) {
        if !is_found && home.is_some() {
            return t.unsupported(format!("{name}() of another class than a tensor's"));
        }
        return tensors::method(t, *receiver, &name, rest, kwargs).map(Some);
    }
    let of_object = is_of(t.py.get_type::<PyAny>());
    if name == "__init__" && of_object {
        if !rest.is_empty() || !kwargs.is_empty() {
            return t.stop(
                BreakKind::RaisesException,
                "object.__init__() with arguments",
            );
        }
        return Ok(Some(t.none()));
    }
    if name == "__call__" && is_of(t.py.get_type::<PyType>()) {
        let is_python = |class: Bound<'_, PyAny>| native::is_mutable(&class.get_type());
        if matches!(t.kind(*receiver), Kind::Class) && t.value(*receiver).is_some_and(is_python) {
            return objects::make_instance(t, *receiver, rest, kwargs).map(Some);
        }
    }
    if let ("__init__", Some(base)) = (&*name, &home) {
        if let Some(result) = exceptions::init(t, base, *receiver, rest, kwargs)? {
            return Ok(Some(result));
        }
        if let Some(result) = subclasses::init(t, base, *receiver, rest, kwargs)? {
            return Ok(Some(result));
        }
    }
    if name == "__ne__" && of_object {
        if let ([other], Kind::Object(_)) = (rest, t.kind(*receiver)) {
            return is_not_equal(t, *receiver, *other).map(Some);
        }
    }
    if name == "__getattribute__" && of_object {
        if let ([name], Kind::Object(state) | Kind::Layer(state)) =
            (rest, t.kind(*receiver).clone())
        {
            if let Some(name) = t.const_str(*name) {
                return attributes::generic_or_raise(t, *receiver, &state, &name).map(Some);
            }
        }
    }
    if name == "__setattr__" && of_object {
        if let ([name, value], Kind::Object(_)) = (rest, t.kind(*receiver).clone()) {
            if let Some(name) = t.const_str(*name) {
                attributes::set_plainly(t, *receiver, &name, *value)?;
                return Ok(Some(t.none()));
            }
        }
    }
    if is_found && methods::exists(t, *receiver, &name)? {
        return methods::call(t, *receiver, &name, rest, kwargs).map(Some);
    }
    // What goes over the object, where it is handed on, is made by the method that its class has.
    let live = ["__iter__", "items", "keys", "values"].contains(&&*name);
    if is_found || !live {
        if let Some(result) = use_contents(t, (object, &name), *receiver, rest, kwargs)? {
            return Ok(Some(result));
        }
    }
    t.stop(BreakKind::UnsupportedCall, format!("the C method {name}"))
}

/// `object.__ne__(a, b)`, which asks `__eq__` (`object_richcompare`).
fn is_not_equal(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<VarId> {
    let equal = attributes::get_special(t, a, "__eq__")?;
    let equal = call(t, equal, &[b], &[])?;
    let declines = |answer: Bound<'_, PyAny>| answer.is(answer.py().NotImplemented());
    if t.value(equal).is_some_and(declines) {
        return Ok(equal);
    }
    let equal = truth::truth(t, equal)?;
    Ok(t.bool(!equal))
}

/// A method of `dict`, `list` or `tuple` that reads an instance of a subclass, or changes a new
/// one.
fn use_contents(
    t: &mut Tracer<'_>,
    (method, name): (&Bound<'_, PyAny>, &str),
    receiver: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(contents) = t.contents(receiver, method, name) else {
        return Ok(None);
    };
    if t.type_of(receiver)
        .is_some_and(|own| deques::is_exact(&own))
    {
        return deques::call(t, receiver, name, args, kwargs).map(Some);
    }
    if let ("__getitem__", [key]) = (name, args) {
        let found = if let Kind::Dict(dict) = t.kind(contents).clone() {
            // `__missing__` of the class answers for other keys.
            let key = super::keys::key_of(t, *key)?;
            dict.items.contains_key(&key) || !has_missing(t, receiver)
        } else {
            // A slice of a list is a new one; of a tuple it may be the tuple.
            matches!(t.kind(contents), Kind::List(_)) || t.const_int(*key).is_some()
        };
        if !found {
            return made_for_key(t, receiver, contents, *key);
        }
    }
    // It would grow while it is gone over, and CPython copies what goes into a slice of its own.
    let takes_items = match (name, args) {
        (EXTEND, _) => true,
        ("__setitem__", [key, _]) => {
            matches!(t.kind(contents), Kind::List(_)) && t.const_int(*key).is_none()
        }
        _ => false,
    };
    if takes_items && args.contains(&receiver) {
        return t.unsupported("a container that is given to a method of its own");
    }
    methods::call(t, contents, name, args, kwargs).map(Some)
}

/// What a dict of a class with `__missing__` answers for a key that it has not.
fn made_for_key(
    t: &mut Tracer<'_>,
    dict: VarId,
    contents: VarId,
    key: VarId,
) -> Step<Option<VarId>> {
    let class = t.py.collections()?.getattr("defaultdict")?;
    if !t.type_of(dict).is_some_and(|own| own.is(&class)) {
        let missing = attributes::get_special(t, dict, "__missing__")?;
        return super::call::call(t, missing, &[key], &Vec::new()).map(Some);
    }
    let factory = attributes::get(t, dict, "default_factory")?;
    t.realize(factory);
    if t.is_none(factory) {
        return Ok(None);
    }
    let made = super::call::call(t, factory, &[], &Vec::new())?;
    methods::call(t, contents, "__setitem__", &[key, made], &Vec::new())?;
    Ok(Some(made))
}

fn has_missing(t: &mut Tracer<'_>, object: VarId) -> bool {
    let Some(class) = t.type_of(object) else {
        return true;
    };
    classes::guard_names(t, &class, &["__missing__"]);
    attributes::lookup(&class, "__missing__").is_some()
}

/// Stops: these arguments are left to the interpreter.
pub(super) fn wrong<T>(t: &Tracer<'_>, name: &str) -> Step<T> {
    t.stop(
        BreakKind::UnsupportedCall,
        format!("{name}() with these arguments"),
    )
}

/// A call with one argument, or [`wrong`].
pub(super) fn one(
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
