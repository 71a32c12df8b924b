//! The lookup of a name along the MRO of a class, and the guard on what it found.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::descriptors;
use crate::guard::GuardKind;
use crate::native;
use crate::obj::{Obj, is_slot_wrapper};
use crate::reason::BreakKind;
use crate::tracker::{Tracker, TrackerRef};
use crate::{Step, Tracer, classes, tracer};

/// The first class of the MRO that defines `name`, and what it defines.
pub fn lookup<'py>(class: &Bound<'py, PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
    lookup_after(class, None, name).map(|(_, value)| value)
}

pub(super) fn lookup_after<'py>(
    class: &Bound<'py, PyType>,
    after: Option<&Bound<'py, PyAny>>,
    name: &str,
) -> Option<(Bound<'py, PyType>, Bound<'py, PyAny>)> {
    let mut skipping = after.is_some();
    for base in native::mro(class).iter() {
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

/// Stops where looking a name up may run code: other keys than strings have an `__eq__` of their
/// own.
pub(super) fn only_names(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> Step<()> {
    for base in native::mro(class).iter() {
        if t.seen.plain_classes.contains(&(base.as_ptr() as usize)) {
            continue;
        }
        let names = base.cast::<PyType>().ok().and_then(|base| {
            let dict = crate::obj::of_type(base, "__dict__")?;
            dict.call_method0("keys").ok()?.try_iter().ok()
        });
        let Some(mut names) = names else {
            return t.unsupported("a class without a dictionary");
        };
        if names.any(|name| !name.is_ok_and(|name| name.is_exact_instance_of::<PyString>())) {
            let message = "an attribute of a class with keys that are no strings";
            return t.stop(BreakKind::UnsupportedAttribute, message);
        }
        t.seen.plain_classes.insert(base.as_ptr() as usize);
    }
    Ok(())
}

pub(super) fn class_of<'py>(t: &Tracer<'py>, class: &Obj) -> Step<Bound<'py, PyType>> {
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
        // The values of constants, and what holders hold, are guarded where they are used: here,
        // that no descriptor takes their place. Holders cannot be referenced weakly either.
        Some(found) if tracer::is_plain_constant(found) || is_holder(found) => {
            let class = Obj::from(found.get_type());
            t.guards.add(&tracker, GuardKind::TypeIs(class));
        }
        Some(found) => t.guards.add(&tracker, GuardKind::Is(Obj::from(found))),
        None => t.guards.add(&tracker, GuardKind::Absent),
    }
    tracker
}

/// An exact `staticmethod` or `classmethod`.
pub(super) fn is_holder(found: &Bound<'_, PyAny>) -> bool {
    descriptors::is_static(found) || descriptors::is_of_class(found)
}

/// Stops where a class says something else about the class of its instances.
pub fn own_class(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> Step<()> {
    if native::is_mutable(class) {
        classes::guard_names(t, class, &["__class__", "__getattribute__"]);
    }
    let own = lookup(class, "__getattribute__");
    let is_asked = own.is_some_and(|own| !is_slot_wrapper(&own));
    if is_asked || native::has_own_lookup(class) {
        return t.unsupported("the class of an object that looks it up elsewhere");
    }
    match tells_class(class) {
        true => t.unsupported("a class with its own __class__"),
        false => Ok(()),
    }
}

/// Whether `__class__` of its instances is another one than that of `object`.
pub fn tells_class(class: &Bound<'_, PyType>) -> bool {
    !inherits(class, &class.py().get_type::<PyAny>(), "__class__")
}

/// Whether a class has by this name what `base` has.
pub fn inherits(class: &Bound<'_, PyType>, base: &Bound<'_, PyType>, name: &str) -> bool {
    matches!((lookup(class, name), lookup(base, name)), (Some(found), Some(of_base)) if found.is(&of_base))
}

/// Whether this is the dunder `name` of a class written in C that does what that of `object` does.
/// Others keep attributes elsewhere: `threading.local`, for one.
pub(super) fn is_generic(found: &Bound<'_, PyAny>, name: &str) -> bool {
    let named = |own: Bound<'_, PyAny>| own.eq(name).unwrap_or(false);
    let of_object = found.py().get_type::<PyAny>().getattr(name);
    found.getattr("__name__").is_ok_and(named)
        && of_object.is_ok_and(|own| native::acts_like(found, &own))
}
