//! Capturing calls of Paddle's API.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// Whether `function` is Paddle's (or marked `allow_in_graph`); if so the call becomes a statement. `None`: not ours, inline it.
pub fn try_call(
    t: &mut Tracer<'_>,
    function: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let _ = t;
    let _ = (function, args, kwargs);
    Ok(None)
}
