//! Branches on tensors as part of the graph: both sides are simulated, cut out of the graph, and
//! become the nested graphs of one `cond`.

mod assertions;
mod contents;
mod grown;
mod outcomes;
mod rounds;
pub(crate) mod tails;

use std::sync::Arc;

use pyo3::types::PyInt;

use crate::bytecode::flow;
use crate::graph::{BlockOutput, Region, SymbolId};
use crate::obj::Obj;
use crate::tracer::function_graph::Cut;
use crate::variables::{CellVar, Kind, VarId};

use crate::carried_aliases;
use crate::conditions::{self, Condition};
use crate::control_flow::own_containers::{self, Around, Holder};
use crate::dispatch::Flow;
use crate::exceptions;
use crate::frame_state::{Exit, FrameState};
use crate::loop_return::Answer;
use crate::loops;
use crate::phi::{self, Merge, Piece, refuse};
use crate::region::{
    End, Way, apply, emit, leave, live_at, loop_iterators, run_to, way, with_kinds,
};
use crate::tensor_scalar::{condition, negation, truth_value};
use crate::{Step, Stop, Tracer, inplace};
use assertions::assertion;
use contents::{before_change, change, contents_of_both};
pub(crate) use outcomes::changes;
use outcomes::{Does, act};
pub use rounds::{RefusedLoops, for_many_rounds, for_numbers};

/// Each takes a part of the native stack.
const DEEPEST: usize = 24;

/// A branch on a tensor: `yes` and `no` are the frame on either side.
pub fn branch(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    value: VarId,
    yes: FrameState,
    no: FrameState,
) -> Step<Flow> {
    if t.flow.regions >= DEEPEST {
        return refuse(
            t,
            format!("more than {DEEPEST} branches inside of one another"),
        );
    }
    let sides = (yes, no);
    let capture = |t: &mut Tracer<'_>, frame: &mut FrameState| {
        let (mut value, mut yes, mut no) = (value, sides.0.clone(), sides.1.clone());
        if let Some((condition, held)) = condition_of_many(t, frame, at, value, &yes, &no)? {
            (value, yes.pc, no.pc) = (held, condition.yes, condition.no);
            for side in [&mut yes, &mut no] {
                side.stack.truncate(side.stack.len() - condition.drops);
            }
        }
        let Some(found) = loops::at_branch(frame, at, yes.pc, no.pc) else {
            // The other way is never gone.
            if let Some(flow) = rounds::go_where_known(t, frame, value, &yes, &no) {
                return Ok(flow);
            }
            return choose(t, frame, at, value, yes, no);
        };
        let state = rounds::LoopState::of(t, &yes, at);
        if state.is_refused(t) {
            if let Some(flow) = rounds::go_where_known(t, frame, value, &yes, &no) {
                return Ok(flow);
            }
        }
        let whole = &mut |t: &mut Tracer<'_>, frame: &mut FrameState| {
            let answer = loops::capture(t, frame, value, found.clone(), &yes, &no);
            state.noted(t, answer)
        };
        // One round, with the rest of them behind it: those begin with what it left.
        let by_round = &mut |t: &mut Tracer<'_>, frame: &mut FrameState| {
            if let Some(flow) = rounds::go_where_known(t, frame, value, &yes, &no) {
                return Ok(flow);
            }
            let sides = [yes.clone(), no.clone()];
            both(t, frame, value, sides, None, |_, _| Ok(()))
        };
        tails::near_or_far(t, frame, whole, Some(by_round))
    };
    grown::or_with_rows(t, frame, |t, frame| {
        let answer = attempt(t, frame, capture);
        if matches!(answer, Err(Stop::Break(_))) {
            if let Some(flow) = rounds::go_where_known(t, frame, value, &sides.0, &sides.1) {
                return Ok(flow);
            }
        }
        answer
    })
}

/// The condition whose first test this branch is, and whether it holds: that of a loop, or the
/// longest one.
fn condition_of_many(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    at: usize,
    value: VarId,
    yes: &FrameState,
    no: &FrameState,
) -> Step<Option<(Condition, VarId)>> {
    if yes.stack != no.stack || !frame.handling.is_empty() {
        return Ok(None);
    }
    let mut found = conditions::beginning_at(frame, at, yes.pc, no.pc);
    let of_loop = |it: &Condition| loops::at_branch(frame, at, it.yes, it.no).is_some();
    if let Some(longest) = found.iter().position(of_loop) {
        found.drain(..longest);
    }
    let Some(condition) = found.into_iter().next() else {
        return Ok(None);
    };
    let held = conditions::holds(t, yes, value, &condition)?;
    Ok(held.map(|held| (condition, held)))
}

