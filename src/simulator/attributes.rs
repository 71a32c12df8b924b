//! Attribute access with the real lookup rules, running no user code except by simulation.
//!
//! What is found on a class is guarded through [`Tracker::TypeAttr`]; what is found on an instance
//! through its dictionary. CPython: `_PyObject_GenericGetAttrWithDict`, `type_getattro`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFunction, PyTuple, PyType};

use crate::guard::{native, GuardKind};
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{AttrOp, FunctionVar, Kind, ObjectVar, TensorVar, VarId};

use super::call::{call, describe};
use super::{classes, exceptions, groups, inplace, layers, methods, namespaces, tensors};
use super::{Step, Stop, Tracer};

/// `obj.name`
pub fn get(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<VarId> {
    match try_get(t, obj, name)? {
        Some(value) => Ok(value),
        None => missing(t, obj, name),
    }
}

fn missing<T>(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<T> {
    let kind = t.kind(obj).clone();
    let message = match t.type_of(obj).and_then(|class| class.name().ok()) {
        Some(class) => format!("'{class}' object has no attribute '{name}'"),
        None => format!("{} has no attribute '{name}'", describe(t, obj, &kind)),
    };
    match kind {
        Kind::Object(_)
        | Kind::Layer(_)
        | Kind::List(_)
        | Kind::Tuple(..)
        | Kind::Dict(_)
        | Kind::Const => exceptions::throw(t, "AttributeError"),
        _ => t.stop(BreakKind::RaisesException, message),
    }
}

/// `obj.name`; `None` when there is no such attribute.
pub fn try_get(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if matches!(name, "append" | "extend") && t.is_unread_list(obj) {
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    match t.kind(obj).clone() {
        Kind::Tensor(_) => tensors::attribute(t, obj, name).map(Some),
        Kind::Object(object) | Kind::Layer(object) => of_instance(t, obj, &object, name),
        Kind::Module => of_module(t, obj, name),
        Kind::Class => of_class(t, obj, name),
        Kind::Super { class, receiver } => of_super(t, &class, receiver, name).map(Some),
        Kind::Function(_) => of_function(t, obj, name),
        Kind::Method { receiver, function } => match name {
            "__self__" => Ok(Some(receiver)),
            "__func__" => Ok(Some(function)),
            _ => try_get(t, function, name),
        },
        Kind::Tuple(items, Some(class)) => of_named_tuple(t, obj, &items, &class, name),
        Kind::Slice([start, stop, step]) => Ok(match name {
            "start" => Some(start),
            "stop" => Some(stop),
            "step" => Some(step),
            _ => return t.unsupported(format!("attribute {name} of a slice")),
        }),
        Kind::Range(start, stop, step) => Ok(match name {
            "start" => Some(t.int(start)),
            "stop" => Some(t.int(stop)),
            "step" => Some(t.int(step)),
            _ => return t.unsupported(format!("attribute {name} of a range")),
        }),
        Kind::Const => of_constant(t, obj, name),
        Kind::Callable if name == "__name__" || name == "__doc__" || name == "__qualname__" => {
            let Some(value) = t.value(obj) else {
                return Ok(None);
            };
            let value = value.getattr(name)?;
            Ok(Some(t.constant(&value)))
        }
        kind => {
            if methods::exists(t, obj, name)? || namespaces::has_method(t, obj, name) {
                return Ok(Some(t.add(Kind::BoundBuiltin {
                    receiver: obj,
                    name: Arc::from(name),
                })));
            }
            if let Some(value) = groups::real_member(t, obj, name)? {
                return Ok(Some(value));
            }
            if name == "__class__" {
                if let Some(class) = t.type_of(obj) {
                    own_class(t, &class)?;
                    return Ok(Some(t.constant(class.as_any())));
                }
            }
            let what = describe(t, obj, &kind);
            t.stop(
                BreakKind::UnsupportedAttribute,
                format!("attribute {name} of {what}"),
            )
        }
    }
}

fn of_constant(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if let Some(value) = t.value(obj).filter(super::tracer::is_enum_member) {
        return of_enum_member(t, obj, &value, name);
    }
    if methods::exists(t, obj, name)? {
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    let Some(value) = t.value(obj) else {
        return Ok(None);
    };
    let is_data = matches!(
        name,
        "value" | "name" | "real" | "imag" | "numerator" | "denominator" | "__class__" | "__name__"
    );
    match value.getattr(name) {
        Ok(found) if is_data => Ok(Some(t.constant(&found))),
        // The limits of a dtype.
        Ok(found) if value.hasattr("bits")? && super::tracer::is_plain_constant(&found) => {
            Ok(Some(t.constant(&found)))
        }
        Ok(_) => t.stop(
            BreakKind::UnsupportedAttribute,
            format!("attribute {name} of a constant"),
        ),
        Err(_) => Ok(None),
    }
}

/// A member is a constant; its attributes, other than its name and value, are those of any object.
fn of_enum_member<'py>(
    t: &mut Tracer<'py>,
    obj: VarId,
    value: &Bound<'py, PyAny>,
    name: &str,
) -> Step<Option<VarId>> {
    let class = value.get_type();
    let found = lookup(&class, name);
    let of_enum = |found: &Bound<'py, PyAny>| {
        let module = found.get_type().module();
        module.is_ok_and(|module| module == "enum")
    };
    let of_c = |found: &Bound<'py, PyAny>| is_named(found, "method_descriptor");
    let fixed = match name {
        "_value_" | "_name_" => true,
        // `enum.property`, as `Enum` defines them.
        "value" | "name" => found.as_ref().is_some_and(|found| {
            of_enum(found)
                && found
                    .getattr("fget")
                    .is_ok_and(|own| is_of_enum_module(&own))
        }),
        _ => false,
    };
    if fixed {
        classes::guard_names(t, &class, &[name, "__getattribute__"]);
        let field = match name {
            "value" => "_value_",
            "name" => "_name_",
            own => own,
        };
        return instance_value(t, obj, field);
    }
    if found.as_ref().is_some_and(of_c) && methods::exists(t, obj, name)? {
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    let object = ObjectVar {
        class: Obj::from(&class),
        writes: Vec::new(),
        base: None,
    };
    of_instance(t, obj, &object, name)
}

/// Whether a function was written in the module `enum`.
pub fn is_of_enum_module(function: &Bound<'_, PyAny>) -> bool {
    let module = function.getattr("__module__");
    module.is_ok_and(|module| module.eq("enum").unwrap_or(false))
}

/// The first class of the MRO that defines `name`, and what it defines.
pub fn lookup<'py>(class: &Bound<'py, PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
    lookup_after(class, None, name).map(|(_, value)| value)
}

fn lookup_after<'py>(
    class: &Bound<'py, PyType>,
    after: Option<&Bound<'py, PyAny>>,
    name: &str,
) -> Option<(Bound<'py, PyType>, Bound<'py, PyAny>)> {
    let mut skipping = after.is_some();
    for base in class.mro().iter() {
        if skipping {
            skipping = !after.is_some_and(|after| base.is(after));
            continue;
        }
        let base = base.cast_into::<PyType>().ok()?;
        let dict = crate::obj::of_type(&base, "__dict__")?;
        if let Ok(value) = dict.get_item(name) {
            return Some((base, value));
        }
    }
    None
}

fn class_of<'py>(t: &Tracer<'py>, class: &Obj) -> Step<Bound<'py, PyType>> {
    match class.bind(t.py).cast::<PyType>() {
        Ok(class) => Ok(class.clone()),
        Err(_) => t.unsupported("a class that is not a type"),
    }
}

