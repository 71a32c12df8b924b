//! Steps of optimizers as part of the graph: the frame goes on to compute behind them, with the
//! parameters that they leave.
//!
//! A backward, a step and clears that follow one another are statements: gradients, and a step that
//! answers with the parameters from there on. Nothing of them is left behind the graph. It runs as
//! one program where each step is what it was made for; where one is not, the function runs as it
//! is (see `InnerSteps` in `translate`).

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::frame::Modules;
use crate::graph::{Arg, Callee, SymbolId};
use crate::obj::Obj;
use crate::tracker::TrackerRef;
use crate::variables::{Kind, TensorVar, VarId};

use super::{Act, joined};
use crate::Tracer;

/// A step that is part of the graph.
#[derive(Clone, Debug)]
pub struct InnerStep {
    /// Where its calls are among the deferred ones: a backward, a step and clears.
    pub(super) calls: Range<usize>,
    /// The optimizer.
    pub optimizer: TrackerRef,
    /// Whether gradients become zeros.
    pub zeros: bool,
    /// The statement that stands for it.
    pub statement: usize,
    /// The leaves that gradients arrive at.
    pub arriving: Vec<SymbolId>,
    /// What it updates.
    pub renewed: Vec<Renewed>,
}

/// A parameter that a step updates.
#[derive(Clone, Copy, Debug)]
pub struct Renewed {
    /// The input of the graph.
    pub input: SymbolId,
    /// What it was.
    pub before: SymbolId,
    /// What arrives.
    pub gradient: SymbolId,
    /// What it is behind the step.
    pub after: SymbolId,
}

impl InnerStep {
    /// Whether it is left where there are `len` calls; clears at its end may be gone.
    pub(super) fn is_left(&mut self, len: usize) -> bool {
        self.calls.end = self.calls.end.min(len);
        self.calls.len() >= LEAST
    }
}

/// Calls of a step: a backward, the step itself, a clear.
const LEAST: usize = 3;

/// Whether another attempt may have the steps in the graph that were deferred in this one: whoever
/// asks knows that the frame computes behind them.
pub fn may_be(t: &Tracer<'_>) -> bool {
    let mut acts = t.deferred.iter().map(|call| call.act);
    t.options.detours.steps_inside.is_none()
        && t.backend.takes_gradients()
        && t.deferred.all().first().map(|call| call.act) == Some(Act::Backward)
        && acts.any(|act| act == Act::Clears)
}

/// Makes a step part of the graph, where the last deferred call ends one, or belongs to one that
/// is.
pub(super) fn enter(t: &mut Tracer<'_>) -> PyResult<()> {
    if t.options.detours.steps_inside != Some(true) {
        return Ok(());
    }
    let end = t.deferred.len();
    let ended = t.deferred.inner.last().map_or(0, |step| step.calls.end);
    match t.deferred.all().get(ended..) {
        Some([_]) if ended > 0 => {
            // One more clear behind a step.
            if let Some(step) = t.deferred.inner.last_mut() {
                step.calls.end = end;
                t.graph.reopen();
            }
        }
        Some([backward, step, clear])
            if (backward.act, step.act, clear.act) == (Act::Backward, Act::Steps, Act::Clears) =>
        {
            let (backward, step) = (joined::args_of(t, backward), joined::args_of(t, step));
            let (&[loss], &[optimizer]) = (&backward[..], &step[..]) else {
                return Ok(());
            };
            let mark = t.graph.mark();
            match append(t, loss, optimizer, ended..end)? {
                Some(step) => {
                    for renewed in &step.renewed {
                        follow(t, *renewed);
                    }
                    t.deferred.inner.push(step);
                    t.graph.reopen();
                }
                None => t.graph.rollback(t.py, mark),
            }
        }
        _ => {}
    }
    Ok(())
}

/// The statements of a step; `None` where the graph cannot hold it.
fn append(
    t: &mut Tracer<'_>,
    loss: VarId,
    optimizer: VarId,
    calls: Range<usize>,
) -> PyResult<Option<InnerStep>> {
    let (Kind::Tensor(TensorVar { symbol, .. }), Some(source), Some(object)) = (
        t.kind(loss).clone(),
        t.source(optimizer),
        t.value(optimizer),
    ) else {
        return Ok(None);
    };
    if !joined::may_join(t, loss) {
        return Ok(None);
    }
    let home = t.py.module("paddle_sot_rs._graph.inner_steps")?;
    let parameters = home.call_method1("parameters_of", (object,))?;
    let Ok(parameters) = parameters.cast_into::<PyList>() else {
        return Ok(None);
    };
    let arriving = joined::gradients(t, symbol)?;
    let updated = arriving.iter().filter(|(leaf, _)| {
        let value = leaf.value.bind(t.py);
        parameters.iter().any(|parameter| parameter.is(value))
    });
    let updated: Vec<(SymbolId, SymbolId)> = updated
        .map(|(leaf, gradient)| (leaf.symbol, *gradient))
        .collect();
    if updated.is_empty() {
        return Ok(None);
    }
    let before: Vec<SymbolId> = updated
        .iter()
        .map(|(input, _)| t.graph.renewed.current(*input))
        .collect();
    let list =
        |symbols: &mut dyn Iterator<Item = SymbolId>| Arg::List(symbols.map(Arg::Symbol).collect());
    let given = vec![
        list(&mut before.iter().copied()),
        list(&mut updated.iter().map(|(_, gradient)| *gradient)),
    ];
    let callee = Callee::Api(Obj::from(home.getattr("begin")?));
    let loc = t.loc();
    let made = t
        .graph
        .call_when_closed(t.py, callee, given, Vec::new(), loc);
    let after = match made {
        Ok(Arg::List(after)) => after,
        refused => {
            let why = refused.err().map(|err| err.to_string());
            log::debug!(target: "paddle_sot_rs.backend", "a step stays behind the graph: {}", why.unwrap_or_default());
            return Ok(None);
        }
    };
    let after = after.iter().map(Arg::as_symbol).collect::<Option<Vec<_>>>();
    let Some(after) = after.filter(|after| after.len() == updated.len()) else {
        return Ok(None);
    };
    let renewed = updated.iter().zip(before).zip(after);
    let renewed = renewed.map(|((&(input, gradient), before), after)| Renewed {
        input,
        before,
        gradient,
        after,
    });
    Ok(Some(InnerStep {
        calls,
        optimizer: source,
        zeros: false,
        statement: t.graph.sir.statements.len() - 1,
        arriving: arriving.iter().map(|(leaf, _)| leaf.symbol).collect(),
        renewed: renewed.collect(),
    }))
}

