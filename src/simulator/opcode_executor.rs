//! Runs the instructions of a frame.
//!
//! [`run`] is the inlining executor (`OpcodeInlineExecutor` in the field's terms): whatever it
//! cannot do stops the caller. `run_outermost` runs the frame that is being translated and
//! turns a stop into a graph break at the instruction group it happened in.

use crate::bytecode::{Instr, Loc};
use crate::c_stack;
use crate::reason::{Break, BreakCode, BreakId, BreakKind, Columns, SourceLoc};
use crate::variables::VarId;

use super::control_flow::maybe;
use super::dispatch::{self, Flow};
use super::frame_state::{Exit, FrameState};
use super::inlined_frame::InnerFrame;
use super::{Step, Stop, TraceMark, Tracer, frame_introspection};

/// How the simulation of the outermost frame ended.
#[derive(Debug)]
pub enum Outcome {
    /// The frame returns this.
    Return(VarId),
    /// The graph breaks.
    Break(Box<BreakPoint>),
}

/// The state in front of the instructions that broke the graph.
#[derive(Debug)]
pub struct BreakPoint {
    /// First instruction of the native group.
    pub start: usize,
    /// One past its last instruction.
    pub end: usize,
    /// The stack in front of it.
    pub stack: Vec<VarId>,
    /// Locals, cells and free variables in front of it.
    pub locals: Vec<Option<VarId>>,
    /// Why.
    pub reason: Break,
    /// The inlined frames below it, outermost first: the instruction calls the first one, the last
    /// one broke.
    pub inner: Vec<InnerFrame>,
    mark: TraceMark,
}

impl BreakPoint {
    /// The stacks of all frames, outermost first.
    pub fn stacks(&self) -> Vec<VarId> {
        let inner = self.inner.iter().flat_map(|frame| &frame.stack);
        self.stack.iter().chain(inner).copied().collect()
    }

    /// Keeps `count` of the inlined frames: the call in the last one runs natively, from its
    /// beginning. What was simulated below is forgotten.
    pub fn retreat(&mut self, t: &mut Tracer<'_>, count: usize) {
        self.inner.truncate(count);
        let innermost = self.inner.last().map_or(self.mark, |frame| frame.mark);
        t.rollback(innermost);
        t.unnest(&self.mark);
    }
}

