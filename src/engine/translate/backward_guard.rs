//! What the code of a graph reads that plain Python runs again on the way back has to be as it was
//! at the call: asked when a gradient arrives. See [`crate::simulator::replay_reads`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::abi::GlobalState;
use crate::frame::Modules;
use crate::graph::{Callee, StatementIr};
use crate::guard::{self, CompiledGuard, GuardInputs, NativeGuards};
use crate::native::{self, Ptr};
use crate::obj::{Obj, is_plain_constant};
use crate::reason::SourceLoc;
use crate::simulator::replay_reads::Outside;
use crate::sync::lock;
use crate::tracker::{Tracker, TrackerRef};

use super::function::Shared;

/// What the graph of one translation relies on until its gradients are computed.
pub struct BackwardGuard {
    guards: NativeGuards,
    /// Its default dtype is read where numbers become tensors.
    state: GlobalState,
    places: Vec<TrackerRef>,
    /// Arguments of the frame that it is found from.
    arguments: Vec<usize>,
    /// Results of the graph whose gradients run such code.
    results: Vec<usize>,
    /// Where the operations are.
    operations: Vec<SourceLoc>,
    shared: Weak<Shared>,
    refused: AtomicBool,
}

/// What was there at one call.
pub(super) struct Seen<'py> {
    arguments: Vec<Option<Bound<'py, PyAny>>>,
    closure: Option<Bound<'py, PyAny>>,
    values: Vec<Option<Bound<'py, PyAny>>>,
}

impl BackwardGuard {
    /// For a graph that is given these results.
    ///
    /// # Errors
    /// When an object cannot be recorded.
    pub(super) fn new(
        py: Python<'_>,
        (outside, operations): (Outside, Vec<SourceLoc>),
        sir: &StatementIr,
        state: &GlobalState,
        shared: &Arc<Shared>,
    ) -> PyResult<Self> {
        let (guards, places) = (outside.guards(), outside.places());
        let trackers = guards.iter().map(|guard| &guard.tracker).chain(&places);
        let mut arguments: Vec<usize> = trackers.filter_map(argument).collect();
        arguments.sort_unstable();
        arguments.dedup();
        Ok(Self {
            guards: NativeGuards::new(py, &guards, &places, state)?,
            state: state.clone(),
            places,
            arguments,
            results: sir.results_behind(&Callee::runs_again),
            operations,
            shared: Arc::downgrade(shared),
            refused: AtomicBool::new(false),
        })
    }

    /// Whether gradients of any result run such code.
    pub(super) fn is_needed(&self) -> bool {
        !self.results.is_empty()
    }

    /// Whether a gradient was refused: the interpreter runs the operations from then on.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// What is there now; else what is not as it was at the translation.
    pub(super) fn look<'py>(
        &self,
        py: Python<'py>,
        inputs: GuardInputs<'_>,
    ) -> Result<Seen<'py>, String> {
        let values = self.guards.values(py, inputs);
        let values = values.map_err(|guard| self.guards.describe_failure(guard))?;
        let mut arguments = Vec::new();
        for &at in &self.arguments {
            arguments.resize(at, None);
            let argument = inputs.locals.get(at).filter(|argument| !argument.is_null());
            arguments.push(argument.map(|argument| native::to_bound(py, *argument)));
        }
        let closure = (!inputs.closure.is_null()).then(|| native::to_bound(py, inputs.closure));
        Ok(Seen {
            arguments,
            closure,
            values,
        })
    }

    /// Has it asked for again when a gradient arrives at a result of the graph.
    pub(super) fn watch(
        self: &Arc<Self>,
        py: Python<'_>,
        seen: Seen<'_>,
        results: &[Py<PyAny>],
    ) -> PyResult<()> {
        let mut hook = None;
        let mut seen = Some(seen);
        for result in self.results.iter().filter_map(|at| results.get(*at)) {
            let result = result.bind(py);
            let stops: bool = result
                .getattr(pyo3::intern!(py, "stop_gradient"))?
                .extract()?;
            if stops {
                continue;
            }
            if let Some(seen) = seen.take() {
                hook = Some(Bound::new(py, Hook::new(self, seen))?);
            }
            result.call_method1(pyo3::intern!(py, "_register_grad_hook"), (&hook,))?;
        }
        Ok(())
    }

    fn refuse(&self, what: &str) -> PyErr {
        self.refused.store(true, Ordering::Relaxed);
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.changed_later).extend(self.operations.iter().cloned());
        }
        let places: Vec<String> = self.operations.iter().map(ToString::to_string).collect();
        let places = places.join(", ");
        log::warn!(target: "paddle_sot_rs.graph_breaks", "{places}: {what} between the call and its gradient: from now on the interpreter runs it");
        PyRuntimeError::new_err(format!(
            "{what} since the call: what recompute() or a PyLayer runs again for its gradient reads that ({places}), and the graph has computed with what it was. Call the function again: the interpreter runs these operations from now on"
        ))
    }
}

