//! `contextvars.ContextVar`: what one is set to at the call is guarded, what sets one breaks the
//! graph.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::native;
use crate::tracker::Tracker;
use crate::variables::VarId;

use crate::{Kwargs, Step, Tracer, exceptions};

/// `ContextVar.get(variable)` and `ContextVar.get(variable, default)`.
pub fn get(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (variable, default) = match (args, kwargs) {
        ([variable], []) => (*variable, None),
        ([variable, default], []) => (*variable, Some(*default)),
        _ => return t.unsupported("ContextVar.get() with these arguments"),
    };
    let class = t.py.module("contextvars")?.getattr("ContextVar")?;
    let is_one = t.type_of(variable).is_some_and(|own| own.is(&class));
    let (true, Some(object), Some(source)) = (is_one, t.value(variable), t.source(variable)) else {
        return t.unsupported("ContextVar.get() of what is no known variable");
    };
    let place = Arc::new(Tracker::ContextValue(source));
    if let Some(value) = native::value_in_context(&object) {
        return Ok(t.wrap(&value, place));
    }
    t.guards.add(&place, GuardKind::Absent);
    if let Some(default) = default {
        return Ok(default);
    }
    // Its default is always the same.
    t.guard_identity(variable);
    match object.call_method0("get") {
        Ok(default) => Ok(t.constant(&default)),
        Err(_) => exceptions::throw(t, "LookupError"),
    }
}
