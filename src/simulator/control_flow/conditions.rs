//! Conditions of several tests: `a and b or not c` is compiled to a jump for each, which meet again
//! at two places. Each test is simulated once, under a branch on whether it is reached, and one
//! branch at their end chooses the way.

use pyo3::types::{PyBool, PyBoolMethods};

use crate::bytecode::stack_effect::effect as stack_effect;
use crate::bytecode::{Code, Instr, flow};
use crate::graph::{Arg, BlockOutput, SymbolId};
use crate::obj::Obj;
use crate::variables::{Kind, VarId};

use crate::branches;
use crate::control_flow::maybe;
use crate::dispatch::control;
use crate::frame_state::FrameState;
use crate::loop_return::{self, Leaf};
use crate::phi::{self, Piece, constant_of, refuse};
use crate::region::{self, End};
use crate::{Step, Stop, Tracer, item, tensor_scalar};

/// A test of a condition.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// Its first instruction.
    start: usize,
    /// Its jump.
    jump: usize,
    /// Where control goes when it holds.
    yes: usize,
    /// Where control goes when it does not.
    no: usize,
    /// How many values are on the stack at its start, next to behind the first jump.
    before: isize,
    /// The same behind its jump.
    after: isize,
}

/// Tests that lead to two places.
#[derive(Clone, Debug)]
pub struct Condition {
    tests: Vec<Test>,
    /// One of the places: "the condition holds" means that control gets there.
    pub yes: usize,
    /// The other one.
    pub no: usize,
    /// How many of the values on the stack behind the first jump are gone there: the middle of `a <
    /// b < c`.
    pub drops: usize,
}

/// The most tests that are looked at.
const MOST: usize = 256;

/// The conditions of at least two tests that begin with the jump at `at`, longest first.
pub fn beginning_at(frame: &FrameState, at: usize, yes: usize, no: usize) -> Vec<Condition> {
    let code = &*frame.code;
    let keeps = keeps_middle(code, at);
    let (yes, no) = (lands(code, yes, 0, keeps), lands(code, no, 0, keeps));
    let mut tests = vec![Test {
        start: at,
        jump: at,
        yes: yes.0,
        no: no.0,
        before: 0,
        after: 0,
    }];
    let mut exits = vec![yes, no];
    let mut found = Vec::new();
    while tests.len() < MOST {
        let inside = |exit: usize| {
            let region = frame.region.as_ref();
            region.is_none_or(|region| region.body.contains(&exit))
        };
        let last = tests.last().map_or(at, |test| test.jump);
        let next = exits.iter().filter(|exit| exit.0 > last && inside(exit.0));
        // Tests follow one another in the order they are made in.
        let Some((test, ends)) = next
            .min()
            .and_then(|(exit, depth)| test_at(code, *exit, *depth))
        else {
            break;
        };
        exits.retain(|exit| exit.0 != test.start);
        for end in ends {
            if !exits.contains(&end) {
                exits.push(end);
            }
        }
        tests.push(test);
        if let [(yes, depth), (no, other)] = exits[..] {
            let again = tests[1..]
                .iter()
                .any(|test| [yes, no].contains(&test.start));
            if let (true, false, Ok(drops)) = (depth == other, again, usize::try_from(-depth)) {
                let tests = tests.clone();
                found.push(Condition {
                    tests,
                    yes,
                    no,
                    drops,
                });
            }
        }
    }
    found.reverse();
    found
}

/// Where control gets to from `at`, and how many values are on the stack there: where a comparison
/// of several that fails drops its middle.
fn lands(code: &Code, at: usize, depth: isize, keeps_middle: bool) -> (usize, isize) {
    let at = flow::leads_to(code, at);
    match keeps_middle && matches!(code.instructions[at].instr, Instr::PopTop) {
        true => (flow::place(code, at + 1), depth - 1),
        false => (flow::place(code, at), depth),
    }
}

