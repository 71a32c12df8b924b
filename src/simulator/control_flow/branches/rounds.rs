//! Rounds of loops that are simulated one by one: those of a loop that no operation holds, whose
//! tests are the same in each call.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::bytecode::Code;
use crate::dispatch::Flow;
use crate::frame_state::FrameState;
use crate::graph::{DType, SymbolId, TensorMeta};
use crate::phi::{Piece, constant_of, refuse};
use crate::region::{self, End};
use crate::tensor_scalar::known;
use crate::variables::{IterVar, Kind, VarId};
use crate::{Step, Stop, Tracer, loops};

use super::{DEEPEST, assertions, attempt, both, tails};

/// Most states of one loop that are remembered: behind them, its rounds go one by one wherever
/// they are known.
const MOST_STATES: usize = 4;

/// Loops that no operation holds, by their code and their test, with what their frame had then.
///
/// Whether a loop is captured is found by simulating some of its rounds, and each of its rounds
/// comes to its test: it is asked once for a state of the frame, not in each.
#[derive(Default)]
pub struct RefusedLoops(FxHashMap<(*const Code, usize), Vec<u64>>);

/// A loop in front of a round.
#[derive(Clone, Copy)]
pub(super) struct LoopState {
    test: (*const Code, usize),
    state: u64,
}

impl LoopState {
    pub(super) fn of(t: &Tracer<'_>, frame: &FrameState, at: usize) -> Self {
        let mut hash = FxHasher::default();
        (t.flow.regions, t.grad.enabled, frame.stack.len()).hash(&mut hash);
        for local in &frame.locals {
            if let Some(id) = *local {
                hash_form(t, id, &mut hash);
            }
            local.is_some().hash(&mut hash);
        }
        Self {
            test: (Arc::as_ptr(&frame.code), at),
            state: hash.finish(),
        }
    }

    /// Whether the loop was refused in such a state.
    pub(super) fn is_refused(self, t: &Tracer<'_>) -> bool {
        let known = t.flow.refused.0.get(&self.test);
        known.is_some_and(|it| it.len() >= MOST_STATES || it.contains(&self.state))
    }

    /// What captures the loop has answered: notes that it is refused, if it is.
    pub(super) fn noted(self, t: &mut Tracer<'_>, answer: Step<Flow>) -> Step<Flow> {
        if matches!(answer, Err(Stop::Break(_))) {
            self.note(t);
        }
        answer
    }

    fn note(self, t: &mut Tracer<'_>) {
        let states = t.flow.refused.0.entry(self.test).or_default();
        states.push(self.state);
    }
}

/// What tells apart whether a value may differ from round to round: not which number it is.
fn hash_form(t: &Tracer<'_>, id: VarId, hash: &mut FxHasher) {
    let var = t.vars.get(id);
    discriminant(&var.kind).hash(hash);
    match (&var.kind, &var.value) {
        (Kind::Const, Some(value)) => {
            value.bind(t.py).get_type().as_ptr().hash(hash);
        }
        (kind, _) => {
            let meta = kind.of_graph().and_then(|symbol| t.graph.meta(symbol));
            meta.map(|meta| (meta.dtype.as_str(), meta.shape.len(), meta.stop_gradient))
                .hash(hash);
        }
    }
}

/// Takes the side of a branch that is taken in each call, where that is known.
pub(super) fn go_where_known(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    value: VarId,
    yes: &FrameState,
    no: &FrameState,
) -> Option<Flow> {
    let holds = known::truth(t, value)?;
    *frame = if holds { yes } else { no }.clone();
    Some(Flow::Jump(frame.pc))
}

/// The same for the next item of `range()` over numbers of the graph.
fn next_where_known(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: &FrameState,
) -> Step<Option<Flow>> {
    let mark = t.mark();
    let has_next = loops::continues(t, frame);
    let has_next = has_next.map(|it| known::truth(t, it));
    t.rollback(mark);
    match has_next? {
        Some(true) => {
            let (mark, before) = (t.mark(), frame.clone());
            if let Err(stop) = loops::one_round(t, frame) {
                t.rollback(mark);
                *frame = before;
                return Err(stop);
            }
            frame.pc = at + 1;
        }
        Some(false) => frame.clone_from(behind),
        None => return Ok(None),
    }
    Ok(Some(Flow::Jump(frame.pc)))
}

