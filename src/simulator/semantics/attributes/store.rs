//! Writes and deletes of attributes: recorded while tracing, done by the generated code.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFunction};

use crate::call::call;
use crate::guard::GuardKind;
use crate::obj::{Obj, is_named, of_type};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{AttrOp, FunctionVar, Kind, ObjectVar, TensorVar, VarId};
use crate::{Step, Tracer, classes, exceptions, inplace, layers, provenance, tensors};

use super::descriptors;
use super::descriptors::{
    Descriptor, SETS, call_descriptor, check_slot, descriptor, is_of_users, is_slot,
};
use super::get_special;
use super::instance::{instance_dict, instance_value};
use super::lookup::{class_of, guard_type_attr, is_generic, lookup};

/// Whether a function keeps this as it is, and nothing about it changes: not what it runs, nor what
/// it checks.
fn is_kept_by_functions(t: &mut Tracer<'_>, name: &str, value: VarId) -> bool {
    match name {
        "__name__" | "__qualname__" => t.const_str(value).is_some(),
        "__annotations__" => matches!(t.kind(value), Kind::Dict(_)),
        "__type_params__" => matches!(t.kind(value), Kind::Tuple(_, None)),
        "__doc__" | "__module__" | "__wrapped__" => true,
        _ => lookup(&t.py.get_type::<PyFunction>(), name).is_none(),
    }
}

/// `function.name = value` of a function that the frame made.
pub(crate) fn set_on_function(
    t: &mut Tracer<'_>,
    function: VarId,
    name: &str,
    value: VarId,
) -> Step<()> {
    if !is_kept_by_functions(t, name, value) {
        return t.stop(
            BreakId::Assignment,
            format!("assignment to {name} of a new function"),
        );
    }
    t.vars.mutate(function, |var| {
        if let Kind::Function(FunctionVar::New(new)) = &mut var.kind {
            new.attrs.push((Arc::from(name), value));
        }
    });
    Ok(())
}

/// `function.name = value` of a function that exists: a write to an item of its dictionary.
pub(crate) fn set_on_existing_function(
    t: &mut Tracer<'_>,
    function: VarId,
    name: &str,
    value: VarId,
) -> Step<()> {
    let (Some(object), Some(source)) = (t.value(function), t.source(function)) else {
        return t.unsupported("a function without a source");
    };
    if lookup(&t.py.get_type::<PyFunction>(), name).is_some() || provenance::is_of_paddle(&object) {
        return t.stop(
            BreakId::Assignment,
            format!("assignment to attribute {name} of a function"),
        );
    }
    t.guard_identity(function);
    let names = instance_dict(&object)?;
    t.note_namespace(&names, &source, &object)?;
    let globals = Obj::from(&names);
    let place = Arc::new(Tracker::InstanceDict(source));
    t.guards.add(&place, GuardKind::Is(globals.clone()));
    let mut writes = t.global_writes.iter();
    if !writes.any(|(dict, write)| *dict == globals && *write.name == *name) {
        t.release_item(&names, place, name)?;
    }
    let write = AttrOp {
        name: Arc::from(name),
        value: Some(value),
        registers: false,
    };
    t.global_writes.push((globals, write));
    Ok(())
}

/// What the frame last wrote to an attribute of a function that exists.
pub(super) fn written_on_function(
    t: &Tracer<'_>,
    function: &Bound<'_, PyAny>,
    name: &str,
) -> Option<VarId> {
    if t.global_writes.is_empty() {
        return None;
    }
    let names = instance_dict(function).ok()?;
    let mut writes = t.global_writes.iter().rev();
    let is_it = |of: &Obj, write: &AttrOp| of.bind(t.py).is(&names) && *write.name == *name;
    let (_, write) = writes.find(|(of, write)| is_it(of, write))?;
    write.value
}

/// `tensor.name = value`; whether it was captured.
pub(crate) fn set_on_tensor(
    t: &mut Tracer<'_>,
    tensor: VarId,
    name: &str,
    value: VarId,
) -> Step<bool> {
    Ok(name == "stop_gradient" && (stays(t, tensor, value) || stops(t, tensor, value)?))
}

