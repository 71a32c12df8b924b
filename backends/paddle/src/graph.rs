//! [`PaddleGraph`]: a compiled program.

use std::sync::Arc;

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::{StatementIr, SymbolId};
use paddle_sot_backend::{BackendError, CompileRequest, CompiledGraph, DEFAULT};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use crate::answer::Answer;
use crate::bridge;
use crate::call_by_call;
use crate::double_backward::{Shared, Told, hook};
use crate::edge_pruning::{Cuts, Given};
use crate::flags::keeping;
use crate::foreign;
use crate::leaves;
use crate::onednn;
use crate::parts::Role;
use crate::results::{with_own_name, with_own_version};
use crate::runtime::executor_lock;
use crate::runtime::executors::{NEVER, collecting, evict, keep_address, looping, restore_flag};
use crate::runtime::garbage::{OpenSizes, backward_threshold, is_small};
use crate::scopes::take_turn;
use crate::steady::{Look, Steady};
use crate::trace::PaddleTrace;
use crate::versions::{ResultNumbers, ResultState};

/// A program, ready to run.
pub struct PaddleGraph {
    run_program: Py<PyAny>,
    attributes: Py<PyAny>,
    cuda_graph: Py<PyAny>,
    new_scope: Py<PyAny>,
    program: Py<PyAny>,
    /// Positions of the tensors the program takes among the inputs it is given.
    used: Vec<usize>,
    /// What is made of weights alone, passed after the inputs.
    steady: Option<Steady>,
    /// Constants of the program, passed after those.
    constants: Vec<Py<PyAny>>,
    /// Inputs that want a gradient but get none: they go in detached, so that theirs stays `None`.
    without: Vec<usize>,
    /// Inputs, among all, that get their gradients from operators.
    by_operators: Vec<usize>,
    /// Outputs through which no gradient flows although the program trains: they leave as leaves.
    stopped: Vec<usize>,
    trains: bool,
    /// Whether autograd may be on while it runs; it computes its gradients itself otherwise.
    grad_enabled: bool,
    /// Outputs that gradients flow through.
    training: Vec<usize>,
    /// Outputs whose numbers the backward part reads.
    read_outputs: Vec<usize>,
    /// Those that control flow is computed again from or hands on, and whether every change of them
    /// matters.
    outputs_again: Vec<(usize, bool)>,
    /// The gates around the program, where outputs depend on different inputs.
    gates: Option<Py<PyAny>>,
    /// The inputs behind them, among those that are used.
    gated: Vec<usize>,
    shared: Arc<Shared>,
    /// Whether there are loops in it.
    has_loops: bool,
    /// Of what it makes, where dims are open.
    open_sizes: Option<OpenSizes>,
    in_place: bool,
    /// What decides which inputs are reached, where captured control flow does.
    cuts: Option<Cuts>,
    /// Whether the backward reads from the output in front of the one that says so where gradients
    /// have arrived.
    has_signal: bool,
    /// Inputs that may need no gradient after all, among those that are used.
    uncertain: Vec<usize>,
}

