//! Attributes of classes, and of `super()`, which starts the lookup in the middle of one.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyType};

use crate::builtins::own_new;
use crate::call::call;
use crate::frame::{BUILTINS, Modules};
use crate::guard::GuardKind;
use crate::native;
use crate::obj::{Obj, getter_of, is_attr, is_builtin_method, is_enumeration, is_named, of_type};
use crate::reason::BreakKind;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId};
use crate::{Step, Tracer, classes, fold, pylayer, tracer};

use super::descriptors;
use super::descriptors::{Descriptor, bind, descriptor, user_descriptor, wrapped_function};
use super::is_of_enum_module;
use super::lookup::{class_of, guard_type_attr, is_holder, lookup, lookup_after, only_names};

pub(crate) fn of_class(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let Some(class) = t
        .value(obj)
        .and_then(|class| class.cast_into::<PyType>().ok())
    else {
        return t.unsupported("a class without an object");
    };
    let as_obj = Obj::from(&class);
    only_names(t, &class)?;
    classes::guard_meta(t, class.as_any());
    if let Some(value) = property_of_meta(t, obj, &class, name)? {
        return Ok(Some(value));
    }
    if !fold::has_plain_metaclass(class.as_any()) {
        if let Some(value) = of_meta(t, obj, &class, name)? {
            return Ok(Some(value));
        }
        meta_decides(t, &class, name)?;
    }
    if matches!(name, "__name__" | "__qualname__" | "__module__" | "__doc__") {
        return classes::name(t, obj, name).map(Some);
    }
    if name == "__class__" {
        return Ok(Some(t.constant(class.get_type().as_any())));
    }
    if name == "__mro__" && fold::has_plain_metaclass(class.as_any()) {
        let mro = native::mro(&class);
        let place = Tracker::NativeAttr(Arc::new(Tracker::Const(as_obj)), Arc::from(name));
        t.guards
            .add(&Arc::new(place), GuardKind::Is(Obj::from(mro.as_any())));
        let bases = mro.iter().map(|base| t.constant(&base)).collect();
        return Ok(Some(t.add(Kind::Tuple(bases, None))));
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
    classes::guard_descriptor(t, &found, &["__get__"]);
    if found.is_exact_instance_of::<PyFunction>() {
        return Ok(Some(t.wrap(&found, tracker)));
    }
    if descriptors::is_static(&found) {
        return wrapped_function(t, &found, tracker).map(Some);
    }
    if descriptors::is_of_class(&found) {
        let function = wrapped_function(t, &found, tracker)?;
        return Ok(Some(t.add(Kind::Method {
            receiver: obj,
            function,
        })));
    }
    let own = lookup(&found.get_type(), "__get__");
    if own
        .as_ref()
        .is_some_and(|own| own.is_exact_instance_of::<PyFunction>() && !is_of_enum_module(own))
    {
        if lookup(&class.get_type(), "__getattr__").is_some() {
            // It is asked where the descriptor raises an `AttributeError`.
            return t.unsupported("a descriptor of a class whose metaclass has __getattr__");
        }
        let nothing = t.none();
        return user_descriptor(t, nothing, &as_obj, &found, tracker).map(Some);
    }
    if own.is_some_and(|own| may_run_code(&own)) {
        return t.unsupported("a descriptor with a __get__ that is no function");
    }
    // Enum members of 3.11+ may sit behind `enum.property`; builtin descriptors give themselves.
    let value = class.getattr(name)?;
    if value.is(&found) {
        return Ok(Some(t.wrap(&value, tracker)));
    }
    if pylayer::is_apply(t, &class, name)? {
        let function = t.py.module("paddle_sot_rs._graph.control")?;
        let function = t.constant(&function.getattr("apply_layer")?);
        return Ok(Some(t.add(Kind::Partial {
            function,
            args: vec![obj],
            kwargs: Vec::new(),
        })));
    }
    if is_named(&found, "classmethod_descriptor") || is_enumeration(&class) {
        return Ok(Some(t.constant(&value)));
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("{name} is a descriptor"),
    )
}

/// What the metaclass of a class, one of Python code, has of a name, guarded.
fn found_on_meta<'py>(
    t: &mut Tracer<'py>,
    class: &Bound<'py, PyType>,
    name: &str,
) -> Option<(Bound<'py, PyAny>, TrackerRef)> {
    let meta = class.get_type();
    if !native::is_mutable(&meta) {
        return None;
    }
    let found = lookup(&meta, name)?;
    classes::guard_meta(t, class.as_any());
    let tracker = guard_type_attr(t, &Obj::from(meta), name, Some(&found));
    Some((found, tracker))
}