/// The next item of `range()` over numbers of the graph: the loop is captured.
pub fn for_numbers(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: FrameState,
) -> Step<Flow> {
    if t.flow.regions >= DEEPEST || !frame.handling.is_empty() {
        return refuse(t, "the loop stands in too much other control flow");
    }
    let state = LoopState::of(t, frame, at);
    if state.is_refused(t) {
        if let Some(flow) = next_where_known(t, frame, at, &behind)? {
            return Ok(flow);
        }
    }
    let answer = attempt(t, frame, |t, frame| {
        let whole = &mut |t: &mut Tracer<'_>, frame: &mut FrameState| {
            let answer = loops::capture_range(t, frame, at, &behind, true);
            state.noted(t, answer)
        };
        let by_round = &mut |t: &mut Tracer<'_>, frame: &mut FrameState| {
            if let Some(flow) = next_where_known(t, frame, at, &behind)? {
                return Ok(flow);
            }
            let has_next = loops::continues(t, frame)?;
            let mut inside = frame.clone();
            inside.pc = at + 1;
            let sides = [inside, behind.clone()];
            both(t, frame, has_next, sides, None, loops::one_round)
        };
        tails::near_or_far(t, frame, whole, Some(by_round))
    });
    if !matches!(answer, Err(Stop::Break(_))) {
        return answer;
    }
    // Inside of others a loop may well have no round.
    if t.options.forward_only && !t.flow.is_captured() {
        let behind_one = attempt(t, frame, |t, frame| behind_one_round(t, frame, at, &behind));
        if !matches!(behind_one, Err(Stop::Break(_))) {
            return behind_one;
        }
    }
    match next_where_known(t, frame, at, &behind) {
        Ok(Some(flow)) => Ok(flow),
        _ => answer,
    }
}

/// Whether no round follows one that ends with this.
pub(super) fn is_the_last(t: &mut Tracer<'_>, goes_on: &Piece) -> bool {
    let value = constant_of(t, goes_on);
    value.is_some_and(|value| matches!(value.is_truthy(), Ok(false)))
}

/// Whether a condition in a round depends on more than numbers that the loop counts: whole ones,
/// Python's floats and bools that it carries.
pub(super) fn is_of_tensors(t: &Tracer<'_>, condition: SymbolId) -> bool {
    let mut wanted = FxHashSet::from_iter([condition]);
    for statement in t.graph.sir.statements.iter().rev() {
        let mut is_wanted = false;
        statement
            .output
            .for_each_symbol(&mut |id| is_wanted |= wanted.remove(&id));
        if is_wanted {
            statement.for_each_argument(&mut |id| {
                wanted.insert(id);
            });
        }
    }
    let is_number = |id: &SymbolId| {
        let of_python = |meta: &TensorMeta| {
            let dtypes = [DType::Int64, DType::Float64, DType::Bool];
            meta.shape.is_empty() && dtypes.contains(&meta.dtype)
        };
        t.flow.carried.contains(id) && t.graph.meta(*id).is_some_and(of_python)
    };
    !wanted.iter().all(is_number)
}

/// A loop of a known number of rounds that a tensor may end (`if error < 1e-3: break`): more than
/// can stand inside of one another are one operation. `None` where they are not.
pub fn for_many_rounds(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: &FrameState,
) -> Step<Option<Flow>> {
    let iterator = frame.peek(t, 1)?;
    let Kind::Iter(IterVar::Range { next, stop, step }) = *t.kind(iterator) else {
        return Ok(None);
    };
    let deepest = i64::try_from(DEEPEST).unwrap_or(i64::MAX);
    let few = step == 0 || stop.saturating_sub(next) / step <= deepest;
    if few || !t.options.capture_control_flow || !frame.handling.is_empty() {
        return Ok(None);
    }
    // Each round of a loop that is unrolled comes here.
    let place = (Arc::as_ptr(&frame.code), at);
    let is_left = t.flow.left_inside.entry(place);
    if !*is_left.or_insert_with(|| loops::is_left_inside(&frame.code, at)) {
        return Ok(None);
    }
    let state = LoopState::of(t, frame, at);
    if state.is_refused(t) {
        return Ok(None);
    }
    let known = t.flow.captured_loops.clone();
    t.flow.leaves_early = false;
    let answer = attempt(t, frame, |t, frame| {
        if !loops::kept_open::count(t, iterator)? {
            return refuse(t, "a loop that does not count in the graph");
        }
        let flow = loops::capture_range(t, frame, at, behind, false)?;
        match t.flow.leaves_early {
            true => Ok(flow),
            false => refuse(t, "a loop that no tensor ends"),
        }
    });
    if answer.is_ok() {
        return answer.map(Some);
    }
    t.flow.captured_loops = known;
    state.note(t);
    Ok(None)
}

/// A loop of an exported program behind its first round, in which variables become what they are in
/// the others (`total = 0.0`, then a tensor). There has to be one: the program fails where there is
/// none.
fn behind_one_round(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: &FrameState,
) -> Step<Flow> {
    let iterator = frame.peek(t, 1)?;
    let counts_from_zero = |t: &mut Tracer<'_>| {
        if let Kind::Iter(IterVar::Numbers { next, step: 1, .. }) = *t.kind(iterator) {
            t.const_int(next) == Some(0)
        } else {
            false
        }
    };
    if !counts_from_zero(t) {
        return refuse(t, "such a loop may have no round");
    }
    let has_next = loops::continues(t, frame)?;
    assertions::check(t, has_next)?;
    loops::one_round(t, frame)?;
    frame.pc = at + 1;
    let (end, _) = region::run_to(t, frame, Some(at))?;
    if end != End::At(at) {
        return refuse(t, "the first round leaves the loop");
    }
    let mut behind_it = frame.clone();
    behind_it.pop(t)?;
    behind_it.pc = behind.pc;
    loops::capture_range(t, frame, at, &behind_it, true)
}