/// Guards what `name` resolves to on the class of `obj`; the answer is its tracker.
pub fn guard_type_attr(
    t: &mut Tracer<'_>,
    class: &Obj,
    name: &str,
    found: Option<&Bound<'_, PyAny>>,
) -> TrackerRef {
    let root = Arc::new(Tracker::Const(class.clone()));
    let tracker = Arc::new(Tracker::TypeAttr(root, Arc::from(name)));
    match found {
        Some(found) if super::tracer::is_plain_constant(found) => {}
        // What they hold is guarded where it is used: these themselves cannot be referenced weakly.
        Some(found) if is_holder(found) => {
            let class = Obj::from(found.get_type());
            t.guards.add(&tracker, GuardKind::TypeIs(class));
        }
        Some(found) => t.guards.add(&tracker, GuardKind::Is(Obj::from(found))),
        None => t.guards.add(&tracker, GuardKind::Absent),
    }
    tracker
}

/// What a `staticmethod` or `classmethod` holds.
pub(super) fn wrapped_function(
    t: &mut Tracer<'_>,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
) -> Step<VarId> {
    let function = found.getattr("__func__")?;
    let tracker = Arc::new(Tracker::Member(tracker, Arc::from("__func__")));
    Ok(t.wrap(&function, tracker))
}

enum Descriptor {
    Data,
    NonData,
    Plain,
}

fn descriptor(found: &Bound<'_, PyAny>) -> Descriptor {
    let class = found.get_type();
    let has = |name: &str| lookup(&class, name).is_some();
    if has("__set__") || has("__delete__") {
        Descriptor::Data
    } else if has("__get__") {
        Descriptor::NonData
    } else {
        Descriptor::Plain
    }
}

/// An exact `staticmethod` or `classmethod`.
fn is_holder(found: &Bound<'_, PyAny>) -> bool {
    let class = found.get_type();
    class.module().is_ok_and(|module| module == "builtins")
        && (is_named(found, "staticmethod") || is_named(found, "classmethod"))
}

fn is_named(value: &Bound<'_, PyAny>, name: &str) -> bool {
    value.get_type().name().is_ok_and(|found| found == name)
}

