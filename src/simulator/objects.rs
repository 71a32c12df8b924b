//! Classes and their instances.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// `class(*args, **kwargs)` for Python classes.
pub fn instantiate(
    t: &mut Tracer<'_>,
    class: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let _ = (class, args, kwargs);
    t.unsupported("objects::instantiate is not simulated")
}
