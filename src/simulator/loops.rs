//! Loops on tensors as part of the graph: one round is simulated with placeholders for what differs from
//! round to round, cut out of the graph, and becomes the body of one `while_loop`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::bytecode::{flow, live_locals, BinOp, CmpOp, Instr};
use crate::graph::{BlockOutput, Cut, Region, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::variables::{CellVar, Item, IterVar, Kind, NumberVar, VarId};

use super::aliases;
use super::branches;
use super::conditions;
use super::dispatch::Flow;
use super::frame::FrameState;
use super::graph_numbers;
use super::merge::{self, refuse, Joined, Piece};
use super::regions::{self, End};
use super::returns::{self, Answer, Leaf, Returns, WayOut};
use super::trees::{self, Trees};
use super::{conversions, rows, Step, Tracer};

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

/// What changes inside of something that was there before the loop: an item of a list or dict, what a cell holds, or
/// all of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    of: VarId,
    item: Option<usize>,
    /// It is carried like a local of this number.
    slot: usize,
}

/// Most such parts.
const PARTS: usize = 256;

/// A loop whose test is a tensor.
#[derive(Clone, Debug)]
pub struct LoopRegion {
    /// Its instructions.
    pub body: Rc<FxHashSet<usize>>,
    /// Where its backward jumps lead to.
    pub header: usize,
    /// Where control goes when the test holds. CPython may have copied the test: each copy leads here.
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

/// A branch that is the test of a loop.
#[derive(Debug)]
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
        // Its other tests are branches of its body, and those of loops around it: what leaves them leaves it.
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
            let after = live_locals(code, exit);
            let mut live = live_locals(code, inside);
            live.extend(&after);
            live.sort_unstable();
            live.dedup();
            let region = Rc::new(LoopRegion {
                body: Rc::new(found.body.clone()),
                header: found.header,
                start: flow::leads_to(code, inside),
                exit: flow::place(code, exit),
                iterates: None,
                iterator: Cell::default(),
                live,
                after,
                returns: Returns::default(),
            });
            return Some(LoopTest { region, goes_on_if });
        }
    }
    None
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
            return match returns::way_out(&code, &region, frame.pc) {
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
    let (yes, no) = match code.instructions[at].instr {
        Instr::PopJumpIfTrue { target } => (target, at + 1),
        Instr::PopJumpIfFalse { target } => (at + 1, target),
        _ => return Ok(None),
    };
    let goes_on = |yes, no| match (flow::place(&code, yes), flow::place(&code, no)) {
        leads if leads == (region.start, region.exit) => Some(true),
        leads if leads == (region.exit, region.start) => Some(false),
        _ => None,
    };
    let Some(goes_on_if) = goes_on(yes, no) else {
        // The first of several tests.
        let many = conditions::beginning_at(frame, at, yes, no);
        let Some(many) = many.iter().find(|it| goes_on(it.yes, it.no).is_some()) else {
            return Ok(None);
        };
        let value = frame.peek(t, 1)?;
        if !graph_numbers::is_captured(t, value) {
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
            Some(false) => graph_numbers::negation(t, holds)?,
            _ => holds,
        }));
    };
    let value = frame.pop(t)?;
    if graph_numbers::is_captured(t, value) {
        return Ok(Some(match goes_on_if {
            true => graph_numbers::truth_value(t, value)?,
            false => graph_numbers::negation(t, value)?,
        }));
    }
    let truth = super::truth::truth(t, value)?;
    Ok(Some(t.bool(truth == goes_on_if)))
}

/// Whether the iterator on the stack has a next number.
fn continues(t: &mut Tracer<'_>, frame: &FrameState) -> Step<VarId> {
    let iterator = frame.peek(t, 1)?;
    let Kind::Iter(IterVar::Numbers {
        next, stop, step, ..
    }) = *t.kind(iterator)
    else {
        return refuse(t, "the iterator of the loop is another one");
    };
    let op = if step > 0 { CmpOp::Lt } else { CmpOp::Gt };
    match graph_numbers::comparison(t, op, next, stop)? {
        Some(condition) => Ok(condition),
        None => {
            let (next, stop) = (t.const_int(next), t.const_int(stop));
            Ok(t.bool(if step > 0 { next < stop } else { next > stop }))
        }
    }
}

