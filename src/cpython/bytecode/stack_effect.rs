//! What the instruction that breaks the graph does to the stack.

use super::Instr;

/// Items popped and pushed when the instruction falls through.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no break is resumed behind an instruction that is not here"
)]
pub fn effect(instr: &Instr) -> Option<(usize, usize)> {
    let n = |count: &u32| *count as usize;
    Some(match instr {
        Instr::Call { argc } => (n(argc) + 2, 1),
        Instr::CallKw { argc } => (n(argc) + 3, 1),
        Instr::CallFunctionEx { kwargs } => (3 + usize::from(*kwargs), 1),
        Instr::LoadAttr { method: false, .. }
        | Instr::UnaryPositive
        | Instr::UnaryNegative
        | Instr::UnaryInvert
        | Instr::UnaryNot
        | Instr::ToBool
        | Instr::ConvertValue { .. }
        | Instr::FormatSimple
        | Instr::GetIter => (1, 1),
        Instr::BinaryOp { .. }
        | Instr::BinarySubscr
        | Instr::CompareOp { .. }
        | Instr::ContainsOp { .. }
        | Instr::IsOp { .. }
        | Instr::FormatWithSpec
        | Instr::ImportName { .. } => (2, 1),
        Instr::BinarySlice | Instr::LoadSuperAttr { .. } => (3, 1),
        Instr::StoreSubscr => (3, 0),
        Instr::StoreSlice => (4, 0),
        Instr::StoreAttr { .. } | Instr::DeleteSubscr => (2, 0),
        Instr::DeleteAttr { .. } => (1, 0),
        Instr::FormatValue { has_spec, .. } => (1 + usize::from(*has_spec), 1),
        Instr::BuildSet { count }
        | Instr::BuildString { count }
        | Instr::BuildList { count }
        | Instr::BuildTuple { count } => (n(count), 1),
        Instr::BuildMap { count } => (2 * n(count), 1),
        Instr::BuildConstKeyMap { count } => (n(count) + 1, 1),
        Instr::UnpackSequence { count } => (1, n(count)),
        Instr::UnpackEx { before, after } => (1, n(before) + 1 + n(after)),
        Instr::BeforeWith => (1, 2),
        Instr::ImportFrom { .. } => (1, 2),
        Instr::GetLen => (1, 2),
        Instr::PopJumpIfTrue { .. }
        | Instr::PopJumpIfFalse { .. }
        | Instr::PopJumpIfNone { .. }
        | Instr::PopJumpIfNotNone { .. }
        | Instr::JumpIfTrueOrPop { .. }
        | Instr::JumpIfFalseOrPop { .. } => (1, 0),
        Instr::ForIter { .. } => (1, 2),
        // These write into a container below the operands, which keeps its identity.
        Instr::ListAppend { depth }
        | Instr::SetAdd { depth }
        | Instr::ListExtend { depth }
        | Instr::SetUpdate { depth }
        | Instr::DictUpdate { depth }
        | Instr::DictMerge { depth } => (n(depth) + 1, n(depth)),
        Instr::MapAdd { depth } => (n(depth) + 2, n(depth)),
        Instr::RaiseVarargs { argc } => (n(argc), 0),
        // The place below the exception, where there is one, says nothing that anyone sees.
        Instr::Reraise => (1, 0),
        Instr::CallIntrinsic1 { .. } | Instr::LoadFromDictOrGlobals { .. } => (1, 1),
        Instr::CallIntrinsic2 { .. } => (2, 1),
        // What goes away may have a destructor.
        Instr::PopTop => (1, 0),
        Instr::MatchMapping | Instr::MatchSequence => (1, 2),
        Instr::MatchKeys => (2, 3),
        Instr::MatchClass { .. } => (3, 1),
        _ => return None,
    })
}

/// Items pushed when the instruction jumps, after the pops of [`effect`].
pub fn jump_pushes(instr: &Instr) -> usize {
    usize::from(matches!(
        instr,
        Instr::JumpIfTrueOrPop { .. } | Instr::JumpIfFalseOrPop { .. }
    ))
}
