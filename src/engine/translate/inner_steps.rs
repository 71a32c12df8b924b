//! [`InnerSteps`]: a graph that does steps of optimizers, and goes on to compute behind them.
//!
//! It is one program: forward, gradients, update in place, and what follows with the parameters
//! that the update has left. It runs where each step is what it was made for (see
//! `abi::step_inputs`), and no tensor that it takes lies in what it updates. Where that is not so
//! nothing has happened, and the function runs as it is; so does the first call, which makes the
//! states. Behind such a call it is looked up what the next one will find.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;

use crate::abi::{self, Before, StepInputs};
use crate::backend::{self, BackendError, CompileRequest, CompiledGraph};
use crate::frame::Modules;
use crate::graph::{Arg, Callee, Statement, StatementIr, SymbolId};
use crate::obj::Obj;
use crate::reason::{NoteOwnStep, SourceLoc};
use crate::simulator::deferred::inside::InnerStep;
use crate::sync::lock;

use super::choice::Configured;
use super::function::{Shared, Translated, in_turn};
use super::statistics::may_fail;
use super::step_graph::{noted, rate_of, state_input};

/// Most programs of one function: settings of optimizers differ.
const MOST: usize = 4;

/// Calls in a row that find a step otherwise: from then on the steps stay behind the graph.
const MOST_UNREADY: usize = 8;

/// The home of what is called here.
const HOME: &str = "paddle_sot_rs._graph.inner_steps";

/// Such a graph.
pub(super) struct InnerSteps {
    steps: Vec<InnerStep>,
    /// Where the optimizers stand among the inputs.
    at: usize,
    sir: Arc<StatementIr>,
    chosen: Arc<Configured>,
    /// Where the parameters that each step updates stand among the tensors.
    places: Vec<Vec<usize>>,
    /// The outputs that a backward has gone through.
    spent: Vec<usize>,
    programs: Mutex<Vec<Arc<Program>>>,
    /// How many calls in a row have found a step otherwise.
    unready: AtomicUsize,
    /// Whose statistics count what it does, and where it is.
    shared: Weak<Shared>,
    note: NoteOwnStep,
    location: SourceLoc,
}

/// What one was built for, and the program.
struct Program {
    recipes: Vec<Py<PyAny>>,
    /// The places of the parameters of each step, in the optimizer's order.
    order: Vec<Vec<usize>>,
    /// `Err`: why there is none.
    graph: Result<Box<dyn CompiledGraph>, String>,
    /// Whether a run has come to its end. What never fails because of numbers may do so in the
    /// first one: Paddle infers dims of some results that a kernel refuses.
    ran: AtomicBool,
}

/// Outputs, one for each of the graph's.
type Outputs = SmallVec<[Py<PyAny>; 4]>;

/// The steps of a call that found one of them otherwise, for `inner_steps.ran`.
pub(super) struct Unready(Py<PyAny>);

/// Whether an error says that a step is not what it was; the steps then.
pub(super) fn unready(py: Python<'_>, err: &PyErr) -> PyResult<Option<Unready>> {
    let class = py.module(HOME)?.getattr("NotReadyError")?;
    if !err.is_instance(py, &class) {
        return Ok(None);
    }
    let steps = err.value(py).getattr("steps")?;
    Ok(Some(Unready(steps.unbind())))
}

/// Such an error.
pub(super) fn not_ready(py: Python<'_>, steps: &Bound<'_, PyList>) -> PyResult<PyErr> {
    let class = py.module(HOME)?.getattr("NotReadyError")?;
    Ok(PyErr::from_value(class.call1((steps,))?))
}

