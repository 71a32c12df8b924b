//! [`Tracer`]: everything one translation knows, and what a step of the simulation answers with.

mod classify;
mod constants;
pub(super) mod contents;
pub mod function_graph;
mod options;
mod release;
mod reliance;
mod rollback;
mod values;

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::{BackendError, GraphBackend};
use crate::bytecode::Code;
use crate::frame::Modules;
use crate::graph::{SymbolId, TensorMeta};
use crate::guard::GuardSet;
use crate::obj::Obj;
use crate::paddle::Paddle;
use crate::reason::{Break, BreakId, BreakKind, SourceLoc};
use crate::simulator::tracer::function_graph::{FunctionGraph, GraphInput};
use crate::tracker::TrackerRef;
use crate::variables::{Arena, AttrOp, VarId};

use super::branches::RefusedLoops;
use super::deferred::DeferredCall;
use super::frame::{FrameState, SimulatedFrame};
use super::groups::Group;
use super::inlined_frame::Unwound;
use super::layer_call::KnownCode;
use super::replay_reads::{Reads, RunsAgain};
use super::tensor_scalar::known::KnownNumbers;

pub use crate::obj::is_plain_constant;
pub use constants::{asks_the_process, is_enum_member};
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

/// A result of captured control flow that may be another tensor of the graph: in a graph it is a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The result.
    pub result: SymbolId,
    /// What it may be, or be a view of.
    pub of: SymbolId,
    /// The instruction of the outermost frame that made it.
    pub at: usize,
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
    /// Grad mode as the simulated program sees it now.
    pub grad_enabled: bool,
    /// How many PyLayers it is inside of whose `backward` says how gradients flow.
    pub custom_gradients: usize,
    /// Grad mode at the call: a graph that is run without it has no gradients anywhere.
    pub entry_grad: bool,
    /// User locations of the frames being simulated, outermost first; the executor keeps them current.
    pub locations: Vec<SourceLoc>,
    /// The same frames, as what is called in one sees it: the executor keeps them current too.
    pub simulated: Vec<SimulatedFrame>,
    /// Writes and deletes of globals (dict, name, value), in program order.
    pub global_writes: Vec<(Obj, AttrOp)>,
    /// How many `auto_cast` are entered.
    pub auto_casts: usize,
    /// How often gradients were switched off, or a custom operation was followed without its own gradient.
    pub cut_off: usize,
    /// While the `backward` of a custom operation is followed: the first symbol that it makes.
    pub backward: Option<SymbolId>,
    /// Context managers that were entered and left and did nothing but warn, new layers, which
    /// take the next name of their class, and what is shown: lines (tuples) and warnings (calls).
    pub left_behind: Vec<VarId>,
    /// Which of them are calls of a train step: see [`super::deferred`].
    pub deferred: Vec<DeferredCall>,
    /// Where the frame had written something in front of the first of them, which is done before
    /// it: how often the frame had written.
    pub writes_first: Option<u64>,
    /// What the graph takes and reads for something that is computed behind them.
    pub read_behind: Vec<GraphInput>,
    /// Layers with attributes that the frame wrote.
    pub written_layers: Vec<Obj>,
    /// What was read already.
    pub seen: Seen<'py>,
    /// How far it has come.
    pub progress: Progress,
    /// Captured branches and loops being simulated.
    pub regions: usize,
    /// What is not rebuilt: exceptions that were raised, which have a traceback and may have a context, and what
    /// only the interpreter can make. With each the instruction of the outermost frame that raised or made it.
    pub raised: Vec<(VarId, usize)>,
    /// Results of captured control flow that may be a tensor from in front of it, or a view of one.
    pub aliases: Vec<Alias>,
    /// What the variables of captured loops are called in a round: in another round each may be another object.
    pub carried: Vec<SymbolId>,
    /// Whether what is rebuilt goes on to native code that may change it.
    pub hands_on: bool,
    /// Exception groups that the frame made.
    pub groups: Vec<Group>,
    /// Generators of the frame that are running.
    pub running: Vec<VarId>,
    /// Whether what is simulated runs again on the way back, where other tensors need gradients than on this one.
    pub runs_again: bool,
    /// What is read, while somebody asks: see [`super::replay_reads`].
    pub reads: Option<Reads>,
    /// Captured operations whose code plain Python runs again on the way back.
    pub run_again: Vec<RunsAgain>,
    /// Whether the next call's result is what the calling instruction pushes. Whoever calls takes it first.
    pub tail: bool,
    /// Whether the next attribute is the dictionary of an object, to be read at once: see `namespaces`.
    pub reads_namespace: bool,
    /// The inlined frames of a break on its way.
    pub unwound: Unwound,
    /// The instruction of the outermost frame that is being simulated.
    pub outermost: usize,
    /// The instructions of the outermost frame in which a tensor began to take gradients in place.
    pub fills: FxHashSet<usize>,
    /// What the code generator could not build, but the interpreter could: this instruction made it.
    pub native_next: Option<usize>,
    /// Whether the tensor that breaks the graph because it changes in place has views in it: gradients of what was computed
    /// with them read its storage, which is another one in a program.
    pub changes_views: bool,
    /// Whether control flow was last refused because its ways leave values that no operation
    /// chooses between.
    pub unlike: bool,
    /// What the ways that are being simulated know: tensors of the graph that decided for them,
    /// and how.
    pub decided: Vec<(SymbolId, bool)>,
    /// How many branches are followed on either way to the end of the frame, inside of one
    /// another.
    pub tails: usize,
    /// Numbers of the graph that are the same in each call.
    pub(in crate::simulator) known_numbers: KnownNumbers,
    /// Lists that grew on a way that is not captured, and by what: see `grown_lists::note`.
    pub(in crate::simulator) grown: Vec<(VarId, TensorMeta)>,
    /// Loops that no operation holds: their rounds do not ask again.
    pub(in crate::simulator) refused_loops: RefusedLoops,
    frames: Vec<Rc<FrameState>>,
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
            grad_enabled,
            entry_grad: grad_enabled,
            locations: Vec::new(),
            simulated: Vec::new(),
            global_writes: Vec::new(),
            auto_casts: 0,
            cut_off: 0,
            backward: None,
            custom_gradients: 0,
            left_behind: Vec::new(),
            deferred: Vec::new(),
            writes_first: None,
            read_behind: Vec::new(),
            written_layers: Vec::new(),
            seen: Seen::default(),
            progress: Progress::default(),
            regions: 0,
            raised: Vec::new(),
            aliases: Vec::new(),
            carried: Vec::new(),
            hands_on: false,
            groups: Vec::new(),
            running: Vec::new(),
            runs_again: false,
            reads: None,
            run_again: Vec::new(),
            tail: false,
            reads_namespace: false,
            unwound: Unwound::default(),
            outermost: 0,
            fills: FxHashSet::default(),
            native_next: None,
            changes_views: false,
            unlike: false,
            decided: Vec::new(),
            tails: 0,
            known_numbers: KnownNumbers::default(),
            refused_loops: RefusedLoops::default(),
            grown: Vec::new(),
            frames: Vec::new(),
            known: FxHashMap::default(),
        })
    }

    /// The innermost user location.
    pub fn loc(&self) -> SourceLoc {
        self.locations.last().cloned().unwrap_or_default()
    }

    /// Stops for this reason here.
    pub fn stop<T>(&self, id: impl Into<BreakId>, message: impl Into<String>) -> Step<T> {
        let loc = self.loc();
        Err(Break {
            loc,
            ..Break::new(id, message)
        }
        .into())
    }

    /// Stops: this operation is not simulated.
    pub fn unsupported<T>(&self, message: impl Into<String>) -> Step<T> {
        self.stop(BreakKind::UnsupportedOperation, message)
    }

    /// What Python itself has by this name in `builtins` or `operator`: stops where something else was there already when
    /// the engine was imported.
    pub fn original(&self, module: &str, name: &str) -> Step<Bound<'py, PyAny>> {
        let found = self.py.original(module, name);
        found.or_else(|_| {
            self.unsupported(format!("{module}.{name}, which the program has replaced"))
        })
    }

    /// Keeps a suspended generator frame; the answer names it.
    pub fn store_frame(&mut self, frame: FrameState) -> usize {
        self.frames.push(Rc::new(frame));
        self.frames.len() - 1
    }

    /// A suspended generator frame.
    pub fn frame(&self, frame: usize) -> &FrameState {
        &self.frames[frame]
    }
}
