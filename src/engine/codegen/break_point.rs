//! The code at a break: the instruction that broke the graph runs in the interpreter, and what
//! comes behind it in a resume function.

use pyo3::prelude::*;

use crate::bytecode::stack_effect;
use crate::bytecode::{Code, Instr, Origin};
use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::simulator::{BreakPoint, Tracer};
use crate::variables::kinds::SUPER;
use crate::variables::{Kind, Rebuild, VarId};

use super::arm::{Arm, original};
use super::open_contexts::{enter_contexts, grad_under, set_grad};
use super::plan::ResumeFactory;
use super::reconstruct::{Emitter, Home};
use super::{continuation, effects, live_locals};

pub(super) fn break_here(
    e: &mut Emitter<'_, '_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    at: &BreakPoint,
    resume: &mut ResumeFactory<'_>,
) -> Result<(), Break> {
    let stacks = at.stacks();
    let stack = continuation::stack(e.t, code, at, resume)?;
    let last = &code.instructions[at.end - 1];
    let method_load = matches!(
        last.instr,
        Instr::LoadAttr { method: true, .. } | Instr::LoadSuperAttr { method: true, .. }
    );
    let (pops, pushes) = match matches!(last.instr, Instr::LoadAttr { method: true, .. }) {
        true => (1, 1),
        false => effect_of(&last.instr)?,
    };
    let Some(split) = stack.len().checked_sub(pops) else {
        return Err(Break::internal(
            "the stack is too short for the instruction that breaks",
        ));
    };
    let (rest, operands) = stack.split_at(split);
    check_super(e.t, &last.instr, operands)?;

    let handler = code.handler(at.start).copied();
    let arm = |t: &Tracer<'_>, rest: &[VarId], target: usize| {
        Arm::new(t, origin, globals, &at.locals, (rest, &stack), target)
    };
    let mut arms = Vec::new();
    if last.instr.falls_through() {
        arms.push(arm(e.t, rest, at.end)?);
    }
    let dialect = e.code.dialect();
    if let Some(target) = last.instr.target() {
        let skip = if matches!(last.instr, Instr::ForIter { .. }) {
            dialect.skipped_at_loop_end().len()
        } else {
            0
        };
        arms.push(arm(e.t, rest, target + skip)?);
    }
    // The handler's stack is a part of the stack in front of the instruction, operands included.
    let handler = match handler {
        Some(entry) => match stack.get(..entry.depth as usize) {
            Some(below) => Some((entry, arm(e.t, below, entry.target)?)),
            None => return Err(Break::internal("the stack is too short for the handler")),
        },
        None => None,
    };
    for arm in arms.iter().chain(handler.iter().map(|(_, arm)| arm)) {
        for id in arm.held() {
            e.prepare(id)?;
        }
    }
    for id in operands {
        e.prepare(*id)?;
    }
    effects::emit(e)?;
    let grad = grad_under(e.t, &stacks);
    set_grad(e, e.t.grad.at_entry, grad)?;
    e.late()?;
    enter_contexts(e, &stacks, grad)?;

    e.code.loc = last.loc;
    let below = fill_below(e, &last.instr, rest)?;
    e.values(operands)?;
    let kept = arms.iter().chain(handler.iter().map(|(_, arm)| arm));
    let kept = kept.flat_map(Arm::held).collect();
    e.drop_all_but(&kept)?;
    let unwound = match handler {
        Some(_) => Vec::new(),
        None => unwound(e, &arms, rest),
    };
    let start = e.code.here();
    if (handler.is_some() || !unwound.is_empty()) && dialect.unwinds_in_front_of_calls() {
        e.code.op("NOP", 0)?;
    }
    copy_group(e, code, at)?;
    let end = e.code.here();
    let jump = last.instr.target().map(|_| end - 1);
    let mut arms = arms.into_iter();
    if last.instr.falls_through() {
        if let Some(arm) = arms.next() {
            let nulls: &[bool] = match (method_load, dialect.is_null_first()) {
                (false, _) => &[],
                (true, false) => &[false, true],
                (true, true) => &[true, false],
            };
            let made = if nulls.is_empty() {
                vec![false; pushes]
            } else {
                nulls.to_vec()
            };
            if below > 0 {
                e.code.op("SWAP", below + 1)?;
                for _ in 0..below {
                    e.code.op("POP_TOP", 0)?;
                }
            }
            arm.emit(e, &made, 0, resume)?;
        }
    }
    if let (Some(jump), Some(arm)) = (jump, arms.next()) {
        e.code.jump_here(jump)?;
        if matches!(last.instr, Instr::ForIter { .. }) {
            for name in dialect.skipped_at_loop_end() {
                e.code.op(name, 0)?;
            }
        }
        arm.emit(
            e,
            &vec![false; stack_effect::jump_pushes(&last.instr)],
            0,
            resume,
        )?;
    }
    if let Some((entry, arm)) = handler {
        e.code.handler_here(start, end, entry.lasti);
        if entry.lasti {
            // [lasti, exception]: the position is replaced by the one in the resume code.
            e.code.op("SWAP", 2)?;
            e.code.op("POP_TOP", 0)?;
        }
        arm.emit(
            e,
            if entry.lasti {
                &[false, false]
            } else {
                &[false]
            },
            original(origin, at.start)? + 1,
            resume,
        )?;
    }
    if !unwound.is_empty() {
        e.code.handler_here(start, end, true);
        for home in unwound {
            e.vacate(home)?;
        }
        // With the position: the traceback shows the instruction that raised.
        e.code.op("RERAISE", 1)?;
    }
    Ok(())
}

