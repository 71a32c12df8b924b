//! Raising and matching exceptions.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::{Kind, ObjectVar, VarId};

use super::attributes;
use super::call::call;
use super::{Step, Stop, Tracer};

/// A new exception variable of a builtin class.
pub fn new(t: &mut Tracer<'_>, class: &Bound<'_, PyAny>, args: Vec<VarId>) -> VarId {
    let base = t.add(Kind::Tuple(args, None));
    t.add(Kind::Object(ObjectVar {
        class: Obj::from(class),
        writes: Vec::new(),
        base: Some(base),
    }))
}

/// Stops with a builtin exception, `builtins.<class>(message)`.
pub fn throw<T>(t: &mut Tracer<'_>, class: &str, message: &str) -> Step<T> {
    let class = t.py.import("builtins")?.getattr(class)?;
    let message = t.str(message);
    Err(Stop::Raise(new(t, &class, vec![message])))
}

/// `raise`, `raise x`: the exception variable.
pub fn raise(t: &mut Tracer<'_>, handling: &[VarId], args: &[VarId]) -> Step<VarId> {
    match args {
        [] => match handling.last() {
            Some(current) => Ok(*current),
            None => t.stop(BreakKind::RaisesException, "nothing to re-raise"),
        },
        [what] => {
            let exception = if matches!(t.kind(*what), Kind::Class) {
                call(t, *what, &[], &[])?
            } else {
                *what
            };
            match t.kind(exception) {
                Kind::Object(object) if object.base.is_some() => Ok(exception),
                _ => t.stop(BreakKind::RaisesException, "raise"),
            }
        }
        // The cause is visible in the traceback: let the interpreter set it.
        _ => t.stop(BreakKind::RaisesException, "raise ... from ..."),
    }
}

/// Whether `except class:` catches the exception.
pub fn matches(t: &mut Tracer<'_>, exception: VarId, class: VarId) -> Step<bool> {
    if let Kind::Tuple(classes, None) = t.kind(class).clone() {
        for class in classes {
            if matches(t, exception, class)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let (Some(of), Some(wanted)) = (t.type_of(exception), t.value(class)) else {
        return t.unsupported("an except clause that is not a class");
    };
    match wanted.cast::<PyType>() {
        Ok(wanted) => Ok(of.mro().iter().any(|base| base.is(wanted))),
        Err(_) => t.unsupported("an except clause that is not a class"),
    }
}

/// What `__exit__` of a `with` block answers for the exception that passes it.
pub fn leaves_with(t: &mut Tracer<'_>, exit: VarId, exception: VarId) -> Step<VarId> {
    let Some(class) = t.type_of(exception) else {
        return t.unsupported("an exception without a class");
    };
    let class = t.constant(class.as_any());
    // It can be handed on and compared with None, no more. To rebuild it means to raise natively.
    let traceback = t.add(Kind::Opaque);
    let known = t.raised.iter().find(|(raised, _)| *raised == exception);
    let at = known.map_or(t.outermost, |(_, at)| *at);
    t.raised.push((traceback, at));
    call(t, exit, &[class, exception, traceback], &[])
}

/// The value of the `StopIteration` that ended what a generator delegates to; any other exception goes on.
pub fn stop_value(t: &mut Tracer<'_>, exception: VarId) -> Step<VarId> {
    let class = t.py.import("builtins")?.getattr("StopIteration")?;
    let class = t.constant(&class);
    if matches(t, exception, class)? {
        attributes::get(t, exception, "value")
    } else {
        Err(Stop::Raise(exception))
    }
}
