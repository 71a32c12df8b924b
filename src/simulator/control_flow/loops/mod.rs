//! Loops on tensors as part of the graph: one round is simulated with placeholders for what differs
//! from round to round, cut out of the graph, and becomes the body of one `while_loop`.

mod containers;
mod emit;
mod grown;
pub(crate) mod kept_open;
mod rounds;
mod shared;

pub use kept_open::{LoopPlace, LoopPlaces};

use std::cell::Cell;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::bytecode::{BinOp, CmpOp, Code, Instr, flow, live_locals};
use crate::control_flow::maybe;
use crate::control_flow::way_out::{self, WayOut};
use crate::dispatch::Flow;
use crate::frame_state::FrameState;
use crate::graph::{SymbolId, TensorMeta};
use crate::loop_return::{Answer, Returns};
use crate::phi::{self, Joined, refuse};
use crate::tensor_scalar::known;
use crate::variables::{Item, IterVar, Kind, VarId};
use crate::{Step, Tracer, branches, conditions, grown_lists, region, rows, tensor_scalar, truth};

/// What a loop leaves behind.
struct Behind {
    /// Its results.
    made: Vec<SymbolId>,
    /// The locals.
    locals: Vec<(usize, Joined)>,
    /// Parts of lists, dicts and tensors that were there before.
    parts: Vec<(Part, Joined)>,
    /// Where rounds return: whether one did, the leaves, and what is made of them.
    returned: Option<(SymbolId, Vec<SymbolId>, Answer)>,
}

/// What changes inside of something that was there before the loop: an item of a list or dict, what
/// a cell holds, or all of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    of: VarId,
    item: Option<usize>,
    /// It is carried like a local of this number.
    slot: usize,
}

/// A loop whose test is a tensor.
#[derive(Clone, Debug)]
pub struct LoopRegion {
    /// Its instructions.
    pub body: Rc<FxHashSet<usize>>,
    /// Where its backward jumps lead to.
    pub header: usize,
    /// Where control goes when the test holds. CPython may have copied the test: each copy leads
    /// here.
    start: usize,
    /// Where control goes when the test fails.
    pub exit: usize,
    /// The FOR_ITER of a loop over `range()`.
    iterates: Option<usize>,
    /// The iterator of this round.
    iterator: Cell<Option<VarId>>,
    /// Locals that the next round or what follows may read.
    pub live: Vec<usize>,
    /// Locals that what follows may read.
    after: Vec<usize>,
    /// Where it returns from inside.
    pub returns: Returns,
}

impl LoopRegion {
    /// A `while` loop whose rounds begin at `inside`; it is left to `exit`.
    fn new(code: &Code, found: &flow::Loop, inside: usize, exit: usize) -> Self {
        let after = live_locals(code, exit);
        let mut live = live_locals(code, inside);
        live.extend(&after);
        live.sort_unstable();
        live.dedup();
        Self {
            body: Rc::new(found.body.clone()),
            header: found.header,
            start: flow::leads_to(code, inside),
            exit: flow::place(code, exit),
            iterates: None,
            iterator: Cell::default(),
            live,
            after,
            returns: Returns::default(),
        }
    }
}

/// A branch that is the test of a loop.
#[derive(Clone, Debug)]
pub struct LoopTest {
    region: Rc<LoopRegion>,
    /// Whether the loop goes on when the test holds.
    goes_on_if: bool,
}