/// A special method that the metaclass of a class has as a function, bound to the class.
pub(crate) fn method_of_meta(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<Option<VarId>> {
    let class = t.value(obj).and_then(|class| class.cast_into().ok());
    let Some((found, tracker)) = class.and_then(|class| found_on_meta(t, &class, name)) else {
        return Ok(None);
    };
    if !found.is_exact_instance_of::<PyFunction>() {
        return t.unsupported(format!("{name} of a metaclass that is no function"));
    }
    let function = t.wrap(&found, tracker);
    let receiver = obj;
    Ok(Some(t.add(Kind::Method { receiver, function })))
}

/// What a property of the metaclass answers, before the class is asked: `Enumeration.__members__`.
fn property_of_meta<'py>(
    t: &mut Tracer<'py>,
    obj: VarId,
    class: &Bound<'py, PyType>,
    name: &str,
) -> Step<Option<VarId>> {
    let Some((found, _)) = found_on_meta(t, class, name) else {
        return Ok(None);
    };
    if !descriptors::is_property(&found) {
        return Ok(None);
    }
    if !own_new::inherits_from_type(t, &class.get_type(), "__getattribute__") {
        return Ok(None);
    }
    let getter = getter_of(&found)?;
    let getter = t.constant(&getter);
    call(t, getter, &[obj], &[]).map(Some)
}

/// What a metaclass in Python has of a name that the class itself has not: `cls.instances`.
fn of_meta<'py>(
    t: &mut Tracer<'py>,
    obj: VarId,
    class: &Bound<'py, PyType>,
    name: &str,
) -> Step<Option<VarId>> {
    let meta = class.get_type();
    let is_computed = !own_new::inherits_from_type(t, &meta, "__getattribute__");
    if is_computed || lookup(class, name).is_some() {
        return Ok(None);
    }
    let Some((found, tracker)) = found_on_meta(t, class, name) else {
        return Ok(None);
    };
    // What `type` has says itself what it answers.
    if lookup(&t.py.get_type::<PyType>(), name).is_some()
        || matches!(descriptor(&found), Descriptor::Data)
    {
        return Ok(None);
    }
    guard_type_attr(t, &Obj::from(class), name, None);
    bind(t, obj, &Obj::from(meta), &found, tracker, name).map(Some)
}

/// Whether the `__get__` of a descriptor may run code of the user's where there is no object: that
/// of `classmethod` may too.
fn may_run_code(getter: &Bound<'_, PyAny>) -> bool {
    if is_builtin_method(getter) {
        let owner = getter.getattr("__objclass__");
        return owner.is_ok_and(|owner| is_attr(&owner, BUILTINS, descriptors::CLASS_METHOD));
    }
    !is_of_enum_module(getter)
}

/// Whether what a class has of a name that `type` computes is what that says: a metaclass may have
/// its own.
fn is_of_type(t: &Tracer<'_>, class: &Bound<'_, PyType>, name: &str) -> bool {
    let own = lookup(&t.py.get_type::<PyType>(), name);
    let of_meta = lookup(&class.get_type(), name);
    match (own, of_meta) {
        (Some(own), Some(of_meta)) if own.is(&of_meta) => true,
        // A constant, as each class has, goes behind what the class itself has.
        (_, Some(of_meta)) if matches!(descriptor(&of_meta), Descriptor::Plain) => {
            match (lookup(class, name), of_type(class, name)) {
                (Some(found), Some(value)) => found.is(&value),
                _ => false,
            }
        }
        _ => false,
    }
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
    let of_meta = lookup(&meta, name);
    let shadowed = match special {
        // `type` has data descriptors of these names, where the metaclass has nothing of its own.
        true => !is_of_type(t, class, name),
        false => of_meta.is_some_and(|found| matches!(descriptor(&found), Descriptor::Data)),
    };
    if plain_lookup && !shadowed && (special || lookup(class, name).is_some()) {
        return Ok(());
    }
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("{name} of a class with a metaclass"),
    )
}

