//! Functions of the user's that do nothing but answer: which parameters decay.
//!
//! `lambda name: name in decaying` runs in a deferred step, and can change nothing that the frame
//! has read: it looks at its argument, and at containers of plain texts.

use pyo3::prelude::*;
use pyo3::types::PyFunction;

use crate::abi::is_text_or_texts;
use crate::bytecode::Instr;
use crate::obj::Obj;

use crate::{Step, Tracer};

/// Whether a function calls nothing, stores nothing but its own variables, and reads texts alone.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not in the list is not known to be harmless"
)]
pub(super) fn only_answers(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>) -> Step<bool> {
    let Ok(function) = function.cast_exact::<PyFunction>() else {
        return Ok(false);
    };
    let code = t.decode(&Obj::from(function.getattr("__code__")?))?;
    let globals = function.getattr("__globals__")?;
    for it in &code.instructions {
        let plain = match &it.instr {
            Instr::Nop
            | Instr::Resume
            | Instr::PopTop
            | Instr::Copy { .. }
            | Instr::Swap { .. }
            | Instr::LoadConst { .. }
            | Instr::LoadFast { .. }
            | Instr::LoadFastLoadFast { .. }
            | Instr::StoreFast { .. }
            | Instr::StoreFastLoadFast { .. }
            | Instr::CopyFreeVars { .. }
            | Instr::LoadDeref { .. }
            | Instr::UnaryNot
            | Instr::ToBool
            | Instr::CompareOp { .. }
            | Instr::IsOp { .. }
            | Instr::ContainsOp { .. }
            | Instr::Jump { .. }
            | Instr::PopJumpIfTrue { .. }
            | Instr::PopJumpIfFalse { .. }
            | Instr::JumpIfTrueOrPop { .. }
            | Instr::JumpIfFalseOrPop { .. }
            | Instr::ReturnValue
            | Instr::ReturnConst { .. } => true,
            Instr::LoadGlobal { name, .. } => {
                let found = globals.get_item(&*code.names[*name as usize]);
                found.is_ok_and(|found| is_text_or_texts(&found))
            }
            _ => false,
        };
        if !plain {
            return Ok(false);
        }
    }
    let cells = function.getattr("__closure__")?;
    if cells.is_none() {
        return Ok(true);
    }
    for cell in cells.try_iter()? {
        let content = cell?.getattr("cell_contents");
        if !content.is_ok_and(|content| is_text_or_texts(&content)) {
            return Ok(false);
        }
    }
    Ok(true)
}
