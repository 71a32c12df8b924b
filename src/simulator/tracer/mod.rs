//! [`Tracer`]: everything one translation knows, and what a step of the simulation answers with.

mod at_break;
mod classify;
mod constants;
pub(super) mod contents;
mod exceptions;
mod frames;
pub mod function_graph;
mod gradients;
mod options;
mod release;
mod reliance;
mod renewed;
mod rollback;
mod values;

use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::{BackendError, GraphBackend};
use crate::bytecode::Code;
use crate::frame::{BUILTINS, Modules, OPERATOR};
use crate::guard::GuardSet;
use crate::obj::Obj;
use crate::paddle::Paddle;
use crate::reason::{Break, BreakId, BreakKind, SourceLoc};
use crate::tracer::function_graph::FunctionGraph;
use crate::tracker::TrackerRef;
use crate::variables::{Arena, AttrOp, VarId};

use super::captured_flow::CapturedFlow;
use super::deferred::DeferredCalls;
use super::layer_call::KnownCode;
use super::replay_reads::Replays;

pub use crate::obj::is_plain_constant;
pub use at_break::AtBreak;
pub use constants::{asks_the_process, is_enum_member};
pub use exceptions::Exceptions;
pub use frames::Frames;
pub use gradients::Gradients;
pub use options::{Detours, Differing, TraceOptions};
pub use rollback::TraceMark;

/// Keyword arguments of a simulated call, in call order.
pub type Kwargs = [(Arc<str>, VarId)];

/// Why a step did not complete.
#[derive(Debug)]
pub enum Stop {
    /// The graph breaks here (or the frame cannot be simulated).
    Break(Box<Break>),
    /// The program raises this exception here; the executor looks for a handler.
    Raise(VarId),
}

/// The answer of a simulation step.
pub type Step<T> = Result<T, Stop>;

impl From<Break> for Stop {
    fn from(reason: Break) -> Self {
        Self::Break(Box::new(reason))
    }
}

impl From<PyErr> for Stop {
    fn from(err: PyErr) -> Self {
        Break::from(err).into()
    }
}

impl From<BackendError> for Stop {
    fn from(err: BackendError) -> Self {
        let kind = match err {
            BackendError::BlackListed(_) => BreakKind::BlackListed,
            BackendError::Refused(_)
            | BackendError::Raised(_)
            | BackendError::Compile(_)
            | BackendError::DeadSymbol(_) => BreakKind::InferenceFailed,
        };
        Break::new(kind, err.to_string()).into()
    }
}

/// What was read of code, dictionaries and classes, so that it is read once.
#[derive(Default)]
pub struct Seen<'py> {
    /// Decoded code objects.
    pub decoded: FxHashMap<Obj, Arc<Code>>,
    /// Instance dictionaries that were read through their objects, by address.
    pub namespaces: FxHashMap<usize, reliance::Namespace>,
    /// The dictionaries of modules that variables were read from, by their names.
    pub(super) variables: FxHashMap<Arc<str>, Vec<TrackerRef>>,
    /// Classes whose attributes are all under strings, by address.
    pub plain_classes: FxHashSet<usize>,
    /// What the code of classes of layers names.
    pub layer_code: KnownCode<'py>,
}

/// How far a translation has come, and how deep it is.
#[derive(Default)]
pub struct Progress {
    /// Simulated instructions so far.
    pub steps: usize,
    /// Calls of Python functions that were followed.
    pub inlined: usize,
    /// How deep simulated calls of anything nest.
    pub calls: usize,
    /// How deep a walk over containers is in them.
    pub nesting: usize,
}

