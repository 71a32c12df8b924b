//! Inlining Python functions.

use crate::variables::VarId;

use super::{Kwargs, Step, Tracer};

/// Calls a Python function variable by simulating its body.
pub fn call_function(
    t: &mut Tracer<'_>,
    function: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let _ = (function, args, kwargs);
    t.unsupported("inline::call_function is not simulated")
}
