//! Branches of which one side only raises.

use crate::bytecode::Instr;
use crate::variables::VarId;

use crate::frame_state::{FrameState, SimulatedFrame};
use crate::phi::refuse;
use crate::tensor_scalar::{negation, statement, truth_value};
use crate::{Step, Tracer};

/// `assert`: one side does nothing but raise. The graph checks, and what follows is the other side.
pub(super) fn assertion(
    t: &mut Tracer<'_>,
    value: VarId,
    yes: &FrameState,
    no: &FrameState,
) -> Step<Option<usize>> {
    let raises = |side: &FrameState| {
        let instruction = side.code.instructions.get(side.pc);
        instruction.is_some_and(|found| matches!(found.instr, Instr::LoadAssertionError))
    };
    let (holds, next) = match (raises(yes), raises(no)) {
        (false, true) => (truth_value(t, value)?, yes.pc),
        (true, false) => (negation(t, value)?, no.pc),
        _ => return Ok(None),
    };
    check(t, holds)?;
    super::tails::checked(t, value, raises(no));
    Ok(Some(next))
}

/// The graph fails where this does not hold, and the interpreter raises. A program that is saved
/// has no interpreter: no `except` would take what it raises.
pub(super) fn check(t: &mut Tracer<'_>, holds: VarId) -> Step<()> {
    let takes = SimulatedFrame::may_take_exceptions;
    if t.options.forward_only && t.frames.simulated.iter().any(takes) {
        return refuse(
            t,
            "an exception is raised inside of a \"try\" with \"except\"",
        );
    }
    statement(t, "check", &[holds])?;
    Ok(())
}
