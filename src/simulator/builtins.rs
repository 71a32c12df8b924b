//! Builtin functions and classes, as a table.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// Calls a builtin function or class of the table; `None` when it is not there.
pub fn try_call(
    t: &mut Tracer<'_>,
    callable: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let _ = t;
    let _ = (callable, args, kwargs);
    Ok(None)
}