fn of_instance(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    name: &str,
) -> Step<Option<VarId>> {
    let class = class_of(t, &object.class)?;
    if name == "__class__" {
        own_class(t, &class)?;
        return Ok(Some(t.constant(class.as_any())));
    }
    if name == "args" && object.base.is_some() {
        return Ok(object.base);
    }
    let found = match custom_getattribute(t, &class)? {
        Some(own) => through(t, obj, object, &own, name)?,
        None => match generic(t, obj, object, name) {
            // `__getattr__` is asked too where a property, say, raises an `AttributeError`.
            Err(Stop::Raise(exception))
                if lookup(&class, "__getattr__").is_some()
                    && exceptions::is_a(t, exception, "AttributeError")? =>
            {
                None
            }
            found => found?,
        },
    };
    if found.is_some() {
        return Ok(found);
    }
    if matches!(t.kind(obj), Kind::Layer(_)) {
        if let Some(value) = layers::registered(t, obj, name)? {
            return Ok(Some(value));
        }
    }
    let fallback = lookup(&class, "__getattr__");
    let tracker = guard_type_attr(t, &object.class, "__getattr__", fallback.as_ref());
    let Some(fallback) = fallback else {
        return Ok(None);
    };
    let base = t.paddle.layer.bind(t.py).getattr("__getattr__")?;
    if fallback.is(&base) {
        return Ok(None);
    }
    let method = bind(t, obj, &object.class, &fallback, tracker, "__getattr__")?;
    let name = t.str(name);
    call(t, method, &[name], &[]).map(Some)
}

/// What a `__getattribute__` of the user's answers; `None` when it raises an `AttributeError`, so that
/// `__getattr__` is asked.
fn through(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    own: &Bound<'_, PyAny>,
    name: &str,
) -> Step<Option<VarId>> {
    let tracker = guard_type_attr(t, &object.class, "__getattribute__", Some(own));
    let method = bind(t, obj, &object.class, own, tracker, "__getattribute__")?;
    let asked = t.str(name);
    match call(t, method, &[asked], &[]) {
        Err(Stop::Raise(exception)) => {
            let asks = lookup(&class_of(t, &object.class)?, "__getattr__").is_some();
            match asks && exceptions::is_a(t, exception, "AttributeError")? {
                true => Ok(None),
                false => Err(Stop::Raise(exception)),
            }
        }
        answer => answer.map(Some),
    }
}

/// `object.__getattribute__(obj, name)`; `None` when it finds nothing.
fn generic(t: &mut Tracer<'_>, obj: VarId, object: &ObjectVar, name: &str) -> Step<Option<VarId>> {
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    let tracker = guard_type_attr(t, &object.class, name, found.as_ref());
    if let Some(found) = &found {
        classes::guard_descriptor(t, found);
        if matches!(descriptor(found), Descriptor::Data) {
            return data_descriptor(t, obj, object, found, tracker, name).map(Some);
        }
    }
    let own = match object.written(name) {
        Some(written) => written,
        None => instance_value(t, obj, name)?,
    };
    if let Some(own) = own {
        // A constant of the class is hidden whatever it is, but a descriptor in its place may not be.
        if let Some(found) = found.filter(super::tracer::is_plain_constant) {
            let kind = GuardKind::TypeIs(Obj::from(found.get_type()));
            t.guards.add(&tracker, kind);
        }
        return Ok(Some(own));
    }
    match &found {
        Some(found) => bind(t, obj, &object.class, found, tracker, name).map(Some),
        None => Ok(None),
    }
}

/// `object.__getattribute__(obj, name)`, with its exception.
pub fn generic_or_raise(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    name: &str,
) -> Step<VarId> {
    match generic(t, obj, object, name)? {
        Some(value) => Ok(value),
        None => exceptions::throw(t, "AttributeError"),
    }
}

/// Stops where a class says something else about the class of its instances.
pub fn own_class(t: &Tracer<'_>, class: &Bound<'_, PyType>) -> Step<()> {
    if native::has_own_lookup(class) {
        return t.unsupported("the class of an object that looks it up elsewhere");
    }
    let default = lookup(&t.py.get_type::<PyAny>(), "__class__");
    match (lookup(class, "__class__"), default) {
        (Some(found), Some(default)) if found.is(&default) => Ok(()),
        _ => t.unsupported("a class with its own __class__"),
    }
}

/// Whether this is the C implementation of the dunder `name` in a built-in class that acts as that of `object`
/// does. Others keep attributes elsewhere: `threading.local`, for one.
fn is_generic(found: &Bound<'_, PyAny>, name: &str) -> bool {
    let named = |own: Bound<'_, PyAny>| own.eq(name).unwrap_or(false);
    let owner = || -> PyResult<bool> {
        let owner = found.getattr("__objclass__")?;
        let module: String = owner.getattr("__module__")?.extract()?;
        let name: String = owner.getattr("__name__")?.extract()?;
        let usual = matches!(module.as_str(), "builtins" | "collections");
        Ok(usual && !matches!(name.as_str(), "type" | "super" | "module"))
    };
    is_named(found, "wrapper_descriptor")
        && found.getattr("__name__").is_ok_and(named)
        && owner().unwrap_or(false)
}