impl InnerSteps {
    /// The optimizers are the inputs from `at` on.
    pub(super) fn new(
        of: &Translated,
        (steps, at): (Vec<InnerStep>, usize),
        sir: Arc<StatementIr>,
        chosen: &Arc<Configured>,
    ) -> Self {
        let symbols: Vec<SymbolId> = sir.tensor_inputs().collect();
        let place = |input: SymbolId| symbols.iter().position(|symbol| *symbol == input);
        let places = steps.iter().map(|step| {
            let renewed = step.renewed.iter();
            renewed.filter_map(|it| place(it.input)).collect()
        });
        let is_spent = |id| sir.has_gradient(id) && !sir.inputs.contains(&id);
        let outputs = sir.outputs.iter().enumerate();
        let spent = outputs.filter(|(_, id)| is_spent(**id));
        Self {
            at,
            places: places.collect(),
            spent: spent.map(|(at, _)| at).collect(),
            steps,
            sir,
            chosen: Arc::clone(chosen),
            programs: Mutex::default(),
            unready: AtomicUsize::new(0),
            shared: Arc::downgrade(&of.shared),
            note: Shared::note_own_step(&of.shared),
            location: of.location().clone(),
        }
    }

    /// Whether a graph may do steps of optimizers: what is computed behind the first of them never
    /// fails, since the function cannot run from its beginning then.
    pub(super) fn may_hold(py: Python<'_>, steps: &[InnerStep], sir: &StatementIr) -> bool {
        let Some(first) = steps.first() else {
            return true;
        };
        let behind = sir.statements.iter().enumerate().skip(first.statement);
        let is_step = |at: usize| steps.iter().any(|step| step.statement == at);
        behind
            .filter(|(at, it)| !is_step(*at) && !it.callee.makes_gradients(py))
            .all(|(_, it)| !may_fail(py, sir, it))
    }

    /// The function has run as it is, and has done all steps.
    pub(super) fn ran(&self, py: Python<'_>, steps: &Unready) -> PyResult<()> {
        let home = py.module(HOME)?;
        home.call_method1("ran", (self.note.clone(), &steps.0))?;
        Ok(())
    }

    /// Whether the steps are not worth to be part of the graph.
    pub(super) fn is_given_up(&self) -> bool {
        let failed = lock(&self.programs).iter().any(|it| it.graph.is_err());
        failed || self.unready.load(Ordering::Relaxed) >= MOST_UNREADY
    }

    /// The error of a call that finds a step otherwise.
    fn not_ready(
        &self,
        py: Python<'_>,
        optimizers: &[Bound<'_, PyAny>],
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<PyErr> {
        self.unready.fetch_add(1, Ordering::Relaxed);
        let mut all = Vec::new();
        for ((step, places), optimizer) in self.steps.iter().zip(&self.places).zip(optimizers) {
            let updated = PyList::new(py, places.iter().map(|at| &tensors[*at]))?;
            all.push((optimizer, updated, step.zeros));
        }
        not_ready(py, &PyList::new(py, all)?)
    }

    /// What the steps take; `None` where one of them is otherwise.
    fn given<'py>(
        &self,
        optimizers: &[Bound<'py, PyAny>],
        tensors: &[Bound<'py, PyAny>],
    ) -> PyResult<Option<Given<'py>>> {
        let mut found = Given::default();
        for ((step, places), optimizer) in self.steps.iter().zip(&self.places).zip(optimizers) {
            let before = match step.zeros {
                true => Before::Zeros,
                false => Before::Nothing,
            };
            let Some(given) = abi::step_inputs(optimizer, before)? else {
                return Ok(None);
            };
            let place = |parameter: &Bound<'_, PyAny>| {
                let mut places = places.iter().copied();
                places.find(|at| tensors[*at].is(parameter))
            };
            let order: Option<Vec<usize>> = given.parameters.iter().map(place).collect();
            match order {
                Some(order) if order.len() == places.len() => found.order.push(order),
                _ => return Ok(None),
            }
            found.steps.push(given);
        }
        // What a step sets is read in the program: it may be set once more.
        for optimizer in optimizers {
            match rate_of(optimizer)? {
                Some(rate) => found.rates.push(rate),
                None => return Ok(None),
            }
        }
        Ok(self.is_apart(&found, tensors).then_some(found))
    }

    /// Whether no tensor that the graph takes lies in what it updates.
    fn is_apart(&self, given: &Given<'_>, tensors: &[Bound<'_, PyAny>]) -> bool {
        let is_updated = |at: &usize| given.order.iter().any(|order| order.contains(at));
        let read = (0..tensors.len()).filter(|at| !is_updated(at));
        let read = read.map(|at| &tensors[at]).chain(&given.rates);
        abi::are_updated_apart(given.updated(tensors), read)
    }

