//! What was traced becomes an [`Entry`]: a graph, generated code and a guard.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::abi::GlobalState;
use crate::backend::{self, CompileRequest, CompiledGraph};
use crate::codegen::{Emission, Plan};
use crate::frame::{CodeState, Policy};
use crate::graph::{Callee, StatementIr, SymbolId, SymbolKind};
use crate::guard::{CompiledGuard, GuardCompiler, GuardSet, NativeGuardCompiler};
use crate::obj::Obj;
use crate::reason::{Break, Phase, SourceLoc, timed};
use crate::simulator::LoopPlaces;
use crate::simulator::deferred::inside::InnerStep;
use crate::simulator::deferred::joined::WholeStep;
use crate::simulator::function_graph::{self, GraphInput};
use crate::simulator::replay_reads::Outside;
use crate::sync::lock;
use crate::tracker::{Place, TrackerRef};

use super::automatic_dynamic;
use super::backward_guard::BackwardGuard;
use super::choice::Configured;
use super::function::tiered::{self, Tiered};
use super::function::{BY_CALLS, Entry, Gains, GraphInfo, Made, Translated, gains};
use super::graph_inputs::GraphInputs;
use super::in_front::{self, InFront};
use super::inner_steps::{GraphOfSteps, InnerSteps};
use super::random::Randomness;
use super::record::{self, Counters, Node};
use super::resumes::log_code;
use super::statistics::Statistics;
use super::step_graph::StepGraph;

/// Steps of optimizers that the graph does itself.
pub(super) enum Steps {
    /// A backward is part of the graph, see [`StepGraph`], and the step that follows may be.
    Last(WholeStep),
    /// These are part of it, and it goes on behind them.
    Inner(Vec<InnerStep>),
}

/// Parts of a translation that succeeded.
pub(super) struct Traced {
    /// What is done in front of the graph.
    pub(super) in_front: function_graph::InFront,
    pub(super) emission: Emission,
    pub(super) sir: StatementIr,
    pub(super) inputs: Vec<GraphInput>,
    pub(super) session: Box<dyn crate::backend::TraceSession>,
    pub(super) guards: GuardSet,
    pub(super) reason: Option<Break>,
    /// Whether the reason was reported when the frame was inlined.
    pub(super) reported: bool,
    pub(super) listens: bool,
    /// Gradients are taken in the middle: `run_program` frees what a second backward needs.
    pub(super) by_calls: bool,
    /// What is more than computing.
    pub(super) steps: Option<Steps>,
    /// Calls of Python functions that were followed.
    pub(super) inlined: usize,
    /// Loops over numbers of the graph that have been captured.
    pub(super) captured_loops: LoopPlaces,
    /// What code that runs again for gradients reads outside of the frame, and where.
    pub(super) outside: Option<(Outside, Vec<SourceLoc>)>,
}

