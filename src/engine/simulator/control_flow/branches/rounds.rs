//! Rounds of loops that are simulated one by one: those of a loop that no operation holds, whose
//! tests are the same in each call.

use crate::simulator::dispatch::Flow;
use crate::simulator::frame::FrameState;
use crate::simulator::phi::refuse;
use crate::simulator::tensor_scalar::known;
use crate::simulator::{loops, Step, Stop, Tracer};
use crate::variables::VarId;

use super::{attempt, both, tails, DEEPEST};

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
    if t.regions >= DEEPEST || !frame.handling.is_empty() {
        return refuse(t, "the loop stands in too much other control flow");
    }
    let answer = attempt(t, frame, |t, frame| {
        let whole = &mut |t: &mut Tracer<'_>, frame: &mut FrameState| {
            loops::capture_range(t, frame, at, &behind)
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
        tails::near_or_far(t, frame, whole, by_round)
    });
    if !matches!(answer, Err(Stop::Break(_))) {
        return answer;
    }
    match next_where_known(t, frame, at, &behind) {
        Ok(Some(flow)) => Ok(flow),
        _ => answer,
    }
}