/// Captures control flow; where it cannot, everything is as in front of it, for an ordinary graph
/// break.
fn attempt<'py>(
    t: &mut Tracer<'py>,
    frame: &mut FrameState,
    capture: impl FnOnce(&mut Tracer<'py>, &mut FrameState) -> Step<Flow>,
) -> Step<Flow> {
    let mark = t.mark();
    let steps = (frame.clone(), t.frames.locations.clone());
    t.flow.regions += 1;
    let answer = capture(t, frame);
    t.flow.regions -= 1;
    if answer.is_err() {
        (*frame, t.frames.locations) = steps;
        t.rollback(mark);
    }
    match answer {
        // Another way may be taken: no handler is sure to see it.
        Err(Stop::Raise(_)) => refuse(t, "an exception is raised inside"),
        answer => answer,
    }
}

fn choose(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    value: VarId,
    yes: FrameState,
    no: FrameState,
) -> Step<Flow> {
    if !frame.handling.is_empty() {
        return refuse(t, "an exception is being handled");
    }
    if let Some(holds) = tails::decided(t, value) {
        *frame = if holds { yes } else { no };
        return Ok(Flow::Jump(frame.pc));
    }
    if let Some(next) = assertion(t, value, &yes, &no)? {
        return Ok(Flow::Jump(next));
    }
    let code = frame.code.clone();
    // The round of a captured loop ends where the loop is left.
    let inside = |join: &usize| {
        let region = frame.region.as_ref();
        region.is_none_or(|region| region.body.contains(join))
    };
    let join = flow::join(&code, at).filter(inside);
    let to = |join: Option<usize>| {
        let (yes, no) = (&yes, &no);
        move |t: &mut Tracer<'_>, frame: &mut FrameState| {
            let sides = [yes.clone(), no.clone()];
            both(t, frame, value, sides, join, |_, _| Ok(()))
        }
    };
    match join {
        Some(_) => tails::near_or_far(t, frame, &mut to(join), Some(&mut to(None))),
        None => tails::near_or_far(t, frame, &mut to(None), None),
    }
}

/// Both sides of a branch, up to where they meet: at an instruction, or where the frame or the
/// round of a captured loop ends. `enter` begins the first one.
fn both<'py>(
    t: &mut Tracer<'py>,
    frame: &mut FrameState,
    value: VarId,
    [yes, no]: [FrameState; 2],
    join: Option<usize>,
    enter: impl Fn(&mut Tracer<'py>, &mut FrameState) -> Step<()>,
) -> Step<Flow> {
    let code = frame.code.clone();
    let condition = condition(t, value)?;
    let owned = loop_iterators(t, frame);
    let starts = (yes.pc, no.pc);
    let plain = yes.stack == frame.stack && no.stack == frame.stack;
    let mut join = join;
    loop {
        let live = live_at(&code, join, frame);
        let locations = t.frames.locations.clone();
        let walk = |t: &mut Tracer<'py>, mut side: FrameState, holds: bool| -> Step<Way> {
            let mark = t.mark();
            if holds {
                enter(t, &mut side)?;
            }
            let (end, value) = tails::knowing(t, value, holds, |t| run_to(t, &mut side, join))?;
            t.frames.locations.clone_from(&locations);
            way(t, &side, mark, end, value, &live, &owned)
        };
        let mark = t.mark();
        let first = walk(t, yes.clone(), true);
        let second = match &first {
            Ok(_) => walk(t, no.clone(), false),
            Err(_) => refuse(t, "the result of the branch is not used"),
        };
        let raises = |way: &Step<Way>| matches!(way, Err(Stop::Raise(_)));
        for way in [&first, &second] {
            if let Err(Stop::Raise(exception)) = way {
                if exceptions::is_a(t, *exception, "StopIteration")? {
                    // With a check in its place the loop over the iterator would have no end.
                    return refuse(t, "an iterator ends inside");
                }
            }
        }
        if plain && (raises(&first) || raises(&second)) {
            // As with `assert`: the graph fails where control goes that way, and the interpreter
            // raises.
            let other = if raises(&first) { starts.1 } else { starts.0 };
            t.rollback(mark);
            t.frames.locations.clone_from(&locations);
            let passes = match raises(&first) {
                true => negation(t, value)?,
                false => truth_value(t, value)?,
            };
            assertions::check(t, passes)?;
            tails::checked(t, value, !raises(&first));
            return Ok(Flow::Jump(other));
        }
        let (first, second) = (first?, second?);
        let alike = first.end == second.end;
        if alike || join.is_none() || frame.region.is_some() {
            return one_of(t, frame, condition, join, first, second);
        }
        // Where one side returns, the other goes on until it returns too.
        t.rollback(mark);
        join = None;
    }
}

