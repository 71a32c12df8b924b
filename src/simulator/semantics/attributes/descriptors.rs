//! The descriptor protocol: what an object found on a class gives when it is read through an
//! instance.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple, PyType};

use crate::call::call;
use crate::containers::deques;
use crate::native;
use crate::obj::{Obj, cached_property, getter_of, is_named, of_type, text_of};
use crate::reason::BreakKind;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, ObjectVar, VarId};
use crate::{Step, Tracer, classes, groups, namespaces, provenance};

use super::lookup::lookup;
use super::{get_special, missing, set_plainly};

/// What a `staticmethod` or `classmethod` holds.
pub(crate) fn wrapped_function(
    t: &mut Tracer<'_>,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
) -> Step<VarId> {
    let function = found.getattr("__func__")?;
    let binds = lookup(&function.get_type(), "__get__").is_some();
    if !function.is_exact_instance_of::<PyFunction>()
        && (binds || !function.is_callable())
        && !is_static(found)
    {
        // Until 3.12 it is bound itself; afterwards it need not even be callable.
        return t.unsupported("a classmethod of something else than a function");
    }
    let tracker = Arc::new(Tracker::Member(tracker, Arc::from("__func__")));
    Ok(t.wrap(&function, tracker))
}

/// Whether this is a `property`, and of no subclass.
pub(super) fn is_property(found: &Bound<'_, PyAny>) -> bool {
    is_named(found, "property")
}

/// Whether this is a `staticmethod`, and of no subclass.
pub(crate) fn is_static(found: &Bound<'_, PyAny>) -> bool {
    is_named(found, "staticmethod")
}

/// Whether this is a `classmethod`, and of no subclass.
pub fn is_of_class(found: &Bound<'_, PyAny>) -> bool {
    is_named(found, CLASS_METHOD)
}

/// The type of methods of classes.
pub(super) const CLASS_METHOD: &str = "classmethod";

pub(super) enum Descriptor {
    Data,
    NonData,
    Plain,
}

/// What makes a descriptor one that attributes are set through.
pub(super) const SETS: &[&str] = &["__set__", "__delete__"];

pub(super) fn descriptor(found: &Bound<'_, PyAny>) -> Descriptor {
    let class = found.get_type();
    let has = |name: &str| lookup(&class, name).is_some();
    if SETS.iter().any(|name| has(name)) {
        Descriptor::Data
    } else if has("__get__") {
        Descriptor::NonData
    } else {
        Descriptor::Plain
    }
}

