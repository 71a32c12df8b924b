//! Variables as dict and set keys.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::variables::{Key, Kind, VarId};

use super::aliases;
use super::attributes::lookup;
use super::{classes, Step, Tracer};

/// The key a variable is. Keys whose hash or equality is user code stop.
pub fn key_of(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    match t.kind(value).clone() {
        Kind::Const => const_key(t, value),
        Kind::Tuple(items, None) => Ok(Key::Tuple(
            items
                .into_iter()
                .map(|item| key_of(t, item))
                .collect::<Step<_>>()?,
        )),
        Kind::Class
            if !t
                .value(value)
                .is_some_and(|class| super::fold::has_plain_metaclass(&class)) =>
        {
            t.unsupported("a class with a metaclass as a key")
        }
        Kind::Function(_) => {
            t.guard_identity(value);
            identity(t, value)
        }
        Kind::Class | Kind::Module | Kind::Callable => identity(t, value),
        Kind::Layer(_) | Kind::Object(_) => {
            let own = t.type_of(value).is_some_and(|class| {
                classes::guard_names(t, &class, &["__hash__", "__eq__"]);
                is_keyed_as(&class, &t.py.get_type::<PyAny>())
            });
            if own {
                t.guard_identity(value);
                identity(t, value)
            } else {
                t.unsupported("a key with its own __hash__ or __eq__")
            }
        }
        Kind::Tensor(tensor) if aliases::is_of_two(t, tensor.symbol) => t.unsupported(
            "a key that may be one of two tensors, which captured control flow decides",
        ),
        Kind::Tensor(_) => identity(t, value),
        _ => t.unsupported("a key that is not a constant"),
    }
}

/// Whether instances of a class hash and compare as those of another.
fn is_keyed_as(class: &Bound<'_, PyType>, other: &Bound<'_, PyType>) -> bool {
    ["__hash__", "__eq__"]
        .iter()
        .all(|name| match (lookup(class, name), lookup(other, name)) {
            (Some(a), Some(b)) => a.is(&b),
            _ => false,
        })
}

fn identity(t: &Tracer<'_>, value: VarId) -> Step<Key> {
    Ok(t.value(value).map_or(Key::Var(value), |object| {
        Key::Identity(object.as_ptr() as usize)
    }))
}

/// Whether it is a number or text of another class than the built-in one: a member of an `IntEnum`, `x.size`.
pub fn is_of_subclass(object: &Bound<'_, PyAny>) -> bool {
    let exact = object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyString>();
    !exact && (object.is_instance_of::<PyInt>() || object.is_instance_of::<PyString>())
}

/// The key of such a one that hashes and compares as what it is a kind of.
pub fn by_value(object: &Bound<'_, PyAny>) -> Option<Key> {
    if !is_of_subclass(object) {
        return None;
    }
    let class = object.get_type();
    let is_number = object.is_instance_of::<PyInt>();
    let base = match is_number {
        true => object.py().get_type::<PyInt>(),
        false => object.py().get_type::<PyString>(),
    };
    if !is_keyed_as(&class, &base) {
        return None;
    }
    match object.cast::<PyString>() {
        Ok(text) => Some(Key::Str(Arc::from(text.to_str().ok()?))),
        Err(_) => object.extract().ok().map(Key::Int),
    }
}

fn const_key(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    let Some(object) = t.value(value) else {
        return t.unsupported("a constant without a value");
    };
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(Key::Str(Arc::from(text.to_str()?)));
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(Key::Bytes(Arc::from(bytes.as_bytes())));
    }
    if object.is_instance_of::<PyInt>()
        && (object.is_exact_instance_of::<PyInt>() || object.cast::<pyo3::types::PyBool>().is_ok())
    {
        return match object.extract::<i128>() {
            Ok(number) => Ok(Key::Int(number)),
            Err(_) => t.unsupported("a huge integer as a key"),
        };
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        let number = number.value();
        if number.is_nan() {
            return t.unsupported("NaN as a key");
        }
        if number.fract() == 0.0 && number.abs() < 1e38 {
            return Ok(Key::Int(number as i128));
        }
        if number.is_finite() && number.abs() >= 1e38 {
            return t.unsupported("a huge number as a key");
        }
        return Ok(Key::Float(number.to_bits()));
    }
    if object.is_none() || object.is(t.py.Ellipsis()) {
        return Ok(Key::Identity(object.as_ptr() as usize));
    }
    classes::check_member(t, value, &["__hash__", "__eq__"])?;
    if let Some(key) = by_value(&object) {
        return Ok(key);
    }
    // Enum members and dtypes: fine when hash and equality are the defaults of their kind.
    let plain = object
        .get_type()
        .getattr("__module__")
        .and_then(|m| m.extract::<String>())
        .unwrap_or_default();
    if plain.starts_with("paddle.")
        || object.hasattr("_value_")?
            && !object.is_instance_of::<PyInt>()
            && !object.is_instance_of::<PyString>()
    {
        return Ok(Key::Identity(object.as_ptr() as usize));
    }
    t.unsupported("a key of this type")
}
