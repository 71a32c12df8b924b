//! Methods of builtin kinds.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// Whether values of this kind have a simulated method of this name (used by attribute lookup).
pub fn exists(t: &mut Tracer<'_>, receiver: VarId, name: &str) -> Step<bool> {
    let _ = t;
    let _ = (receiver, name);
    Ok(false)
}

/// `receiver.name(*args, **kwargs)`
pub fn call(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let _ = (receiver, name, args, kwargs);
    t.unsupported("methods::call is not simulated")
}
