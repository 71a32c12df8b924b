//! `match` statements.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::native;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Kind, VarId};

use crate::{Step, Tracer};
use crate::{attributes, builtins, keys as dict_keys, subscript, truth};

/// Whether a mapping pattern may match.
pub fn is_mapping(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    if is_of_any_class(t, value) {
        return t.stop(BreakId::Pattern, "a mapping pattern on this object");
    }
    Ok(matches!(t.kind(value), Kind::Dict(_)))
}

/// Whether its class may be a collection, or be registered as one at any time, unseen by guards.
fn is_of_any_class(t: &mut Tracer<'_>, value: VarId) -> bool {
    if matches!(t.kind(value), Kind::Const) {
        let class = t.type_of(value);
        return class.is_none_or(|class| native::is_mutable(&class));
    }
    matches!(
        t.kind(value),
        Kind::Object(_) | Kind::Layer(_) | Kind::Opaque
    )
}

/// Whether a sequence pattern may match.
pub fn is_sequence(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    if is_of_any_class(t, value) {
        return t.stop(BreakId::Pattern, "a sequence pattern on this object");
    }
    let kind = t.kind(value);
    Ok(matches!(
        kind,
        Kind::List(_) | Kind::Tuple(..) | Kind::Range(..)
    ))
}

/// The tuple of the values that a mapping has for these keys, or `None` (`match_keys` in CPython's
/// `Python/ceval.c`).
pub fn keys(t: &mut Tracer<'_>, subject: VarId, keys: VarId) -> Step<VarId> {
    let (Kind::Dict(_), Kind::Tuple(wanted, None)) =
        (t.kind(subject).clone(), t.kind(keys).clone())
    else {
        return t.stop(BreakId::Pattern, "a mapping pattern on this object");
    };
    let mut seen = Vec::with_capacity(wanted.len());
    let mut values = Vec::with_capacity(wanted.len());
    for key in wanted {
        let known = dict_keys::key_of(t, key)?;
        if seen.contains(&known) {
            return t.stop(
                BreakKind::RaisesException,
                "a mapping pattern with a key that comes twice",
            );
        }
        seen.push(known);
        if !truth::contains(t, subject, key)? {
            return Ok(t.none());
        }
        values.push(subscript::get(t, subject, key)?);
    }
    Ok(t.add(Kind::Tuple(values, None)))
}

/// Built-in classes whose one positional pattern is the subject itself (`_Py_TPFLAGS_MATCH_SELF`).
const MATCH_SELF: u64 = 1 << 22;

/// The tuple of the attributes that a class pattern names, or `None` (`match_class` in CPython's
/// `Python/ceval.c`).
pub fn class(
    t: &mut Tracer<'_>,
    subject: VarId,
    class: VarId,
    positional: usize,
    names: VarId,
) -> Step<VarId> {
    t.realize(class);
    let Some(object) = t
        .value(class)
        .and_then(|class| class.cast_into::<PyType>().ok())
    else {
        return t.stop(
            BreakKind::RaisesException,
            "a class pattern without a class",
        );
    };
    if !builtins::is_instance(t, subject, class)? {
        return Ok(t.none());
    }
    let mut wanted: Vec<Arc<str>> = Vec::new();
    let mut values = Vec::new();
    if positional > 0 {
        match attributes::try_get(t, class, "__match_args__")? {
            Some(found) => {
                let Kind::Tuple(found, None) = t.kind(found).clone() else {
                    return t.stop(BreakId::Pattern, "__match_args__ that is no tuple");
                };
                if found.len() < positional {
                    return t.stop(
                        BreakKind::RaisesException,
                        "a class pattern with too many positional patterns",
                    );
                }
                push_names(t, &found[..positional], &mut wanted)?;
            }
            None => {
                let flags: u64 = object.getattr("__flags__")?.extract()?;
                if flags & MATCH_SELF == 0 || positional > 1 {
                    return t.stop(
                        BreakKind::RaisesException,
                        "a class pattern with too many positional patterns",
                    );
                }
                values.push(subject);
            }
        }
    }
    let Kind::Tuple(named, None) = t.kind(names).clone() else {
        return t.stop(BreakId::Pattern, "a class pattern without names");
    };
    push_names(t, &named, &mut wanted)?;
    for (index, name) in wanted.iter().enumerate() {
        if wanted[..index].contains(name) {
            return t.stop(
                BreakKind::RaisesException,
                "a class pattern with an attribute that comes twice",
            );
        }
    }
    for name in wanted {
        match builtins::attribute_or_none(t, subject, &name)? {
            Some(value) => values.push(value),
            None => return Ok(t.none()),
        }
    }
    Ok(t.add(Kind::Tuple(values, None)))
}

fn push_names(t: &mut Tracer<'_>, names: &[VarId], into: &mut Vec<Arc<str>>) -> Step<()> {
    for name in names {
        match t.const_str(*name) {
            Some(name) => into.push(name),
            None => {
                return t.stop(
                    BreakId::Pattern,
                    "a class pattern with names that are no strings",
                );
            }
        }
    }
    Ok(())
}
