//! Objects that are constants of a trace: of builtin types, members of enumerations, dtypes and
//! places.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyInt, PyString, PyTuple, PyType};

use crate::frame::BUILTINS;
use crate::native;
use crate::obj::{Obj, is_attr, is_enumeration};
use crate::tracker::DictKey;
use crate::{attributes, provenance};

/// Objects that are constants by identity: enum members, dtypes, places.
pub(super) fn is_enum_like(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    if let Some(name) = provenance::name_in_paddle(&class) {
        return matches!(name.as_str(), "DataType" | "VarType" | "finfo" | "iinfo")
            || name.ends_with("Place");
    }
    is_enum_member(value)
}

/// Classes of C code, by module.
type Classes = [(&'static str, &'static [&'static str])];

/// Those whose instances never change and hold nothing that does.
const VALUES: &Classes = &[
    (
        BUILTINS,
        &["object", "int", "float", "complex", "str", "bytes"],
    ),
    ("datetime", &["timedelta"]),
];

/// Those of which this holds too, but whose operations ask for a context, a clock, a time zone or
/// the locale.
const OF_THE_PROCESS: &Classes = &[
    ("datetime", &["date", "datetime", "time"]),
    ("decimal", &["Decimal"]),
];

fn is_among(class: &Bound<'_, PyType>, classes: &Classes) -> bool {
    class.module().is_ok_and(|module| {
        let home = classes.iter().find(|(home, _)| module == *home);
        home.is_some_and(|(home, names)| names.iter().any(|name| is_attr(class, home, name)))
    })
}

/// Whether what is computed with a constant depends on more than on it.
pub fn asks_the_process(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    let asks = |base: &Bound<'_, PyAny>| {
        let base = base.cast::<PyType>();
        base.is_ok_and(|base| is_among(base, OF_THE_PROCESS))
    };
    // Only members of enumerations are such constants.
    native::is_mutable(&class) && native::mro(&class).iter().any(|base| asks(&base))
}

/// A member of an enumeration that is no container and none of whose operators is written in
/// Python, other than in the module `enum`.
pub fn is_enum_member(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    if !is_enumeration(&class) {
        return false;
    }
    const MAKING: &[&str] = &["__init__", "__new__", "__init_subclass__", "__set_name__"];
    native::mro(&class).iter().all(|base| {
        let Ok(base) = base.cast::<PyType>() else {
            return false;
        };
        if !native::is_mutable(base) && !is_among(base, VALUES) && !is_among(base, OF_THE_PROCESS) {
            return false;
        }
        let names = crate::obj::of_type(base, "__dict__");
        let items = names.and_then(|names| names.call_method0("items").ok());
        let Some(items) = items.and_then(|items| items.try_iter().ok()) else {
            return false;
        };
        items.flatten().all(|item| {
            let Ok((name, found)) = item.extract::<(String, Bound<'_, PyAny>)>() else {
                return false;
            };
            !name.starts_with("__")
                || MAKING.contains(&name.as_str())
                || !found.is_exact_instance_of::<PyFunction>()
                || attributes::is_of_enum_module(&found)
        })
    })
}

/// A key of a dict that compares and hashes without code of the user's.
pub(super) fn dict_key(key: &Bound<'_, PyAny>) -> Option<DictKey> {
    if let Ok(items) = key.cast_exact::<PyTuple>() {
        let is_plain = items.iter().all(|item| dict_key(&item).is_some());
        return is_plain.then(|| DictKey::Identity(Obj::from(key)));
    }
    if let Ok(text) = key.cast_exact::<PyString>() {
        return Some(DictKey::Str(Arc::from(text.to_str().ok()?)));
    }
    if key.is_exact_instance_of::<PyInt>() {
        return Some(DictKey::Int(key.extract().ok()?));
    }
    let identity = key.is_none() || key.is_instance_of::<PyType>() || is_enum_like(key);
    identity.then(|| DictKey::Identity(Obj::from(key)))
}