/// The loop whose test the branch at `at` is.
pub fn at_branch(frame: &FrameState, at: usize, yes: usize, no: usize) -> Option<LoopTest> {
    let code = &*frame.code;
    let mut found = flow::loops(code);
    if let Some(region) = &frame.region {
        // Its other tests are branches of its body, and those of loops around it: what leaves them
        // leaves it.
        found.retain(|found| !found.body.contains(&region.header));
    }
    let iterates = |header: usize| {
        matches!(
            code.instructions[header].instr,
            Instr::ForIter { .. } | Instr::Send { .. }
        )
    };
    let innermost = found.iter().find(|found| found.body.contains(&at));
    for (goes_on_if, inside, exit) in [(true, yes, no), (false, no, yes)] {
        let around = innermost.filter(|around| {
            !iterates(around.header)
                && around.body.contains(&inside)
                && !around.body.contains(&exit)
        });
        // The test in front of a loop that has a copy of it at its end.
        let entered = || {
            found.iter().find(|found| {
                found.header == flow::leads_to(code, inside)
                    && !found.body.contains(&at)
                    && !found.body.contains(&exit)
                    && !iterates(found.header)
            })
        };
        if let Some(found) = around.or_else(entered) {
            let region = Rc::new(LoopRegion::new(code, found, inside, exit));
            return Some(LoopTest { region, goes_on_if });
        }
    }
    None
}

/// Where a test of whether something is `None` leads to: where it is, and where it is not.
fn none_test(instr: &Instr, at: usize) -> Option<(usize, usize)> {
    if let Instr::PopJumpIfNone { target } = *instr {
        Some((target, at + 1))
    } else if let Instr::PopJumpIfNotNone { target } = *instr {
        Some((at + 1, target))
    } else {
        None
    }
}

/// The condition with which the round of a captured loop ends here, if it does.
pub fn round_ends(t: &mut Tracer<'_>, frame: &mut FrameState) -> Step<Option<VarId>> {
    let Some(region) = frame.region.clone() else {
        return Ok(None);
    };
    let code = frame.code.clone();
    if !region.body.contains(&frame.pc) {
        if flow::place(&code, frame.pc) != region.exit {
            // On the way out: `break` may have something to clean up.
            return match way_out::way_out(&code, &region, frame.pc) {
                WayOut::Exit | WayOut::Return => Ok(None),
                WayOut::Elsewhere => refuse(t, "the loop is left to several places"),
            };
        }
        // `break` has popped the iterator.
        frame.stack.extend(region.iterator.get());
        return Ok(Some(t.bool(false)));
    }
    let at = frame.pc;
    if region.iterates == Some(at) {
        return continues(t, frame).map(Some);
    }
    let (yes, no) = if let Instr::PopJumpIfTrue { target } = code.instructions[at].instr {
        (target, at + 1)
    } else if let Instr::PopJumpIfFalse { target } = code.instructions[at].instr {
        (at + 1, target)
    } else if let Some(sides) = none_test(&code.instructions[at].instr, at) {
        sides
    } else {
        return Ok(None);
    };
    let goes_on = |yes, no| match (flow::place(&code, yes), flow::place(&code, no)) {
        leads if leads == (region.start, region.exit) => Some(true),
        leads if leads == (region.exit, region.start) => Some(false),
        _ => None,
    };
    if none_test(&code.instructions[at].instr, at).is_some() {
        let Some(goes_on_if) = goes_on(yes, no) else {
            return Ok(None);
        };
        let value = frame.pop(t)?;
        return maybe::tested(t, value, goes_on_if).map(Some);
    }
    let Some(goes_on_if) = goes_on(yes, no) else {
        // The first of several tests.
        let many = conditions::beginning_at(frame, at, yes, no);
        let Some(many) = many.iter().find(|it| goes_on(it.yes, it.no).is_some()) else {
            return Ok(None);
        };
        let value = frame.peek(t, 1)?;
        let value = grown_lists::asked(t, value)?;
        if !tensor_scalar::is_captured(t, value) {
            return Ok(None);
        }
        let mut behind = frame.clone();
        behind.pop(t)?;
        let Some(holds) = conditions::holds(t, &behind, value, many)? else {
            return Ok(None);
        };
        *frame = behind;
        frame.stack.truncate(frame.stack.len() - many.drops);
        return Ok(Some(match goes_on(many.yes, many.no) {
            Some(false) => tensor_scalar::negation(t, holds)?,
            _ => holds,
        }));
    };
    let value = frame.pop(t)?;
    let value = grown_lists::asked(t, value)?;
    if tensor_scalar::is_captured(t, value) {
        return Ok(Some(match goes_on_if {
            true => tensor_scalar::truth_value(t, value)?,
            false => tensor_scalar::negation(t, value)?,
        }));
    }
    let truth = truth::truth(t, value)?;
    Ok(Some(t.bool(truth == goes_on_if)))
}