/// Whether a jump is that of `a < b` in `a < b < c`: it leaves `b` on the stack.
fn keeps_middle(code: &Code, jump: usize) -> bool {
    let mut before = code.instructions[..jump].iter().rev().map(|it| &it.instr);
    let mut last = before.next();
    if matches!(last, Some(Instr::ToBool)) {
        last = before.next();
    }
    let compares = matches!(
        last,
        Some(Instr::CompareOp { .. } | Instr::IsOp { .. } | Instr::ContainsOp { .. })
    );
    let copies = matches!(before.next(), Some(Instr::Copy { .. }));
    compares && copies && matches!(before.next(), Some(Instr::Swap { .. }))
}

/// The test that begins at `start`: nothing but an expression without jumps, and a jump. Where it
/// leads to, too.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of some 110 instructions these decide"
)]
fn test_at(code: &Code, start: usize, before: isize) -> Option<(Test, [(usize, isize); 2])> {
    let (mut jump, mut depth) = (start, before);
    loop {
        let instr = &code.instructions.get(jump)?.instr;
        let (yes, no) = match *instr {
            Instr::PopJumpIfTrue { target } | Instr::PopJumpIfNone { target } => (target, jump + 1),
            Instr::PopJumpIfFalse { target } | Instr::PopJumpIfNotNone { target } => {
                (jump + 1, target)
            }
            _ if is_pure(instr) => {
                depth += growth(instr)?;
                jump += 1;
                continue;
            }
            _ => return None,
        };
        let after = depth - 1;
        let keeps = keeps_middle(code, jump);
        let (yes, no) = (
            lands(code, yes, after, keeps),
            lands(code, no, after, keeps),
        );
        let test = Test {
            start,
            jump,
            yes: yes.0,
            no: no.0,
            before,
            after,
        };
        return Some((test, [yes, no]));
    }
}

/// Whether an instruction only makes a value. What calls change is found out when they are
/// simulated.
fn is_pure(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::Nop
            | Instr::Precall
            | Instr::PushNull
            | Instr::Copy { .. }
            | Instr::Swap { .. }
            | Instr::LoadConst { .. }
            | Instr::LoadFast { clear: false, .. }
            | Instr::LoadFastLoadFast { .. }
            | Instr::LoadDeref { .. }
            | Instr::LoadGlobal { .. }
            | Instr::UnaryPositive
            | Instr::UnaryNegative
            | Instr::UnaryInvert
            | Instr::UnaryNot
            | Instr::ToBool
            | Instr::BinaryOp { inplace: false, .. }
            | Instr::CompareOp { .. }
            | Instr::IsOp { .. }
            | Instr::ContainsOp { .. }
            | Instr::BinarySubscr
            | Instr::BinarySlice
            | Instr::LoadAttr { .. }
            | Instr::LoadSuperAttr { .. }
            | Instr::BuildTuple { .. }
            | Instr::BuildList { .. }
            | Instr::BuildSlice { .. }
            | Instr::KwNames { .. }
            | Instr::Call { .. }
            | Instr::CallKw { .. }
    )
}

/// By how much such an instruction makes the stack longer.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others have one effect, which the table knows"
)]
fn growth(instr: &Instr) -> Option<isize> {
    Some(match instr {
        Instr::Nop | Instr::Precall | Instr::KwNames { .. } | Instr::Swap { .. } => 0,
        Instr::PushNull
        | Instr::Copy { .. }
        | Instr::LoadConst { .. }
        | Instr::LoadFast { .. }
        | Instr::LoadDeref { .. } => 1,
        Instr::LoadFastLoadFast { .. } => 2,
        Instr::LoadGlobal { push_null, .. } => 1 + isize::from(*push_null),
        Instr::LoadAttr { method: true, .. } => 1,
        Instr::LoadSuperAttr { method, .. } => isize::from(*method) - 2,
        Instr::BuildSlice { count } => 1 - isize::try_from(*count).ok()?,
        _ => {
            let (pops, pushes) = stack_effect(instr)?;
            isize::try_from(pushes).ok()? - isize::try_from(pops).ok()?
        }
    })
}