/// The `__getattribute__` that a class of the user's defines.
fn custom_getattribute<'py>(
    t: &mut Tracer<'py>,
    class: &Bound<'py, PyType>,
) -> Step<Option<Bound<'py, PyAny>>> {
    let own = lookup(class, "__getattribute__");
    guard_type_attr(t, &Obj::from(class), "__getattribute__", own.as_ref());
    let default = t.py.get_type::<PyAny>().getattr("__getattribute__")?;
    match own {
        Some(own) if own.is_exact_instance_of::<PyFunction>() => Ok(Some(own)),
        Some(own) if !own.is(&default) && !is_generic(&own, "__getattribute__") => t.stop(
            BreakKind::UnsupportedAttribute,
            "a class with its own __getattribute__",
        ),
        _ => Ok(None),
    }
}

/// The value in the instance dictionary, wrapped; absence is guarded.
pub fn instance_value(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let Some(value) = t.value(obj) else {
        return Ok(None);
    };
    let source = match (t.source(obj), t.kind(obj)) {
        (Some(source), _) => source,
        (None, Kind::Const) => Arc::new(Tracker::Const(Obj::from(&value))),
        (None, _) => return Ok(None),
    };
    let Ok(dict) = instance_dict(&value) else {
        const MANAGED_DICT: u64 = 1 << 4;
        let class = value.get_type();
        let number = |name: &str| crate::obj::of_type(&class, name)?.extract::<i64>().ok();
        let hidden = number("__dictoffset__").is_none_or(|offset| offset != 0)
            || number("__flags__").is_none_or(|flags| flags as u64 & MANAGED_DICT != 0);
        if hidden {
            return t.unsupported("an object that does not show its dictionary");
        }
        return Ok(None);
    };
    t.note_namespace(&dict, &source)?;
    if matches!(name, "_parameters" | "_sub_layers" | "_buffers") {
        if let Kind::Layer(object) = t.kind(obj).clone() {
            let mut written = object.writes.iter().filter_map(|op| op.value);
            if written.any(|value| matches!(t.kind(value), Kind::Tensor(_))) {
                return t.unsupported("the buffers of a layer that one was assigned to");
            }
        }
    }
    let tracker = Arc::new(Tracker::InstanceDict(source));
    let tracker = Arc::new(Tracker::DictItem(tracker, DictKey::Str(Arc::from(name))));
    match dict.get_item(name)? {
        Some(found) => Ok(Some(t.wrap(&found, tracker))),
        None => {
            t.guards.add(&tracker, GuardKind::Absent);
            Ok(None)
        }
    }
}

/// The dictionary of an instance.
pub fn instance_dict<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    // Safe: `object.__getattribute__` looks `__dict__` up on the type and runs no user code.
    let object = value.py().get_type::<PyAny>();
    let dict = object.call_method1("__getattribute__", (value, "__dict__"))?;
    Ok(dict.cast_into::<PyDict>()?)
}

fn data_descriptor(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
    name: &str,
) -> Step<VarId> {
    if is_named(found, "property") {
        let getter = found.getattr("fget")?;
        if getter.is_none() {
            return t.stop(
                BreakKind::RaisesException,
                format!("property {name} has no getter"),
            );
        }
        // The property is guarded by identity, and its functions cannot be replaced.
        let getter = t.constant(&getter);
        return call(t, getter, &[obj], &[]);
    }
    if is_named(found, "member_descriptor") {
        if let Some(Some(value)) = object.written(name) {
            return Ok(value);
        }
        if object.base.is_some() {
            return groups::member(t, obj, name);
        }
        if let (Some(value), Some(source)) = (t.value(obj), t.source(obj)) {
            let tracker = Arc::new(Tracker::Member(source, Arc::from(name)));
            return match found.call_method1("__get__", (&value,)) {
                Ok(value) => Ok(t.wrap(&value, tracker)),
                Err(_) => t.stop(BreakKind::RaisesException, format!("slot {name} is empty")),
            };
        }
        return missing(t, obj, name);
    }
    if is_named(found, "getset_descriptor") {
        if name == "__dict__" {
            if let Some(dict) = namespaces::of_object(t, obj)? {
                return Ok(dict);
            }
        }
        return t.stop(
            BreakKind::UnsupportedAttribute,
            format!("attribute {name} computed by C code"),
        );
    }
    if is_named(found, "_tuplegetter") {
        if let (Some(value), Some(source)) = (t.value(obj), t.source(obj)) {
            return field(t, &value, source, found);
        }
    }
    user_descriptor(t, obj, &object.class, found, tracker)
}

/// A field of a named tuple that exists, of a class derived from one too.
fn field(
    t: &mut Tracer<'_>,
    tuple: &Bound<'_, PyAny>,
    source: TrackerRef,
    getter: &Bound<'_, PyAny>,
) -> Step<VarId> {
    let parts = getter.call_method0("__reduce__")?.get_item(1)?;
    let index: usize = parts.get_item(0)?.extract()?;
    let items = tuple.cast::<PyTuple>().ok();
    match items.and_then(|items| items.get_item(index).ok()) {
        Some(item) => Ok(t.wrap(&item, Arc::new(Tracker::TupleItem(source, index)))),
        None => t.stop(BreakKind::RaisesException, "a tuple without this field"),
    }
}

