//! Attributes of instances: `__getattribute__`, the instance dictionary, `__getattr__`.

use std::sync::Arc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyType};

use crate::call::call;
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{Kind, ObjectVar, VarId};
use crate::{Step, Stop, Tracer, classes, deferred, exceptions, layers};

use super::descriptors::{Descriptor, bind, data_descriptor, descriptor};
use super::lookup::{class_of, guard_type_attr, is_generic, lookup, only_names, own_class};

pub(crate) fn of_instance(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    name: &str,
) -> Step<Option<VarId>> {
    let class = class_of(t, &object.class)?;
    only_names(t, &class)?;
    if name == "__class__" {
        own_class(t, &class)?;
        return Ok(Some(t.constant(class.as_any())));
    }
    let own = custom_getattribute(t, &class)?;
    if name == "args" && object.base.is_some() && own.is_none() {
        let found = lookup(&class, name);
        let plain = lookup(&t.py.get_type::<PyBaseException>(), name);
        guard_type_attr(t, &object.class, name, found.as_ref());
        if let (Some(found), Some(plain)) = (found, plain) {
            if found.is(&plain) {
                return Ok(object.base);
            }
        }
    }
    let found = match own {
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
    let fallback = lookup(&class, "__getattr__");
    let tracker = guard_type_attr(t, &object.class, "__getattr__", fallback.as_ref());
    let Some(fallback) = fallback else {
        return Ok(None);
    };
    if layers::is_base(t, &fallback, "__getattr__") {
        // It asks `object.__getattribute__` in the end, which runs a property once more.
        return match layers::registered(t, obj, name)? {
            None => generic(t, obj, object, name),
            found => Ok(found),
        };
    }
    let method = bind(t, obj, &object.class, &fallback, tracker, "__getattr__")?;
    let name = t.str(name);
    call(t, method, &[name], &[]).map(Some)
}

/// What a `__getattribute__` of the user's answers; `None` when it raises an `AttributeError`, so
/// that `__getattr__` is asked.
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
        classes::guard_descriptor(t, found, &["__get__", "__set__", "__delete__"]);
        if matches!(descriptor(found), Descriptor::Data) {
            return data_descriptor(t, obj, object, found, tracker, name).map(Some);
        }
    }
    let own = match object.written(name) {
        Some(written) => written,
        None => instance_value(t, obj, name)?,
    };
    if let Some(own) = own {
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
    deferred::check_read(t, obj, name)?;
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
    t.note_namespace(&dict, &source, &value)?;
    if matches!(name, "_parameters" | "_sub_layers" | "_buffers") {
        if let Kind::Layer(object) = t.kind(obj).clone() {
            if object.writes.iter().any(|op| op.registers) {
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
