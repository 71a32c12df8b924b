//! [`FrameState`]: one simulated frame between two instructions.

use std::rc::Rc;
use std::sync::Arc;

use crate::bytecode::{Code, Instr};
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::VarId;

use super::inline::GENERATOR;
use super::loops::LoopRegion;
use super::{Step, Tracer};

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
    /// What takes what a generator yields, and the cell that holds its result so far.
    pub consumer: Option<(Consumer, VarId)>,
}

/// A builtin that takes all that a generator yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// `sum()`
    Sum,
    /// `any()`
    Any,
    /// `all()`
    All,
}

impl FrameState {
    pub(super) fn push(&mut self, value: VarId) {
        self.stack.push(value);
    }

    pub(super) fn pop(&mut self, t: &Tracer<'_>) -> Step<VarId> {
        match self.stack.pop() {
            Some(value) => Ok(value),
            None => t.stop(BreakKind::Internal, "the simulated stack is empty"),
        }
    }

    pub(super) fn pop_n(&mut self, t: &Tracer<'_>, n: usize) -> Step<Vec<VarId>> {
        match self.stack.len().checked_sub(n) {
            Some(at) => Ok(self.stack.split_off(at)),
            None => t.stop(BreakKind::Internal, "the simulated stack is too short"),
        }
    }

    /// The item `depth` places from the top; 1 is the top.
    pub(super) fn peek(&self, t: &Tracer<'_>, depth: usize) -> Step<VarId> {
        match self.stack.len().checked_sub(depth).filter(|_| depth > 0) {
            Some(at) => Ok(self.stack[at]),
            None => t.stop(BreakKind::Internal, "the simulated stack is too short"),
        }
    }

    /// Exchanges the top with the item `depth` places from it.
    pub(super) fn swap(&mut self, t: &Tracer<'_>, depth: usize) -> Step<()> {
        let (top, other) = (
            self.stack.len().wrapping_sub(1),
            self.stack.len().wrapping_sub(depth),
        );
        if top >= self.stack.len() || other >= self.stack.len() {
            return t.stop(BreakKind::Internal, "the simulated stack is too short");
        }
        self.stack.swap(top, other);
        Ok(())
    }

    pub(super) fn name(&self, index: u32) -> Arc<str> {
        self.code.names[index as usize].clone()
    }
}

/// What code that is called in a frame may ask about it.
#[derive(Clone, Debug)]
pub struct SimulatedFrame {
    /// The innermost exception that it handles.
    pub handled: Option<VarId>,
    /// The globals dict.
    pub globals: Obj,
    /// What it runs.
    pub code: Arc<Code>,
    /// The instruction that it is at.
    pub at: usize,
    /// Variables from here on were made in it, or in what it calls.
    pub first: usize,
}

impl SimulatedFrame {
    pub(super) fn of(frame: &FrameState, first: usize) -> Self {
        Self {
            handled: frame.handling.last().copied(),
            globals: frame.globals.clone(),
            code: frame.code.clone(),
            at: frame.pc,
            first,
        }
    }

    /// Whether it may do something where a call raises, or is no frame of a plain function.
    pub(crate) fn sees_exceptions(&self) -> bool {
        self.handled.is_some()
            || self.code.handler(self.at).is_some()
            || self.code.flags & GENERATOR != 0
    }

    /// Whether an `except` clause may take what a call raises: not `finally` or `with`, which raise
    /// it again.
    pub fn may_take_exceptions(&self) -> bool {
        let mut at = self.at;
        while let Some(entry) = self.code.handler(at) {
            let ends = |it: &Instr| {
                matches!(
                    it,
                    Instr::Reraise
                        | Instr::WithExceptStart
                        | Instr::CheckExcMatch
                        | Instr::CheckEgMatch
                        | Instr::PopExcept
                )
            };
            let mut behind = (entry.target..).zip(&self.code.instructions[entry.target..]);
            let Some((place, end)) = behind.find(|(_, it)| ends(&it.instr)) else {
                return true;
            };
            // Also what cleans up behind a handler ends with POP_EXCEPT; it raises again at once.
            let next = self.code.instructions.get(place + 1).map(|it| &it.instr);
            let cleans_up = matches!(end.instr, Instr::PopExcept);
            let raises_again = matches!(end.instr, Instr::Reraise | Instr::WithExceptStart)
                || cleans_up && matches!(next, Some(Instr::Reraise));
            if !raises_again || place <= at {
                return true;
            }
            at = place;
        }
        false
    }
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