/// Behind a loop that may have returned: one side returns what it did, the other goes on.
pub fn returned(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    returned: SymbolId,
    leaves: Vec<SymbolId>,
    answer: &Answer,
) -> Step<Flow> {
    let returned = t.add(Kind::SymNumber(returned));
    let condition = condition(t, returned)?;
    let code = frame.code.clone();
    let live = live_at(&code, None, frame);
    let owned = loop_iterators(t, frame);
    let locations = t.frames.locations.clone();
    let (mut yes, mut no) = (frame.clone(), frame.clone());
    let mark = t.mark();
    let value = answer.build(t, &mut leaves.into_iter());
    let (end, value) = leave(t, &mut yes, value)?;
    let first = way(t, &yes, mark, end, value, &live, &owned)?;
    let mark = t.mark();
    let (end, value) = run_to(t, &mut no, None)?;
    t.frames.locations = locations;
    let second = way(t, &no, mark, end, value, &live, &owned)?;
    one_of(t, frame, condition, None, first, second)
}

/// Adds the operation that runs the first way when the condition holds, and the second when not.
fn one_of(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    condition: SymbolId,
    join: Option<usize>,
    mut first: Way,
    mut second: Way,
) -> Step<Flow> {
    let code = frame.code.clone();
    t.graph.adopt(t.py, &mut first.cut)?;
    t.graph.adopt(t.py, &mut second.cut)?;
    if first.end != second.end || first.stack.len() != second.stack.len() {
        return refuse(
            t,
            "one side leaves the function or the loop and the other does not",
        );
    }
    if first.end == End::Next {
        let ends = [&first, &second].map(|way| rounds::is_the_last(t, &way.value));
        t.flow.leaves_early |= ends[0] != ends[1] && rounds::is_of_tensors(t, condition);
    }
    if tails::hides_containers(t, [&first, &second]) {
        for way in [&mut first.changed, &mut second.changed] {
            way.retain(|(id, _)| matches!(t.kind(*id), Kind::Tensor(_)));
        }
    }
    let mut merge = Merge {
        locals: &frame.locals.clone(),
        cuts: [&mut first.cut, &mut second.cut],
        outputs: [Vec::new(), Vec::new()],
        objects: Vec::new(),
        changed: Vec::new(),
    };
    let stale = [&first.stale_views[..], &second.stale_views].concat();
    let changed = contents_of_both(t, &mut merge, &first.changed, &second.changed, &stale)?;
    let is_value = first.end != End::At(join.unwrap_or(usize::MAX));
    let result = match is_value {
        true => Some(merge.join(t, &first.value, &second.value, "the result")?),
        false => None,
    };
    let live: Vec<usize> = first.locals.iter().map(|(slot, _)| *slot).collect();
    let mut locals = Vec::with_capacity(first.locals.len());
    for ((slot, a), (_, b)) in first.locals.iter().zip(&second.locals) {
        let name = match code.localsplus.get(*slot) {
            Some(slot) => format!("{:?}", &*slot.name),
            None => "what the loop returns".to_owned(),
        };
        let around = Around { frame, live: &live };
        let holder = Holder::Local(*slot);
        let (one, other) = (
            own_containers::opened(t, around, holder, a, b),
            own_containers::opened(t, around, holder, b, a),
        );
        let (a, b) = (one.as_ref().unwrap_or(a), other.as_ref().unwrap_or(b));
        locals.push((*slot, merge.join(t, a, b, &name)?));
    }
    let mut stack = Vec::with_capacity(first.stack.len());
    for (a, b) in first.stack.iter().zip(&second.stack) {
        stack.push(merge.join(t, a, b, "a value of the expression")?);
    }
    let mut cells = Vec::new();
    for (id, _) in first.cells.iter().chain(&second.cells) {
        if cells.iter().any(|(known, _)| known == id) {
            continue;
        }
        let before = if let Kind::Cell(CellVar::Full(content)) = t.kind(*id) {
            Piece::Same(*content)
        } else {
            Piece::Unbound
        };
        let of = |cells: &[(VarId, Piece)]| {
            let found = cells.iter().find(|(known, _)| known == id);
            found.map_or_else(|| before.clone(), |(_, piece)| piece.clone())
        };
        let joined = merge.join(
            t,
            &of(&first.cells),
            &of(&second.cells),
            "a captured variable",
        )?;
        cells.push((*id, joined));
    }
    let mut outputs = std::mem::take(&mut merge.outputs);
    let mut does = Does::Nothing;
    if outputs[0].is_empty() {
        does = (0..2)
            .map(|way| {
                let cut = &merge.cuts[way];
                // The graph knows what is outside only.
                let is_open = |id| cut.meta(id).is_some_and(|meta| !meta.is_static());
                act(&cut.statements, &is_open)
            })
            .max()
            .unwrap_or(does);
        if does == Does::Speaks {
            // An operation has results: a number that nobody reads.
            let zero = Piece::Const(Obj::from(PyInt::new(t.py, 0).into_any()));
            for (way, outputs) in outputs.iter_mut().enumerate() {
                let made = phi::symbol(t, merge.cuts[way], &zero)?;
                outputs.extend(made.map(|(output, ..)| output));
            }
        }
    }
    let (end, cuts) = (first.end, [&first.cut, &second.cut]);
    let made = match outputs[0].is_empty() {
        true if does != Does::Nothing => {
            return refuse(
                t,
                "a layer, random operation or open dim whose result is not used",
            );
        }
        true => Vec::new(),
        false => {
            let made = either(t, condition, cuts, [&outputs[0], &outputs[1]])?;
            for (way, (cut, outputs)) in [&first, &second].iter().zip(cuts.iter().zip(&outputs)) {
                for (at, (result, output)) in made.iter().zip(outputs).enumerate() {
                    let before = before_change(t, &changed, at);
                    for of in carried_aliases::of(cut, &way.aliases, *output) {
                        if before != Some(of) {
                            carried_aliases::note(t, *result, of);
                        }
                    }
                    // One tensor under two names, a view and what it is of.
                    for (other, earlier) in made.iter().zip(&outputs[..at]) {
                        if carried_aliases::share(cut, &way.aliases, [*earlier, *output]) {
                            carried_aliases::note(t, *result, *other);
                        }
                    }
                }
            }
            made
        }
    };
    apply(t, frame, &made, &locals, &stack, &cells);
    for (id, joined) in &changed {
        change(t, *id, joined, &made)?;
    }
    inplace::give_up(t, stale);
    let result = result.and_then(|result| phi::variable(t, &result, &made));
    Ok(match (end, result) {
        (End::At(target), _) => Flow::Jump(target),
        (End::Return, Some(value)) => Flow::Exit(Exit::Return(value)),
        (End::Next, Some(value)) => Flow::Exit(Exit::Next(value)),
        _ => {
            return refuse(
                t,
                "one side of the branch has no value where the other has one",
            );
        }
    })
}

/// The results of the operation that runs the first cut where the condition holds, and the second
/// where not.
pub fn either(
    t: &mut Tracer<'_>,
    condition: SymbolId,
    cuts: [&Cut; 2],
    outputs: [&[BlockOutput]; 2],
) -> Step<Vec<SymbolId>> {
    let mut free = Vec::new();
    cuts[0].free(outputs[0], &mut free);
    cuts[1].free(outputs[1], &mut free);
    let free = with_kinds(t, free);
    let name = |side: &str| format!("{}_{side}", t.graph.sir.name);
    let region = Region::If {
        then: Arc::new(cuts[0].block(name("then"), &[], &free, outputs[0])),
        otherwise: Arc::new(cuts[1].block(name("else"), &[], &free, outputs[1])),
    };
    emit(t, region, vec![condition], &free)
}