/// Whether a class is no class of this kind, and an instance of one: `super()` in a method of a
/// metaclass.
fn is_of_metaclass(t: &Tracer<'_>, value: &Bound<'_, PyAny>, class: &Obj) -> bool {
    let class = class.bind(t.py);
    let inherits = |of: &Bound<'_, PyType>| native::mro(of).iter().any(|base| base.is(class));
    let is_derived = value.cast::<PyType>().is_ok_and(inherits);
    !is_derived && inherits(&value.get_type())
}

pub(crate) fn of_super(
    t: &mut Tracer<'_>,
    class: &Obj,
    receiver: VarId,
    name: &str,
) -> Step<VarId> {
    let (start, is_class) = if let Some(object) = t.kind(receiver).object() {
        (object.class.clone(), false)
    } else if let Kind::Class = t.kind(receiver) {
        match t.value(receiver) {
            Some(value) if is_of_metaclass(t, &value, class) => {
                (Obj::from(value.get_type()), false)
            }
            Some(value) => (Obj::from(value), true),
            None => return t.unsupported("super() of a class without an object"),
        }
    } else {
        return t.unsupported("super() of this kind of object");
    };
    let of = class_of(t, &start)?;
    only_names(t, &of)?;
    let Some((owner, found)) = lookup_after(&of, Some(class.bind(t.py)), name) else {
        return t.stop(
            BreakKind::RaisesException,
            format!("super() has no attribute {name}"),
        );
    };
    // The MRO is fixed by the class, which is guarded; the entry is guarded where it was found, and
    // so is that no class before that has one.
    classes::guard_order(t, &of);
    let (py, mro) = (t.py, native::mro(&of));
    let after = mro.iter().skip_while(|base| !base.is(class.bind(py)));
    for base in after.skip(1).take_while(|base| !base.is(&owner)) {
        let found = base
            .cast::<PyType>()
            .ok()
            .and_then(|base| lookup(base, name));
        let tracker = guard_type_attr(t, &Obj::from(&base), name, found.as_ref());
        // What it inherits may be hidden by another constant or holder.
        let Some(found) = found else { continue };
        if tracer::is_plain_constant(&found) {
            t.guards.add(&tracker, GuardKind::ConstEq(Obj::from(found)));
        } else if is_holder(&found) {
            let held = found.getattr("__func__")?;
            let tracker = Arc::new(Tracker::Member(tracker, Arc::from("__func__")));
            t.guards.add(&tracker, GuardKind::Is(Obj::from(held)));
        }
    }
    let tracker = guard_type_attr(t, &Obj::from(&owner), name, Some(&found));
    if is_class {
        let inherits = t.value(receiver).is_some_and(|receiver| {
            let receiver = receiver.cast_into::<PyType>();
            receiver.is_ok_and(|receiver| {
                native::mro(&receiver)
                    .iter()
                    .any(|base| base.is(class.bind(t.py)))
            })
        });
        if !inherits {
            return t.unsupported("super() in a metaclass");
        }
        // A `__new__` in C is no descriptor.
        if found.is_exact_instance_of::<PyFunction>() || found.is_exact_instance_of::<PyCFunction>()
        {
            return Ok(t.wrap(&found, tracker));
        }
        if !descriptors::is_of_class(&found) && !descriptors::is_static(&found) {
            return t.unsupported(format!("super().{name} of a class"));
        }
    }
    if descriptors::is_property(&found) {
        let getter = getter_of(&found)?;
        let getter = t.constant(&getter);
        return call(t, getter, &[receiver], &[]);
    }
    bind(t, receiver, &start, &found, tracker, name)
}