/// Whether a member is one of `__slots__`: those of C code may be read-only, or take values of one type only.
fn is_slot(found: &Bound<'_, PyAny>) -> bool {
    const HEAP_TYPE: u64 = 1 << 9;
    let flags = || {
        found
            .getattr("__objclass__")?
            .getattr("__flags__")?
            .extract::<u64>()
    };
    flags().is_ok_and(|flags| flags & HEAP_TYPE != 0)
}

fn user_descriptor(
    t: &mut Tracer<'_>,
    obj: VarId,
    class: &Obj,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
) -> Step<VarId> {
    let descriptor = t.wrap(found, tracker);
    let method = get_special(t, descriptor, "__get__")?;
    let class = t.constant(&class.bind(t.py).clone());
    call(t, method, &[obj, class], &[])
}

/// What a class attribute gives when read through an instance.
fn bind(
    t: &mut Tracer<'_>,
    obj: VarId,
    class: &Obj,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
    name: &str,
) -> Step<VarId> {
    if found.is_exact_instance_of::<PyFunction>() {
        let function = t.wrap(found, tracker);
        return Ok(t.add(Kind::Method {
            receiver: obj,
            function,
        }));
    }
    if is_named(found, "staticmethod") {
        return wrapped_function(t, found, tracker);
    }
    if is_named(found, "classmethod") {
        let function = wrapped_function(t, found, tracker)?;
        let receiver = t.constant(&class.bind(t.py).clone());
        return Ok(t.add(Kind::Method { receiver, function }));
    }
    if is_named(found, "cached_property") {
        return t.stop(
            BreakKind::UnsupportedAttribute,
            format!("cached_property {name}"),
        );
    }
    match descriptor(found) {
        Descriptor::Plain => Ok(t.wrap(found, tracker)),
        Descriptor::NonData
            if is_named(found, "method_descriptor") || is_named(found, "wrapper_descriptor") =>
        {
            let function = t.wrap(found, tracker);
            Ok(t.add(Kind::Method {
                receiver: obj,
                function,
            }))
        }
        Descriptor::NonData if t.paddle.is_layer(found) => Ok(t.wrap(found, tracker)),
        // Classes and builtin functions stored on a class are not bound.
        Descriptor::NonData if found.is_instance_of::<PyType>() => Ok(t.wrap(found, tracker)),
        _ if found
            .get_type()
            .getattr("__module__")
            .is_ok_and(|m| m.eq("paddle_sot_rs._core").unwrap_or(false)) =>
        {
            let function = found.getattr("__wrapped__")?;
            let function = t.constant(&function);
            Ok(t.add(Kind::Method {
                receiver: obj,
                function,
            }))
        }
        _ => user_descriptor(t, obj, class, found, tracker),
    }
}

/// `type(obj).name` bound to `obj`, as the interpreter looks up dunders (the instance is not searched).
pub fn get_special(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<VarId> {
    match try_get_special(t, obj, name)? {
        Some(method) => Ok(method),
        None => t.stop(
            BreakKind::RaisesException,
            format!("the object has no {name}"),
        ),
    }
}

/// Like [`get_special`]; `None` when the class does not define it.
pub fn try_get_special(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        if methods::exists(t, obj, name)? {
            return Ok(Some(t.add(Kind::BoundBuiltin {
                receiver: obj,
                name: Arc::from(name),
            })));
        }
        if matches!(t.kind(obj), Kind::Opaque) {
            return t.unsupported(format!("{name} of an opaque object"));
        }
        return Ok(None);
    };
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    let tracker = guard_type_attr(t, &object.class, name, found.as_ref());
    match found {
        Some(found) if found.is_none() => {
            t.stop(BreakKind::RaisesException, format!("{name} is None"))
        }
        Some(found) => bind(t, obj, &object.class, &found, tracker, name).map(Some),
        None => Ok(None),
    }
}

fn of_module(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let (Some(module), Some(source)) = (t.value(obj), t.source(obj)) else {
        return t.unsupported("a module without a source");
    };
    let dict = module.getattr("__dict__")?;
    let item = |name: &str| {
        let dict = Arc::new(Tracker::InstanceDict(source.clone()));
        Arc::new(Tracker::DictItem(dict, DictKey::Str(Arc::from(name))))
    };
    let tracker = item(name);
    let Ok(found) = dict.get_item(name) else {
        let class = module.get_type();
        let of_class = |name: &str| lookup(&class, name).is_some();
        if dict.contains("__getattr__")? || of_class("__getattr__") || of_class(name) {
            return t.stop(
                BreakKind::UnsupportedAttribute,
                format!("{name} is computed by the module"),
            );
        }
        t.guards.add(&tracker, GuardKind::Absent);
        t.guards.add(&item("__getattr__"), GuardKind::Absent);
        guard_type_attr(t, &Obj::from(&class), "__getattr__", None);
        return Ok(None);
    };
    Ok(Some(t.wrap(&found, tracker)))
}

