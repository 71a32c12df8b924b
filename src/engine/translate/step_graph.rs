//! The graph of a train step: it computes the gradients of its results, and once the optimizer's
//! step is known it updates the parameters as well.
//!
//! There are two programs. The first computes gradients, and the calls behind the graph take them
//! to the leaves, step and clear. The second goes on to the update, in place, and no gradient
//! leaves it. It is made when the optimizer has what a step takes, and it runs where nobody could
//! tell: what the step computes with is as it was (see `abi::step_inputs`), and what is updated is
//! what the graph takes. All that may raise comes first in it: a run that fails has updated
//! nothing, and may be repeated.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::PyList;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::abi::{self, Before, StepInputs};
use crate::backend::{self, BackendError, CompileRequest, CompiledGraph};
use crate::frame::Modules;
use crate::graph::{Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind};
use crate::obj::Obj;
use crate::paddle::tensor_meta;
use crate::reason::{Break, BreakKind, SourceLoc};
use crate::simulator::deferred::joined::WholeStep;
use crate::sync::lock;

use super::choice::Configured;
use super::function::{Shared, Translated, in_turn};
use super::inner_steps::not_ready;

/// Most programs of one step: settings of optimizers differ.
const MOST: usize = 4;

/// Such a graph.
pub(super) struct StepGraph {
    step: WholeStep,
    /// Where the optimizer stands among the inputs.
    at: usize,
    sir: Arc<StatementIr>,
    chosen: Arc<Configured>,
    gradients: Box<dyn CompiledGraph>,
    /// The outputs that a backward has gone through.
    spent: Vec<usize>,
    /// Which outputs are gradients.
    gradient: Vec<bool>,
    programs: Mutex<Vec<Arc<Program>>>,
    /// Whose statistics count what it does, and where it is.
    shared: Weak<Shared>,
    location: SourceLoc,
}

/// A program with the update.
struct Program {
    recipe: Py<PyAny>,
    /// Where the parameters stand among the tensors of the graph, in the optimizer's order.
    places: Vec<usize>,
    /// `Err`: why there is none.
    graph: Result<Box<dyn CompiledGraph>, String>,
}

/// Outputs, one for each of the graph's.
type Outputs = SmallVec<[Py<PyAny>; 4]>;

impl StepGraph {
    /// `gradients` is the program of `sir`; the optimizer is the input at `at`.
    pub(super) fn new(
        of: &Translated,
        (step, at): (WholeStep, usize),
        sir: Arc<StatementIr>,
        (chosen, gradients): (&Arc<Configured>, Box<dyn CompiledGraph>),
    ) -> Self {
        let outputs = sir.outputs.iter().enumerate();
        let is_spent = |id| sir.has_gradient(id) && !sir.inputs.contains(&id);
        let spent = outputs.filter(|(_, id)| is_spent(**id));
        let gradient = |id: &SymbolId| step.arriving.iter().any(|(_, made)| made == id);
        Self {
            spent: spent.map(|(at, _)| at).collect(),
            gradient: sir.outputs.iter().map(gradient).collect(),
            step,
            at,
            sir,
            chosen: Arc::clone(chosen),
            gradients,
            programs: Mutex::default(),
            shared: Arc::downgrade(&of.shared),
            location: of.location().clone(),
        }
    }

    /// A run that updates the parameters; `None` where the calls behind the graph have to.
    fn updated(
        &self,
        py: Python<'_>,
        optimizer: &Bound<'_, PyAny>,
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<Outputs>> {
        let before = match (self.step.stay, self.step.zeros) {
            (true, _) => Before::Cleared,
            (false, true) => Before::Zeros,
            (false, false) => Before::Nothing,
        };
        let Some(given) = abi::step_inputs(optimizer, before)? else {
            return Ok(None);
        };
        if self.step.minimizes {
            let own = py.module("paddle_sot_rs._graph.optimizers")?;
            let is_step = own.call_method1("minimizes_by_step", (optimizer,))?;
            if !is_step.is_truthy()? {
                return Ok(None);
            }
        }
        if self.step.stay {
            let own = py.module("paddle_sot_rs._graph.step_recipes")?;
            let keeps = own.call_method1("keeps_gradients", (&given.recipe,))?;
            if !keeps.is_truthy()? {
                return Ok(None);
            }
        }
        let Some(rate) = rate_of(optimizer)? else {
            return Ok(None);
        };
        let Some(program) = self.program(py, &given, &rate, tensors)? else {
            return Ok(None);
        };
        let Ok(graph) = &program.graph else {
            return Ok(None);
        };
        let mut inputs: SmallVec<[Bound<'_, PyAny>; 16]> = tensors.into();
        inputs.extend(given.states);
        inputs.push(rate);
        let mut made = graph.call(py, &inputs)?.into_iter();
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.stats).whole_steps += 1;
        }
        let outputs =
            self.gradient
                .iter()
                .map(|is_gradient| match *is_gradient && !self.step.stay {
                    true => py.None(),
                    // As many as were asked for. Whatever happens, the step is not made once more.
                    false => made.next().unwrap_or_else(|| py.None()),
                });
        let outputs: Outputs = outputs.collect();
        if self.step.stay {
            for (made, _) in outputs.iter().zip(&self.gradient).filter(|(_, it)| **it) {
                made.setattr(py, pyo3::intern!(py, "sot_updated"), true)?;
            }
        }
        Ok(Some(outputs))
    }