/// Where the generated code keeps items of the stack whose dying a program can tell. An exception
/// that leaves the frame ends them; what the generated code holds lives as long as the traceback.
/// The last one dies first.
fn unwound(e: &mut Emitter<'_, '_>, arms: &[Arm], rest: &[VarId]) -> Vec<Home> {
    let is_local = |id| arms.iter().any(|arm| arm.is_live(id));
    let mut homes = Vec::new();
    for id in rest.iter().rev() {
        let dies =
            matches!(e.t.vars.kind(*id), Kind::Iter(_)) || live_locals::is_seen_dying(e.t, *id);
        if dies && !is_local(*id) {
            homes.extend(e.home(*id));
        }
    }
    homes
}

/// Puts what `DICT_MERGE` reads for the message of its error, the function that is called, where it
/// looks for it: below its operands. The answer is how many items that takes.
fn fill_below(e: &mut Emitter<'_, '_>, instr: &Instr, rest: &[VarId]) -> Result<u32, Break> {
    let Instr::DictMerge { depth } = instr else {
        return Ok(0);
    };
    // In front of the positional arguments, and of the receiver or NULL where that comes later.
    let below = e.code.dialect().dict_merge_function();
    let function = rest.len().checked_sub(below).and_then(|at| rest.get(at));
    let (1, Some(function)) = (depth, function) else {
        return Err(Break::internal(
            "keyword arguments that are merged elsewhere than in a call",
        ));
    };
    e.values(&[*function])?;
    for _ in 1..below {
        let none = e.t.py.None();
        e.constant(none.bind(e.t.py))?;
    }
    Ok(below as u32)
}

/// Another `super` than the built-in one may look at the frame that calls it.
fn check_super(t: &Tracer<'_>, instr: &Instr, operands: &[VarId]) -> Result<(), Break> {
    let (Instr::LoadSuperAttr { .. }, [function, ..]) = (instr, operands) else {
        return Ok(());
    };
    let own = t.py.builtin(SUPER)?;
    match t.value(*function) {
        Some(function) if function.is(&own) => Ok(()),
        _ => Err(Break::new(
            BreakKind::Construct,
            "another super than the built-in one",
        )),
    }
}

fn effect_of(instr: &Instr) -> Result<(usize, usize), Break> {
    stack_effect::effect(instr)
        .ok_or_else(|| Break::new(BreakKind::Construct, format!("a break at {instr:?}")))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of some 110 instructions these have an argument that differs in a copy"
)]
fn copy_group(e: &mut Emitter<'_, '_>, code: &Code, at: &BreakPoint) -> Result<(), Break> {
    for index in at.start..at.end {
        let mut copy = code.instructions[index].clone();
        match &copy.instr {
            Instr::KwNames { index } => copy.arg = e.code.constant(&code.consts[*index as usize]),
            Instr::StoreAttr { name }
            | Instr::DeleteAttr { name }
            | Instr::ImportName { name }
            | Instr::LoadFromDictOrGlobals { name }
            | Instr::ImportFrom { name } => {
                copy.arg = e.code.name(&code.names[*name as usize]);
            }
            Instr::LoadAttr { name, .. } => {
                let name = code.names[*name as usize].clone();
                e.code.load_attr(&name)?;
                continue;
            }
            // The attribute alone, as for other methods; `super(class, receiver)`, which looks at
            // no frame.
            Instr::LoadSuperAttr { name, .. } => {
                let name = e.code.name(&code.names[*name as usize]);
                copy.arg = name << 2 | 2;
                copy.instr = Instr::LoadSuperAttr {
                    name,
                    method: false,
                };
            }
            // What the argument counts is not on the stack here.
            Instr::Reraise => copy.arg = 0,
            _ => {}
        }
        e.code.raw(copy);
    }
    Ok(())
}