fn of_class(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let Some(class) = t
        .value(obj)
        .and_then(|class| class.cast_into::<PyType>().ok())
    else {
        return t.unsupported("a class without an object");
    };
    let as_obj = Obj::from(&class);
    if !super::fold::has_plain_metaclass(class.as_any()) {
        meta_decides(t, &class, name)?;
    }
    if matches!(name, "__name__" | "__qualname__" | "__module__" | "__doc__") {
        return classes::name(t, obj, name).map(Some);
    }
    if name == "__class__" {
        return Ok(Some(t.constant(class.get_type().as_any())));
    }
    let Some(found) = lookup(&class, name) else {
        return match class.getattr(name) {
            Ok(_) => t.stop(
                BreakKind::UnsupportedAttribute,
                format!("{name} is found on the metaclass"),
            ),
            Err(_) => {
                guard_type_attr(t, &as_obj, name, None);
                Ok(None)
            }
        };
    };
    let tracker = guard_type_attr(t, &as_obj, name, Some(&found));
    if found.is_exact_instance_of::<PyFunction>() {
        return Ok(Some(t.wrap(&found, tracker)));
    }
    if is_named(&found, "staticmethod") {
        return wrapped_function(t, &found, tracker).map(Some);
    }
    if is_named(&found, "classmethod") {
        let function = wrapped_function(t, &found, tracker)?;
        return Ok(Some(t.add(Kind::Method {
            receiver: obj,
            function,
        })));
    }
    let own = lookup(&found.get_type(), "__get__");
    if own.is_some_and(|own| own.is_exact_instance_of::<PyFunction>() && !is_of_enum_module(&own)) {
        let nothing = t.none();
        return user_descriptor(t, nothing, &as_obj, &found, tracker).map(Some);
    }
    // Enum members of 3.11+ may sit behind `enum.property`; builtin descriptors give themselves.
    let value = class.getattr(name)?;
    if value.is(&found) {
        return Ok(Some(t.wrap(&value, tracker)));
    }
    if super::pylayer::is_apply(t, &class, name)? {
        let function = t.py.import("paddle_sot_rs._control")?;
        let function = t.constant(&function.getattr("apply_layer")?);
        return Ok(Some(t.add(Kind::Partial {
            function,
            args: vec![obj],
            kwargs: Vec::new(),
        })));
    }
    if is_named(&found, "classmethod_descriptor") || class.get_type().name()? == "EnumType" {
        return Ok(Some(t.constant(&value)));
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("{name} is a descriptor"),
    )
}

/// Stops where the metaclass may have a say in an attribute of the class.
fn meta_decides(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, name: &str) -> Step<()> {
    let meta = class.get_type();
    let own = t.py.get_type::<PyType>().getattr("__getattribute__")?;
    let plain_lookup = lookup(&meta, "__getattribute__").is_some_and(|found| found.is(&own));
    let special = matches!(
        name,
        "__name__" | "__qualname__" | "__module__" | "__doc__" | "__class__"
    );
    classes::guard_names(t, &meta, &["__getattribute__", name]);
    let shadowed = !special
        && lookup(&meta, name).is_some_and(|found| matches!(descriptor(&found), Descriptor::Data));
    if plain_lookup && !shadowed && (special || lookup(class, name).is_some()) {
        return Ok(());
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("{name} of a class with a metaclass"),
    )
}

fn of_super(t: &mut Tracer<'_>, class: &Obj, receiver: VarId, name: &str) -> Step<VarId> {
    let (start, is_class) = match t.kind(receiver).clone() {
        Kind::Object(object) | Kind::Layer(object) => (object.class, false),
        Kind::Class => match t.value(receiver) {
            Some(value) => (Obj::from(value), true),
            None => return t.unsupported("super() of a class without an object"),
        },
        _ => return t.unsupported("super() of this kind of object"),
    };
    let of = class_of(t, &start)?;
    let Some((owner, found)) = lookup_after(&of, Some(class.bind(t.py)), name) else {
        return t.stop(
            BreakKind::RaisesException,
            format!("super() has no attribute {name}"),
        );
    };
    // The MRO is fixed by the class, which is guarded; the entry is guarded where it was found, and so is that no
    // class before that has one.
    classes::guard_order(t, &of);
    let (py, mro) = (t.py, of.mro());
    let after = mro.iter().skip_while(|base| !base.is(class.bind(py)));
    for base in after.skip(1).take_while(|base| !base.is(&owner)) {
        let found = base
            .cast::<PyType>()
            .ok()
            .and_then(|base| lookup(base, name));
        guard_type_attr(t, &Obj::from(&base), name, found.as_ref());
    }
    let tracker = guard_type_attr(t, &Obj::from(&owner), name, Some(&found));
    if is_class {
        let inherits = t.value(receiver).is_some_and(|receiver| {
            let receiver = receiver.cast_into::<PyType>();
            receiver
                .is_ok_and(|receiver| receiver.mro().iter().any(|base| base.is(class.bind(t.py))))
        });
        if !inherits {
            return t.unsupported("super() in a metaclass");
        }
        if found.is_exact_instance_of::<PyFunction>() {
            return Ok(t.wrap(&found, tracker));
        }
        if !is_named(&found, "classmethod") && !is_named(&found, "staticmethod") {
            return t.unsupported(format!("super().{name} of a class"));
        }
    }
    if is_named(&found, "property") {
        let getter = found.getattr("fget")?;
        let getter = t.constant(&getter);
        return call(t, getter, &[receiver], &[]);
    }
    bind(t, receiver, &start, &found, tracker, name)
}