pub(super) fn data_descriptor(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
    name: &str,
) -> Step<VarId> {
    if is_property(found) {
        let getter = getter_of(found)?;
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
        check_slot(t, &object.class, found, name)?;
        if let Some(Some(value)) = object.written(name) {
            return Ok(value);
        }
        if object.base.is_some() {
            return groups::member(t, obj, name);
        }
        if let (Some(value), Some(source)) = (t.value(obj), t.source(obj)) {
            if !native::is_object_member(found) {
                return t.stop(
                    BreakKind::UnsupportedAttribute,
                    format!("attribute {name} computed by C code"),
                );
            }
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
        if name == "maxlen" && deques::is_exact(object.class.bind(t.py)) {
            let most = deques::most(t, obj)?;
            return Ok(match most {
                Some(most) => t.int(most as i64),
                None => t.none(),
            });
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

/// Which item a getter of a named tuple's field takes: the name that it has on the class does not
/// say.
pub(super) fn index_of(getter: &Bound<'_, PyAny>) -> PyResult<usize> {
    let parts = getter.call_method0("__reduce__")?.get_item(1)?;
    parts.get_item(0)?.extract()
}

/// A field of a named tuple that exists, of a class derived from one too.
pub(super) fn field(
    t: &mut Tracer<'_>,
    tuple: &Bound<'_, PyAny>,
    source: TrackerRef,
    getter: &Bound<'_, PyAny>,
) -> Step<VarId> {
    let index = index_of(getter)?;
    let items = tuple.cast::<PyTuple>().ok();
    match items.and_then(|items| items.get_item(index).ok()) {
        Some(item) => Ok(t.wrap(&item, Arc::new(Tracker::TupleItem(source, index)))),
        None => t.stop(BreakKind::RaisesException, "a tuple without this field"),
    }
}

/// Whether a member is one of `__slots__`: those of C code may be read-only, convert, or take
/// values of one type only.
pub(super) fn is_slot(found: &Bound<'_, PyAny>) -> bool {
    // What a class holds may answer for any attribute.
    if !is_named(found, "member_descriptor") {
        return false;
    }
    let class = found.getattr("__objclass__").ok();
    let class = class.and_then(|class| class.cast_into::<PyType>().ok());
    let dict = class.and_then(|class| of_type(&class, "__dict__"));
    dict.is_some_and(|dict| dict.contains("__slots__").unwrap_or(false))
}

/// Stops where a member is that of another class, or has another name on this one: what is written
/// is kept by its name.
pub(super) fn check_slot(
    t: &Tracer<'_>,
    class: &Obj,
    found: &Bound<'_, PyAny>,
    name: &str,
) -> Step<()> {
    let owner = found.getattr("__objclass__")?;
    let class = class.bind(t.py).cast::<PyType>().map_err(PyErr::from)?;
    let is_own = native::mro(class).iter().any(|base| base.is(&owner));
    match is_own && text_of(found, "__name__") == name {
        true => Ok(()),
        false => t.unsupported(format!("a slot under another name: {name}")),
    }
}

/// Whether the class of a descriptor says in Python what it does.
pub(super) fn is_of_users(descriptor: &Bound<'_, PyAny>, name: &str) -> bool {
    let method = lookup(&descriptor.get_type(), name);
    method.is_some_and(|method| method.is_exact_instance_of::<PyFunction>())
}

/// What `__get__` of a descriptor answers. It is called with the descriptor, and not bound to it,
/// which differs where it is no function.
pub(super) fn user_descriptor(
    t: &mut Tracer<'_>,
    obj: VarId,
    class: &Obj,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
) -> Step<VarId> {
    if !is_of_users(found, "__get__") {
        return t.unsupported("a descriptor with a __get__ that is no function");
    }
    let class = t.constant(&class.bind(t.py).clone());
    call_descriptor(t, found, tracker, "__get__", &[obj, class])
}

/// What a special method of a descriptor answers.
pub(super) fn call_descriptor(
    t: &mut Tracer<'_>,
    found: &Bound<'_, PyAny>,
    tracker: TrackerRef,
    name: &str,
    args: &[VarId],
) -> Step<VarId> {
    let descriptor = t.wrap(found, tracker);
    let method = get_special(t, descriptor, name)?;
    call(t, method, args, &[])
}

/// The first read of a `cached_property`: what the function answers is an attribute from then on.
fn first_read(
    t: &mut Tracer<'_>,
    obj: VarId,
    (known_as, function): (Bound<'_, PyAny>, Bound<'_, PyAny>),
    name: &str,
) -> Step<VarId> {
    let is_named_so = known_as.eq(name)?;
    if !is_named_so || !matches!(t.kind(obj), Kind::Object(_) | Kind::Layer(_)) {
        let message = format!("cached_property {name}");
        return t.stop(BreakKind::UnsupportedAttribute, message);
    }
    let function = t.constant(&function);
    let value = call(t, function, &[obj], &[])?;
    set_plainly(t, obj, name, value)?;
    Ok(value)
}

/// What a class attribute gives when read through an instance.
pub(super) fn bind(
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
    if is_static(found) {
        return wrapped_function(t, found, tracker);
    }
    if is_of_class(found) {
        let function = wrapped_function(t, found, tracker)?;
        let receiver = t.constant(&class.bind(t.py).clone());
        return Ok(t.add(Kind::Method { receiver, function }));
    }
    classes::guard_descriptor(t, found, &["__get__"]);
    if let Some(property) = cached_property(found)? {
        return first_read(t, obj, property, name);
    }
    match descriptor(found) {
        Descriptor::Plain => Ok(t.wrap(found, tracker)),
        // From 3.13 on they have a `__get__`, which answers with the method.
        _ if is_named(found, "method") => Ok(t.wrap(found, tracker)),
        // What `functools.lru_cache` answers with binds as a function does.
        Descriptor::NonData
            if crate::obj::is_builtin_method(found) || is_named(found, "_lru_cache_wrapper") =>
        {
            let function = t.wrap(found, tracker);
            Ok(t.add(Kind::Method {
                receiver: obj,
                function,
            }))
        }
        _ if provenance::is_static_function(&found.get_type()) => {
            let function = found.getattr("dygraph_function")?;
            // A bound method stays with its object.
            if !function.is_exact_instance_of::<PyFunction>() {
                return Ok(t.wrap(found, tracker));
            }
            let function = t.constant(&function);
            Ok(t.add(Kind::Method {
                receiver: obj,
                function,
            }))
        }
        Descriptor::Data | Descriptor::NonData => user_descriptor(t, obj, class, found, tracker),
    }
}
