//! The simulation of the frame of a call, from its code object on.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::abi::GlobalState;
use crate::bytecode::{Code, name_of_local};
use crate::obj::Obj;
use crate::reason::{Break, BreakId, BreakKind};
use crate::simulator::FrameState;
use crate::simulator::Survey;
use crate::simulator::deferred;
use crate::simulator::function_graph::FunctionGraph;
use crate::simulator::{
    Detours, Differing, OpcodeExecutor, Outcome, Simulation, Simulator, Stop, TraceOptions, Tracer,
};
use crate::sync::lock;
use crate::tracker::Tracker;
use crate::translate::automatic_dynamic::Varies;
use crate::translate::choice::Configured;
use crate::translate::function::{Shared, Translated};

/// Functions that see how many objects, references or bytes there are, or have the frames shown
/// from now on.
const WATCHERS: &[&str] = &[
    "get_objects",
    "get_referrers",
    "getallocatedblocks",
    "getrefcount",
    "getsizeof",
    "gettotalrefcount",
    "setprofile",
    "settrace",
];

/// The first of these names that is one of those.
pub(in crate::translate) fn watcher<T: AsRef<str>>(names: &[T]) -> Option<&str> {
    let mut names = names.iter().map(AsRef::as_ref);
    names.find(|name| WATCHERS.contains(name))
}

/// What tells how often a tensor was changed in place.
const VERSIONS: &[&str] = &["inplace_version", "_inplace_version"];

/// Translations of a frame that may resume inside of its callees: they depend on more than those
/// that leave the call to the interpreter, and a loop over layers would soon reach the limit of
/// translations.
const MOST_INSIDE: usize = 8;

/// A simulated frame.
pub(in crate::translate) struct Simulated<'py> {
    pub(in crate::translate) tracer: Tracer<'py>,
    pub(in crate::translate) outcome: Outcome,
    pub(in crate::translate) code: Arc<Code>,
    pub(in crate::translate) code_object: Obj,
    pub(in crate::translate) globals: Obj,
}

/// Simulates the frame of a call with these bound arguments.
pub(in crate::translate) fn simulate<'py>(
    py: Python<'py>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    state: &GlobalState,
    chosen: &Configured,
    varies: &Varies,
) -> Result<Simulated<'py>, Break> {
    let options = &of.shared.options;
    let function = of.function.bind(py);
    let code_object = Obj::from(function.getattr("__code__")?);
    let code = Code::from_py(
        py,
        code_object.bind(py).cast::<PyCode>().map_err(PyErr::from)?,
    )
    .map_err(|err| Break::new(BreakKind::Opcode, err.to_string()))?;
    const GENERATORS: u32 = 0x20 | 0x80 | 0x100 | 0x200;
    if code.flags & GENERATORS != 0 {
        return Err(Break::new(
            BreakId::GeneratorFunction,
            "a generator or coroutine function",
        ));
    }
    if let Some(name) = watcher(&code.names) {
        return Err(Break::new(
            BreakId::Watcher,
            format!("{name}() would see objects or frames of a translation"),
        ));
    }
    if let Some(name) = code.names.iter().find(|name| VERSIONS.contains(&&***name)) {
        return Err(Break::new(
            BreakId::Watcher,
            format!("{name} counts changes in place that a graph does not make"),
        ));
    }
    let code = Arc::new(code);
    let session = chosen.backend.begin(py)?;
    let graph = FunctionGraph::new("SIR_0".into(), session);
    let mut trace_options: TraceOptions = options.trace.clone();
    trace_options.varies = Differing {
        dims: varies.dims.clone(),
        numbers: varies.numbers.clone(),
        closed: varies.closed.clone(),
        guards_outcomes: varies.guarded,
    };
    trace_options.kept_open = varies.kept_open.clone();
    trace_options.names = varies.names.clone();
    trace_options.detours = Detours {
        changed_later: lock(&of.shared.changed_later).clone(),
        ..lock(&of.learnt.detours).clone()
    };
    trace_options.note_own_step = Some(Shared::note_own_step(&of.shared));
    trace_options.resume_inside = !options.full_graph && of.entries().len() < MOST_INSIDE;
    let mut tracer = Tracer::new(
        py,
        graph,
        chosen.backend.clone(),
        Arc::new(trace_options),
        state.grad_enabled,
    )?;
    let globals = Obj::from(function.getattr("__globals__")?);
    let mut frame = first_frame(&mut tracer, of, &code, &globals, bound).map_err(stop_to_break)?;
    let simulator: &dyn Simulator = if options.full_graph {
        &Survey
    } else {
        &OpcodeExecutor
    };
    let Simulation { outcome, reasons } = simulator.simulate(&mut tracer, &mut frame)?;
    if let (Outcome::Break(at), true) = (&outcome, options.full_graph) {
        if tracer.graph.was_asked_when_closed() {
            let places = deferred::to_compute(&tracer);
            let again = places.is_some() || deferred::inside::may_be(&tracer);
            if again {
                let mut detours = lock(&of.learnt.detours);
                match places {
                    Some(places) => detours.computed.extend(places),
                    None => detours.steps_inside = Some(true),
                }
                drop(detours);
                return simulate(py, of, bound, state, chosen, varies);
            }
        }
        *lock(&of.learnt.reasons) = reasons;
        return Err(at.reason.clone());
    }
    Ok(Simulated {
        tracer,
        outcome,
        code,
        code_object,
        globals,
    })
}

fn stop_to_break(stop: Stop) -> Break {
    match stop {
        Stop::Break(reason) => *reason,
        Stop::Raise(_) => Break::new(
            BreakKind::RaisesException,
            "an exception leaves the function",
        ),
    }
}

fn first_frame(
    t: &mut Tracer<'_>,
    of: &Translated,
    code: &Arc<Code>,
    globals: &Obj,
    bound: &[Bound<'_, PyAny>],
) -> Result<FrameState, Stop> {
    let mut locals = vec![None; code.localsplus.len()];
    for (index, value) in bound.iter().enumerate() {
        let name = Arc::from(name_of_local(&code.localsplus[index].name));
        locals[index] = Some(t.wrap(value, Arc::new(Tracker::Local { index, name })));
    }
    let mut closure = Vec::new();
    if let Ok(cells) = of
        .function
        .bind(t.py)
        .getattr("__closure__")?
        .cast_into::<pyo3::types::PyTuple>()
    {
        let free = code.localsplus.iter().filter(|slot| slot.kind.free);
        for ((index, cell), slot) in cells.iter().enumerate().zip(free) {
            closure.push(t.wrap(
                &cell,
                Arc::new(Tracker::FreeCell {
                    index,
                    name: slot.name.clone(),
                }),
            ));
        }
    }
    let builtins = crate::simulator::builtins_of(t, globals)?;
    Ok(FrameState {
        code: code.clone(),
        globals: globals.clone(),
        builtins,
        locals,
        stack: Vec::new(),
        closure,
        pc: 0,
        kw_names: Vec::new(),
        handling: Vec::new(),
        region: None,
        consumer: None,
    })
}
