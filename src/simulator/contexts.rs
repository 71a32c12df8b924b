//! Context managers the simulator enters itself: grad mode, `auto_cast`, `nullcontext`.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// Makes a context manager for a call of a known callable; `None` when it is not one.
pub fn try_make(
    t: &mut Tracer<'_>,
    callable: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let _ = t;
    let _ = (callable, args, kwargs);
    Ok(None)
}

/// `context.__enter__()`
pub fn enter(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let _ = (context,);
    t.unsupported("contexts::enter is not simulated")
}

/// `context.__exit__(...)`
pub fn exit(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let _ = (context,);
    t.unsupported("contexts::exit is not simulated")
}