/// The state of one translation.
pub struct Tracer<'py> {
    /// The GIL.
    pub py: Python<'py>,
    /// Cached Paddle types.
    pub paddle: &'static Paddle,
    /// All variables.
    pub vars: Arena,
    /// The graph under construction.
    pub graph: FunctionGraph,
    /// What was relied on.
    pub guards: GuardSet,
    /// The backend (for CDBL).
    pub backend: Box<dyn GraphBackend>,
    /// What the user asked for.
    pub options: Arc<TraceOptions>,
    /// How gradients flow.
    pub grad: Gradients,
    /// The frames being simulated.
    pub frames: Frames,
    /// Captured branches and loops.
    pub flow: CapturedFlow,
    /// Calls of a train step: some of what is [`left_behind`](Self::left_behind).
    pub deferred: DeferredCalls,
    /// What runs again on the way back.
    pub replays: Replays,
    /// What was raised, and what else is not rebuilt.
    pub exceptions: Exceptions,
    /// What a break leaves.
    pub at_break: AtBreak,
    /// Writes and deletes of globals (dict, name, value), in program order.
    pub global_writes: Vec<(Obj, AttrOp)>,
    /// Context managers that were entered and left and did nothing but warn, new layers, which
    /// take the next name of their class, and what is shown: lines (tuples) and warnings (calls).
    pub left_behind: Vec<VarId>,
    /// What was read already.
    pub seen: Seen<'py>,
    /// How far it has come.
    pub progress: Progress,
    /// Whether the next call's result is what the calling instruction pushes. Whoever calls takes
    /// it first.
    pub tail: bool,
    /// Whether the next attribute is the dictionary of an object, to be read at once: see
    /// `namespaces`.
    pub reads_namespace: bool,
    known: FxHashMap<usize, VarId>,
}

impl<'py> Tracer<'py> {
    /// A trace over an empty graph.
    pub fn new(
        py: Python<'py>,
        graph: FunctionGraph,
        backend: Box<dyn GraphBackend>,
        options: Arc<TraceOptions>,
        grad_enabled: bool,
    ) -> PyResult<Self> {
        Ok(Self {
            py,
            paddle: Paddle::get(py)?,
            vars: Arena::default(),
            graph,
            guards: GuardSet::default(),
            backend,
            options,
            grad: Gradients::new(grad_enabled),
            frames: Frames::default(),
            flow: CapturedFlow::default(),
            deferred: DeferredCalls::default(),
            replays: Replays::default(),
            exceptions: Exceptions::default(),
            at_break: AtBreak::default(),
            global_writes: Vec::new(),
            left_behind: Vec::new(),
            seen: Seen::default(),
            progress: Progress::default(),
            tail: false,
            reads_namespace: false,
            known: FxHashMap::default(),
        })
    }

    /// The innermost user location.
    pub(crate) fn loc(&self) -> SourceLoc {
        self.frames.locations.last().cloned().unwrap_or_default()
    }

    /// Whether gradients may be asked of what the graph computes.
    pub(crate) fn goes_backward(&self) -> bool {
        self.grad.at_entry && !self.options.forward_only
    }

    /// Stops for this reason here.
    pub(crate) fn stop<T>(&self, id: impl Into<BreakId>, message: impl Into<String>) -> Step<T> {
        let loc = self.loc();
        Err(Break {
            loc,
            ..Break::new(id, message)
        }
        .into())
    }

    /// Stops: this operation is not simulated.
    pub(crate) fn unsupported<T>(&self, message: impl Into<String>) -> Step<T> {
        self.stop(BreakKind::UnsupportedOperation, message)
    }

    /// What Python itself has by this name in `builtins` or `operator`: stops where something else
    /// was there already when the engine was imported.
    pub(crate) fn original(&self, module: &str, name: &str) -> Step<Bound<'py, PyAny>> {
        let found = self.py.original(module, name);
        found.or_else(|_| {
            self.unsupported(format!("{module}.{name}, which the program has replaced"))
        })
    }

    /// The same of `builtins`.
    pub(crate) fn builtin(&self, name: &str) -> Step<Bound<'py, PyAny>> {
        self.original(BUILTINS, name)
    }

    /// The same of `operator`.
    pub(crate) fn operator(&self, name: &str) -> Step<Bound<'py, PyAny>> {
        self.original(OPERATOR, name)
    }
}
