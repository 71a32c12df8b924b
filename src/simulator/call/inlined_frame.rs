//! Inlined frames that a break goes through: the interpreter goes on in the innermost one.

use std::sync::Arc;

use crate::bytecode::Code;
use crate::obj::Obj;
use crate::reason::Break;
use crate::variables::VarId;

use crate::frame_state::FrameState;
use crate::opcode_executor::Position;
use crate::{TraceMark, Tracer};

/// An inlined frame in front of the instructions that broke the graph, or that call the next one.
#[derive(Debug)]
pub struct InnerFrame {
    /// Its code.
    pub code: Arc<Code>,
    /// The code object.
    pub code_object: Obj,
    /// Its globals.
    pub globals: Obj,
    /// First instruction of the group.
    pub start: usize,
    /// One past its last instruction.
    pub end: usize,
    /// The stack in front of it.
    pub stack: Vec<VarId>,
    /// Locals, cells and free variables in front of it.
    pub locals: Vec<Option<VarId>>,
    pub(crate) mark: TraceMark,
}

impl InnerFrame {
    /// `None` where the interpreter cannot go on in the frame.
    pub(crate) fn of(t: &Tracer<'_>, frame: &FrameState, at: Position) -> Option<Self> {
        if t.flow.is_captured() || frame.region.is_some() || !frame.handling.is_empty() {
            return None;
        }
        let mut decoded = t.seen.decoded.iter();
        let (code_object, _) = decoded.find(|(_, code)| Arc::ptr_eq(code, &frame.code))?;
        Some(Self {
            code: frame.code.clone(),
            code_object: code_object.clone(),
            globals: frame.globals.clone(),
            start: at.start,
            end: at.end,
            stack: at.stack,
            locals: at.locals,
            mark: at.mark,
        })
    }
}

/// The frames that a break goes through on its way to the outermost one.
#[derive(Debug, Default)]
pub struct Unwound {
    reason: Option<Break>,
    /// Innermost first.
    frames: Vec<InnerFrame>,
}

impl Unwound {
    /// Forgets them: what they refer to is gone.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A frame that can be resumed in front of the instruction that stopped, or `None` for one that
    /// cannot: then its caller's call runs natively.
    pub(crate) fn leave(&mut self, reason: &Break, frame: Option<InnerFrame>) {
        if self.reason.as_ref() != Some(reason) {
            // Another break than the one these frames are of.
            self.frames.clear();
            self.reason = Some(reason.clone());
        }
        match frame {
            Some(frame) => self.frames.push(frame),
            None => self.frames.clear(),
        }
    }

    /// The frames of this break, outermost first.
    pub(crate) fn take(&mut self, reason: &Break) -> Vec<InnerFrame> {
        let unwound = std::mem::take(self);
        let mut frames = match unwound.reason.as_ref() == Some(reason) {
            true => unwound.frames,
            false => Vec::new(),
        };
        frames.reverse();
        frames
    }
}