/// Whether the condition holds, where its first test is `value` and `frame` is as behind that
/// test's jump. `None` when it cannot be one value: then nothing happened.
pub fn holds(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    value: VarId,
    condition: &Condition,
) -> Step<Option<VarId>> {
    let mark = t.mark();
    let locations = t.frames.locations.clone();
    let answer = evaluate(t, frame, value, condition);
    t.frames.locations = locations;
    match answer {
        Ok(symbol) => Ok(Some(t.add(Kind::SymNumber(symbol)))),
        Err(Stop::Break(_)) => {
            t.rollback(mark);
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}

/// A way from a test to what follows: control takes it when `test` is (or is not, unless `holds`)
/// true, where the test is reached at all.
struct Edge {
    to: usize,
    reached: Option<SymbolId>,
    test: Outcome,
    holds: bool,
}

/// What a test answers.
#[derive(Clone, Copy)]
enum Outcome {
    /// A number of the graph.
    Symbol(SymbolId),
    /// The same wherever it is reached.
    Known(bool),
}

fn evaluate(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    value: VarId,
    condition: &Condition,
) -> Step<SymbolId> {
    let mut edges: Vec<Edge> = Vec::new();
    // What is on the stack above that of the first jump: the middle of a comparison.
    let mut above: Vec<(usize, Vec<VarId>)> = Vec::new();
    for (at, test) in condition.tests.iter().enumerate() {
        let (reached, outcome) = match at {
            0 => (None, Outcome::Symbol(tensor_scalar::condition(t, value)?)),
            _ => {
                let Some(reached) = reaches(t, &edges, test.start)? else {
                    // What would be asked in front of it is known.
                    continue;
                };
                let found = above.iter().find(|(start, _)| *start == test.start);
                let on_top = found.map_or_else(Vec::new, |(_, values)| values.clone());
                let (outcome, left) = simulate(t, frame, reached, test, &on_top)?;
                above.extend([test.yes, test.no].map(|to| (to, left.clone())));
                (Some(reached), outcome)
            }
        };
        // What is not reached does not hold.
        for (to, holds) in [(test.yes, true), (test.no, false)] {
            edges.push(Edge {
                to,
                reached,
                test: outcome,
                holds,
            });
        }
    }
    match reaches(t, &edges, condition.yes)? {
        Some(symbol) => Ok(symbol),
        None => refuse(t, "one side of the branch never ends"),
    }
}

/// Whether control gets to `place`; `None` where it never does.
fn reaches(t: &mut Tracer<'_>, edges: &[Edge], place: usize) -> Step<Option<SymbolId>> {
    let mut any: Option<SymbolId> = None;
    for edge in edges.iter().filter(|edge| edge.to == place) {
        let taken = match (edge.test, edge.reached) {
            (Outcome::Known(known), _) if known != edge.holds => continue,
            (Outcome::Known(_), Some(reached)) => reached,
            (Outcome::Known(_), None) => return refuse(t, "the first test is known"),
            (Outcome::Symbol(test), _) if edge.holds => test,
            (Outcome::Symbol(test), reached) => {
                let fails = tensor_scalar::method(t, "logical_not", test, Vec::new())?;
                match reached {
                    None => fails,
                    Some(reached) => {
                        let fails = vec![Arg::Symbol(fails)];
                        tensor_scalar::method(t, "logical_and", reached, fails)?
                    }
                }
            }
        };
        any = Some(match any {
            None => taken,
            Some(known) => tensor_scalar::method(t, "logical_or", known, vec![Arg::Symbol(taken)])?,
        });
    }
    Ok(any)
}

/// The test under a branch on whether it is reached, where `on_top` is on the stack above that of
/// the first jump. What is there behind it, too.
fn simulate(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    reached: SymbolId,
    test: &Test,
    on_top: &[VarId],
) -> Step<(Outcome, Vec<VarId>)> {
    let depth = |by: isize| frame.stack.len().checked_add_signed(by);
    let (Some(before), Some(after)) = (depth(test.before), depth(test.after)) else {
        return refuse(t, "the condition reads a name that has no value");
    };
    let mut side = frame.clone();
    side.pc = test.start;
    side.stack.extend(on_top);
    if before > side.stack.len() {
        return refuse(t, "a test in the middle of an expression");
    }
    side.stack.truncate(before);
    let mark = t.mark();
    let (end, _) = region::run_to(t, &mut side, Some(test.jump))?;
    if end != End::At(test.jump) {
        return refuse(t, "a part of the condition leaves the expression");
    }
    let value = side.pop(t)?;
    let same = after.min(frame.stack.len());
    if side.stack.len() != after || side.stack[..same] != frame.stack[..same] {
        return refuse(t, "a test in the middle of an expression");
    }
    side.stack.drain(..same);
    let jump = &frame.code.instructions[test.jump].instr;
    let is_none = matches!(
        jump,
        Instr::PopJumpIfNone { .. } | Instr::PopJumpIfNotNone { .. }
    );
    let held = if is_none {
        maybe::tested(t, value, true)?
    } else {
        control::to_bool(t, value)?
    };
    let mut way = region::way(t, &side, mark, end, Some(held), &[], &[])?;
    if !way.cells.is_empty() || !way.changed.is_empty() {
        return refuse(t, "the condition has a side effect");
    }
    if let Some(known) = known(t, &way) {
        return Ok(known);
    }
    t.graph.adopt(t.py, &mut way.cut)?;
    let no = PyBool::new(t.py, false).to_owned().into_any();
    let constant = Piece::Const(Obj::from(no));
    let value = way.value.clone();
    let Some((held, ..)) = phi::symbol(t, &mut way.cut, &value)? else {
        return refuse(t, "a test that is not a tensor");
    };
    let (mut outputs, mut left, mut leaves) = (vec![held], Vec::new(), Vec::new());
    for piece in std::mem::take(&mut way.stack) {
        match (&piece, phi::symbol(t, &mut way.cut, &piece)?) {
            (Piece::Same(id), _) => left.push(Left::Known(*id)),
            (_, Some((output, meta, number))) => {
                outputs.push(output);
                left.push(Left::Made(number));
                leaves.push(Leaf { meta, number });
            }
            (_, None) => return refuse(t, "a test in the middle of an expression"),
        }
    }
    let nothing = t.mark();
    let mut zeros = Vec::new();
    for leaf in &leaves {
        zeros.push(BlockOutput::Inner(loop_return::zeros(
            t,
            leaf,
            &frame.locals,
        )?));
    }
    let mut other = t.cut(nothing);
    t.graph.adopt(t.py, &mut other)?;
    let Some((no, ..)) = phi::symbol(t, &mut other, &constant)? else {
        return refuse(t, "a test that is not a tensor");
    };
    zeros.insert(0, no);
    let made = branches::either(t, reached, [&way.cut, &other], [&outputs, &zeros])?;
    let Some((symbol, more)) = made.split_first() else {
        return refuse(t, "a test that is not one tensor");
    };
    let mut more = more.iter();
    let mut values = Vec::new();
    for left in left {
        match (left, more.as_slice()) {
            (Left::Known(id), _) => values.push(id),
            (Left::Made(number), [symbol, ..]) => {
                more.next();
                values.push(match number {
                    true => item::variable(t, *symbol),
                    false => region::tensor(t, *symbol),
                });
            }
            (Left::Made(_), []) => return refuse(t, "a test that is not one tensor"),
        }
    }
    Ok((Outcome::Symbol(*symbol), values))
}

/// The same where Python knows the answer, and nothing is computed for it.
fn known(t: &mut Tracer<'_>, way: &region::Way) -> Option<(Outcome, Vec<VarId>)> {
    let mut left = Vec::new();
    for piece in &way.stack {
        let Piece::Same(id) = piece else {
            return None;
        };
        left.push(*id);
    }
    let value = constant_of(t, &way.value)?;
    let answer = value.cast_exact::<PyBool>().ok()?.is_true();
    way.cut
        .statements
        .is_empty()
        .then_some((Outcome::Known(answer), left))
}

/// What a test leaves on the stack.
enum Left {
    /// Something from in front of it.
    Known(VarId),
    /// A result of the branch that it stands in; whether Python sees it as a number.
    Made(bool),
}