    /// The program of what an optimizer computes with; `None` where it updates other tensors than
    /// those that gradients arrive at.
    fn program(
        &self,
        py: Python<'_>,
        given: &StepInputs<'_>,
        rate: &Bound<'_, PyAny>,
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<Arc<Program>>> {
        if let Some(known) = self.known(py, given, tensors)? {
            return Ok(Some(known));
        }
        let Some(places) = self.places(given, tensors) else {
            return Ok(None);
        };
        if lock(&self.programs).len() >= MOST {
            return Ok(None);
        }
        in_turn(py, || {
            // Another thread may have made it meanwhile.
            if let Some(known) = self.known(py, given, tensors)? {
                return Ok(Some(known));
            }
            let made = self.compile(py, given, rate, (tensors, &places));
            let program = Arc::new(Program {
                recipe: given.recipe.clone().unbind(),
                graph: noted(py, made, &self.shared, &self.location)?,
                places,
            });
            lock(&self.programs).push(Arc::clone(&program));
            Ok(Some(program))
        })
    }

    /// The program that there is for it.
    fn known(
        &self,
        py: Python<'_>,
        given: &StepInputs<'_>,
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<Arc<Program>>> {
        let programs = lock(&self.programs).clone();
        for program in &programs {
            let fits = program.places.len() == given.parameters.len()
                && (program.places.iter().zip(&given.parameters))
                    .all(|(at, parameter)| tensors[*at].is(parameter));
            let recipe = program.recipe.bind(py);
            if fits && (recipe.is(&given.recipe) || recipe.eq(&given.recipe)?) {
                return Ok(Some(Arc::clone(program)));
            }
        }
        Ok(None)
    }

    /// Where the parameters stand among the tensors: those that gradients arrive at, each once.
    fn places(&self, given: &StepInputs<'_>, tensors: &[Bound<'_, PyAny>]) -> Option<Vec<usize>> {
        let symbols: Vec<SymbolId> = self.sir.tensor_inputs().collect();
        let leaves = &self.step.arriving;
        let place = |parameter: &Bound<'_, PyAny>| {
            let at = tensors.iter().position(|tensor| tensor.is(parameter))?;
            let is_leaf = leaves.iter().any(|(leaf, _)| *leaf == symbols[at]);
            is_leaf.then_some(at)
        };
        let places: Vec<usize> = given.parameters.iter().map(place).collect::<Option<_>>()?;
        let once: FxHashSet<usize> = places.iter().copied().collect();
        (once.len() == places.len() && places.len() == leaves.len()).then_some(places)
    }