/// Runs a frame without touching the real world.
///
/// The tracer takes what is found: the graph, the guards, the mutations. `OpcodeExecutor` stops
/// at the first instruction that breaks the graph; `Survey` goes on and collects every reason.
pub trait Simulator {
    /// Simulates the frame that is being translated, from its next instruction on.
    ///
    /// # Errors
    /// A [`Break`] when the frame must run natively as a whole.
    fn simulate(&self, t: &mut Tracer<'_>, frame: &mut FrameState) -> Result<Simulation, Break>;
}

/// The answer of a [`Simulator`].
#[derive(Debug)]
pub struct Simulation {
    /// How the simulation ended.
    pub outcome: Outcome,
    /// Why the graph breaks: empty when it does not.
    pub reasons: Vec<Break>,
}

/// Simulates up to the end of the frame or the first break.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpcodeExecutor;

impl Simulator for OpcodeExecutor {
    fn simulate(&self, t: &mut Tracer<'_>, frame: &mut FrameState) -> Result<Simulation, Break> {
        let outcome = run_outermost(t, frame)?;
        let reasons = match &outcome {
            Outcome::Break(at) => vec![at.reason.clone()],
            Outcome::Return(_) => Vec::new(),
        };
        Ok(Simulation { outcome, reasons })
    }
}

/// Most instructions one translation simulates: a bound on unrolled loops.
const STEP_LIMIT: usize = 2_000_000;

/// Simulates an inlined frame until it returns or yields. `tail` says that what it returns is what
/// the calling instruction pushes: then a break resumes inside.
pub fn run(t: &mut Tracer<'_>, frame: &mut FrameState, tail: bool) -> Step<Exit> {
    let first = t.vars.len();
    t.frames.enter(frame, location(frame), first);
    let resumes = tail && t.options.resume_inside;
    let answer = c_stack::for_call(|| run_located(t, frame, resumes));
    t.frames.leave();
    answer
}

/// Simulates a suspended frame whose last instruction raises this.
pub(super) fn run_raising(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    exception: VarId,
) -> Step<Exit> {
    let at = frame.pc.saturating_sub(1);
    if unwind(t, frame, at, exception) {
        run(t, frame, false)
    } else {
        Err(Stop::Raise(exception))
    }
}

fn run_located(t: &mut Tracer<'_>, frame: &mut FrameState, resumes: bool) -> Step<Exit> {
    let mut position: Option<Position> = None;
    loop {
        match &mut position {
            Some(at) if at.start < frame.pc && frame.pc < at.end => {}
            Some(at) => at.advance(t, frame),
            None if resumes => position = Some(Position::of(t, frame)),
            None => {}
        }
        match advance(t, frame) {
            Ok(None) => {}
            Ok(Some(exit)) => return Ok(exit),
            Err(Stop::Break(mut reason)) => {
                if frame_introspection::reads_locals(&frame.code) {
                    // The frame that calls this one must be the real one.
                    reason.kind = BreakKind::Construct;
                }
                let inner = position.and_then(|at| InnerFrame::of(t, frame, at));
                t.at_break.unwound.leave(&reason, inner);
                return Err(Stop::Break(reason));
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// Simulates the outermost frame up to its end or the first break.
pub(super) fn run_outermost(t: &mut Tracer<'_>, frame: &mut FrameState) -> Result<Outcome, Break> {
    let first = t.vars.len();
    t.frames.enter(frame, location(frame), first);
    let answer = run_breaking(t, frame);
    t.frames.leave();
    answer
}

/// Most inlined frames that a break is resumed in: each is a call below the one before.
const MOST_INNER: usize = 16;

/// The state in front of a group of instructions.
pub(super) struct Position {
    pub(super) mark: TraceMark,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) stack: Vec<VarId>,
    pub(super) locals: Vec<Option<VarId>>,
}

impl Position {
    fn of(t: &Tracer<'_>, frame: &FrameState) -> Self {
        Self {
            mark: t.mark(),
            start: frame.pc,
            end: group_end(frame, frame.pc),
            stack: frame.stack.clone(),
            locals: frame.locals.clone(),
        }
    }

    /// The same further on, in the memory it has.
    fn advance(&mut self, t: &Tracer<'_>, frame: &FrameState) {
        self.mark = t.mark();
        self.start = frame.pc;
        self.end = group_end(frame, frame.pc);
        self.stack.clone_from(&frame.stack);
        self.locals.clone_from(&frame.locals);
    }

    fn break_here(self, t: &mut Tracer<'_>, reason: Break, inner: Vec<InnerFrame>) -> Outcome {
        let count = inner.len().min(MOST_INNER);
        let mut point = BreakPoint {
            start: self.start,
            end: self.end,
            stack: self.stack,
            locals: self.locals,
            reason,
            inner,
            mark: self.mark,
        };
        point.retreat(t, count);
        Outcome::Break(Box::new(point))
    }
}

fn run_breaking(t: &mut Tracer<'_>, frame: &mut FrameState) -> Result<Outcome, Break> {
    // Where the exception was raised whose handler runs.
    let mut raised: Option<Position> = None;
    loop {
        let position = Position::of(t, frame);
        let (start, end) = (position.start, position.end);
        t.frames.outermost = start;
        while frame.pc >= start && frame.pc < end {
            let before = frame.pc;
            let stepped = if t.options.detours.native.contains(&before) {
                t.stop(
                    BreakKind::MadeNatively,
                    "what this line makes leaves the graph, and only the interpreter can make it",
                )
            } else {
                advance(t, frame)
            };
            let leaves = matches!(stepped, Err(Stop::Raise(_)));
            let reason = match stepped {
                Ok(None) if frame.pc == before + 1 && frame.pc < end => continue,
                Ok(None) => break,
                Ok(Some(Exit::Return(value))) => return Ok(Outcome::Return(value)),
                Ok(Some(Exit::Yield(_) | Exit::Next(_))) => {
                    Break::new(BreakId::GeneratorFunction, "yield in a translated frame")
                }
                Err(Stop::Break(reason)) => *reason,
                Err(Stop::Raise(_)) => Break::new(
                    BreakKind::RaisesException,
                    "an exception leaves the function",
                ),
            };
            let inner = t.at_break.unwound.take(&reason);
            let reason = located(t, frame, before, reason);
            // The state inside of a handler cannot be built, nor what no handler took: the
            // interpreter raises instead.
            let again = leaves && raises_again(frame, before);
            let mark = raised
                .as_ref()
                .map_or(&position.mark, |raised| &raised.mark);
            if again && t.graph_len(mark) == 0 {
                // Nothing is lost, and the frame in the traceback is the real one.
                t.rollback(position.mark);
                return Err(Break {
                    kind: BreakKind::Construct,
                    ..reason
                });
            }
            if let Some(raised) = raised.filter(|_| again || !frame.handling.is_empty()) {
                return Ok(raised.break_here(t, reason, Vec::new()));
            }
            if reason.kind.code() == BreakCode::Unimp {
                t.rollback(position.mark);
                return Err(reason);
            }
            if !frame.handling.is_empty() {
                t.rollback(position.mark);
                let message = format!("{}, inside of an exception handler", reason.message);
                let loc = reason.loc;
                return Err(Break {
                    loc,
                    ..Break::new(BreakId::Handler, message)
                });
            }
            return Ok(position.break_here(t, reason, inner));
        }
        let handles = matches!(frame.code.instructions[frame.pc].instr, Instr::PushExcInfo);
        // A function that resumes in a handler jumps there.
        let jumps = matches!(frame.code.instructions[start].instr, Instr::Jump { .. });
        if handles && !jumps && !raises_again(frame, start) && frame.handling.is_empty() {
            raised = Some(position);
        }
    }
}

/// Whether the instruction raises what a handler did not take.
fn raises_again(frame: &FrameState, at: usize) -> bool {
    matches!(frame.code.instructions[at].instr, Instr::Reraise)
}

fn located(t: &Tracer<'_>, frame: &FrameState, at: usize, mut reason: Break) -> Break {
    if reason.loc == SourceLoc::default() {
        let mut loc = t.loc();
        moved(&mut loc, &frame.code.instructions[at].loc);
        reason.loc = loc;
    }
    reason
}

/// KW_NAMES, PRECALL and CALL only make sense together: they break as one.
fn group_end(frame: &FrameState, start: usize) -> usize {
    let mut end = start;
    while matches!(
        frame.code.instructions[end].instr,
        Instr::KwNames { .. } | Instr::Precall
    ) {
        end += 1;
    }
    end + 1
}

/// One instruction, with exception handling.
pub(super) fn advance(t: &mut Tracer<'_>, frame: &mut FrameState) -> Step<Option<Exit>> {
    t.progress.steps += 1;
    let limit = t.options.max_steps.unwrap_or(STEP_LIMIT);
    if t.progress.steps > limit {
        return t.stop(
            BreakId::Steps,
            format!("more than {limit} simulated instructions"),
        );
    }
    let at = frame.pc;
    if let Some(loc) = t.frames.locations.last_mut() {
        moved(loc, &frame.code.instructions[at].loc);
    }
    if let Some(known) = t.frames.simulated.last_mut() {
        known.handled = frame.handling.last().copied();
        known.at = at;
    }
    frame.pc = at + 1;
    match dispatch::step(t, frame, at) {
        Ok(Flow::Next) => {
            if !t.flow.decided.is_empty() {
                if let Some(top) = frame.stack.last_mut() {
                    *top = maybe::decided(t, *top);
                }
            }
            Ok(None)
        }
        Ok(Flow::Jump(target)) => {
            frame.pc = target;
            Ok(None)
        }
        Ok(Flow::Exit(exit)) => Ok(Some(exit)),
        Err(Stop::Raise(exception)) => {
            let stack = frame.stack.clone();
            if !unwind(t, frame, at, exception) {
                return Err(Stop::Raise(exception));
            }
            for dropped in stack.iter().filter(|id| !frame.stack.contains(id)) {
                t.let_go(*dropped)?;
            }
            Ok(None)
        }
        // What the interpreter raises there may be handled.
        Err(Stop::Break(mut reason))
            if reason.kind == BreakKind::RaisesException && is_handled(frame, at) =>
        {
            reason.kind = BreakKind::UnsupportedOperation;
            Err(Stop::Break(reason))
        }
        Err(stop) => Err(stop),
    }
}

/// Whether a handler of the program covers the instruction; those of comprehensions only clean up.
fn is_handled(frame: &FrameState, at: usize) -> bool {
    let code = &frame.code;
    let handler = code.handler(at);
    let first = handler.and_then(|entry| code.instructions.get(entry.target));
    first.is_some_and(|first| matches!(first.instr, Instr::PushExcInfo))
}

/// Enters the handler that covers `at`; false when there is none. See `exception_unwind` in
/// CPython's `Python/ceval.c`.
fn unwind(t: &mut Tracer<'_>, frame: &mut FrameState, at: usize, exception: VarId) -> bool {
    let code = frame.code.clone();
    let Some(entry) = code.handler(at) else {
        return false;
    };
    frame.stack.truncate(entry.depth as usize);
    if entry.lasti {
        let lasti = t.int(i64::from(code.instructions[at].offset));
        frame.stack.push(lasti);
    }
    frame.stack.push(exception);
    t.exceptions.raised.push((exception, t.frames.outermost));
    frame.pc = entry.target;
    true
}

fn location(frame: &FrameState) -> SourceLoc {
    let line = frame
        .code
        .instructions
        .get(frame.pc)
        .and_then(|instruction| instruction.loc.line);
    SourceLoc {
        file: frame.code.filename.clone(),
        line: line.unwrap_or(frame.code.firstlineno),
        function: frame.code.qualname.clone(),
        columns: Columns::default(),
    }
}

/// Makes it another place in the same function, where its line is known.
fn moved(place: &mut SourceLoc, to: &Loc) {
    let Some(line) = to.line else { return };
    place.line = line;
    place.columns = match (to.col, to.end_col) {
        (Some(start), Some(end)) => Columns {
            end_line: to.end_line.unwrap_or(line),
            start,
            end,
        },
        _ => Columns::default(),
    };
}
