//! The dictionary of an object, by itself: `self.__dict__["x"]`, `self.__dict__.copy()`.
//!
//! It is no dictionary of the simulation: what is read from it are attributes of the object.
//! Everything else breaks the graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::bytecode::{Code, Instr};
use crate::guard::GuardKind;
use crate::methods::names::COPY;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{DictVar, Kind, VarId};

use crate::{Step, Stop, Tracer};
use crate::{attributes, exceptions, keys};

/// Methods that only read.
const METHODS: &[&str] = &[COPY, "get"];

/// Whether the dictionary that is loaded in front of this instruction is read by it, or by the one
/// that follows: what else is done with it is left to the interpreter, from the beginning.
pub fn is_read(code: &Code, at: usize) -> bool {
    let instr = |at: usize| code.instructions.get(at).map(|found| &found.instr);
    match (instr(at), instr(at + 1)) {
        (Some(Instr::ContainsOp { .. }), _) => true,
        (Some(Instr::LoadAttr { name, .. }), _) => METHODS.contains(&&*code.names[*name as usize]),
        (Some(Instr::LoadConst { .. } | Instr::LoadFast { .. }), Some(Instr::BinarySubscr)) => true,
        _ => false,
    }
}

/// `obj.__dict__`; `None` where there is no real object with one.
pub fn of_object(t: &mut Tracer<'_>, obj: VarId) -> Step<Option<VarId>> {
    if !std::mem::take(&mut t.reads_namespace) {
        return Ok(None);
    }
    let (Some(value), Some(source)) = (t.value(obj), t.source(obj)) else {
        return Ok(None);
    };
    let Ok(dict) = attributes::instance_dict(&value) else {
        return Ok(None);
    };
    t.note_namespace(&dict, &source, &value)?;
    let tracker = Arc::new(Tracker::InstanceDict(source));
    Ok(Some(t.wrap(dict.as_any(), tracker)))
}

/// The object that this is the dictionary of.
fn owner(t: &mut Tracer<'_>, dict: VarId) -> Option<VarId> {
    if !matches!(t.kind(dict), Kind::Opaque) {
        return None;
    }
    let source = t.source(dict)?;
    let Tracker::InstanceDict(base) = &*source else {
        return None;
    };
    t.vars.find(|variable| {
        matches!(variable.kind, Kind::Object(_) | Kind::Layer(_))
            && variable.source.as_ref() == Some(base)
    })
}

/// Whether this is such a dictionary, and the method one that is simulated.
pub fn has_method(t: &mut Tracer<'_>, dict: VarId, name: &str) -> bool {
    METHODS.contains(&name) && owner(t, dict).is_some()
}

/// The value of a key; `None` when this is no such dictionary.
pub fn try_get(t: &mut Tracer<'_>, dict: VarId, key: VarId) -> Step<Option<Option<VarId>>> {
    let (Some(obj), Some(name)) = (owner(t, dict), t.const_str(key)) else {
        return Ok(None);
    };
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        return Ok(None);
    };
    let value = match object.written(&name) {
        Some(written) => written,
        None => attributes::instance_value(t, obj, &name)?,
    };
    Ok(Some(value))
}

/// `dict[key]`
pub fn get_item(t: &mut Tracer<'_>, dict: VarId, key: VarId) -> Step<Option<VarId>> {
    match try_get(t, dict, key)? {
        Some(None) => {
            let class = t.builtin("KeyError")?;
            Err(Stop::Raise(exceptions::new(t, &class, vec![key])))
        }
        found => Ok(found.flatten()),
    }
}

/// `dict.name(*args)`
pub fn call(t: &mut Tracer<'_>, dict: VarId, name: &str, args: &[VarId]) -> Step<Option<VarId>> {
    let found = match (name, args) {
        ("get", [key]) => try_get(t, dict, *key)?.map(|found| found.unwrap_or_else(|| t.none())),
        ("get", [key, default]) => try_get(t, dict, *key)?.map(|found| found.unwrap_or(*default)),
        (COPY, []) => copy(t, dict)?,
        _ => None,
    };
    Ok(found)
}

fn copy(t: &mut Tracer<'_>, dict: VarId) -> Step<Option<VarId>> {
    let (Some(obj), Some(real)) = (owner(t, dict), t.value(dict)) else {
        return Ok(None);
    };
    let (Kind::Object(object) | Kind::Layer(object)) = t.kind(obj).clone() else {
        return Ok(None);
    };
    // The order of what was written or deleted is not kept here.
    if !object.writes.is_empty() {
        return Ok(None);
    }
    let mut names = Vec::new();
    for (key, _) in real.cast::<PyDict>().map_err(PyErr::from)? {
        let key = key.cast_into_exact::<PyString>().map_err(PyErr::from)?;
        names.push(key);
    }
    let keys = names
        .iter()
        .map(|name| Ok(DictKey::Str(Arc::from(name.to_str()?))))
        .collect::<PyResult<Vec<_>>>()?;
    t.guard(dict, GuardKind::DictKeys(keys));
    let mut items = DictVar::default();
    for name in names {
        let text = name.to_str()?;
        let Some(value) = attributes::instance_value(t, obj, text)? else {
            return Ok(None);
        };
        let key = t.constant(name.as_any());
        items.items.insert(keys::key_of(t, key)?, (key, value));
    }
    Ok(Some(t.add(Kind::Dict(items))))
}