impl PaddleGraph {
    /// Splits and prepares the traced program.
    pub fn compile(
        py: Python<'_>,
        sir: Arc<StatementIr>,
        session: Box<PaddleTrace>,
        (grad_enabled, role): (bool, Role),
        lowering: Option<&Bound<'_, PyAny>>,
        weights: &[usize],
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let programs = bridge::module(py, "programs")?;
        evict(py)?;
        let mut used = Vec::new();
        let mut inputs = Vec::new();
        for (position, symbol) in sir.tensor_inputs().enumerate() {
            let value = session.value(py, symbol)?;
            // An input that no operation uses has no gradient, as in eager mode.
            let is_output = sir.outputs.contains(&symbol);
            if is_output || !value.call_method0("use_empty")?.is_truthy()? {
                used.push(position);
                inputs.push(value);
            }
        }
        let outputs = sir
            .outputs
            .iter()
            .map(|symbol| session.value(py, *symbol))
            .collect::<Result<Vec<_>, _>>()?;
        let trace = session.trace.bind(py);
        let is_uncertain = |at: &usize| role.uncertain.contains(&used[*at]);
        let uncertain: Vec<usize> = (0..used.len()).filter(is_uncertain).collect();
        let is_weight = |at: &usize| weights.contains(&used[*at]);
        let weights: Vec<usize> = (0..used.len()).filter(is_weight).collect();
        let role = (role.is_part, role.together, uncertain.clone(), weights);
        let answer = programs.getattr("compile_graph")?.call1((
            trace,
            PyList::new(py, inputs)?,
            PyList::new(py, outputs)?,
            grad_enabled,
            lowering,
            programs.getattr("Role")?.call1(role)?,
        ));
        let answer = match answer {
            Err(err) if err.is_instance(py, &programs.getattr("CallByCall")?) => {
                return call_by_call(py, same(sir, session));
            }
            answer => answer?,
        };
        let answer: Answer = answer.extract()?;
        let gated = match &answer.gates {
            Some(gates) => gates.bind(py).getattr("inputs")?.extract()?,
            None => Vec::new(),
        };
        let by_operators: Vec<usize> = answer.by_operators.iter().map(|at| used[*at]).collect();
        // Paddle describes what a leaf without numbers gets from a program anew, behind all hooks.
        let is_empty = |at: &usize| {
            sir.meta(sir.inputs[*at])
                .is_some_and(|it| it.shape.contains(&0))
        };
        if by_operators.iter().any(is_empty) {
            return call_by_call(py, same(sir, session));
        }
        let read = answer.read.iter().map(|at| used[*at]).collect();
        let computed_from = answer.computed_from.iter();
        let computed_from = computed_from.map(|(at, ever)| (used[*at], *ever)).collect();
        let stops = |symbol: &SymbolId| sir.meta(*symbol).is_some_and(|meta| meta.stop_gradient);
        let stopped = (0..sir.outputs.len())
            .filter(|at| answer.trains && stops(&sir.outputs[*at]))
            .collect();
        let is_small =
            !answer.has_loops && !sir.has_regions() && is_small(answer.memory, answer.trains);
        let saves = answer.saves_in_variables() && !sir.has_regions();
        let threshold = backward_threshold(&sir);
        let open_sizes = OpenSizes::new(&sir);
        Ok(Box::new(Self {
            has_loops: answer.has_loops,
            open_sizes,
            in_place: answer.in_place,
            cuts: answer
                .decided
                .map(|decided| Cuts::new(decided, gated.clone())),
            has_signal: answer.has_signal,
            uncertain,
            run_program: py
                .module("paddle_sot_rs._paddle.foreign_programs")?
                .getattr("run_program")?
                .unbind(),
            attributes: answer.attributes,
            cuda_graph: programs.getattr("CUDA_GRAPH")?.unbind(),
            new_scope: py
                .module("paddle.base")?
                .getattr("core")?
                .getattr("Scope")?
                .unbind(),
            program: answer.program,
            used,
            steady: answer.steady.map(Steady::new),
            constants: answer.constants,
            without: answer.without,
            by_operators,
            stopped,
            trains: answer.trains,
            grad_enabled,
            training: answer.training,
            read_outputs: answer.read_outputs,
            outputs_again: answer.outputs_again,
            gates: answer.gates,
            gated,
            shared: Arc::new(Shared {
                scopes: Arc::default(),
                names: answer.needed,
                results: answer.results,
                saves,
                spare: Arc::default(),
                read,
                computed_from,
                replay: call_by_call(py, same(sir, session))?,
                is_random: answer.is_random,
                is_small,
                threshold,
            }),
        }))
    }

