//! [`FrameState`]: one simulated frame between two instructions.

use std::rc::Rc;
use std::sync::Arc;

use crate::bytecode::Code;
use crate::obj::Obj;
use crate::variables::VarId;

use super::loops::LoopRegion;

/// A frame. Plain data: cloning it is a checkpoint.
#[derive(Clone, Debug)]
pub struct FrameState {
    /// The decoded code.
    pub code: Arc<Code>,
    /// The globals dict.
    pub globals: Obj,
    /// The builtins dict.
    pub builtins: Obj,
    /// Fast locals, cells and free variables, as in `localsplus`.
    pub locals: Vec<Option<VarId>>,
    /// The value stack.
    pub stack: Vec<VarId>,
    /// Cells of the function's closure, for COPY_FREE_VARS.
    pub closure: Vec<VarId>,
    /// Index of the next instruction.
    pub pc: usize,
    /// Names set by KW_NAMES for the next CALL.
    pub kw_names: Vec<Arc<str>>,
    /// Exceptions being handled, innermost last.
    pub handling: Vec<VarId>,
    /// The loop whose body is captured.
    pub region: Option<Rc<LoopRegion>>,
}

/// How a frame ended or paused.
#[derive(Clone, Copy, Debug)]
pub enum Exit {
    /// `return value`
    Return(VarId),
    /// `yield value`
    Yield(VarId),
    /// The captured loop comes to its test, with this condition.
    Next(VarId),
}
