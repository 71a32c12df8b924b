//! What is open where a frame ends: the grad mode, context managers that are entered again,
//! generators.

use crate::bytecode::Instr;
use crate::reason::{Break, BreakId};
use crate::simulator::{Outcome, Tracer};
use crate::variables::{ContextVar, IterVar, Kind, Rebuild, VarId};

use super::reconstruct::Emitter;

/// Refuses frames that entered a context manager by hand: only `with` tells what to enter again,
/// and in which order.
pub(super) fn check_contexts(t: &Tracer<'_>, outcome: &Outcome) -> Result<(), Break> {
    let stack = match outcome {
        Outcome::Break(at) => at.stacks(),
        Outcome::Return(_) => Vec::new(),
    };
    for id in (0..t.vars.len() as u32).map(VarId) {
        let kind = t.vars.kind(id);
        let entered = matches!(
            kind,
            Kind::Context(
                ContextVar::GradMode {
                    restore: Some(_),
                    ..
                } | ContextVar::AutoCast { entered: true, .. }
            )
        );
        let leaves = |exit: &VarId| matches!(t.vars.kind(*exit), Kind::ContextMethod { context, exit: true } if *context == id);
        if entered && !stack.iter().any(leaves) {
            return Err(Break::new(
                BreakId::EnteredContext,
                "a context manager that was entered by hand",
            ));
        }
    }
    Ok(())
}

/// A generator that is dropped before its end runs its `finally` blocks then.
pub(super) fn check_generators(t: &mut Tracer<'_>) -> Result<(), Break> {
    for id in (0..t.vars.len() as u32).map(VarId) {
        let Kind::Iter(IterVar::Generator { frame, made_at }) = *t.vars.kind(id) else {
            continue;
        };
        let frame = t.frames.suspended(frame);
        let (code, at) = (&frame.code, frame.pc.wrapping_sub(1));
        // From 3.12 on all of a generator is under a handler that turns StopIteration into
        // RuntimeError, and what it delegates to, which is another generator here, under one that
        // looks for the value of a StopIteration.
        let mut handler = code.handler(at);
        while let Some(entry) = handler {
            match code.instructions.get(entry.target).map(|it| &it.instr) {
                Some(Instr::CleanupThrow) => handler = code.handler(entry.target),
                Some(Instr::CallIntrinsic1 { id: 3 }) => handler = None,
                _ => break,
            }
        }
        let guarded = handler.is_some();
        if frame.pc > 0 && guarded {
            let why = "a generator is left inside of a try or with block";
            return Err(t.left_to_interpreter(made_at, why));
        }
    }
    Ok(())
}

/// Grad mode at the end, without the context managers that are entered again.
pub(super) fn grad_below(t: &Tracer<'_>, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Return(_) => t.grad.enabled,
        Outcome::Break(at) => grad_under(t, &at.stacks()),
    }
}

pub(super) fn grad_under(t: &Tracer<'_>, stack: &[VarId]) -> bool {
    let outermost = stack.iter().find_map(|id| {
        if let Kind::ContextMethod {
            context,
            exit: true,
        } = *t.vars.kind(*id)
        {
            if let Kind::Context(ContextVar::GradMode { restore, .. }) = t.vars.kind(context) {
                *restore
            } else {
                None
            }
        } else {
            None
        }
    });
    outermost.unwrap_or(t.grad.enabled)
}

/// Sets the grad mode, which is `now`.
pub(super) fn set_grad(e: &mut Emitter<'_, '_>, now: bool, grad: bool) -> Result<(), Break> {
    if grad != now {
        let mode = pyo3::types::PyBool::new(e.t.py, grad).to_owned().into_any();
        e.call_helper("set_grad", 1, |e| e.constant(&mode))?;
        e.code.op("POP_TOP", 0)?;
    }
    Ok(())
}

/// Really enters the context managers that the simulator had entered, outermost first, each under
/// the grad mode that it found. `grad` is the mode below them.
pub(super) fn enter_contexts(
    e: &mut Emitter<'_, '_>,
    stack: &[VarId],
    mut grad: bool,
) -> Result<(), Break> {
    for id in stack {
        let Kind::ContextMethod {
            context,
            exit: true,
        } = *e.t.vars.kind(*id)
        else {
            continue;
        };
        if let Kind::Context(ContextVar::GradMode {
            enabled,
            restore: Some(found),
            ..
        }) = *e.t.vars.kind(context)
        {
            set_grad(e, grad, found)?;
            grad = enabled;
        }
        e.call_helper("enter", 1, |e| e.value(context))?;
        e.code.op("POP_TOP", 0)?;
    }
    set_grad(e, grad, e.t.grad.enabled)
}
