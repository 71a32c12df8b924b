//! Branches of which one side only raises.

use crate::bytecode::Instr;
use crate::variables::VarId;

use crate::frame_state::FrameState;
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
    statement(t, "check", &[holds])?;
    super::tails::checked(t, value, raises(no));
    Ok(Some(next))
}
