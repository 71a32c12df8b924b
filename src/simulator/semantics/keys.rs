//! Variables as dict and set keys.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::bytecode::CmpOp;
use crate::frame::Modules;
use crate::reason::BreakId;
use crate::variables::{Key, VarId};

use crate::attributes::lookup;
use crate::{Step, Tracer, arguments, classes, dynamic_scalar, provenance, text_keys};

pub use crate::variables::protocol::hash_key as key_of;

/// The key that a class is.
pub(crate) fn of_class(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    classes::guard_meta_of(t, value);
    let metaclass = t.value(value).map(|class| class.get_type());
    if metaclass.is_some_and(|metaclass| is_guarded_as(t, &metaclass, &t.py.get_type::<PyType>())) {
        identity(t, value)
    } else {
        t.stop(
            BreakId::Key,
            "a class whose metaclass has its own __hash__ or __eq__ as a key",
        )
    }
}

/// The key that an instance is.
pub(crate) fn of_instance(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    let class = t.type_of(value);
    if class.is_some_and(|class| is_guarded_as(t, &class, &t.py.get_type::<PyAny>())) {
        t.guard_identity(value);
        identity(t, value)
    } else {
        t.stop(BreakId::Key, "a key with its own __hash__ or __eq__")
    }
}

/// Whether instances of a class hash and compare as those of another, which is guarded.
fn is_guarded_as<'py>(
    t: &mut Tracer<'py>,
    class: &Bound<'py, PyType>,
    other: &Bound<'py, PyType>,
) -> bool {
    classes::guard_names(t, class, &["__hash__", "__eq__"]);
    is_keyed_as(class, other)
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

/// The key of what is hashed by identity.
pub(crate) fn identity(t: &Tracer<'_>, value: VarId) -> Step<Key> {
    Ok(t.value(value).map_or(Key::Var(value), |object| {
        Key::Identity(object.as_ptr() as usize)
    }))
}

/// The key that a constant is.
pub(crate) fn const_key(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    let Some(object) = t.value(value) else {
        return t.stop(BreakId::Key, "a constant without a value");
    };
    if object.is_none() || object.is(t.py.Ellipsis()) {
        return Ok(Key::Identity(object.as_ptr() as usize));
    }
    classes::check_member(t, value, &["__hash__", "__eq__"])?;
    let class = object.get_type();
    let is_plain = crate::tracer::is_plain_constant(&object);
    let is_as = |base: &Bound<'_, PyType>| is_plain || is_keyed_as(&class, base);
    if object.is_instance_of::<PyInt>() && is_as(&t.py.get_type::<PyInt>()) {
        return match object.extract::<i128>() {
            Ok(number) => number_key(t, number),
            Err(_) => t.stop(BreakId::Key, "a huge integer as a key"),
        };
    }
    if let Ok(text) = object.cast::<PyString>() {
        if is_as(&t.py.get_type::<PyString>()) {
            return text_keys::known_key(t, Arc::from(text.to_str()?));
        }
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        if is_as(&t.py.get_type::<PyBytes>()) {
            return Ok(Key::Bytes(Arc::from(bytes.as_bytes())));
        }
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        if is_as(&t.py.get_type::<PyFloat>()) {
            return float_key(t, number.value());
        }
    }
    let by_identity = is_keyed_as(&class, &t.py.get_type::<PyAny>())
        || enumeration(t.py).is_ok_and(|of| is_keyed_as(&class, &of));
    if by_identity {
        return Ok(Key::Identity(object.as_ptr() as usize));
    }
    match member_of(&object) {
        Some(member) => Ok(Key::Identity(member.as_ptr() as usize)),
        None => t.stop(BreakId::Key, "a key of this type"),
    }
}

/// Most numbers that one made of dims is compared with.
const MOST_NUMBERS: usize = 32;

/// The key that a whole number is which is known: guards say that the keys made of dims are others,
/// or that one is this number.
fn number_key(t: &mut Tracer<'_>, number: i128) -> Step<Key> {
    let Ok(short) = i64::try_from(number) else {
        // No dim is as large.
        return Ok(Key::Int(number));
    };
    t.flow.number_keys.insert(short);
    for open in t.flow.open_keys.clone() {
        let known = t.int(short);
        if are_equal(t, open, known)? {
            return Ok(Key::Open(open));
        }
    }
    Ok(Key::Int(number))
}

/// The key that a whole number is which is made of dims: guards compare it with all other keys.
pub(crate) fn open_key(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    let is_plain = t.vars.get(value).class.is_none() && arguments::depends_on_dims(t, value);
    if !is_plain || t.flow.number_keys.len() > MOST_NUMBERS {
        return t.stop(BreakId::Key, "a key that is not a constant");
    }
    for other in t.flow.open_keys.clone() {
        if are_equal(t, value, other)? {
            return Ok(Key::Open(other));
        }
    }
    let mut numbers: Vec<i64> = t.flow.number_keys.iter().copied().collect();
    numbers.sort_unstable();
    for number in numbers {
        let known = t.int(number);
        if are_equal(t, value, known)? {
            return Ok(Key::Int(number.into()));
        }
    }
    t.flow.open_keys.push(value);
    Ok(Key::Open(value))
}

/// Whether two numbers are equal in this call, and have to be or not in others.
pub(crate) fn are_equal(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    if t.flow.number_keys.len() > MOST_NUMBERS {
        return t.stop(BreakId::Key, "a key made of dims next to many numbers");
    }
    if dynamic_scalar::is_same(t, a, b) {
        return Ok(true);
    }
    match dynamic_scalar::compare(t, CmpOp::Eq, a, b)? {
        Some(equal) => Ok(equal),
        None => t.stop(
            BreakId::Key,
            "a key made of dims that guards do not compare",
        ),
    }
}

/// The class of all enumerations.
pub fn enumeration(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(py.module("enum")?.getattr("Enum")?.cast_into()?)
}

fn float_key(t: &mut Tracer<'_>, number: f64) -> Step<Key> {
    if number.is_nan() {
        return t.stop(BreakId::Key, "NaN as a key");
    }
    if number.fract() == 0.0 && number.abs() < 1e38 {
        return number_key(t, number as i128);
    }
    if number.is_finite() && number.abs() >= 1e38 {
        return t.stop(BreakId::Key, "a huge number as a key");
    }
    Ok(Key::Float(number.to_bits()))
}

/// The dtype that every equal one is: copies of a dtype are objects of their own.
fn member_of<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let class = object.get_type();
    if !matches!(
        &*provenance::name_in_paddle(&class)?,
        "DataType" | "VarType"
    ) {
        return None;
    }
    let members = class.getattr("__members__").ok()?;
    members.get_item(object.getattr("name").ok()?).ok()
}