/// Whether the loop at this FOR_ITER is left from inside, by `break` or `return`.
pub fn is_left_inside(code: &Code, at: usize) -> bool {
    let found = flow::loops(code);
    let Some(found) = found.iter().find(|found| found.header == at) else {
        return false;
    };
    let leaves = |place: &usize| {
        let instr = &code.instructions[*place].instr;
        let next = flow::successors(code, *place);
        matches!(instr, Instr::ReturnValue | Instr::ReturnConst { .. })
            || *place != at && next.iter().any(|to| !found.body.contains(to))
    };
    found.body.iter().any(leaves)
}

/// Whether the iterator on the stack has a next number.
pub fn continues(t: &mut Tracer<'_>, frame: &FrameState) -> Step<VarId> {
    let (_, range) = numbers_of(t, frame)?;
    let grows = range.step > 0;
    let op = if grows { CmpOp::Lt } else { CmpOp::Gt };
    match tensor_scalar::comparison(t, op, range.next, range.stop)? {
        Some(condition) => Ok(condition),
        None => {
            let (next, stop) = (t.const_int(range.next), t.const_int(range.stop));
            Ok(t.bool(if grows { next < stop } else { next > stop }))
        }
    }
}

/// A loop over `range()` of numbers of the graph; `behind` is the frame after it. `unrolls`: where
/// its rounds are the same in each call and no operation holds them, they are simulated one by one.
pub fn capture_range(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: &FrameState,
    unrolls: bool,
) -> Step<Flow> {
    let code = frame.code.clone();
    let found = flow::loops(&code);
    let Some(found) = found.iter().find(|found| found.header == at) else {
        return refuse(t, "a loop that never goes back");
    };
    let has_next = continues(t, frame)?;
    let condition = tensor_scalar::condition(t, has_next)?;
    let region = Rc::new(LoopRegion {
        start: at + 1,
        iterates: Some(at),
        ..LoopRegion::new(&code, found, at, behind.pc)
    });
    let mut inside = frame.clone();
    inside.pc = at + 1;
    let is_known = unrolls && known::truth(t, has_next).is_some();
    let (iterator, range) = numbers_of(t, frame)?;
    // Somebody else may have it.
    rows::advance(t, iterator);
    let range = Some(range);
    let loop_ = Captured {
        region,
        inside: &inside,
        range,
        is_known,
    };
    let left = loop_.run(t, condition)?;
    let place = LoopPlace::of(&code, at);
    t.flow.captured_loops.insert(place);
    go_on(t, frame, behind, left)
}

/// A local that differs from round to round.
struct Carried {
    first: SymbolId,
    meta: TensorMeta,
    number: bool,
    /// Whether it is not bound in front of the loop: then no round reads it before it is.
    unbound: bool,
}

/// A loop that is being captured.
struct Captured<'a> {
    region: Rc<LoopRegion>,
    inside: &'a FrameState,
    /// What a `for` loop counts.
    range: Option<Range>,
    /// Whether its rounds are the same in each call: what no operation holds is unrolled then.
    is_known: bool,
}

/// Next value, stop and step of a `range()`, and what each of its numbers stands for.
struct Range {
    next: VarId,
    stop: VarId,
    step: i64,
    item: Rc<Item>,
}

impl Range {
    /// The iterator over what is left of it from `next` on.
    fn iterator(&self, next: VarId) -> Kind {
        Kind::Iter(IterVar::Numbers {
            next,
            stop: self.stop,
            step: self.step,
            item: self.item.clone(),
        })
    }
}