/// A loop over `range()` of numbers of the graph; `behind` is the frame after it.
pub fn capture_range(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: &FrameState,
) -> Step<Flow> {
    let code = frame.code.clone();
    let found = flow::loops(&code);
    let Some(found) = found.iter().find(|found| found.header == at) else {
        return refuse(t, "a loop that never goes back");
    };
    let has_next = continues(t, frame)?;
    let condition = graph_numbers::condition(t, has_next)?;
    let after = live_locals(&code, behind.pc);
    let mut live = live_locals(&code, at);
    live.extend(&after);
    live.sort_unstable();
    live.dedup();
    let region = Rc::new(LoopRegion {
        body: Rc::new(found.body.clone()),
        header: found.header,
        start: at + 1,
        exit: flow::place(&code, behind.pc),
        iterates: Some(at),
        iterator: Cell::default(),
        live,
        after,
        returns: Returns::default(),
    });
    let mut inside = frame.clone();
    inside.pc = at + 1;
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
    // Somebody else may have it.
    rows::advance(t, iterator);
    let range = Some(Range {
        next,
        stop,
        step,
        item,
    });
    let loop_ = Captured {
        region,
        inside: &inside,
        range,
    };
    let left = loop_.run(t, condition)?;
    go_on(t, frame, behind, left)
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
    let Some(next) = graph_numbers::arithmetic(t, BinOp::Add, number, by)? else {
        return refuse(t, "the number of the loop is not one of the graph");
    };
    frame.pop(t)?;
    let iterator = t.add(Kind::Iter(IterVar::Numbers {
        next,
        stop: range.stop,
        step: range.step,
        item: range.item.clone(),
    }));
    region.iterator.set(Some(iterator));
    let value = rows::item(t, &range.item, number)?;
    frame.push(iterator);
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
    regions::apply(t, frame, &left.made, &left.locals, &stack, &[]);
    for (part, joined) in &left.parts {
        match (part.item, joined) {
            (None, Joined::Output(at)) => regions::change_tensor(t, part.of, left.made[*at]),
            (Some(item), joined) => {
                if let Some(value) = merge::variable(t, joined, &left.made) {
                    regions::change_item(t, part.of, item, value);
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

/// A local that differs from round to round.
struct Carried {
    first: SymbolId,
    meta: TensorMeta,
    number: bool,
    /// Whether it is not bound in front of the loop: then no round reads it before it is.
    unbound: bool,
}

const RETURNED: &str = "what the loop returns";

/// Rounds of looking for what differs before the loop is given up.
const ATTEMPTS: usize = 12;

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
    let condition = match goes_on_if {
        true => graph_numbers::condition(t, value)?,
        false => {
            let negated = graph_numbers::negation(t, value)?;
            graph_numbers::condition(t, negated)?
        }
    };
    let loop_ = Captured {
        region,
        inside,
        range: None,
    };
    let left = loop_.run(t, condition)?;
    go_on(t, frame, outside, left)
}

struct Captured<'a> {
    region: Rc<LoopRegion>,
    inside: &'a FrameState,
    /// What a `for` loop counts.
    range: Option<Range>,
}

/// Next value, stop and step of a `range()`, and what each of its numbers stands for.
struct Range {
    next: VarId,
    stop: VarId,
    step: i64,
    item: Rc<Item>,
}

impl Captured<'_> {
    /// Adds the loop to the graph; the answer is its results, and the locals behind it.
    fn run(&self, t: &mut Tracer<'_>, condition: SymbolId) -> Step<Behind> {
        let mut carried: BTreeMap<usize, Carried> = BTreeMap::new();
        // The next number of a range() is carried like a local.
        let counter = self.inside.code.localsplus.len();
        let range = self.range.as_ref();
        if let Some(range) = range {
            carried.insert(
                counter,
                self.start(t, Some(range.next), "the number of the loop")?,
            );
        }
        let first_part = self.inside.locals.len().max(counter + 1);
        let first_leaf = first_part + PARTS;
        let hidden = first_leaf + trees::MOST;
        let mut parts: Vec<Part> = Vec::new();
        let mut trees = Trees::new(first_leaf);
        let mut answer: Option<Answer> = None;
        for _ in 0..ATTEMPTS {
            let mark = t.mark();
            let returns = Returns::new(t, hidden, answer.clone());
            let slots = returns.slots();
            let mut region = (*self.region).clone();
            region.live.extend(slots.clone());
            region.returns = returns;
            let region = Rc::new(region);
            let mut frame = self.inside.clone();
            if !slots.is_empty() {
                frame.locals.resize(slots.end, None);
            }
            frame.region = Some(region.clone());
            let (mut leading, mut placeholders, mut number) = (Vec::new(), Vec::new(), None);
            let mut leaves = BTreeMap::new();
            for (slot, variable) in &carried {
                let symbol = t.graph.placeholder(t.py, variable.meta.clone())?;
                leading.push(symbol);
                if variable.unbound {
                    continue;
                }
                let part = parts.iter().find(|part| part.slot == *slot);
                if let Some(Part { of, item: None, .. }) = part {
                    regions::change_tensor(t, *of, symbol);
                    continue;
                }
                let value = match variable.number {
                    true => conversions::variable(t, symbol),
                    false => regions::tensor(t, symbol),
                };
                placeholders.push(value);
                if let Some(Part {
                    of, item: Some(at), ..
                }) = part
                {
                    regions::change_item(t, *of, *at, value);
                } else if *slot == counter {
                    number = Some(value);
                } else if trees.leaf(*slot).is_some() {
                    leaves.insert(*slot, value);
                } else {
                    frame.locals[*slot] = Some(value);
                }
            }
            for (slot, tuple) in trees.build(t, &leaves) {
                match parts.iter().find(|part| part.slot == slot) {
                    Some(Part {
                        of, item: Some(at), ..
                    }) => regions::change_item(t, *of, *at, tuple),
                    _ => frame.locals[slot] = Some(tuple),
                }
            }
            // Rows are of what the round begins with.
            if let (Some(range), Some(number)) = (range, number) {
                next(t, &mut frame, &region, number, range)?;
            }
            // The number of the round is on the stack already.
            let below = frame.stack.len() - usize::from(range.is_some());
            let stack = frame.stack[..below].to_vec();
            region.returns.begin(t, &mut frame, stack);
            let locations = t.locations.clone();
            let (end, value) = regions::run_to(t, &mut frame, None)?;
            t.locations = locations;
            if end != End::Next {
                return refuse(t, "the function returns from inside of the loop");
            }
            // Somebody else may have the tensor that the first round begins with.
            if placeholders.iter().any(|id| t.vars.get(*id).mutated) {
                return refuse(
                    t,
                    "a tensor that differs from round to round is changed in place",
                );
            }
            let mut advanced = None;
            if range.is_some() {
                let iterator = frame.pop(t)?;
                if let Kind::Iter(IterVar::Numbers { next, .. }) = *t.kind(iterator) {
                    advanced = Some(merge::piece(t, Some(next), &mark, &mut Vec::new()));
                }
            }
            let below = self.inside.stack.len() - usize::from(range.is_some());
            let stack = frame.stack[..] == self.inside.stack[..below];
            let mut way = regions::way(t, &frame, mark, end, value, &region.live, &[])?;
            if let Some(advanced) = advanced {
                way.locals.push((counter, advanced));
            }
            self.parts(t, &mut way, &mut parts, first_part)?;
            self.open_tuples(t, &mut way, &parts, &mut trees)?;
            way.locals.sort_by_key(|(slot, _)| *slot);
            if !stack {
                return refuse(t, "the value stack differs from round to round");
            }
            t.graph.adopt(t.py, &mut way.cut)?;
            if let Some(news) = region.returns.news() {
                carried.retain(|slot, _| *slot < hidden);
                self.carry(t, &mut carried, hidden, &news)?;
                answer = Some(news);
                continue;
            }
            if self.settle(t, &mut carried, &mut way, (&parts, &trees))? {
                let returns = &region.returns;
                let carried = (&carried, &parts[..], &trees);
                return self.emit(t, condition, carried, &leading, way, returns);
            }
        }
        refuse(t, "what differs from round to round does not settle")
    }

    /// Notes what a round changed in things from before the loop, as locals of the round.
    fn parts(
        &self,
        t: &mut Tracer<'_>,
        way: &mut regions::Way,
        parts: &mut Vec<Part>,
        first: usize,
    ) -> Step<()> {
        let mut tensors = Vec::new();
        let cells = std::mem::take(&mut way.cells);
        let cells = cells.into_iter().map(|(of, piece)| (of, piece, true));
        let changed = std::mem::take(&mut way.changed);
        let changed = changed.into_iter().map(|(of, piece)| (of, piece, false));
        for (of, piece, is_cell) in cells.chain(changed).collect::<Vec<_>>() {
            let items: Vec<(Option<usize>, Piece)> = match (merge::unchanged(t, of), piece) {
                (_, piece) if is_cell => vec![(Some(0), piece)],
                (Piece::List(before, _), Piece::List(now, _)) if before.len() == now.len() => {
                    let now = now.into_iter().enumerate();
                    now.map(|(at, piece)| (Some(at), piece)).collect()
                }
                (Piece::Dict(before), Piece::Dict(now))
                    if before.len() == now.len()
                        && before.iter().zip(&now).all(|(a, b)| a.0 == b.0) =>
                {
                    let now = now.into_iter().enumerate();
                    now.map(|(at, (.., piece))| (Some(at), piece)).collect()
                }
                (Piece::Same(_), Piece::Tensor(symbol, _)) => {
                    let stops = way.cut.meta(symbol).is_some_and(|meta| meta.stop_gradient);
                    if t.entry_grad && !stops {
                        return refuse(t, "a tensor with a gradient is changed in place inside");
                    }
                    tensors.push(of);
                    vec![(None, Piece::Tensor(symbol, None))]
                }
                _ => {
                    let kind = t.kind(of).clone();
                    let what = super::call::describe(t, of, &kind);
                    return refuse(
                        t,
                        format!("{what} is changed inside, and its items are others"),
                    );
                }
            };
            for (item, piece) in items {
                let known = parts.iter().find(|part| part.of == of && part.item == item);
                let slot = known.map_or(first + parts.len(), |part| part.slot);
                if known.is_none() {
                    if parts.len() == PARTS {
                        return refuse(t, "too much is changed inside");
                    }
                    parts.push(Part { of, item, slot });
                }
                way.locals.push((slot, piece));
            }
        }
        // What it was before is no longer there.
        for (slot, piece) in &way.locals {
            let first = self.first(t, *slot, parts, None);
            if matches!(piece, Piece::Same(id) if tensors.contains(id) && first != Some(*id)) {
                return refuse(t, "a tensor that is changed in place gets another name");
            }
        }
        Ok(())
    }

    /// Puts what is in tuples that differ from round to round next to the locals of a round.
    fn open_tuples(
        &self,
        t: &mut Tracer<'_>,
        way: &mut regions::Way,
        parts: &[Part],
        trees: &mut Trees,
    ) -> Step<()> {
        for (slot, piece) in std::mem::take(&mut way.locals) {
            let first = self.first(t, slot, parts, None);
            let name = self.name(slot, parts, None);
            if !trees.open(t, slot, first, &piece, &name, &mut way.locals)? {
                way.locals.push((slot, piece));
            }
        }
        Ok(())
    }

    /// What a variable of the loop is called.
    fn name(&self, slot: usize, parts: &[Part], trees: Option<&Trees>) -> Arc<str> {
        let slots = &self.inside.code.localsplus;
        match slots.get(slot) {
            Some(slot) => slot.name.clone(),
            None if slot == slots.len() => Arc::from("the number of the loop"),
            None if parts.iter().any(|part| part.slot == slot) => Arc::from("an item"),
            None => match trees.and_then(|trees| trees.leaf(slot)) {
                Some((_, root)) => {
                    Arc::from(format!("an item of {}", self.name(root, parts, None)))
                }
                None => Arc::from(RETURNED),
            },
        }
    }

    /// What a local, or a part of something else, is in front of the loop.
    fn first(
        &self,
        t: &mut Tracer<'_>,
        slot: usize,
        parts: &[Part],
        trees: Option<&Trees>,
    ) -> Option<VarId> {
        if let Some((first, _)) = trees.and_then(|trees| trees.leaf(slot)) {
            return Some(first);
        }
        let Some(part) = parts.iter().find(|part| part.slot == slot) else {
            return self.inside.locals.get(slot).copied().flatten();
        };
        let Some(item) = part.item else {
            return Some(part.of);
        };
        match t.kind(part.of) {
            Kind::List(items) => items.get(item).copied(),
            Kind::Dict(dict) => dict.items.get_index(item).map(|(_, (_, value))| *value),
            Kind::Cell(CellVar::Full(content)) => Some(*content),
            _ => None,
        }
    }

    /// Carries what the loop may return, from `hidden` on.
    fn carry(
        &self,
        t: &mut Tracer<'_>,
        carried: &mut BTreeMap<usize, Carried>,
        hidden: usize,
        answer: &Answer,
    ) -> Step<()> {
        let returned = t.bool(false);
        carried.insert(hidden, self.start(t, Some(returned), RETURNED)?);
        for (at, leaf) in answer.leaves().into_iter().enumerate() {
            let first = returns::zeros(t, leaf, self.inside)?;
            let mut meta = leaf.meta.clone();
            meta.stop_gradient = true;
            let number = leaf.number;
            carried.insert(
                hidden + 1 + at,
                Carried {
                    first,
                    meta,
                    number,
                    unbound: false,
                },
            );
        }
        Ok(())
    }

    /// Compares the end of a round with its start; true when nothing new differs.
    fn settle(
        &self,
        t: &mut Tracer<'_>,
        carried: &mut BTreeMap<usize, Carried>,
        way: &mut regions::Way,
        (parts, trees): (&[Part], &Trees),
    ) -> Step<bool> {
        let mut settled = true;
        for (slot, piece) in &way.locals {
            let name = self.name(*slot, parts, Some(trees));
            let first = self.first(t, *slot, parts, Some(trees));
            let Some(variable) = carried.get_mut(slot) else {
                if matches!((piece, first), (Piece::Same(now), Some(first)) if *now == first)
                    || matches!((piece, first), (Piece::Unbound, None))
                {
                    continue;
                }
                let is_local = *slot < self.inside.code.localsplus.len();
                if first.is_none() && is_local && !self.region.after.contains(slot) {
                    // Each round binds it before it reads it: a read in front of that would have raised.
                    continue;
                }
                settled = false;
                let started = match first {
                    None => self.unbound(t, &mut way.cut, piece, &name)?,
                    first => self.start(t, first, &name)?,
                };
                carried.insert(*slot, started);
                continue;
            };
            let Some((_, next, number)) = merge::symbol(t, &mut way.cut, piece)? else {
                return refuse(
                    t,
                    format!("{name:?} is not a tensor or number after a round of the loop"),
                );
            };
            let meta = &mut variable.meta;
            if next.dtype != meta.dtype
                || next.shape.len() != meta.shape.len()
                || number != variable.number
            {
                return refuse(
                    t,
                    format!(
                        "{name:?} changes from dtype {} and rank {} to dtype {} and rank {} in a round of the loop; \
                         a variable of a loop may change the size of its dims only",
                        meta.dtype.as_str(),
                        meta.shape.len(),
                        next.dtype.as_str(),
                        next.shape.len()
                    ),
                );
            }
            for (dim, next) in meta.shape.iter_mut().zip(&next.shape) {
                if *dim != *next && *dim != -1 {
                    *dim = -1;
                    settled = false;
                }
            }
            if meta.stop_gradient && !next.stop_gradient {
                meta.stop_gradient = false;
                settled = false;
            }
        }
        Ok(settled)
    }

    /// A local that is bound in each round, and read behind the loop: without a round, Python raises there.
    fn unbound(
        &self,
        t: &mut Tracer<'_>,
        cut: &mut Cut,
        piece: &Piece,
        name: &str,
    ) -> Step<Carried> {
        let Some((_, mut meta, number)) = merge::symbol(t, cut, piece)? else {
            let now = merge::shown(t, piece);
            return refuse(
                t,
                format!(
                    "{name:?} is not bound in front of the loop, read after it, and {now} inside"
                ),
            );
        };
        let first = returns::zeros(
            t,
            &Leaf {
                meta: meta.clone(),
                number,
            },
            self.inside,
        )?;
        meta.stop_gradient = true;
        Ok(Carried {
            first,
            meta,
            number,
            unbound: true,
        })
    }

    /// The first value of a local that differs from round to round.
    fn start(&self, t: &mut Tracer<'_>, first: Option<VarId>, name: &str) -> Step<Carried> {
        let Some(first) = first else {
            return refuse(
                t,
                format!("{name:?} is read after the loop, but not bound in front of it"),
            );
        };
        t.realize(first);
        let symbol = match t.kind(first).clone() {
            Kind::Tensor(tensor) => Some((tensor.symbol, false)),
            Kind::SymNumber(symbol) | Kind::Float(NumberVar::Graph(symbol)) => Some((symbol, true)),
            Kind::Const => match t.value(first) {
                Some(value) => {
                    graph_numbers::number(t, &Obj::from(value))?.map(|symbol| (symbol, true))
                }
                None => None,
            },
            _ => None,
        };
        let found = symbol.and_then(|(symbol, number)| {
            let meta = t.graph.meta(symbol).cloned()?;
            Some(Carried {
                first: symbol,
                meta,
                number,
                unbound: false,
            })
        });
        match found {
            Some(carried) => Ok(carried),
            None => refuse(
                t,
                format!(
                    "{name:?} differs from round to round and is not a tensor or a whole number"
                ),
            ),
        }
    }

    /// Without a round, a variable is what it was; and a round may hand on another variable, or something from outside.
    fn note_aliases(
        &self,
        t: &mut Tracer<'_>,
        carried: &BTreeMap<usize, Carried>,
        leading: &[SymbolId],
        way: &regions::Way,
        outputs: &[BlockOutput],
        made: &[SymbolId],
    ) {
        let mut found: Vec<Vec<SymbolId>> = carried.values().map(|it| vec![it.first]).collect();
        let pairs = &way.aliases;
        for _ in 0..=found.len() {
            for (at, output) in outputs.iter().enumerate() {
                let mut more: Vec<SymbolId> = aliases::of(&way.cut, pairs, *output).collect();
                for (other, placeholder) in leading.iter().enumerate() {
                    let inner =
                        |symbol| matches!(output, BlockOutput::Inner(made) if *made == symbol);
                    let view = pairs
                        .iter()
                        .any(|(made, of)| inner(*made) && of == placeholder);
                    if inner(*placeholder) || view {
                        more.extend(&found[other]);
                    }
                }
                more.retain(|of| !found[at].contains(of));
                found[at].extend(more);
            }
        }
        for (at, (result, of)) in made.iter().zip(found).enumerate() {
            of.into_iter().for_each(|of| aliases::note(t, *result, of));
            // One tensor under two names.
            let twice = outputs[..at].iter().position(|other| *other == outputs[at]);
            if let Some(other) = twice {
                aliases::note(t, *result, made[other]);
            }
        }
    }

    fn emit(
        &self,
        t: &mut Tracer<'_>,
        condition: SymbolId,
        (carried, parts, trees): (&BTreeMap<usize, Carried>, &[Part], &Trees),
        leading: &[SymbolId],
        mut way: regions::Way,
        returns: &Returns,
    ) -> Step<Behind> {
        let differentiable = carried
            .values()
            .any(|variable| !variable.meta.stop_gradient);
        let differentiable = differentiable && t.entry_grad && !t.options.forward_only;
        let changes = |variable: &Carried| {
            let first = t.graph.meta(variable.first);
            first.is_none_or(|first| first.shape != variable.meta.shape)
        };
        if differentiable && carried.values().any(changes) {
            return refuse(
                t,
                "gradients go through the loop, and a variable changes its shape",
            );
        }
        let mut outputs: Vec<BlockOutput> = Vec::with_capacity(carried.len() + 1);
        let value = way.value.clone();
        match merge::symbol(t, &mut way.cut, &value)? {
            Some((output, ..)) => outputs.push(output),
            None => return refuse(t, "the condition of the next round is not a tensor"),
        }
        let mut locals = Vec::with_capacity(way.locals.len());
        let mut changed = Vec::new();
        let mut leaves = BTreeMap::new();
        let pieces = std::mem::take(&mut way.locals);
        for (slot, piece) in &pieces {
            let part = parts.iter().find(|part| part.slot == *slot);
            let Some(variable) = carried.get(slot) else {
                if part.is_some() || trees.leaf(*slot).is_some() {
                    continue;
                }
                locals.push((
                    *slot,
                    match self.inside.locals.get(*slot).copied().flatten() {
                        Some(id) => Joined::Keep(id),
                        None => Joined::Unbound,
                    },
                ));
                continue;
            };
            let Some((output, ..)) = merge::symbol(t, &mut way.cut, piece)? else {
                return refuse(t, "a variable of the loop is not a tensor");
            };
            let at = outputs.len() - 1;
            outputs.push(output);
            if *slot == self.inside.code.localsplus.len() || returns.slots().contains(slot) {
                continue;
            }
            let joined = match variable.number {
                true => Joined::Number(at),
                false => Joined::Output(at),
            };
            match part {
                Some(part) => changed.push((*part, joined)),
                None if trees.leaf(*slot).is_some() => {
                    leaves.insert(*slot, joined);
                }
                None => locals.push((*slot, joined)),
            }
        }
        for (slot, joined) in trees.joined(&leaves) {
            match parts.iter().find(|part| part.slot == slot) {
                Some(part) => changed.push((*part, joined)),
                None => locals.push((slot, joined)),
            }
        }
        if carried.values().any(|variable| variable.unbound) {
            let comes_in = t.add(Kind::SymNumber(condition));
            graph_numbers::statement(t, "check", &[comes_in])?;
        }
        let mut free = Vec::new();
        way.cut.free(&outputs, &mut free);
        let free = regions::with_kinds(t, free);
        let name = format!("{}_body", t.graph.sir.name);
        let body = way.cut.block(name, leading, &free, &outputs);
        let region = Region::While {
            body: Arc::new(body),
            carried: carried.len(),
            differentiable,
        };
        let first = std::iter::once(condition)
            .chain(carried.values().map(|variable| variable.first))
            .collect();
        let made = regions::emit(t, region, first, &free)?;
        self.note_aliases(t, carried, leading, &way, &outputs[1..], &made);
        let hidden = made.len() - returns.slots().len();
        let returned = returns.answer.as_ref().map(|answer| {
            let leaves = made[hidden + 1..].to_vec();
            (made[hidden], leaves, answer.clone())
        });
        Ok(Behind {
            made,
            locals,
            parts: changed,
            returned,
        })
    }
}