/// Compiles the graph and the guard.
pub(super) fn finish(
    py: Python<'_>,
    of: &Translated,
    backend: &Arc<Configured>,
    traced: Traced,
    state: &GlobalState,
    asks: bool,
) -> Result<Entry, Break> {
    let Traced {
        in_front: before,
        emission,
        mut sir,
        inputs,
        session,
        guards,
        reason,
        listens,
        by_calls,
        steps,
        inlined,
        outside,
        ..
    } = traced;
    sir.outputs = emission.outputs.clone();
    sir.run_alone(&emission.alone);
    let statements = sir.statements.len();
    if sir.outputs.is_empty() {
        // Statements with effects (running statistics, random state) must run all the same.
        sir.outputs.extend(
            sir.statements
                .last()
                .and_then(|last| last.output.first_symbol()),
        );
    }
    let (layers, mut tensors): (Vec<&GraphInput>, Vec<&GraphInput>) = inputs
        .iter()
        .partition(|input| is_layer(&sir, input.symbol));
    tensors.sort_by_key(|input| GraphInputs::is_made(&input.tracker));
    sir.inputs = layers
        .iter()
        .chain(&tensors)
        .map(|input| input.symbol)
        .collect();
    let mut slots: Vec<TrackerRef> = Vec::new();
    let mut graph = None;
    let mut later = None;
    let mut inner_steps = None;
    let does_steps = steps.is_some();
    let of_calls = gains::of_calls(inlined, guards.len());
    let mut gain = backend.counts_gains().then_some(of_calls);
    let mut graph_inputs = GraphInputs::default();
    let (ir, nodes) = (sir.to_string(), record::nodes(py, &sir));
    let randomness = match sir.has_regions() {
        true => Randomness::assumed(),
        false => Randomness::default(),
    };
    // Flags of tensors as they are when the graph runs.
    let flagged = || {
        let flags = before.flags.iter().filter_map(|(symbol, stops)| {
            let input = inputs.iter().find(|input| input.symbol == *symbol)?;
            Some((input.value.bind(py), *stops))
        });
        in_front::flag(flags)
    };
    let backward_guard = match outside {
        Some(outside) if state.grad_enabled => {
            let flags = flagged()?;
            let made = BackwardGuard::new(py, outside, &sir, state, &of.shared);
            flags.undo(py)?;
            let backward_guard = made?;
            backward_guard.is_needed().then(|| Arc::new(backward_guard))
        }
        _ => None,
    };
    let statistics = Statistics::of(py, &sir, &tensors);
    if statements > 0 {
        let mut taken: Vec<&TrackerRef> = tensors.iter().map(|input| &input.tracker).collect();
        let found = taken.iter().take_while(|it| !GraphInputs::is_made(it));
        let found = found.count();
        match &steps {
            Some(Steps::Last(step)) => taken.insert(found, &step.optimizer),
            Some(Steps::Inner(steps)) => {
                taken.splice(found..found, steps.iter().map(|step| &step.optimizer));
            }
            None => {}
        }
        for tracker in taken {
            graph_inputs.add(tracker, &mut slots);
        }
        let gradients = match &steps {
            Some(Steps::Last(step)) => Some(step.arriving.len()),
            Some(Steps::Inner(_)) => Some(0),
            None => None,
        };
        let has_numbers = tensors.iter().any(|it| GraphInputs::is_made(&it.tracker));
        let example_inputs = tensors.iter().map(|input| input.value.clone()).collect();
        let request = CompileRequest {
            sir: Arc::new(sir),
            session,
            example_inputs,
            grad_enabled: state.grad_enabled && gradients.is_none(),
            least: 0,
        };
        let sir = Arc::clone(&request.sir);
        let flags = flagged()?;
        let made = match &steps {
            // It is built when it is known what the steps are.
            Some(Steps::Inner(_)) => Ok(None),
            Some(Steps::Last(_)) | None => timed(Phase::Backend, || {
                let how = (by_calls, gradients, has_numbers);
                compile(py, of, backend, request, how, of_calls)
            })
            .map(Some),
        };
        flags.undo(py)?;
        let mut compiled = None;
        if let Some(made) = made? {
            (compiled, gain, later) = (Some(made.graph), made.gain, made.later);
        }
        let mut stats = lock(&of.shared.stats);
        stats.graphs += 1;
        stats.ops += statements as u64;
        if let Some(why) = compiled.as_ref().and_then(|compiled| compiled.fell_back()) {
            tiered::note_not_compiled(&mut stats, of.location(), why.to_owned());
        }
        drop(stats);
        graph = match (steps, compiled) {
            (Some(Steps::Last(step)), Some(compiled)) => {
                let made = StepGraph::new(of, (step, found), sir, (backend, compiled));
                Some(Box::new(made) as Box<dyn CompiledGraph>)
            }
            (Some(Steps::Inner(steps)), _) => {
                let made = Arc::new(InnerSteps::new(of, (steps, found), sir, backend));
                inner_steps = Some(Arc::clone(&made));
                Some(Box::new(GraphOfSteps(made)))
            }
            (_, compiled) => compiled,
        };
    }
    let in_front = InFront::new(py, &before, &inputs, &mut slots);
    graph_inputs.slots = slots.len();
    slots.extend(emission.slots);
    let values = automatic_dynamic::values(py, &guards).map(|(at, tracker, _)| (at, tracker));
    let values = values
        .chain(automatic_dynamic::containers(&guards))
        .map(|(at, tracker)| (at, Place::of(tracker)))
        .collect();
    let guard = NativeGuardCompiler.compile(py, &guards, &slots, state)?;
    log::debug!(target: "paddle_sot_rs.ir", "{ir}");
    log::debug!(target: "paddle_sot_rs.guards", "{}", guard.describe().join("\n"));
    let info = remember(
        py,
        of,
        (ir, nodes),
        (graph.as_deref(), later),
        guard.as_ref(),
        &emission.plan,
        backend.generation,
    )?;
    Ok(Entry {
        guard,
        plan: emission.plan,
        graph,
        randomness,
        statistics,
        backward_guard,
        graph_inputs,
        in_front,
        does_steps,
        inner_steps,
        listens,
        asks,
        backend: backend.clone(),
        values,
        general: false,
        gains: Gains::new(gain),
        info,
        reason,
        counters: Counters::default(),
    })
}