fn of_function(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if let Kind::Function(FunctionVar::New(new)) = t.kind(obj).clone() {
        if let Some((_, value)) = new.attrs.iter().rev().find(|(known, _)| &**known == name) {
            return Ok(Some(*value));
        }
        let code = new.code.bind(t.py).clone();
        return match name {
            "__name__" => Ok(Some(t.constant(&code.getattr("co_name")?))),
            "__qualname__" => Ok(Some(t.constant(&code.getattr("co_qualname")?))),
            "__code__" => Ok(Some(t.constant(&code))),
            _ => t.stop(
                BreakKind::UnsupportedAttribute,
                format!("attribute {name} of a new function"),
            ),
        };
    }
    // What the class of functions defines is not looked for in the dictionary of one.
    let special = matches!(name, "__name__" | "__qualname__" | "__doc__" | "__module__");
    if !special {
        if let Some(found) = instance_value(t, obj, name)? {
            return Ok(Some(found));
        }
    }
    let Some(function) = t.value(obj) else {
        return Ok(None);
    };
    match name {
        "__name__" | "__qualname__" | "__doc__" | "__module__" => {
            t.guard_identity(obj);
            classes::name(t, obj, name).map(Some)
        }
        _ if function.hasattr(name)? => t.stop(
            BreakKind::UnsupportedAttribute,
            format!("attribute {name} of a function"),
        ),
        _ => Ok(None),
    }
}

fn of_named_tuple(
    t: &mut Tracer<'_>,
    obj: VarId,
    items: &[VarId],
    class: &Obj,
    name: &str,
) -> Step<Option<VarId>> {
    let class = class.bind(t.py).clone();
    let fields: Vec<String> = class
        .getattr("_fields")
        .and_then(|fields| fields.extract())
        .unwrap_or_default();
    if let Some(at) = fields.iter().position(|field| field == name) {
        let own = class
            .cast::<PyType>()
            .ok()
            .and_then(|class| lookup(class, name));
        if own.is_some_and(|own| is_named(&own, "_tuplegetter")) {
            return Ok(items.get(at).copied());
        }
    }
    if methods::exists(t, obj, name)? {
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    let found = class
        .cast::<PyType>()
        .ok()
        .and_then(|class| lookup(class, name));
    if let Some(found) = found {
        if found.is_exact_instance_of::<PyFunction>() {
            guard_type_attr(t, &Obj::from(&class), name, Some(&found));
            let function = t.constant(&found);
            return Ok(Some(t.add(Kind::Method {
                receiver: obj,
                function,
            })));
        }
        if is_named(&found, "property") && !found.getattr("fget")?.is_none() {
            guard_type_attr(t, &Obj::from(&class), name, Some(&found));
            let getter = found.getattr("fget")?;
            let getter = t.constant(&getter);
            return call(t, getter, &[obj], &[]).map(Some);
        }
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("attribute {name} of a named tuple"),
    )
}

/// `obj.name = value`
pub fn set(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        if let Kind::Function(FunctionVar::New(_)) = t.kind(obj) {
            t.vars.mutate(obj, |var| {
                if let Kind::Function(FunctionVar::New(new)) = &mut var.kind {
                    new.attrs.push((Arc::from(name), value));
                }
            });
            return Ok(());
        }
        if name == "stop_gradient" && (stays(t, obj, value) || stops(t, obj, value)?) {
            return Ok(());
        }
        return t.unsupported(format!(
            "assignment to attribute {name} of this kind of object"
        ));
    };
    if name == "__traceback__" && exceptions::is_own_traceback(t, obj, value) {
        return Ok(());
    }
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    guard_type_attr(t, &object.class, name, found.as_ref());
    let setter = lookup(&class, "__setattr__");
    guard_type_attr(t, &object.class, "__setattr__", setter.as_ref());
    let default = t.py.get_type::<PyAny>().getattr("__setattr__")?;
    let of_layers = t.paddle.layer.bind(t.py).getattr("__setattr__")?;
    let is_layers = setter.as_ref().is_some_and(|setter| setter.is(&of_layers));
    if let Some(setter) = &setter {
        if !is_layers && !setter.is(&default) && !is_generic(setter, "__setattr__") {
            let setter = t.constant(setter);
            let name = t.str(name);
            return call(t, setter, &[obj, name, value], &[]).map(drop);
        }
    }
    if !is_layers {
        return set_plainly(t, obj, name, value);
    }
    set_on_layer(t, obj, name, value)
}