/// The iterator over numbers of the graph that is on the stack.
fn numbers_of(t: &mut Tracer<'_>, frame: &FrameState) -> Step<(VarId, Range)> {
    let iterator = frame.peek(t, 1)?;
    let Kind::Iter(IterVar::Numbers {
        next,
        stop,
        step,
        item,
    }) = t.kind(iterator).clone()
    else {
        return refuse(t, "the iterator of the loop is another one");
    };
    let range = Range {
        next,
        stop,
        step,
        item,
    };
    Ok((iterator, range))
}

/// Begins a round with `number` as the next one.
fn next(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    region: &LoopRegion,
    number: VarId,
    range: &Range,
) -> Step<()> {
    let by = t.int(range.step);
    let Some(next) = tensor_scalar::arithmetic(t, BinOp::Add, number, by)? else {
        return refuse(t, "the number of the loop is not one of the graph");
    };
    frame.pop(t)?;
    let iterator = t.add(range.iterator(next));
    region.iterator.set(Some(iterator));
    let value = rows::item(t, &range.item, number)?;
    frame.push(iterator);
    frame.push(value);
    Ok(())
}

/// Begins a round of a loop over numbers of the graph that is simulated by itself.
pub fn one_round(t: &mut Tracer<'_>, frame: &mut FrameState) -> Step<()> {
    let (iterator, range) = numbers_of(t, frame)?;
    let (number, by) = (range.next, t.int(range.step));
    let known = t.const_int(number).map(|it| it.checked_add(range.step));
    let next = match known {
        Some(next) => next.map(|next| t.int(next)),
        None => tensor_scalar::arithmetic(t, BinOp::Add, number, by)?,
    };
    let Some(next) = next else {
        return refuse(t, "the number of the loop is not one of the graph");
    };
    let value = rows::item(t, &range.item, number)?;
    t.vars
        .mutate(iterator, |var| var.kind = range.iterator(next));
    frame.push(value);
    Ok(())
}

/// Goes on behind a loop, where the frame is as in `behind`.
fn go_on(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    behind: &FrameState,
    left: Behind,
) -> Step<Flow> {
    *frame = behind.clone();
    let stack: Vec<Joined> = frame.stack.iter().map(|id| Joined::Keep(*id)).collect();
    region::apply(t, frame, &left.made, &left.locals, &stack, &[]);
    for (part, joined) in &left.parts {
        match (part.item, joined) {
            (None, Joined::Output(at)) => region::change_tensor(t, part.of, left.made[*at]),
            (Some(item), joined) => {
                if let Some(value) = phi::variable(t, joined, &left.made) {
                    region::change_item(t, part.of, item, value);
                }
            }
            _ => return refuse(t, "a tensor that becomes something else"),
        }
    }
    match left.returned {
        None => Ok(Flow::Jump(behind.pc)),
        Some((returned, leaves, answer)) => branches::returned(t, frame, returned, leaves, &answer),
    }
}

/// A loop on a tensor: `yes` and `no` are the frame on either side of its test.
pub fn capture(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    value: VarId,
    test: LoopTest,
    yes: &FrameState,
    no: &FrameState,
) -> Step<Flow> {
    let LoopTest { region, goes_on_if } = test;
    let (inside, outside) = if goes_on_if { (yes, no) } else { (no, yes) };
    let is_known = known::truth(t, value).is_some();
    let condition = match goes_on_if {
        true => tensor_scalar::condition(t, value)?,
        false => {
            let negated = tensor_scalar::negation(t, value)?;
            tensor_scalar::condition(t, negated)?
        }
    };
    let loop_ = Captured {
        region,
        inside,
        range: None,
        is_known,
    };
    let left = loop_.run(t, condition)?;
    go_on(t, frame, outside, left)
}
