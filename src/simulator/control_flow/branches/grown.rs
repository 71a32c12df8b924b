//! Branches in which a list grows on one way: it is rows of a tensor in another attempt.

use crate::dispatch::Flow;
use crate::frame_state::FrameState;
use crate::graph::TensorMeta;
use crate::tracer::TraceMark;
use crate::variables::VarId;
use crate::{Step, Stop, Tracer, grown_lists};

/// What `capture` answers, or does where lists that have grown meanwhile are rows. A loop around
/// learns of the lists where it fails all the same.
pub(super) fn or_with_rows<'py>(
    t: &mut Tracer<'py>,
    frame: &mut FrameState,
    mut capture: impl FnMut(&mut Tracer<'py>, &mut FrameState) -> Step<Flow>,
) -> Step<Flow> {
    let mark = t.mark();
    let around = std::mem::take(&mut t.flow.grown);
    let answer = capture(t, frame);
    let lists = std::mem::replace(&mut t.flow.grown, around);
    if !matches!(answer, Err(Stop::Break(_))) || lists.is_empty() {
        return answer;
    }
    if t.flow.tails > 0 {
        // The first of the branches inside of one another asks once for all.
        t.flow.grown.extend(lists);
        return answer;
    }
    let again = rows(t, &mark, &lists).and_then(|()| capture(t, frame));
    if again.is_err() {
        t.rollback(mark);
        t.flow.grown.extend(lists);
        // The first reason names what the user wrote.
        return answer;
    }
    again
}

fn rows(t: &mut Tracer<'_>, mark: &TraceMark, lists: &[(VarId, TensorMeta)]) -> Step<()> {
    let mut known: Vec<VarId> = Vec::new();
    for (list, meta) in lists {
        if t.is_older(*list, mark) && !known.contains(list) {
            grown_lists::become_rows(t, *list, meta)?;
            known.push(*list);
        }
    }
    match known.is_empty() {
        true => grown_lists::refuse(t, "the beginning"),
        false => Ok(()),
    }
}
