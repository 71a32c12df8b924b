//! Attribute access with the real lookup rules, running no user code except by simulation.
//!
//! What is found on a class is guarded through [`Tracker::TypeAttr`]; what is found on an instance
//! through its dictionary. CPython: `_PyObject_GenericGetAttrWithDict`, `type_getattro`.

mod class;
mod descriptors;
mod instance;
mod lookup;
mod store;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyModule, PyTuple, PyType};

use crate::frame::COLLECTIONS;
use crate::guard::GuardKind;
use crate::methods::names::{APPEND, EXTEND};
use crate::native;
use crate::obj::{Obj, getter_of, is_builtin_method, is_named, text_of};
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{FunctionVar, Kind, ObjectVar, VarId};

use crate::call::{call, describe};
use crate::variables::protocol;
pub use crate::variables::protocol::{del_attr as delete, set_attr as set};
use crate::{Step, Tracer};
use crate::{classes, exceptions, groups, methods, namespaces, provenance};
pub(crate) use class::{method_of_meta, of_class, of_super};
use descriptors::{Descriptor, SETS, bind, descriptor};
pub(crate) use instance::of_instance;
use lookup::class_of;

pub(crate) use descriptors::{is_of_class, is_static, wrapped_function};
pub use instance::{generic_or_raise, instance_dict, instance_value};
pub use lookup::{guard_type_attr, inherits, lookup, own_class, tells_class};
use store::written_on_function;
pub(crate) use store::{
    delete_of_instance, set_on_existing_function, set_on_function, set_on_instance, set_on_module,
    set_on_tensor,
};
pub use store::{set_on_layer, set_plainly, write, write_as};

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
    match kind.raises_attribute_error() {
        true => exceptions::throw(t, "AttributeError"),
        false => t.stop(BreakKind::RaisesException, message),
    }
}

