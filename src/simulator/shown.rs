//! What the texts of classes and of members of enumerations are made of. It can change while they stay the same.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::guard::native;
use crate::obj::is_attr;
use crate::variables::{Kind, VarId};

use super::attributes::instance_value;
use super::tracer::is_plain_constant;
use super::{classes, fold, Step, Tracer};

/// Functions and methods that make a text of what they are given.
const SHOWING: &[&str] = &[
    "repr",
    "ascii",
    "str",
    "format",
    "format_map",
    "mod",
    "__repr__",
    "__str__",
    "__format__",
    "__mod__",
];

/// Special methods of one operand that the real operations look up.
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
    "__lt__",
    "__gt__",
    "__getattribute__",
];

/// What the text of a class consists of.
const NAMES: &[&str] = &["__name__", "__qualname__", "__module__"];

/// The class of a member of an enumeration.
fn enumeration<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyType>> {
    let class = value.get_type();
    is_attr(&class.get_type(), "enum", "EnumType").then_some(class)
}

/// Guards that operations of what is handed to the real ones stay what they are: they are none of the user's now.
pub fn guard_operations(t: &mut Tracer<'_>, value: &Bound<'_, PyAny>) {
    if !is_plain_constant(value) {
        if let Some(class) = enumeration(value) {
            classes::guard_names(t, &class, OPERATIONS);
        }
    }
}

/// Guards what the text shows that a function of this name makes of a value, if it makes one; stops where that may
/// change without a guard noticing.
pub fn guard(t: &mut Tracer<'_>, function: &str, values: &[VarId]) -> Step<()> {
    if !SHOWING.contains(&function) {
        return Ok(());
    }
    for value in values {
        each(t, *value, &mut guard_one)?;
    }
    Ok(())
}

fn guard_one(t: &mut Tracer<'_>, id: VarId) -> Step<()> {
    let Some(value) = t.value(id) else {
        return Ok(());
    };
    if let Ok(class) = value.cast::<PyType>() {
        if native::is_mutable(class) {
            for name in NAMES {
                classes::name(t, id, name)?;
            }
        }
        return Ok(());
    }
    let Some(class) = enumeration(&value) else {
        return Ok(());
    };
    let class = t.constant(class.as_any());
    guard_one(t, class)?;
    for field in ["_name_", "_value_"] {
        let Some(part) = instance_value(t, id, field)? else {
            return t.unsupported(format!("a text of a member without {field}"));
        };
        if fold::holds_mutable(t, part) || fold::to_object(t, part).is_none() {
            return t.unsupported("a text of a member whose value may change");
        }
        each(t, part, &mut guard_one)?;
    }
    Ok(())
}

/// Stops where a template of `str.format` reads attributes and items of classes, members and the like.
pub fn check_template(
    t: &mut Tracer<'_>,
    method: &Bound<'_, PyAny>,
    function: &str,
    values: &[VarId],
) -> Step<()> {
    if !matches!(function, "format" | "format_map") {
        return Ok(());
    }
    let template = method.getattr("__self__").ok();
    let template = template.and_then(|template| template.cast_into::<PyString>().ok());
    if !template.is_some_and(|template| template.to_str().is_ok_and(reads_parts)) {
        return Ok(());
    }
    for value in values {
        each(t, *value, &mut |t: &mut Tracer<'_>, id| {
            let value = t.value(id);
            match value.is_none_or(|value| is_plain_constant(&value)) {
                true => Ok(()),
                false => t.unsupported("a template that reads attributes"),
            }
        })?;
    }
    Ok(())
}

/// Whether a field of a template names an attribute or an item.
fn reads_parts(template: &str) -> bool {
    let mut is_name = false;
    for letter in template.chars() {
        match letter {
            '{' => is_name = true,
            '}' | ':' | '!' => is_name = false,
            '.' | '[' if is_name => return true,
            _ => {}
        }
    }
    false
}

/// Looks at the classes and constants in a value.
fn each<'py>(
    t: &mut Tracer<'py>,
    id: VarId,
    look: &mut dyn FnMut(&mut Tracer<'py>, VarId) -> Step<()>,
) -> Step<()> {
    let parts: Vec<VarId> = match t.kind(id).clone() {
        Kind::Const | Kind::Class => return look(t, id),
        Kind::List(items) | Kind::Tuple(items, _) => items,
        Kind::Set(set) => set.items.values().copied().collect(),
        Kind::Dict(dict) => dict
            .items
            .values()
            .flat_map(|(key, value)| [*key, *value])
            .collect(),
        _ => return Ok(()),
    };
    let all = fold::deeper(t, |t| {
        parts.into_iter().try_for_each(|part| each(t, part, look))
    });
    match all {
        Some(all) => all,
        None => t.unsupported("containers in too many others"),
    }
}