    fn program(
        &self,
        py: Python<'_>,
        given: &Given<'_>,
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<Arc<Program>>> {
        if let Some(known) = self.known(py, given)? {
            return Ok(Some(known));
        }
        if lock(&self.programs).len() >= MOST {
            return Ok(None);
        }
        in_turn(py, || {
            // Another thread may have made it meanwhile.
            if let Some(known) = self.known(py, given)? {
                return Ok(Some(known));
            }
            let made = self.compile(py, given, tensors);
            let recipes = given.steps.iter().map(|it| it.recipe.clone().unbind());
            let program = Arc::new(Program {
                recipes: recipes.collect(),
                order: given.order.clone(),
                graph: noted(py, made, &self.shared, &self.location)?,
                ran: AtomicBool::new(false),
            });
            lock(&self.programs).push(Arc::clone(&program));
            Ok(Some(program))
        })
    }

    /// The program that there is for it.
    fn known(&self, py: Python<'_>, given: &Given<'_>) -> PyResult<Option<Arc<Program>>> {
        let programs = lock(&self.programs).clone();
        for program in &programs {
            let mut fits = program.order == given.order;
            for (known, step) in program.recipes.iter().zip(&given.steps) {
                let known = known.bind(py);
                fits = fits && (known.is(&step.recipe) || known.eq(&step.recipe)?);
            }
            if fits {
                return Ok(Some(Arc::clone(program)));
            }
        }
        Ok(None)
    }

    fn compile(
        &self,
        py: Python<'_>,
        given: &Given<'_>,
        tensors: &[Bound<'_, PyAny>],
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let mut sir = (*self.sir).clone();
        let mut examples: Vec<Obj> = tensors.iter().map(|it| Obj::from(it.clone())).collect();
        let symbols: Vec<SymbolId> = sir.tensor_inputs().collect();
        let renew = py.module(HOME)?.getattr("renew")?;
        let list =
            |symbols: Vec<SymbolId>| Arg::List(symbols.into_iter().map(Arg::Symbol).collect());
        // As `inputs` of a run has them.
        let mut taken = Vec::new();
        for step in &given.steps {
            let mut states = Vec::new();
            for state in &step.states {
                states.push(state_input(&mut sir, &mut examples, state)?);
            }
            taken.push(states);
        }
        let mut rates = Vec::new();
        for rate in &given.rates {
            rates.push(state_input(&mut sir, &mut examples, rate)?);
        }
        let all = self.steps.iter().zip(&given.steps).zip(&given.order);
        for (((step, given), order), (states, rate)) in all.zip(taken.into_iter().zip(rates)) {
            let renewed = order.iter().map(|at| {
                let mut all = step.renewed.iter();
                all.find(|it| it.input == symbols[*at]).copied()
            });
            let renewed = renewed
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| BackendError::Refused("a parameter has no gradient".into()))?;
            let before: Vec<SymbolId> = renewed.iter().map(|it| it.before).collect();
            let Some(statement) = sir.statements.get_mut(step.statement) else {
                return Err(BackendError::Refused("a step has no statement".into()));
            };
            *statement = Statement {
                callee: Callee::Api(Obj::from(renew.clone())),
                args: vec![
                    Arg::Const(Obj::from(given.recipe.clone())),
                    list(before.clone()),
                    list(renewed.iter().map(|it| it.gradient).collect()),
                    Arg::Symbol(rate),
                    list(states.clone()),
                ],
                kwargs: Vec::new(),
                output: list(renewed.iter().map(|it| it.after).collect()),
                updates: before.into_iter().chain(states).collect(),
                ..statement.clone()
            };
        }
        // What only stands for a result.
        for output in &mut sir.outputs {
            let mut all = self.steps.iter().flat_map(|step| &step.renewed);
            if let Some(renewed) = all.find(|it| it.after == *output) {
                *output = renewed.gradient;
            }
        }
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

    /// A run of the program; `None` where a step is not what it was made for.
    fn run(
        &self,
        py: Python<'_>,
        optimizers: &[Bound<'_, PyAny>],
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<Outputs>> {
        let Some(given) = self.given(optimizers, tensors)? else {
            return Ok(None);
        };
        let Some(program) = self.program(py, &given, tensors)? else {
            return Ok(None);
        };
        let Ok(graph) = &program.graph else {
            return Ok(None);
        };
        let kept = match program.ran.load(Ordering::Relaxed) {
            true => None,
            false => {
                let updated: Vec<_> = given.updated(tensors).collect();
                Some(py.module(HOME)?.call_method1("kept", (updated,))?)
            }
        };
        let mut inputs: SmallVec<[Bound<'_, PyAny>; 16]> = tensors.into();
        inputs.extend(given.steps.into_iter().flat_map(|step| step.states));
        inputs.extend(given.rates);
        let outputs = match graph.call(py, &inputs) {
            Ok(outputs) => outputs,
            Err(err) => {
                if let Some(kept) = kept {
                    py.module(HOME)?.call_method1("restore", (kept,))?;
                }
                return Err(err);
            }
        };
        program.ran.store(true, Ordering::Relaxed);
        self.unready.store(0, Ordering::Relaxed);
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.stats).whole_steps += 1;
        }
        Ok(Some(outputs))
    }
}

/// What the steps of a call take.
#[derive(Default)]
struct Given<'py> {
    steps: Vec<StepInputs<'py>>,
    /// Where their parameters stand among the tensors.
    order: Vec<Vec<usize>>,
    rates: Vec<Bound<'py, PyAny>>,
}

impl<'py> Given<'py> {
    /// What the steps update, of the tensors and of the states.
    fn updated<'a>(
        &'a self,
        tensors: &'a [Bound<'py, PyAny>],
    ) -> impl Iterator<Item = &'a Bound<'py, PyAny>> {
        let parameters = self.order.iter().flatten().map(|at| &tensors[*at]);
        parameters.chain(self.steps.iter().flat_map(|step| &step.states))
    }
}

