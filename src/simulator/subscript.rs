//! Subscription.

use crate::variables::VarId;

use super::{Step, Tracer};

/// `container[key]`
pub fn get(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<VarId> {
    let _ = (container, key);
    t.unsupported("subscript::get is not simulated")
}

/// `container[key] = value`
pub fn set(t: &mut Tracer<'_>, container: VarId, key: VarId, value: VarId) -> Step<()> {
    let _ = (container, key, value);
    t.unsupported("subscript::set is not simulated")
}

/// `del container[key]`
pub fn delete(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<()> {
    let _ = (container, key);
    t.unsupported("subscript::delete is not simulated")
}