/// A parameter is what a step has made of it.
fn follow(t: &mut Tracer<'_>, renewed: Renewed) {
    t.graph.renewed.push(renewed.before, renewed.after);
    for id in (0..t.vars.len() as u32).map(VarId) {
        let is_it = matches!(t.vars.kind(id), Kind::Tensor(var)
            if var.symbol == renewed.before && var.view.is_none());
        if is_it {
            t.vars.update(id, |var| {
                if let Kind::Tensor(var) = &mut var.kind {
                    var.symbol = renewed.after;
                }
            });
        }
    }
}

/// What another attempt is made for, in which steps stay behind the graph.
pub const BEHIND: &str = "a step of an optimizer is no part of the graph";

/// The steps that are part of the graph, at the end of a trace: nothing of them is left behind it.
/// `Err` where they have to stay behind after all.
pub fn finish(t: &mut Tracer<'_>) -> PyResult<Result<Vec<InnerStep>, &'static str>> {
    let mut steps = t.deferred.inner.clone();
    if steps.is_empty() {
        return Ok(Ok(steps));
    }
    if t.deferred.iter().any(|call| call.act != Act::Other) {
        return Ok(Err(BEHIND));
    }
    let mut cleared: Vec<(usize, bool)> = Vec::new();
    for at in 0..steps.len() {
        let mut covered = Vec::new();
        let clears = &t.deferred.all()[steps[at].calls.clone()][LEAST - 1..];
        let clears: Vec<Vec<VarId>> = clears.iter().map(|call| joined::args_of(t, call)).collect();
        for clear in clears {
            let Some(&of) = clear.first() else {
                return Ok(Err(BEHIND));
            };
            let how: Option<bool> = match clear.get(1) {
                Some(how) => t.const_value(*how).and_then(|how| how.extract().ok()),
                None => Some(true),
            };
            let Some(how) = how else {
                return Ok(Err(BEHIND));
            };
            let of_step: &dyn Fn(&InnerStep) -> Vec<SymbolId> =
                if let Kind::Tensor(_) = t.kind(of) {
                    let value = t.vars.get(of).value.clone();
                    let input =
                        t.graph.inputs.iter().find(|input| {
                            value.as_ref().is_some_and(|value| input.value.is(value))
                        });
                    let input = input.map(|input| input.symbol);
                    &move |step: &InnerStep| {
                        let renewed = step.renewed.iter().map(|it| it.input);
                        renewed.filter(|it| Some(*it) == input).collect()
                    }
                } else {
                    let source = t.source(of);
                    &move |step: &InnerStep| match Some(&step.optimizer) == source.as_ref() {
                        true => step.renewed.iter().map(|it| it.input).collect(),
                        false => Vec::new(),
                    }
                };
            let count = covered.len();
            for (known, step) in steps.iter().enumerate() {
                let its = of_step(step);
                if !its.is_empty() {
                    cleared.push((known, how));
                }
                covered.extend(its);
            }
            // Something else is cleared.
            if covered.len() == count {
                return Ok(Err(BEHIND));
            }
        }
        // Nobody sees the gradients.
        if !steps[at].arriving.iter().all(|leaf| covered.contains(leaf)) {
            return Ok(Err(BEHIND));
        }
    }
    for (at, step) in steps.iter_mut().enumerate() {
        let mut hows = cleared
            .iter()
            .filter(|(of, _)| *of == at)
            .map(|(_, how)| *how);
        let first = hows.next().unwrap_or_default();
        if hows.any(|how| how != first) {
            return Ok(Err(BEHIND));
        }
        step.zeros = first;
    }
    let steps_once = |at: usize| {
        let others = &steps[..at];
        !others
            .iter()
            .any(|other| other.optimizer == steps[at].optimizer)
    };
    if !(0..steps.len()).all(steps_once) {
        return Ok(Err(BEHIND));
    }
    let inside: Vec<VarId> = steps
        .iter()
        .flat_map(|step| &t.deferred.all()[step.calls.clone()])
        .map(|call| call.call)
        .collect();
    t.left_behind.retain(|left| !inside.contains(left));
    Ok(Ok(steps))
}
