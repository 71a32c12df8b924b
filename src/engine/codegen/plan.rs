//! The plan for one translation.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashSet;

use crate::bytecode::{Code, Origin, ResumeSpec};
use crate::frame::Modules;
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::Break;
use crate::simulator::{InnerFrame, Outcome, Shared, Tracer};
use crate::tracker::TrackerRef;
use crate::variables::VarId;

use super::break_point::break_here;
use super::effects;
use super::open_contexts::{check_contexts, check_generators, grad_below, set_grad};
use super::output_tree::{self, OutTree};
use super::reconstruct::{Demand, Emitter};

/// Makes (or finds) the callable of a resume function, of the frame itself or of an inlined one;
/// with it the position, in code units, that the instruction of the given index has in its code.
pub type ResumeFactory<'a> =
    dyn FnMut(Option<&InnerFrame>, ResumeSpec, usize) -> Result<(Obj, usize), Break> + 'a;

/// How a hit runs.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Run the graph and build the result in Rust.
    Direct(OutTree),
    /// Run the graph, then call this function with (slots, outputs).
    Code(Obj),
    /// As `Code`, but the function answers with `(resume function, arguments)` to go on with. It
    /// does not call the resume function itself: a loop that breaks in every round would nest as
    /// deep as it has rounds, and tracebacks would show this frame twice.
    Resume(Obj),
}

/// A plan, and what it needs.
pub struct Emission {
    /// The plan.
    pub plan: Plan,
    /// Trackers whose values it is given.
    pub slots: Vec<TrackerRef>,
    /// Symbols the graph must output.
    pub outputs: Vec<SymbolId>,
    /// Results of statements that run by themselves: see `Statement::alone`.
    pub alone: FxHashSet<SymbolId>,
    /// Variables of the frame that it makes.
    pub made: FxHashSet<VarId>,
}

/// Makes the plan for the outcome of a simulation.
///
/// # Errors
/// A [`Break`] when some live value cannot be rebuilt: the frame then runs natively.
pub fn generate(
    t: &mut Tracer<'_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    outcome: &Outcome,
    resume: &mut ResumeFactory<'_>,
) -> Result<Emission, Break> {
    check_contexts(t, outcome)?;
    check_generators(t)?;
    let grad = grad_below(t, outcome);
    let quiet = grad == t.grad.at_entry && !effects::any(t);
    if let (Outcome::Return(value), true) = (outcome, quiet) {
        let mut demand = Demand::default();
        let tree = output_tree::tree(t, &mut demand, *value, &mut Vec::new(), 0);
        let mut shared = Shared::default();
        if let (Some(tree), false) = (tree, shared.learn(t, &demand.tensors)) {
            return Ok(finish(Plan::Direct(tree), demand, shared));
        }
    }
    // Which tensors share storage with others is known when all that leave are known.
    let mut shared = Shared::default();
    loop {
        let mark = t.mark();
        let (plan, demand) = attempt(t, code, origin, globals, outcome, resume, &shared)?;
        if !shared.learn(t, &demand.tensors) {
            return Ok(finish(plan, demand, shared));
        }
        t.rollback(mark);
    }
}

fn attempt(
    t: &mut Tracer<'_>,
    code: &Code,
    origin: &Origin,
    globals: &Obj,
    outcome: &Outcome,
    resume: &mut ResumeFactory<'_>,
    shared: &Shared,
) -> Result<(Plan, Demand), Break> {
    let grad = grad_below(t, outcome);
    let py = t.py;
    let mut e = Emitter::new(t, code, shared)?;
    match outcome {
        Outcome::Return(value) => {
            e.prepare(*value)?;
            effects::emit(&mut e)?;
            let entered = e.t.grad.at_entry;
            set_grad(&mut e, entered, grad)?;
            e.late()?;
            e.value(*value)?;
            e.code.op("RETURN_VALUE", 0)?;
        }
        Outcome::Break(at) => break_here(&mut e, code, origin, globals, at, resume)?,
    }
    let made = e.code.code.to_py(py)?;
    let function = function(py, made.as_any(), globals)?;
    let plan = match outcome {
        Outcome::Return(_) => Plan::Code(function),
        Outcome::Break(_) => Plan::Resume(function),
    };
    Ok((plan, e.demand))
}

fn finish(plan: Plan, demand: Demand, shared: Shared) -> Emission {
    Emission {
        plan,
        slots: demand.slots.into_iter().collect(),
        outputs: demand.outputs.into_iter().collect(),
        alone: shared.by_calls(),
        made: demand.made,
    }
}

/// A function object; cells for free variables are placeholders, which resume code overwrites.
pub fn function(py: Python<'_>, code: &Bound<'_, PyAny>, globals: &Obj) -> PyResult<Obj> {
    let types = py.types()?;
    let cell = types.getattr("CellType")?;
    let count = code.getattr("co_freevars")?.len()?;
    let cells = (0..count)
        .map(|_| cell.call0())
        .collect::<PyResult<Vec<_>>>()?;
    let kwargs = PyDict::new(py);
    if count > 0 {
        kwargs.set_item("closure", PyTuple::new(py, cells)?)?;
    }
    Ok(Obj::from(
        types
            .getattr("FunctionType")?
            .call((code, globals.bind(py)), Some(&kwargs))?,
    ))
}