    fn compile(
        &self,
        py: Python<'_>,
        given: &StepInputs<'_>,
        rate: &Bound<'_, PyAny>,
        (tensors, places): (&[Bound<'_, PyAny>], &[usize]),
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let mut sir = (*self.sir).clone();
        let mut examples: Vec<Obj> = tensors.iter().map(|it| Obj::from(it.clone())).collect();
        let symbols: Vec<SymbolId> = sir.tensor_inputs().collect();
        let mut states = Vec::new();
        for state in &given.states {
            states.push(state_input(&mut sir, &mut examples, state)?);
        }
        let rate = state_input(&mut sir, &mut examples, rate)?;
        let parameters: Vec<SymbolId> = places.iter().map(|at| symbols[*at]).collect();
        let arriving = |leaf: &SymbolId| {
            let mut all = self.step.arriving.iter();
            all.find(|(it, _)| it == leaf).map(|(_, made)| *made)
        };
        let gradients: Option<Vec<SymbolId>> = parameters.iter().map(arriving).collect();
        let gradients =
            gradients.ok_or_else(|| BackendError::Refused("a parameter has no gradient".into()))?;
        let list =
            |symbols: &[SymbolId]| Arg::List(symbols.iter().map(|it| Arg::Symbol(*it)).collect());
        let update = py
            .module("paddle_sot_rs._graph.step_recipes")?
            .getattr("update")?;
        let mut is_gradient = self.gradient.iter();
        if !self.step.stay {
            sir.outputs.retain(|_| is_gradient.next() == Some(&false));
        }
        if sir.outputs.is_empty() {
            // A program has a result.
            sir.outputs.extend(gradients.first());
        }
        sir.statements.push(Statement {
            callee: Callee::Api(Obj::from(update)),
            args: vec![
                Arg::Const(Obj::from(given.recipe.clone())),
                list(&parameters),
                list(&gradients),
                Arg::Symbol(rate),
                list(&states),
            ],
            kwargs: Vec::new(),
            output: Arg::Const(Obj::from(py.None().into_bound(py))),
            grad_enabled: false,
            copies: false,
            draws: false,
            computes_dims: false,
            alone: false,
            updates: parameters.iter().chain(&states).copied().collect(),
            loc: SourceLoc::default(),
        });
        let backend = &*self.chosen.backend;
        let session = backend::retrace(py, backend, &sir, &examples)?;
        let request = CompileRequest {
            sir: Arc::new(sir),
            session,
            example_inputs: examples,
            grad_enabled: false,
            least: 0,
        };
        backend.compile(py, request)
    }
}

/// The program of a step, or why there is none, which is counted.
pub(super) fn noted(
    py: Python<'_>,
    made: Result<Box<dyn CompiledGraph>, BackendError>,
    shared: &Weak<Shared>,
    location: &SourceLoc,
) -> PyResult<Result<Box<dyn CompiledGraph>, String>> {
    let graph = match made {
        Ok(graph) => Ok(graph),
        Err(err) => Err(err.reason(py)?),
    };
    if let (Err(why), Some(shared)) = (&graph, shared.upgrade()) {
        let why = format!("the optimizer's step is no part of the program: {why}");
        log::info!(target: "paddle_sot_rs.backend", "{location}: {why}");
        let reason = Break::new(BreakKind::GraphNotCompiled, why);
        lock(&shared.stats).note_fallback(location, &reason, 1);
    }
    Ok(graph)
}

/// One more input of a graph: a state of an optimizer, or its rate.
pub(super) fn state_input(
    sir: &mut StatementIr,
    examples: &mut Vec<Obj>,
    tensor: &Bound<'_, PyAny>,
) -> Result<SymbolId, BackendError> {
    let meta = tensor_meta(tensor)
        .ok_or_else(|| BackendError::Refused("a state of the optimizer is no tensor".into()))?;
    let symbol = SymbolId(sir.symbols.len() as u32);
    sir.symbols.push(SymbolKind::Tensor(meta));
    sir.inputs.push(symbol);
    examples.push(Obj::from(tensor.clone()));
    Ok(symbol)
}

/// The learning rate of the next step; `None` where that does more than update parameters.
pub(super) fn rate_of<'py>(optimizer: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = optimizer.py();
    let own = py.module("paddle_sot_rs._graph.whole_steps")?;
    let rate = own.call_method1(pyo3::intern!(py, "rate_of"), (optimizer,))?;
    Ok((!rate.is_none()).then_some(rate))
}

impl CompiledGraph for StepGraph {
    fn call(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> PyResult<Outputs> {
        let mut tensors: SmallVec<[Bound<'_, PyAny>; 16]> = inputs.into();
        let optimizer = tensors.remove(self.at);
        if self.step.stay && !abi::are_apart_from_gradients(&optimizer, &tensors)? {
            return Err(not_ready(py, &PyList::empty(py))?);
        }
        // What may raise comes before the update.
        let spent = abi::gone_through(py, self.spent.len())?;
        let outputs = match self.updated(py, &optimizer, &tensors)? {
            Some(outputs) => outputs,
            None => self.gradients.call(py, &tensors)?,
        };
        for (at, spent) in self.spent.iter().zip(&spent) {
            abi::spend(outputs[*at].bind(py), spent.bind(py))?;
        }
        Ok(outputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        self.gradients.program_text(py)
    }

    fn report(&self) -> Vec<String> {
        self.gradients.report()
    }

    fn fell_back(&self) -> Option<&str> {
        self.gradients.fell_back()
    }

    fn backend_name(&self) -> &str {
        self.gradients.backend_name()
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.gradients.traverse(visit);
        for program in lock(&self.programs).iter() {
            visit(&program.recipe);
            if let Ok(graph) = &program.graph {
                graph.traverse(visit);
            }
        }
    }
}