/// `obj.name = value` of an instance.
pub(crate) fn set_on_instance(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    name: &str,
    value: VarId,
) -> Step<()> {
    if name == "__traceback__" && exceptions::is_own_traceback(t, obj, value) {
        return Ok(());
    }
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    guard_type_attr(t, &object.class, name, found.as_ref());
    let setter = lookup(&class, "__setattr__");
    guard_type_attr(t, &object.class, "__setattr__", setter.as_ref());
    let default = t.py.get_type::<PyAny>().getattr("__setattr__")?;
    let is_layers = setter
        .as_ref()
        .is_some_and(|setter| layers::is_base(t, setter, "__setattr__"));
    if let Some(setter) = &setter {
        if !is_layers && !setter.is(&default) && !is_generic(setter, "__setattr__") {
            let setter = get_special(t, obj, "__setattr__")?;
            let name = t.str(name);
            return call(t, setter, &[name, value], &[]).map(drop);
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
        return t.stop(
            BreakId::Assignment,
            format!("assignment to attribute {name}"),
        );
    };
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    guard_type_attr(t, &object.class, name, found.as_ref());
    if layers::keeps_training(t, obj, name, value)? {
        return Ok(());
    }
    layers::check_plain_write(t, obj, name, value)?;
    let registers = matches!(t.kind(value), Kind::Tensor(_));
    if let Some(found) = &found {
        classes::guard_descriptor(t, found, SETS);
    }
    match &found {
        Some(found) if descriptors::is_property(found) => {
            if registers {
                return t.stop(
                    BreakId::Assignment,
                    format!("a tensor for the property {name} of a layer"),
                );
            }
            // Paddle goes on to the write of what is no property, which is one.
            set_plainly(t, obj, name, value)?;
            set_plainly(t, obj, name, value)
        }
        _ if registers => {
            // It goes to a registry, whatever the class says about the name.
            if found.is_some_and(|found| !matches!(descriptor(&found), Descriptor::Plain)) {
                return t.stop(
                    BreakId::Assignment,
                    format!("a tensor for the descriptor {name} of a layer"),
                );
            }
            write_through(t, obj, name, Some(value), true)
        }
        _ => set_plainly(t, obj, name, value),
    }
}

/// `module.name = value`: a write to a global of the module.
pub(crate) fn set_on_module(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let (Some(module), Some(source)) = (t.value(obj), t.source(obj)) else {
        return t.unsupported("a module without a source");
    };
    // What others have set is read by code that runs while the graph is made.
    if !provenance::is_of_program(&module) {
        return t.stop(
            BreakId::Assignment,
            format!("assignment to {name} of a module of a library"),
        );
    }
    let class = module.get_type();
    classes::guard_names(t, &class, &["__setattr__", name]);
    let setter = lookup(&class, "__setattr__");
    let data = lookup(&class, name).is_some_and(|own| matches!(descriptor(&own), Descriptor::Data));
    if data || !setter.is_some_and(|setter| is_generic(&setter, "__setattr__")) {
        return t.stop(
            BreakId::Assignment,
            format!("assignment to {name}, which the module computes"),
        );
    }
    t.guard_class(obj);
    let names = module.getattr("__dict__")?.cast_into::<PyDict>();
    let names = names.map_err(PyErr::from)?;
    let globals = Obj::from(&names);
    let mut writes = t.global_writes.iter();
    if !writes.any(|(dict, write)| *dict == globals && *write.name == *name) {
        t.release_item(&names, Arc::new(Tracker::InstanceDict(source)), name)?;
    }
    let write = AttrOp {
        name: Arc::from(name),
        value: Some(value),
        registers: false,
    };
    t.global_writes.push((globals, write));
    Ok(())
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
    known.is_some() && known == wanted && (known == Some(true) || !tensors::may_stop(t, tensor))
}

/// Whether `tensor.stop_gradient = value` turns gradients off or on, and was captured.
fn stops(t: &mut Tracer<'_>, tensor: VarId, value: VarId) -> Step<bool> {
    let wanted = t.const_value(value);
    let wanted = wanted.and_then(|value| value.cast_exact::<PyBool>().ok().map(|it| it.is_true()));
    match wanted {
        Some(stops) => inplace::set_stop_gradient(t, tensor, stops),
        None => Ok(false),
    }
}

/// `object.__setattr__(obj, name, value)`
pub fn set_plainly(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        return t.stop(
            BreakId::Assignment,
            format!("assignment to attribute {name}"),
        );
    };
    let class = class_of(t, &object.class)?;
    let found = lookup(&class, name);
    let tracker = guard_type_attr(t, &object.class, name, found.as_ref());
    let mut slot = false;
    if let Some(found) = &found {
        if descriptors::is_property(found) {
            let setter = found.getattr("fset")?;
            if setter.is_none() {
                return exceptions::throw(t, "AttributeError");
            }
            let setter = t.constant(&setter);
            return call(t, setter, &[obj, value], &[]).map(drop);
        }
        slot = is_named(found, "member_descriptor");
        if slot {
            check_slot(t, &object.class, found, name)?;
        }
        classes::guard_descriptor(t, found, SETS);
        if matches!(descriptor(found), Descriptor::Data) && !is_slot(found) {
            // Paddle reads what a class has of this name before a layer takes it.
            let is_layer = matches!(t.kind(obj), Kind::Layer(_));
            if is_layer || !is_of_users(found, "__set__") {
                return t.stop(
                    BreakId::Assignment,
                    format!("assignment through the descriptor {name}"),
                );
            }
            return call_descriptor(t, found, tracker, "__set__", &[obj, value]).map(drop);
        }
    }
    let offset =
        of_type(&class, "__dictoffset__").and_then(|offset| offset.extract::<isize>().ok());
    if !slot && offset.is_none_or(|offset| offset == 0) {
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

/// `obj.name = value`, as such a write; `registers`: through `Layer.__setattr__`.
pub fn write_as(
    t: &mut Tracer<'_>,
    obj: VarId,
    name: &str,
    value: VarId,
    registers: bool,
) -> Step<()> {
    write_through(t, obj, name, Some(value), registers)
}

fn write_through(
    t: &mut Tracer<'_>,
    obj: VarId,
    name: &str,
    value: Option<VarId>,
    registers: bool,
) -> Step<()> {
    if let (Some(real), Some(source)) = (t.value(obj), t.source(obj)) {
        let dict = instance_dict(&real).ok();
        if let Some(dict) = &dict {
            t.note_namespace(dict, &source, &real)?;
        }
        if registers {
            layers::note_registries(t, &real, &source)?;
        }
        release_old(t, obj, &real, source, dict, name)?;
    }
    if matches!(t.kind(obj), Kind::Layer(_)) {
        // It may be a part of another one.
        t.guard_identity(obj);
        let layer = t.value(obj).map(Obj::from);
        t.deferred.written_layers.extend(layer);
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

/// What the attribute of an existing object holds goes, unless it went before.
fn release_old<'py>(
    t: &mut Tracer<'py>,
    obj: VarId,
    real: &Bound<'py, PyAny>,
    source: TrackerRef,
    dict: Option<Bound<'py, PyDict>>,
    name: &str,
) -> Step<()> {
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj) else {
        return Ok(());
    };
    if object.written(name).is_some() {
        return Ok(());
    }
    if let Some(slot) = lookup(&real.get_type(), name).filter(is_slot) {
        let old = slot.call_method1("__get__", (real,)).ok();
        return t.release_at(old, Arc::new(Tracker::Member(source, Arc::from(name))));
    }
    match dict {
        Some(dict) => t.release_item(&dict, Arc::new(Tracker::InstanceDict(source)), name),
        None => Ok(()),
    }
}

/// `del obj.name` of an instance that is no layer.
pub(crate) fn delete_of_instance(
    t: &mut Tracer<'_>,
    obj: VarId,
    object: &ObjectVar,
    name: &str,
) -> Step<()> {
    let class = class_of(t, &object.class)?;
    classes::guard_names(t, &class, &[name, "__delattr__"]);
    let found = lookup(&class, name);
    let is_plain = lookup(&class, "__delattr__").is_none_or(|own| is_generic(&own, "__delattr__"));
    if let (Some(found), true) = (&found, is_plain) {
        let deleter = match descriptors::is_property(found) {
            true => Some(found.getattr("fdel")?).filter(|deleter| !deleter.is_none()),
            false => None,
        };
        if let Some(deleter) = deleter {
            let deleter = t.constant(&deleter);
            return call(t, deleter, &[obj], &[]).map(drop);
        }
        if is_of_users(found, "__delete__") {
            let tracker = guard_type_attr(t, &object.class, name, Some(found));
            return call_descriptor(t, found, tracker, "__delete__", &[obj]).map(drop);
        }
    }
    if found.is_some() || !is_plain {
        return t.stop(BreakId::Assignment, format!("deletion of attribute {name}"));
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
