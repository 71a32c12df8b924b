//! Every reason a graph breaks for, not only the first: what `full_graph=True` reports.
//!
//! The simulation goes on behind a break with values nobody knows. What then stops because of such
//! a value is a consequence, not a reason of its own.

use rustc_hash::FxHashSet;

use crate::bytecode::Instr;
use crate::bytecode::stack_effect::effect as stack_effect;
use crate::reason::Break;
use crate::variables::{Kind, VarId};

use super::Tracer;
use super::frame_state::FrameState;
use super::opcode_executor::{
    BreakPoint, OpcodeExecutor, Outcome, Simulation, Simulator, run_outermost,
};

/// Simulates a frame and collects every reason for a break in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey;

impl Simulator for Survey {
    fn simulate(&self, t: &mut Tracer<'_>, frame: &mut FrameState) -> Result<Simulation, Break> {
        let mut simulation = OpcodeExecutor.simulate(t, frame)?;
        if let Outcome::Break(first) = &simulation.outcome {
            simulation.reasons = reasons(t, frame, first);
        }
        Ok(simulation)
    }
}

/// Most places the simulation goes on from.
const PLACES: usize = 64;

/// The reasons behind `first`, it included, each once.
fn reasons(t: &mut Tracer<'_>, frame: &mut FrameState, first: &BreakPoint) -> Vec<Break> {
    let mut found = vec![first.reason.clone()];
    let mut unknown = FxHashSet::default();
    let mut seen = FxHashSet::default();
    let mut places = successors(t, frame, first, &mut unknown);
    while let Some((pc, stack, locals)) = places.pop() {
        if seen.len() >= PLACES || !seen.insert((pc, stack.len())) {
            continue;
        }
        (frame.pc, frame.stack, frame.locals) = (pc, stack, locals);
        frame.kw_names.clear();
        frame.handling.clear();
        match run_outermost(t, frame) {
            Ok(Outcome::Return(_)) => {}
            Ok(Outcome::Break(point)) => {
                let operands = operands(frame, &point);
                let consequence = operands.iter().any(|id| holds(t, *id, &unknown, 0));
                if !consequence && !known(&found, &point.reason) {
                    found.push(point.reason.clone());
                }
                places.extend(successors(t, frame, &point, &mut unknown));
            }
            Err(reason) => {
                if unknown.is_empty() && !known(&found, &reason) {
                    found.push(reason);
                }
            }
        }
    }
    found
}

type Place = (usize, Vec<VarId>, Vec<Option<VarId>>);

fn known(found: &[Break], reason: &Break) -> bool {
    found.iter().any(|known| {
        (known.kind, &known.message, &known.loc) == (reason.kind, &reason.message, &reason.loc)
    })
}

fn operands(frame: &FrameState, point: &BreakPoint) -> Vec<VarId> {
    let last = &frame.code.instructions[point.end - 1].instr;
    let pops = stack_effect(last).map_or(1, |(pops, _)| pops);
    let from = point.stack.len().saturating_sub(pops);
    point.stack[from..].to_vec()
}

fn holds(t: &Tracer<'_>, id: VarId, unknown: &FxHashSet<VarId>, depth: usize) -> bool {
    if unknown.contains(&id) {
        return true;
    }
    if depth > 8 {
        return false;
    }
    let kind = t.vars.kind(id);
    if let Kind::BoundBuiltin { receiver, .. } | Kind::Method { receiver, .. } = kind {
        return holds(t, *receiver, unknown, depth + 1);
    }
    let mut items = kind.items().into_iter().flatten();
    items.any(|item| holds(t, *item, unknown, depth + 1))
}

/// Where the program may go on behind the instruction that broke the graph.
fn successors(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    point: &BreakPoint,
    unknown: &mut FxHashSet<VarId>,
) -> Vec<Place> {
    let last = frame.code.instructions[point.end - 1].instr.clone();
    let Some((pops, pushes)) = stack_effect(&last) else {
        return Vec::new();
    };
    let Some(rest) = point.stack.len().checked_sub(pops) else {
        return Vec::new();
    };
    let mut place = |pc: usize, pushes: usize| {
        let mut stack = point.stack[..rest].to_vec();
        for _ in 0..pushes {
            let value = t.add(Kind::Opaque);
            unknown.insert(value);
            stack.push(value);
        }
        (pc, stack, point.locals.clone())
    };
    let mut places = Vec::new();
    if let Some(target) = last.target() {
        // The end of a loop pops the iterator there: its instructions differ between versions.
        if !matches!(last, Instr::ForIter { .. }) {
            places.push(place(target, 0));
        }
    }
    if last.falls_through() {
        places.push(place(point.end, pushes));
    }
    places
}