/// The argument of the frame that something is found from.
fn argument(tracker: &TrackerRef) -> Option<usize> {
    let mut at = tracker;
    while let Some(base) = at.base() {
        at = base;
    }
    let Tracker::Local { index, .. } = **at else {
        return None;
    };
    Some(index)
}

/// What autograd calls with the gradient of a result, before it computes those of the graph.
#[pyclass(frozen)]
struct Hook {
    of: Arc<BackwardGuard>,
    arguments: Vec<Option<Obj>>,
    closure: Option<Obj>,
    values: Vec<Option<Obj>>,
}

impl Hook {
    fn new(of: &Arc<BackwardGuard>, seen: Seen<'_>) -> Self {
        let owned = |values: Vec<Option<Bound<'_, PyAny>>>| {
            let values = values.into_iter();
            values.map(|value| value.map(Obj::from)).collect()
        };
        Self {
            of: Arc::clone(of),
            arguments: owned(seen.arguments),
            closure: seen.closure.map(Obj::from),
            values: owned(seen.values),
        }
    }

    /// What is not as it was, as part of a sentence.
    fn changed(&self, py: Python<'_>) -> Option<String> {
        if !self.of.state.keeps_default_dtype(py) {
            return Some("the default dtype has changed".to_owned());
        }
        let address = |value| Option::as_ref(value).map_or(Ptr::NULL, Ptr::from);
        let locals: Vec<Ptr<'_>> = self.arguments.iter().map(address).collect();
        let inputs = GuardInputs {
            locals: &locals,
            closure: address(&self.closure),
        };
        let now = match self.of.look(py, inputs) {
            Ok(now) => now.values,
            Err(guard) => return Some(format!("\"{guard}\" has ceased to hold")),
        };
        let same = |(then, now): (&Option<Obj>, &Option<Bound<'_, PyAny>>)| match (then, now) {
            (None, None) => true,
            (Some(then), Some(now)) => is_same(py, then, now),
            _ => false,
        };
        let at = self.values.iter().zip(&now).position(|pair| !same(pair))?;
        Some(format!(
            "{} has changed",
            guard::path(py, &self.of.places[at])
        ))
    }
}

fn is_same(py: Python<'_>, then: &Obj, now: &Bound<'_, PyAny>) -> bool {
    let then = then.bind(py);
    then.is(now)
        || (is_plain_constant(then)
            && is_plain_constant(now)
            && native::const_equal(py, now.into(), then.into()))
}

#[pymethods]
impl Hook {
    fn __call__(&self, py: Python<'_>, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        if gradient.is_none() {
            return Ok(());
        }
        let Some(what) = self.changed(py) else {
            return Ok(());
        };
        let refused = self.of.refuse(&what);
        // Paddle makes an error of its own of what a hook raises.
        if let Ok(again) = py.module("paddle_sot_rs._paddle.gradients.double_backward") {
            again.call_method1("refuse", (refused.value(py),))?;
        }
        Err(refused)
    }
}