/// `Layer.__setattr__(obj, name, value)`
pub fn set_on_layer(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let Kind::Layer(object) = t.kind(obj).clone() else {
        return t.unsupported(format!("assignment to attribute {name}"));
    };
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    guard_type_attr(t, &object.class, name, found.as_ref());
    if layers::keeps_training(t, obj, name, value)? {
        return Ok(());
    }
    layers::check_plain_write(t, obj, name, value)?;
    let registers = matches!(t.kind(value), Kind::Tensor(_));
    match &found {
        Some(found) if is_named(found, "property") => {
            if registers {
                return t.unsupported(format!("a tensor for the property {name} of a layer"));
            }
            // Paddle goes on to the write of what is no property, which is one.
            set_plainly(t, obj, name, value)?;
            set_plainly(t, obj, name, value)
        }
        _ if registers => {
            // It goes to a registry, whatever the class says about the name.
            if found.is_some_and(|found| !matches!(descriptor(&found), Descriptor::Plain)) {
                return t.unsupported(format!("a tensor for the descriptor {name} of a layer"));
            }
            write_through(t, obj, name, Some(value), true)
        }
        _ => set_plainly(t, obj, name, value),
    }
}

/// Whether a tensor's `stop_gradient` is set to what it is.
fn stays(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> bool {
    let wanted = t
        .const_value(value)
        .and_then(|value| value.cast_exact::<PyBool>().map(|flag| flag.is_true()).ok());
    let Kind::Tensor(TensorVar { symbol, .. }) = t.kind(tensor) else {
        return false;
    };
    let symbol = *symbol;
    let known = t.graph.meta(symbol).map(|meta| meta.stop_gradient);
    known.is_some() && known == wanted
}

/// Whether `tensor.stop_gradient = value` turns gradients off, and was captured.
fn stops(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<bool> {
    let wanted = t.const_value(value).is_some_and(|value| {
        value
            .cast_exact::<PyBool>()
            .is_ok_and(|flag| flag.is_true())
    });
    Ok(wanted && inplace::stop_gradient(t, tensor)?)
}

/// `object.__setattr__(obj, name, value)`
pub fn set_plainly(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        return t.unsupported(format!("assignment to attribute {name}"));
    };
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    guard_type_attr(t, &object.class, name, found.as_ref());
    let mut slot = false;
    if let Some(found) = &found {
        if is_named(found, "property") {
            let setter = found.getattr("fset")?;
            if setter.is_none() {
                return exceptions::throw(t, "AttributeError");
            }
            let setter = t.constant(&setter);
            return call(t, setter, &[obj, value], &[]).map(drop);
        }
        slot = is_named(found, "member_descriptor");
        if matches!(descriptor(found), Descriptor::Data) && !(slot && is_slot(found)) {
            return t.unsupported(format!("assignment through the descriptor {name}"));
        }
    }
    if !slot && class.getattr("__dictoffset__")?.extract::<isize>()? == 0 {
        return t.stop(
            BreakKind::RaisesException,
            format!("there is no place for an attribute {name}"),
        );
    }
    write(t, obj, name, Some(value))
}

/// Records a write or delete of an instance attribute.
///
/// # Errors
/// Where the program has the dictionary itself too.
pub fn write(t: &mut Tracer<'_>, obj: VarId, name: &str, value: Option<VarId>) -> Step<()> {
    write_through(t, obj, name, value, false)
}

fn write_through(
    t: &mut Tracer<'_>,
    obj: VarId,
    name: &str,
    value: Option<VarId>,
    registers: bool,
) -> Step<()> {
    if let (Some(real), Some(source)) = (t.value(obj), t.source(obj)) {
        if let Ok(dict) = instance_dict(&real) {
            t.note_namespace(&dict, &source)?;
        }
    }
    if matches!(t.kind(obj), Kind::Layer(_)) {
        let layer = t.value(obj).map(Obj::from);
        t.written_layers.extend(layer);
    }
    t.vars.mutate(obj, |var| {
        if let Kind::Object(object) | Kind::Layer(object) = &mut var.kind {
            object.writes.push(AttrOp {
                name: Arc::from(name),
                value,
                registers,
            });
        }
    });
    Ok(())
}

/// `del obj.name`
pub fn delete(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<()> {
    let Kind::Object(object) = t.kind(obj).clone() else {
        return t.unsupported(format!("deletion of attribute {name}"));
    };
    let class = class_of(t, &object.class)?;
    classes::guard_names(t, &class, &[name, "__delattr__"]);
    if lookup(&class, name).is_some()
        || lookup(&class, "__delattr__").is_some_and(|found| !is_generic(&found, "__delattr__"))
    {
        return t.unsupported(format!("deletion of attribute {name}"));
    }
    let present = match object.written(name) {
        Some(value) => value.is_some(),
        None => instance_value(t, obj, name)?.is_some(),
    };
    if !present {
        return t.stop(
            BreakKind::RaisesException,
            format!("no attribute {name} to delete"),
        );
    }
    write(t, obj, name, None)
}
