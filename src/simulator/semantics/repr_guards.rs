//! What the texts of classes and of members of enumerations are made of. It can change while they
//! stay the same.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::native;
use crate::obj::is_enumeration;

use crate::attributes::instance_value;
use crate::tracer::is_plain_constant;
use crate::{Step, Tracer, classes, fold};

/// Special methods that the real operations look up, where no operator says which.
const OPERATIONS: &[&str] = &[
    "__repr__",
    "__str__",
    "__format__",
    "__int__",
    "__index__",
    "__float__",
    "__complex__",
    "__bytes__",
    "__trunc__",
    "__floor__",
    "__ceil__",
    "__round__",
    "__abs__",
    "__neg__",
    "__pos__",
    "__invert__",
    "__bool__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__contains__",
    "__call__",
    "__hash__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__divmod__",
    "__rdivmod__",
    "__pow__",
    "__rpow__",
    "__getattribute__",
];

/// What the text of a class consists of.
const NAMES: &[&str] = &["__name__", "__qualname__", "__module__"];

/// The class of a member of an enumeration.
fn enumeration<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyType>> {
    let class = value.get_type();
    is_enumeration(&class).then_some(class)
}

/// Guards that operations of what is handed to the real ones stay what they are: they are none of
/// the user's now.
pub fn guard_operations(t: &mut Tracer<'_>, value: &Bound<'_, PyAny>) {
    if !is_plain_constant(value) {
        if let Some(class) = enumeration(value) {
            classes::guard_names(t, &class, OPERATIONS);
        }
    }
}

/// Guards what the text of a class or of a member of an enumeration shows; stops where that may
/// change without a guard noticing. The answer is the value of a member, which its text shows too.
pub fn guard<'py>(
    t: &mut Tracer<'py>,
    value: &Bound<'py, PyAny>,
) -> Step<Option<Bound<'py, PyAny>>> {
    if let Ok(class) = value.cast::<PyType>() {
        guard_class(t, class)?;
        return Ok(None);
    }
    let Some(class) = enumeration(value) else {
        return Ok(None);
    };
    guard_class(t, &class)?;
    let member = t.constant(value);
    // What its text shows of its value may be the user's to say.
    classes::check_member(t, member, &["_value_repr_"])?;
    let mut shown = None;
    for field in ["_name_", "_value_"] {
        let Some(part) = instance_value(t, member, field)? else {
            return t.unsupported(format!("a text of a member without {field}"));
        };
        shown = fold::to_object(t, part);
        if fold::holds_mutable(t, part) || shown.is_none() {
            return t.unsupported("a text of a member whose value may change");
        }
    }
    Ok(shown)
}

/// Guards what the text of a class consists of.
pub fn guard_class(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> Step<()> {
    if native::is_mutable(class) {
        let id = t.constant(class.as_any());
        for name in NAMES {
            classes::name(t, id, name)?;
        }
    }
    Ok(())
}
