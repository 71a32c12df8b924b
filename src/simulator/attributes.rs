//! Attribute access with the real lookup rules.

use crate::variables::VarId;

use super::{Step, Tracer};

/// `obj.name`
pub fn get(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<VarId> {
    let _ = (obj, name);
    t.unsupported("attributes::get is not simulated")
}

/// `obj.name = value`
pub fn set(t: &mut Tracer<'_>, obj: VarId, name: &str, value: VarId) -> Step<()> {
    let _ = (obj, name, value);
    t.unsupported("attributes::set is not simulated")
}

/// `del obj.name`
pub fn delete(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<()> {
    let _ = (obj, name);
    t.unsupported("attributes::delete is not simulated")
}

/// `type(obj).name` bound to `obj`, as the interpreter looks up dunders (the instance is not searched).
pub fn get_special(t: &mut Tracer<'_>, obj: VarId, name: &str) -> Step<VarId> {
    let _ = (obj, name);
    t.unsupported("attributes::get_special is not simulated")
}