pub(super) fn is_layer(sir: &StatementIr, symbol: SymbolId) -> bool {
    matches!(sir.kind(symbol), SymbolKind::Layer(_))
}

/// What the entry and the exit of a custom operation cost in a program, in calls of operations.
const CUSTOM_OPERATION: i64 = 8;

/// What became of a graph.
struct Compiled {
    graph: Box<dyn CompiledGraph>,
    gain: Option<i64>,
    /// See [`GraphInfo::later`].
    later: Option<Arc<OnceLock<Made>>>,
}

/// Small graphs run call by call: a program costs more than it saves.
/// `gradients`: how many of the outputs are, where a backward is part of the graph; `has_numbers`:
/// whether numbers that differ between calls are among the inputs.
fn compile(
    py: Python<'_>,
    of: &Translated,
    chosen: &Arc<Configured>,
    mut request: CompileRequest,
    (by_calls, gradients, has_numbers): (bool, Option<usize>, bool),
    of_calls: i64,
) -> Result<Compiled, Break> {
    let sir = &request.sir;
    let cost = request.session.eager_cost(py, sir);
    let trains = request.grad_enabled && sir.outputs.iter().any(|id| sir.has_gradient(*id));
    request.least = match trains {
        true => chosen.min_training_size,
        false => chosen.min_graph_size,
    };
    let mut needed = request.least;
    if chosen.counts_gains() {
        needed += gains::of_results(sir.outputs.len().saturating_sub(gradients.unwrap_or(0)));
        if trains {
            needed += gains::of_operators(sir);
        }
    }
    let small = cost < needed && !sir.has_regions() && gradients.is_none();
    let counts = chosen.counts_gains() && !sir.has_control_flow();
    let eager = backend::get(BY_CALLS).ok();
    if (small || by_calls && !sir.has_control_flow()) && chosen.backend.name() != BY_CALLS {
        if let Some(eager) = &eager {
            return Ok(Compiled {
                graph: eager.backend.compile(py, request)?,
                gain: counts.then_some(of_calls),
                later: None,
            });
        }
    }
    let regions = sir.statements.iter();
    let regions = regions.filter(|it| matches!(it.callee, Callee::Sir(_)));
    let saved = cost as i64 - needed as i64;
    let gain = saved - CUSTOM_OPERATION * regions.count() as i64;
    let gain = counts.then_some(gain);
    // A graph of other sizes or numbers than before comes again, and is not what eager mode does
    // call by call. Control flow is traced once more for its gradients, with what it was given.
    let is_plain =
        gradients.is_none() && !has_numbers && !sir.has_open_dims() && !sir.has_regions();
    if is_plain && !of.shared.options.full_graph && tiered::waits(chosen) {
        if let Some(eager) = &eager {
            let tiered = Tiered::new(py, of, chosen, (&*eager.backend, request))?;
            return Ok(Compiled {
                later: Some(Arc::clone(&tiered.made)),
                graph: Box::new(tiered),
                gain,
            });
        }
    }
    Ok(Compiled {
        graph: chosen.backend.compile(py, request)?,
        gain,
        later: None,
    })
}

fn remember(
    py: Python<'_>,
    of: &Translated,
    (ir, nodes): (String, Vec<Node>),
    (graph, later): (Option<&dyn CompiledGraph>, Option<Arc<OnceLock<Made>>>),
    guard: &dyn CompiledGuard,
    plan: &Plan,
    generation: u64,
) -> Result<Option<Arc<GraphInfo>>, Break> {
    let code = match plan {
        Plan::Code(function) | Plan::Resume(function) => {
            Some(Obj::from(function.bind(py).getattr("__code__")?))
        }
        Plan::Direct(_) => None,
    };
    if let Some(code) = &code {
        let state = code.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
        CodeState::of(state)?.set_policies(Policy::Skip, Policy::Default);
        log_code(py, "generated code", code.bind(py))?;
    }
    let Some(graph) = graph else { return Ok(None) };
    let info = Arc::new(GraphInfo {
        ir,
        made: Made::of(py, graph)?,
        later,
        guards: guard.describe(),
        generation,
        code,
        nodes,
    });
    lock(&of.shared.graphs).push(info.clone());
    Ok(Some(info))
}
