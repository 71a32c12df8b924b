//! Breaks inside of inlined calls: the call is made by the interpreter, of an object that goes on
//! in the callee where it broke.

use crate::bytecode::{Code, Instr, Origin};
use crate::reason::Break;
use crate::simulator::{BreakPoint, Tracer};
use crate::variables::{DictVar, Kind, VarId};

use super::arm::Arm;
use super::plan::ResumeFactory;

/// The stack in front of the instruction that breaks the outermost frame. Where it calls an inlined
/// frame that broke, the callable is one that goes on there.
pub(super) fn stack(
    t: &mut Tracer<'_>,
    code: &Code,
    at: &BreakPoint,
    resume: &mut ResumeFactory<'_>,
) -> Result<Vec<VarId>, Break> {
    let mut callee = None;
    for frame in at.inner.iter().rev() {
        let last = &frame.code.instructions[frame.end - 1].instr;
        let stack = called(t, last, &frame.stack, callee)?;
        let origin = Origin::identity(frame.code.clone());
        let arm = Arm::new(
            t,
            &origin,
            &frame.globals,
            &frame.locals,
            (&stack, &stack),
            frame.start,
        )?;
        let spec = arm.spec(t, &[], true);
        let (function, _) = resume(Some(frame), spec, 0)?;
        let args = arm.arguments(t);
        callee = Some(t.add(Kind::Continuation { function, args }));
    }
    called(t, &code.instructions[at.end - 1].instr, &at.stack, callee)
}

/// `stack` with the operands of a call replaced: nothing but the callable matters, and arguments
/// that the callee has dropped must not live on.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of some 110 instructions these call"
)]
fn called(
    t: &mut Tracer<'_>,
    call: &Instr,
    stack: &[VarId],
    callee: Option<VarId>,
) -> Result<Vec<VarId>, Break> {
    let mut stack = stack.to_vec();
    let Some(callee) = callee else {
        return Ok(stack);
    };
    let missing = || Break::internal("an inlined frame without a call");
    let none = t.none();
    let (above, plain) = match call {
        // The names of keyword arguments are on top.
        Instr::CallKw { argc } => (1, *argc as usize),
        Instr::Call { argc } => (0, *argc as usize),
        Instr::CallFunctionEx { kwargs } => {
            if *kwargs {
                let last = stack.last_mut().ok_or_else(missing)?;
                *last = t.add(Kind::Dict(DictVar::default()));
            }
            let at = stack.len().checked_sub(1 + usize::from(*kwargs));
            let tuple = at.and_then(|at| stack.get_mut(at)).ok_or_else(missing)?;
            *tuple = t.add(Kind::Tuple(Vec::new(), None));
            (1 + usize::from(*kwargs), 0)
        }
        _ => return Err(missing()),
    };
    let first = stack
        .len()
        .checked_sub(above + plain + 2)
        .ok_or_else(missing)?;
    stack[first + 2..first + 2 + plain].fill(none);
    let is_null = |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::Null);
    let (below, above) = (stack[first], stack[first + 1]);
    // NULL and the callable, a method and its receiver; 3.13 has the callable first in both.
    if is_null(t, below) {
        stack[first + 1] = callee;
    } else {
        stack[first] = callee;
        if !is_null(t, above) {
            stack[first + 1] = none;
        }
    }
    Ok(stack)
}
