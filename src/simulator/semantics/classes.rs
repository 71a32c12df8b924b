//! What is relied on about classes beyond what they define: their bases, their names, whether what
//! they hold are descriptors, and what they do not define.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyType};

use crate::guard::GuardKind;
use crate::native;
use crate::obj::{Obj, is_enum_meta, of_type};
use crate::reason::BreakKind;
use crate::tracker::Tracker;
use crate::variables::{Kind, VarId};

use crate::attributes::{guard_type_attr, is_of_enum_module, lookup};
use crate::{Step, Tracer, provenance};

fn add(t: &mut Tracer<'_>, of: &Bound<'_, PyAny>, kind: GuardKind) {
    t.guards.add(&Arc::new(Tracker::Const(Obj::from(of))), kind);
}

/// Guards the classes that a class inherits from, and their order.
pub fn guard_order(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) {
    if native::is_mutable(class) {
        let order = native::mro(class).iter().map(Obj::from).collect();
        add(t, class.as_any(), GuardKind::Order(order));
    }
}

/// Whether `class` inherits from `base`, guarded.
pub fn inherits(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, base: &Bound<'_, PyAny>) -> bool {
    guard_order(t, class);
    native::mro(class).iter().any(|found| found.is(base))
}

/// `issubclass(class, base)` for an abstract class of the standard library, with which others may
/// be registered.
pub fn is_registered(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    base: &Bound<'_, PyType>,
) -> Step<bool> {
    let is = class.is_subclass(base)?;
    add(
        t,
        class.as_any(),
        GuardKind::Registered(Obj::from(base), is),
    );
    Ok(is)
}

/// Guards what these names are on a class, there or not.
pub fn guard_names(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, names: &[&str]) {
    let of = Obj::from(class);
    for name in names {
        let found = lookup(class, name);
        guard_type_attr(t, &of, name, found.as_ref());
        // Lookups that found a constant guard it where it is used: here that is now.
        if let Some(found) = found.filter(crate::tracer::is_plain_constant) {
            let tracker = Tracker::TypeAttr(Arc::new(Tracker::Const(of.clone())), Arc::from(*name));
            let kind = GuardKind::ConstEq(Obj::from(found));
            t.guards.add(&Arc::new(tracker), kind);
        }
    }
}

/// Guards that what was found on a class stays the descriptor it is for these operations, or none:
/// its own class may be changed.
pub fn guard_descriptor(t: &mut Tracer<'_>, found: &Bound<'_, PyAny>, names: &[&str]) {
    let class = found.get_type();
    if native::is_mutable(&class) {
        guard_names(t, &class, names);
    }
}

/// Guards the metaclass of a class, which can be exchanged where Python code defines it.
pub fn guard_meta(t: &mut Tracer<'_>, class: &Bound<'_, PyAny>) {
    let meta = class.get_type();
    if native::is_mutable(&meta) {
        add(t, class, GuardKind::TypeIs(Obj::from(meta)));
    }
}

/// The same for what may be a class.
pub fn guard_meta_of(t: &mut Tracer<'_>, id: VarId) {
    if let (Kind::Class, Some(class)) = (t.kind(id).clone(), t.value(id)) {
        guard_meta(t, &class);
    }
}

/// `__name__` or the like of a class; `None` where code of the user's would say it.
fn written_name<'py>(class: &Bound<'py, PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
    let is_told = |found: Bound<'_, PyAny>| !crate::tracer::is_plain_constant(&found);
    // That is what `type` reads, and asks where it is a descriptor.
    if name == "__doc__" && native::is_mutable(class) && lookup(class, name).is_some_and(is_told) {
        return None;
    }
    of_type(class, name)
}

/// `__name__` or the like of a function or class, guarded where it can be replaced.
pub fn name(t: &mut Tracer<'_>, of: VarId, name: &str) -> Step<VarId> {
    let Some(object) = t.value(of) else {
        return t.unsupported(format!("{name} of a name that has no value here"));
    };
    let class = object.cast::<PyType>().ok();
    let value = match class {
        Some(class) => written_name(class, name),
        None => object.getattr_opt(name)?,
    };
    let Some(value) = value else {
        return t.unsupported(format!("{name} that is no constant"));
    };
    let fixed = class.is_some_and(|class| !native::is_mutable(class));
    if !fixed {
        if !crate::tracer::is_plain_constant(&value) {
            return t.unsupported(format!("{name} that is no constant"));
        }
        let kind = GuardKind::Named(Arc::from(name), Obj::from(&value));
        add(t, &object, kind);
    }
    Ok(t.constant(&value))
}

/// Whether a class of Python's other than `object` is among those that say what it is equal to.
pub fn is_part_builtin(t: &mut Tracer<'_>, value: VarId) -> bool {
    let Some(class) = t.type_of(value) else {
        return true;
    };
    let object = t.py.get_type::<PyAny>();
    let knows = |part: &Bound<'_, PyAny>| -> PyResult<bool> {
        let builtin = !native::is_mutable(part.cast::<PyType>()?);
        Ok(builtin && !part.is(&object) && part.getattr("__dict__")?.contains("__eq__")?)
    };
    // Builtin classes themselves know nothing of what is not derived from them.
    native::is_mutable(&class) && class.mro().iter().any(|part| knows(&part).unwrap_or(true))
}

/// Whether a class object is true: a metaclass may say it is not.
pub fn truth(t: &mut Tracer<'_>, class: VarId) -> Step<bool> {
    let Some(value) = t.value(class) else {
        return Ok(true);
    };
    let meta = value.get_type();
    if !native::is_mutable(&meta) {
        return Ok(true);
    }
    guard_meta(t, &value);
    let own = |name: &str| lookup(&meta, name).is_some();
    guard_names(t, &meta, &["__bool__", "__len__"]);
    if !is_enum_meta(&meta) && (own("__bool__") || own("__len__")) {
        return t.unsupported("the truth of a class with a metaclass");
    }
    Ok(true)
}

/// Stops where an operation of a constant that is a member of an enumeration is code of the user's;
/// guards that it stays none.
pub fn check_member(t: &mut Tracer<'_>, id: VarId, names: &[&str]) -> Step<()> {
    let Some(value) = t
        .value(id)
        .filter(|_| matches!(t.vars.kind(id), Kind::Const))
    else {
        return Ok(());
    };
    if crate::tracer::is_plain_constant(&value) {
        return Ok(());
    }
    let class = value.get_type();
    if !native::is_mutable(&class) {
        return Ok(());
    }
    guard_names(t, &class, names);
    for name in names {
        let found = lookup(&class, name);
        let is_users = found.is_some_and(|found| {
            found.is_exact_instance_of::<PyFunction>()
                && !is_of_enum_module(&found)
                && !provenance::is_of_paddle(&found)
        });
        if is_users {
            let message = format!("{name} of a member of an enumeration");
            return t.stop(BreakKind::UnsupportedOperation, message);
        }
    }
    Ok(())
}