/// The graph that does the steps: the translation and the graph share them.
pub(super) struct GraphOfSteps(pub(super) Arc<InnerSteps>);

impl CompiledGraph for GraphOfSteps {
    fn call(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> PyResult<Outputs> {
        let steps = &*self.0;
        let mut tensors: SmallVec<[Bound<'_, PyAny>; 16]> = inputs.into();
        let end = steps.at + steps.steps.len();
        let optimizers: SmallVec<[Bound<'_, PyAny>; 4]> = tensors.drain(steps.at..end).collect();
        // What may raise comes before the updates.
        let spent = abi::gone_through(py, steps.spent.len())?;
        let Some(outputs) = steps.run(py, &optimizers, &tensors)? else {
            return Err(steps.not_ready(py, &optimizers, &tensors)?);
        };
        for (at, spent) in steps.spent.iter().zip(&spent) {
            abi::spend(outputs[*at].bind(py), spent.bind(py))?;
        }
        Ok(outputs)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        for program in lock(&self.0.programs).iter() {
            if let Ok(graph) = &program.graph {
                return graph.program_text(py);
            }
        }
        Ok("the program is built when the optimizers have their states".to_owned())
    }

    fn backend_name(&self) -> &str {
        self.0.chosen.backend.name()
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        for program in lock(&self.0.programs).iter() {
            program.recipes.iter().for_each(&mut *visit);
            if let Ok(graph) = &program.graph {
                graph.traverse(visit);
            }
        }
    }
}