/// `obj.name`; `None` when there is no such attribute.
pub fn try_get(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if let Some(reads) = &mut t.replays.reads {
        reads.note_name(name);
    }
    if matches!(name, APPEND | EXTEND) && t.is_unread_list(obj) {
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    protocol::get_attr(t, obj, name)
}

/// A method of a builtin kind, bound.
pub(crate) fn bound_builtin(t: &mut Tracer<'_>, receiver: VarId, name: &str) -> VarId {
    t.add(Kind::BoundBuiltin {
        receiver,
        name: Arc::from(name),
    })
}

/// The simulated method of this name, or the member of a real object that is read at once.
pub(crate) fn of_builtin(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if methods::exists(t, obj, name)? || namespaces::has_method(t, obj, name) {
        return Ok(Some(bound_builtin(t, obj, name)));
    }
    groups::real_member(t, obj, name)
}

/// Whether its class has nothing of this name: nobody adds attributes to instances of built-in
/// classes, nor to those.
pub(crate) fn has_none(t: &mut Tracer<'_>, obj: VarId, name: &str) -> bool {
    let class = t.type_of(obj).filter(|class| !native::is_mutable(class));
    class.is_some_and(|class| lookup(&class, name).is_none())
}

/// Its class, where that is what the name asks for.
pub(crate) fn own_class_of(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if name == "__class__" {
        if let Some(class) = t.type_of(obj) {
            own_class(t, &class)?;
            return Ok(Some(t.constant(class.as_any())));
        }
    }
    Ok(None)
}

/// Whether an object has a method of this name that is written in C, and keeps it: it has no
/// attributes of its own, and nobody changes its class.
pub(crate) fn has_native_method(t: &mut Tracer<'_>, obj: VarId, name: &str) -> bool {
    const MANAGED_DICT: u64 = 1 << 4;
    let (Some(class), false) = (t.type_of(obj), name.starts_with("__")) else {
        return false;
    };
    let number = |name: &str| crate::obj::of_type(&class, name)?.extract::<u64>().ok();
    let is_fixed = !native::is_mutable(&class)
        && number("__dictoffset__") == Some(0)
        && number("__flags__").is_some_and(|flags| flags & MANAGED_DICT == 0);
    let is_method = |found: &Bound<'_, PyAny>| is_named(found, "method_descriptor");
    let reads = lookup(&class, "__getattribute__");
    let generic = reads.is_some_and(|reads| lookup::is_generic(&reads, "__getattribute__"));
    let has = is_fixed && generic && lookup(&class, name).as_ref().is_some_and(is_method);
    if has {
        t.guard_class(obj);
    }
    has
}

pub(crate) fn of_constant(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if let Some(value) = t.value(obj).filter(crate::tracer::is_enum_member) {
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
        Ok(found) if value.hasattr("bits")? && crate::tracer::is_plain_constant(&found) => {
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
    let of_enum = |found: &Bound<'py, PyAny>| text_of(&found.get_type(), "__module__") == "enum";
    let of_c = |found: &Bound<'py, PyAny>| is_named(found, "method_descriptor");
    let fixed = match name {
        "_value_" | "_name_" => true,
        // `enum.property`, as `Enum` defines them.
        "value" | "name" => found.as_ref().is_some_and(|found| {
            of_enum(found) && getter_of(found).is_ok_and(|own| is_of_enum_module(&own))
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
    let object = ObjectVar::of(Obj::from(&class));
    of_instance(t, obj, &object, name)
}

/// Whether a function was written in the module `enum`.
pub fn is_of_enum_module(function: &Bound<'_, PyAny>) -> bool {
    provenance::is_from(function, "enum")
}

/// `type(obj).name` bound to `obj`, as the interpreter looks up dunders (the instance is not
/// searched).
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

pub(crate) fn of_module(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let (Some(module), Some(source)) = (t.value(obj), t.source(obj)) else {
        return t.unsupported("a module without a source");
    };
    check_module(t, &module, &source, name)?;
    let dict = module.getattr("__dict__")?;
    let mut writes = t.global_writes.iter().rev();
    let written = writes.find(|(names, write)| names.bind(t.py).is(&dict) && *write.name == *name);
    if let Some((_, write)) = written {
        return match write.value {
            Some(value) => Ok(Some(value)),
            None => t.unsupported(format!("{name} of a module that has just deleted it")),
        };
    }
    let place = Arc::new(Tracker::InstanceDict(source.clone()));
    t.note_variable(place.clone(), name);
    let item = |name: &str| {
        let key = DictKey::Str(Arc::from(name));
        Arc::new(Tracker::DictItem(place.clone(), key))
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

/// Guards the class of a module, which may be exchanged for a derived one, and stops where that
/// computes this attribute.
fn check_module(
    t: &mut Tracer<'_>,
    module: &Bound<'_, PyAny>,
    source: &TrackerRef,
    name: &str,
) -> Step<()> {
    let class = module.get_type();
    t.guards
        .add(source, GuardKind::TypeIs(Obj::from(class.clone())));
    let plain = t.py.get_type::<PyModule>();
    if class.is(&plain) {
        return Ok(());
    }
    classes::guard_names(t, &class, &["__getattribute__", name]);
    let (found, of_plain) = (lookup(&class, name), lookup(&plain, name));
    let Some(found) = found.filter(|found| !of_plain.is_some_and(|of_plain| of_plain.is(found)))
    else {
        return Ok(());
    };
    classes::guard_descriptor(t, &found, SETS);
    match descriptor(&found) {
        Descriptor::Data => t.unsupported(format!("{name} is computed by the module")),
        Descriptor::NonData | Descriptor::Plain => Ok(()),
    }
}

pub(crate) fn of_function(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    if let Kind::Function(FunctionVar::New(new)) = t.kind(obj).clone() {
        if let Some((_, value)) = new.attrs.iter().rev().find(|(known, _)| &**known == name) {
            return Ok(Some(*value));
        }
        let code = new.code.bind(t.py).clone();
        return match name {
            "__name__" => Ok(Some(t.constant(&code.getattr("co_name")?))),
            "__qualname__" => Ok(Some(t.constant(&code.getattr("co_qualname")?))),
            "__code__" => Ok(Some(t.constant(&code))),
            _ if lookup(&t.py.get_type::<PyFunction>(), name).is_none() => Ok(None),
            _ => t.stop(
                BreakKind::UnsupportedAttribute,
                format!("attribute {name} of a new function"),
            ),
        };
    }
    // What the class of functions defines is not looked for in the dictionary of one.
    let special = matches!(name, "__name__" | "__qualname__" | "__doc__" | "__module__");
    if !special {
        let function = t.value(obj);
        if let Some(value) = function.and_then(|function| written_on_function(t, &function, name)) {
            return Ok(Some(value));
        }
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

pub(crate) fn of_named_tuple(
    t: &mut Tracer<'_>,
    obj: VarId,
    items: &[VarId],
    class: &Obj,
    name: &str,
) -> Step<Option<VarId>> {
    if let Some(class) = own_class_of(t, obj, name)? {
        return Ok(Some(class));
    }
    let class = class.bind(t.py).clone();
    let found = class
        .cast::<PyType>()
        .ok()
        .and_then(|class| lookup(class, name));
    if let Some(getter) = found
        .as_ref()
        .filter(|found| is_named(found, "_tuplegetter"))
    {
        guard_type_attr(t, &Obj::from(&class), name, Some(getter));
        return match items.get(descriptors::index_of(getter)?) {
            Some(item) => Ok(Some(*item)),
            None => t.stop(BreakKind::RaisesException, "a tuple without this field"),
        };
    }
    let known = found.as_ref().is_some_and(is_of_named_tuples);
    if known && methods::exists(t, obj, name)? {
        guard_type_attr(t, &Obj::from(&class), name, found.as_ref());
        return Ok(Some(t.add(Kind::BoundBuiltin {
            receiver: obj,
            name: Arc::from(name),
        })));
    }
    if let Some(found) = &found {
        if descriptors::is_of_class(found) || descriptors::is_static(found) {
            let class = Obj::from(&class);
            let tracker = guard_type_attr(t, &class, name, Some(found));
            return descriptors::bind(t, obj, &class, found, tracker, name).map(Some);
        }
        if found.is_exact_instance_of::<PyTuple>() || found.is_exact_instance_of::<PyDict>() {
            let tracker = guard_type_attr(t, &Obj::from(&class), name, Some(found));
            return Ok(Some(t.wrap(found, tracker)));
        }
        if found.is_exact_instance_of::<PyFunction>() {
            guard_type_attr(t, &Obj::from(&class), name, Some(found));
            let function = t.constant(found);
            return Ok(Some(t.add(Kind::Method {
                receiver: obj,
                function,
            })));
        }
        if descriptors::is_property(found) && !getter_of(found)?.is_none() {
            guard_type_attr(t, &Obj::from(&class), name, Some(found));
            let getter = getter_of(found)?;
            let getter = t.constant(&getter);
            return call(t, getter, &[obj], &[]).map(Some);
        }
    }
    if found.is_none() {
        guard_type_attr(t, &Obj::from(&class), name, None);
        return Ok(None);
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("attribute {name} of a named tuple"),
    )
}

/// Whether what a class has is what every named tuple has: a method of tuples, or a function of
/// `collections`.
fn is_of_named_tuples(found: &Bound<'_, PyAny>) -> bool {
    let tuples = found.py().get_type::<PyTuple>();
    let is_method = is_builtin_method(found);
    is_method && found.getattr("__objclass__").is_ok_and(|of| of.is(&tuples))
        || provenance::is_from(found, COLLECTIONS)
}