    /// Whether a tensor that was computed before may get no gradient. Gates can withhold one from
    /// leaves only: operations take no absent gradients, and with zeros those in front of them
    /// would reach leaves.
    fn may_owe_nothing(&self, inputs: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        for &at in &self.gated {
            let tensor = &inputs[self.used[at]];
            let is_leaf = pyo3::intern!(tensor.py(), "is_leaf");
            if !tensor.getattr(is_leaf)?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn same(sir: Arc<StatementIr>, session: Box<PaddleTrace>) -> CompileRequest {
    CompileRequest {
        sir,
        session,
        example_inputs: Vec::new(),
        grad_enabled: true,
        least: 0,
    }
}

impl PaddleGraph {
    /// One run. `known`: what a look at the weights has found.
    fn run(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
        known: Option<Look>,
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        if self.may_owe_nothing(inputs)? {
            return self.shared.replay.call(py, inputs);
        }
        restore_flag(py)?;
        let Some(mut scope) = self
            .shared
            .take_scope(py, &self.new_scope, self.steady.is_some())?
        else {
            return self.shared.replay.call(py, inputs);
        };
        let mut tensors: SmallVec<[Bound<'_, PyAny>; 16]> =
            self.used.iter().map(|&at| inputs[at].clone()).collect();
        for &at in &self.by_operators {
            leaves::describe(&inputs[at])?;
        }
        for &at in &self.without {
            tensors[at] = abi::detached(&tensors[at])?;
        }
        let mut stops: SmallVec<[usize; 4]> = SmallVec::new();
        for &at in &self.uncertain {
            let stop_gradient = tensors[at].getattr(pyo3::intern!(py, "stop_gradient"))?;
            if stop_gradient.is_truthy()? {
                stops.push(at);
            }
        }
        let mut arrived = None;
        if let Some(gates) = &self.gates {
            let list = PyList::new(py, &tensors)?;
            let noted = gates.bind(py).call_method1("enter", (&list,))?;
            arrived = Some(noted.cast_into::<PyList>()?);
            tensors = list.iter().collect();
        }
        let mut steady = match &self.steady {
            Some(steady) => Some((steady, known.map_or_else(|| steady.look(py, &tensors), Ok)?)),
            None => None,
        };
        let is_ready =
            || (steady.as_ref()).is_none_or(|(it, look)| it.may_run_beside(look, &scope.ready));
        let Some((turn, makes)) = take_turn(py, &scope, is_ready) else {
            executor_lock::warn_of_others("a graph runs call by call");
            self.shared.give_back(scope);
            return self.shared.replay.call(py, inputs);
        };
        if let Some((steady, look)) = &steady {
            match steady.tensors(py, &tensors, look, &mut scope.ready) {
                Ok(made) => tensors.extend(made),
                Err(err) => {
                    self.shared.give_back(scope);
                    return Err(err);
                }
            }
        }
        tensors.extend(self.constants.iter().map(|value| value.bind(py).clone()));
        let given = tensors;
        let list = if given.is_empty() {
            py.None().into_bound(py)
        } else {
            PyList::new(py, &given)?.into_any()
        };
        let records = abi::records_gradients(py);
        scope.begin(py, !records || !self.grad_enabled, &self.shared)?;
        let draws = self.trains && self.shared.is_random;
        let random_state = draws
            .then(|| bridge::module(py, "gradients.double_backward")?.call_method0("random_state"));
        let random_state = random_state.transpose()?.map(Bound::unbind);
        let none = py.None();
        let run = || {
            let given = [
                &list,
                none.bind(py),
                scope.list.bind(py),
                self.attributes.bind(py),
                self.cuda_graph.bind(py),
            ];
            foreign::caught(self.run_program.bind(py), &PyTuple::new(py, given)?)
        };
        let run = || match records && !self.grad_enabled {
            true => match abi::tracer(py)? {
                Some(tracer) => abi::without_gradients(&tracer, run),
                None => run(),
            },
            false => run(),
        };
        let run = || match (makes, &self.open_sizes) {
            (true, _) if self.shared.is_small => collecting(py, NEVER, run),
            _ if self.has_loops => looping(py, run),
            (true, Some(sizes)) => collecting(py, sizes.threshold(inputs), run),
            (true, None) | (false, _) => run(),
        };
        let outputs = match makes {
            true if self.in_place => onednn::without(py, run),
            true => onednn::without(py, || keeping(py, run)),
            false => run(),
        };
        let made = steady.as_ref().filter(|_| makes);
        let noted = made.map_or(Ok(()), |(it, _)| it.note_executor(py, &scope.scope));
        let outputs = outputs.and_then(|outputs| noted.map(|()| outputs));
        if outputs.is_err() {
            keep_address(scope.scope.clone_ref(py));
        }
        let outputs = outputs?;
        let variables = self
            .trains
            .then(|| (scope.scope.clone_ref(py), Arc::clone(&scope.backward)));
        self.shared.give_back(scope);
        if let Some(look) = steady.as_mut().and_then(|(_, look)| look.differs(py)) {
            drop(turn);
            return self.run(py, inputs, Some(look));
        }
        let mut outputs: SmallVec<[Bound<'_, PyAny>; 4]> = outputs
            .cast::<PyList>()
            .map_err(PyErr::from)?
            .iter()
            .collect();
        // Those of the outputs that gradients could flow through, but for the way that was taken.
        let mut dead = SmallVec::new();
        let has_flags = self.cuts.as_ref().is_some_and(|cuts| cuts.has_flags);
        let flags = has_flags.then(|| outputs.pop()).flatten();
        // Without the node of the program, which would keep itself alive through its hooks.
        let signal = self.has_signal.then(|| outputs.pop()).flatten();
        let detached = signal.map(|signal| abi::detached(&signal));
        let signal = detached.transpose()?;
        if let Some(cuts) = &self.cuts {
            let gates = self
                .gates
                .as_ref()
                .map(|gates| gates.bind(py))
                .zip(arrived.as_ref());
            if let Some(&at) = self.training.first() {
                let given = Given {
                    tensors: &given,
                    stops: &stops,
                    gates,
                };
                dead = cuts.apply(flags.as_ref(), &given, &outputs[at])?;
            }
        }
        let mut ran = None;
        if let Some(variables) = variables {
            let training = self.training.iter().copied().enumerate();
            let training: SmallVec<[(usize, usize); 4]> = training
                .filter(|(number, _)| !dead.contains(number))
                .collect();
            let told = Told {
                training: &training,
                signal: signal.map(|signal| (signal, self.training.len())),
                gates: arrived.as_ref(),
                random_state,
            };
            let run = hook(py, &self.shared, variables, inputs, &outputs, &told)?;
            run.get().leave_with_others(py)?;
            ran = Some(run);
        }
        // Until now nothing told that it waits for its backward.
        drop(turn);
        let made = |(at, output): (usize, Bound<'_, PyAny>)| {
            let is_dead = dead.iter().any(|number| self.training[*number] == at);
            let stops = is_dead || self.stopped.contains(&at);
            if self.trains && !stops {
                // While a gradient can flow through an output, nothing else runs in its scope.
                return with_own_name(output);
            }
            if stops {
                output.call_method0(pyo3::intern!(py, "detach_"))?;
            } else if abi::has_fresh_version(&output) {
                return with_own_name(output);
            }
            with_own_version(&output)
        };
        let outputs: SmallVec<[Py<PyAny>; 4]> = outputs
            .into_iter()
            .enumerate()
            .map(made)
            .collect::<PyResult<_>>()?;
        let reads = !self.read_outputs.is_empty() || !self.outputs_again.is_empty();
        if let Some(run) = ran.filter(|_| reads) {
            let version = |&at: &usize| Ok((at, ResultState::of(outputs[at].bind(py))?));
            let numbers =
                |&(at, ever): &(usize, bool)| ResultNumbers::of(outputs[at].bind(py), ever);
            let versions = self.read_outputs.iter().map(version);
            let numbers = self.outputs_again.iter().map(numbers);
            run.get().keep(
                versions.collect::<PyResult<_>>()?,
                numbers.collect::<PyResult<_>>()?,
            );
        }
        Ok(outputs)
    }
}

impl CompiledGraph for PaddleGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        self.run(py, inputs, None)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.program.bind(py).str()?.to_string())
    }

    fn backend_name(&self) -> &str {
        if self.trains {
            "paddle (forward and backward)"
        } else {
            DEFAULT
        }
    }

    fn for_alike(
        &self,
        py: Python<'_>,
        sir: &Arc<StatementIr>,
    ) -> Result<Option<Box<dyn CompiledGraph>>, BackendError> {
        let is_plain = self.steady.is_none() && self.gates.is_none() && self.cuts.is_none();
        if !is_plain {
            return Ok(None);
        }
        let shared = &self.shared;
        let session = Box::new(PaddleTrace::new(py, None)?);
        Ok(Some(Box::new(Self {
            open_sizes: self.open_sizes.clone(),
            run_program: self.run_program.clone_ref(py),
            attributes: self.attributes.clone_ref(py),
            cuda_graph: self.cuda_graph.clone_ref(py),
            new_scope: self.new_scope.clone_ref(py),
            program: self.program.clone_ref(py),
            used: self.used.clone(),
            steady: None,
            constants: (self.constants.iter().map(|it| it.clone_ref(py))).collect(),
            without: self.without.clone(),
            by_operators: self.by_operators.clone(),
            stopped: self.stopped.clone(),
            training: self.training.clone(),
            read_outputs: self.read_outputs.clone(),
            outputs_again: self.outputs_again.clone(),
            gates: None,
            gated: self.gated.clone(),
            shared: Arc::new(Shared {
                scopes: Arc::clone(&shared.scopes),
                names: shared.names.clone(),
                results: shared.results.clone(),
                spare: Arc::clone(&shared.spare),
                read: shared.read.clone(),
                computed_from: shared.computed_from.clone(),
                // Its layers are its own.
                replay: call_by_call(py, same(Arc::clone(sir), session))?,
                ..**shared
            }),
            cuts: None,
            uncertain: self.uncertain.clone(),
            ..*self
        })))
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.attributes);
        visit(&self.program);
        self.steady.iter().for_each(|it| it.traverse(visit));
        self.gates.iter().for_each(visit);
    }
}
