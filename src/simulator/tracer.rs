//! [`Tracer`]: everything one translation knows, and the roll-back over all of it.

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCode, PyComplex, PyDict, PyFloat, PyFrozenSet, PyFunction, PyInt, PyList,
    PyModule, PyString, PyTuple, PyType,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::{BackendError, GraphBackend};
use crate::bytecode::Code;
use crate::graph::{Cut, DType, FunctionGraph, GraphMark, SymbolId, TensorMeta};
use crate::guard::{native, GuardKind, GuardSet, TensorGuard};
use crate::obj::{items_in_order, Obj};
use crate::paddle::{tensor_meta, Paddle};
use crate::reason::{Break, BreakKind, SourceLoc};
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{
    Arena, ArenaMark, AttrOp, CellVar, DictVar, FunctionVar, Key, Kind, NumberVar, ObjectVar,
    SetVar, TensorVar, VarId, Variable,
};

use super::frame::FrameState;
use super::groups::Group;
use super::inner::Unwound;

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
            _ => BreakKind::InferenceFailed,
        };
        Break::new(kind, err.to_string()).into()
    }
}

/// What the user asked for.
#[derive(Clone, Default)]
pub struct TraceOptions {
    /// Callables that must not be captured (identity).
    pub black_list: FxHashSet<usize>,
    /// Names of Paddle functions, tensor methods and attributes that must not be captured.
    pub black_names: FxHashSet<String>,
    /// Callables marked with `allow_in_graph` (identity).
    pub allow_list: FxHashSet<usize>,
    /// Callables marked with `disable` (identity of the function and of its code).
    pub disabled: FxHashSet<usize>,
    /// Dims to trace as dynamic: tracker -> dim indices.
    pub dynamic_dims: FxHashMap<TrackerRef, Vec<usize>>,
    /// Numbers that differ between calls, and what they are in this one.
    pub dynamic_numbers: FxHashMap<TrackerRef, Obj>,
    /// A comparison of such numbers and of dynamic dims is answered, under a guard.
    pub guards_outcomes: bool,
    /// Instructions of the outermost frame that the interpreter runs: they make generators that outlive a break.
    pub native: FxHashSet<usize>,
    /// A break in an inlined call is resumed inside of it.
    pub resume_inside: bool,
    /// Control flow on tensors becomes part of the graph.
    pub capture_control_flow: bool,
    /// Captured loops may carry gradients: nothing goes backwards through what is exported.
    pub forward_only: bool,
    /// `print` of tensors becomes part of the graph.
    pub capture_print: bool,
    /// Deepest inlining.
    pub max_depth: usize,
    /// Most instructions one translation simulates, where it is not the usual bound.
    pub max_steps: Option<usize>,
}

/// A position of the whole trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceMark {
    arena: ArenaMark,
    graph: GraphMark,
    guards: (usize, usize),
    global_writes: usize,
    grad_enabled: bool,
    auto_casts: usize,
    left_behind: usize,
    depths: (usize, usize),
    raised: (usize, usize),
    aliases: usize,
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
    /// Grad mode at the call: a graph that is run without it has no gradients anywhere.
    pub entry_grad: bool,
    /// User locations of the frames being simulated, outermost first; the executor keeps them current.
    pub locations: Vec<SourceLoc>,
    /// Writes and deletes of globals (dict, name, value), in program order.
    pub global_writes: Vec<(Obj, AttrOp)>,
    /// How many `auto_cast` are entered.
    pub auto_casts: usize,
    /// Context managers that were entered and left and did nothing but warn, and new layers, which take the
    /// next name of their class.
    pub left_behind: Vec<VarId>,
    /// Layers with attributes that the frame wrote.
    pub written_layers: Vec<Obj>,
    /// Decoded code objects.
    pub decoded: FxHashMap<Obj, Arc<Code>>,
    /// Captured branches and loops being simulated.
    pub regions: usize,
    /// Simulated instructions so far.
    pub steps: usize,
    /// What is not rebuilt: exceptions that were raised, which have a traceback and may have a context, and what
    /// only the interpreter can make. With each the instruction of the outermost frame that raised or made it.
    pub raised: Vec<(VarId, usize)>,
    /// Results of captured control flow that may be a tensor from in front of it, or a view of one.
    pub aliases: Vec<Alias>,
    /// Whether what is rebuilt goes on to native code that may change it.
    pub hands_on: bool,
    /// Exception groups that the frame made.
    pub groups: Vec<Group>,
    /// Generators of the frame that are running.
    pub running: Vec<VarId>,
    /// Instance dictionaries that were read through their objects, by address.
    pub namespaces: FxHashMap<usize, TrackerRef>,
    /// How deep simulated calls of anything nest.
    pub calls: usize,
    /// Whether the next call's result is what the calling instruction pushes. Whoever calls takes it first.
    pub tail: bool,
    /// Whether the next attribute is the dictionary of an object, to be read at once: see [`super::namespaces`].
    pub reads_namespace: bool,
    /// The inlined frames of a break on its way.
    pub unwound: Unwound,
    /// How deep a walk over containers is in them.
    pub nesting: usize,
    /// The instruction of the outermost frame that is being simulated.
    pub outermost: usize,
    /// What the code generator could not build, but the interpreter could: this instruction made it.
    pub native_next: Option<usize>,
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
            global_writes: Vec::new(),
            auto_casts: 0,
            left_behind: Vec::new(),
            written_layers: Vec::new(),
            decoded: FxHashMap::default(),
            regions: 0,
            steps: 0,
            raised: Vec::new(),
            aliases: Vec::new(),
            hands_on: false,
            groups: Vec::new(),
            running: Vec::new(),
            tail: false,
            reads_namespace: false,
            unwound: Unwound::default(),
            nesting: 0,
            calls: 0,
            namespaces: FxHashMap::default(),
            outermost: 0,
            native_next: None,
            frames: Vec::new(),
            known: FxHashMap::default(),
        })
    }

    /// The innermost user location.
    pub fn loc(&self) -> SourceLoc {
        self.locations.last().cloned().unwrap_or_default()
    }

    /// Stops with a break of this kind here.
    pub fn stop<T>(&self, kind: BreakKind, message: impl Into<String>) -> Step<T> {
        Err(Break {
            kind,
            message: message.into(),
            loc: self.loc(),
        }
        .into())
    }

    /// Stops: this operation is not simulated.
    pub fn unsupported<T>(&self, message: impl Into<String>) -> Step<T> {
        self.stop(BreakKind::UnsupportedOperation, message)
    }

    /// The current position of everything.
    pub fn mark(&self) -> TraceMark {
        TraceMark {
            arena: self.vars.mark(),
            graph: self.graph.mark(),
            guards: self.guards.mark(),
            global_writes: self.global_writes.len(),
            grad_enabled: self.grad_enabled,
            auto_casts: self.auto_casts,
            left_behind: self.left_behind.len(),
            raised: (self.raised.len(), self.groups.len()),
            aliases: self.aliases.len(),
            depths: (self.nesting, self.calls),
        }
    }

    /// Forgets everything since `mark`.
    pub fn rollback(&mut self, mark: TraceMark) {
        self.graph.rollback(self.py, mark.graph);
        self.guards.rollback(mark.guards);
        self.restore(mark);
    }

    /// Takes everything since `mark` out of the graph and forgets it otherwise; what was relied on stays guarded.
    pub(super) fn cut(&mut self, mark: TraceMark) -> Cut {
        let cut = self.graph.cut(self.py, mark.graph);
        self.restore(mark);
        cut
    }

    /// The simulated program as it was at `mark`: all but graph and guards.
    fn restore(&mut self, mark: TraceMark) {
        self.vars.rollback(mark.arena);
        self.global_writes.truncate(mark.global_writes);
        self.grad_enabled = mark.grad_enabled;
        self.auto_casts = mark.auto_casts;
        self.left_behind.truncate(mark.left_behind);
        let len = self.vars.len();
        self.known.retain(|_, id| (id.0 as usize) < len);
        self.aliases.truncate(mark.aliases);
        self.raised.truncate(mark.raised.0);
        self.groups.truncate(mark.raised.1);
        self.unwound.clear();
        self.unnest(&mark);
    }

    /// No deeper in calls and containers than at `mark`.
    pub(super) fn unnest(&mut self, mark: &TraceMark) {
        (self.nesting, self.calls) = mark.depths;
    }

    /// Variables older than `mark` that changed since; `None` when something else changed that outlives a branch.
    pub(super) fn changed(&self, mark: &TraceMark) -> Option<Vec<(VarId, Rc<Variable>)>> {
        let same = self.global_writes.len() == mark.global_writes
            && self.grad_enabled == mark.grad_enabled
            && self.auto_casts == mark.auto_casts
            && self.left_behind.len() == mark.left_behind
            && !self.vars.changed_real(&mark.arena);
        same.then(|| self.vars.changed(&mark.arena))
    }

    /// How many statements there were at `mark`.
    pub(super) fn graph_len(&self, mark: &TraceMark) -> usize {
        mark.graph.statements()
    }

    /// Whether a variable is older than `mark`.
    pub(super) fn is_older(&self, id: VarId, mark: &TraceMark) -> bool {
        self.vars.is_older(id, &mark.arena)
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

    // --- making variables -------------------------------------------------------------------

    /// A value the frame makes.
    pub fn add(&mut self, kind: Kind) -> VarId {
        self.vars.add(Variable::new(kind))
    }

    /// Why the code generator gives up on what the instruction `at` of the outermost frame made: in another attempt
    /// the interpreter runs it.
    pub fn left_to_interpreter(&mut self, at: usize, message: &str) -> Break {
        self.native_next = Some(at);
        Break::new(BreakKind::Construct, message)
    }

    /// A value that only the interpreter can make: it can be handed on, no more. Where it must be rebuilt, the
    /// instruction of the outermost frame that makes it runs natively.
    pub fn made_natively(&mut self) -> VarId {
        let id = self.add(Kind::Opaque);
        self.only_the_interpreter_makes(id);
        id
    }

    /// See [`Tracer::made_natively`].
    pub fn only_the_interpreter_makes(&mut self, id: VarId) {
        self.raised.push((id, self.outermost));
    }

    /// The instruction that has to run natively where this value must be rebuilt: see [`Tracer::made_natively`].
    pub fn raised_at(&self, id: VarId) -> Option<usize> {
        let mut raised = self.raised.iter();
        raised.find(|(raised, _)| *raised == id).map(|(_, at)| *at)
    }

    /// A `paddle.Size`, the list that shapes are.
    pub fn size(&mut self, dims: Vec<VarId>) -> Step<VarId> {
        let class = Obj::from(self.paddle.module.bind(self.py).getattr("Size")?);
        let id = self.add(Kind::List(dims));
        self.vars.update(id, |var| var.class = Some(class));
        Ok(id)
    }

    /// Whether a value is a `paddle.Size`.
    pub fn is_size(&self, value: &Bound<'_, PyAny>) -> bool {
        let class = self.paddle.module.bind(self.py).getattr("Size");
        class.is_ok_and(|class| value.get_type().is(&class))
    }

    /// Gives `id` the class of `like`: slices and sums of a `paddle.Size` are one too.
    pub fn inherit_class(&mut self, id: VarId, like: VarId) -> VarId {
        if let Some(class) = self.vars.get(like).class.clone() {
            self.vars.update(id, |var| var.class = Some(class));
        }
        id
    }

    /// The interpreter's NULL.
    pub fn null(&mut self) -> VarId {
        self.add(Kind::Null)
    }

    /// A value that is fixed at translation time and embedded by identity (code constants, results of
    /// constant folding, objects whose identity is guarded elsewhere).
    pub fn constant(&mut self, value: &Bound<'_, PyAny>) -> VarId {
        if is_plain_constant(value) {
            let value = Some(Obj::from(value));
            return self.vars.add(Variable {
                kind: Kind::Const,
                value,
                source: None,
                mutated: false,
                class: None,
            });
        }
        // The object is fixed, what it holds is not: reads from it are guarded below this root.
        let object = Obj::from(value);
        let id = self.wrap(value, Arc::new(Tracker::Const(object)));
        self.realize(id);
        id
    }

    /// `None`.
    pub fn none(&mut self) -> VarId {
        let none = self.py.None().into_bound(self.py);
        self.constant(&none)
    }

    /// A Python bool.
    pub fn bool(&mut self, value: bool) -> VarId {
        let value = PyBool::new(self.py, value).to_owned().into_any();
        self.constant(&value)
    }

    /// A Python int.
    pub fn int(&mut self, value: i64) -> VarId {
        let value = PyInt::new(self.py, value).into_any();
        self.constant(&value)
    }

    /// A Python str.
    pub fn str(&mut self, value: &str) -> VarId {
        let value = PyString::new(self.py, value).into_any();
        self.constant(&value)
    }

    /// A real object found at `tracker`. Looked at (and guarded) only when [`Tracer::realize`]d.
    ///
    /// An object that is already known keeps its variable: both trackers are then guarded to
    /// lead to the same object.
    pub fn wrap(&mut self, value: &Bound<'_, PyAny>, tracker: TrackerRef) -> VarId {
        let address = value.as_ptr() as usize;
        if let Some(&id) = self.known.get(&address) {
            let known = self.vars.get(id).source.clone();
            match known {
                Some(source) if source == tracker => return id,
                Some(source) => {
                    self.guards.add(&tracker, GuardKind::SameAs(source));
                    return id;
                }
                None => {}
            }
        }
        if tracker.may_vanish() {
            self.guards.add(&tracker, GuardKind::Present);
        }
        let id = self.vars.add(Variable {
            kind: Kind::Lazy,
            value: Some(Obj::from(value)),
            source: Some(tracker),
            mutated: false,
            class: None,
        });
        if !is_plain_constant(value) {
            self.known.insert(address, id);
        }
        id
    }

    // --- looking at variables ---------------------------------------------------------------

    /// The kind of `id`, looked at: never [`Kind::Lazy`].
    pub fn kind(&mut self, id: VarId) -> &Kind {
        self.realize(id);
        self.vars.kind(id)
    }

    /// Looks at a lazy variable: decides its kind and guards what was decided on.
    pub fn realize(&mut self, id: VarId) {
        match self.vars.kind(id) {
            Kind::Lazy => match self.value(id).filter(is_long) {
                Some(value) => {
                    self.guard_type(id, &value);
                    self.set_kind(id, Kind::Opaque);
                }
                None => self.classify(id),
            },
            Kind::Appended(appended) => {
                let appended = appended.clone();
                self.classify(id);
                self.vars.update(id, |var| match &mut var.kind {
                    Kind::List(items) => items.extend(appended),
                    other => *other = Kind::Opaque,
                });
            }
            _ => {}
        }
    }

    /// `list.append(value)` and the like on a list that nothing has looked into: how long it is does not matter.
    /// The answer is whether it was such a list.
    pub(super) fn append(&mut self, list: VarId, more: &[VarId]) -> bool {
        if matches!(self.vars.kind(list), Kind::Lazy) {
            let value = self.value(list);
            let Some(value) = value.filter(|value| value.is_exact_instance_of::<PyList>()) else {
                return false;
            };
            if self.source(list).is_none() || self.is_fixed(list) {
                return false;
            }
            self.guard_type(list, &value);
            self.distinct(list);
            self.set_kind(list, Kind::Appended(Vec::new()));
        }
        let unread = matches!(self.vars.kind(list), Kind::Appended(_));
        if unread {
            self.vars.mutate(list, |var| {
                if let Kind::Appended(items) = &mut var.kind {
                    items.extend_from_slice(more);
                }
            });
        }
        unread
    }

    /// Whether nothing has looked into this list, which exists before the frame.
    pub(super) fn is_unread_list(&self, id: VarId) -> bool {
        match self.vars.kind(id) {
            Kind::Lazy => self
                .value(id)
                .is_some_and(|value| value.is_exact_instance_of::<PyList>()),
            kind => matches!(kind, Kind::Appended(_)),
        }
    }

    /// The source of `id`, if it has one.
    pub fn source(&self, id: VarId) -> Option<TrackerRef> {
        self.vars.get(id).source.clone()
    }

    /// The real object of `id`, if it has one. For constants this is the value.
    pub fn value(&self, id: VarId) -> Option<Bound<'py, PyAny>> {
        self.vars
            .get(id)
            .value
            .as_ref()
            .map(|value| value.bind(self.py).clone())
    }

    /// The value of a constant (`Kind::Const`), `None` for any other kind.
    pub fn const_value(&mut self, id: VarId) -> Option<Bound<'py, PyAny>> {
        self.realize(id);
        match self.vars.kind(id) {
            Kind::Const => self.value(id),
            _ => None,
        }
    }

    /// A constant exact `str`.
    pub fn const_str(&mut self, id: VarId) -> Option<Arc<str>> {
        let value = self.const_value(id)?;
        value
            .cast_exact::<PyString>()
            .ok()
            .and_then(|text| text.to_str().ok().map(Arc::from))
    }

    /// A constant `int` or `bool` that fits.
    pub fn const_int(&mut self, id: VarId) -> Option<i64> {
        let value = self.const_value(id)?;
        if value.is_instance_of::<PyInt>() {
            value.extract().ok()
        } else {
            None
        }
    }

    /// Whether `id` is `None`.
    pub fn is_none(&mut self, id: VarId) -> bool {
        self.const_value(id).is_some_and(|value| value.is_none())
    }

    /// Adds a guard on `id`, when it comes from outside.
    pub fn guard(&mut self, id: VarId, kind: GuardKind) {
        let Some(source) = self.source(id) else {
            return;
        };
        let fixed = matches!(*source, Tracker::Const(_));
        let known = match &kind {
            GuardKind::Is(_) | GuardKind::ConstEq(_) => fixed,
            // An object may exchange its class for another.
            GuardKind::TypeIs(class) => {
                let class = class.bind(self.py).cast::<PyType>();
                fixed && class.is_ok_and(|class| !native::is_mutable(class))
            }
            _ => false,
        };
        if !known {
            self.guards.add(&source, kind);
        }
    }

    /// Guards that `id` is this very object.
    pub fn guard_identity(&mut self, id: VarId) {
        if let Some(value) = self.vars.get(id).value.clone() {
            self.guard(id, GuardKind::Is(value));
        }
    }

    /// Called for the dictionary of an object whose attributes are read or written. Stops where the program
    /// has the dictionary itself too, and where looking into it may run user code.
    pub fn note_namespace(&mut self, dict: &Bound<'py, PyDict>, of: &TrackerRef) -> Step<()> {
        let address = dict.as_ptr() as usize;
        if self.namespaces.contains_key(&address) {
            return Ok(());
        }
        let seen = self.known.get(&address).copied();
        if seen.is_some_and(|id| !matches!(self.vars.kind(id), Kind::Lazy | Kind::Opaque)) {
            return self.unsupported("an object together with its __dict__");
        }
        if !dict
            .keys()
            .iter()
            .all(|key| key.is_exact_instance_of::<PyString>())
        {
            return self.unsupported("an object with attributes that are not strings");
        }
        let tracker = Arc::new(Tracker::InstanceDict(of.clone()));
        self.namespaces.insert(address, tracker);
        Ok(())
    }

    /// Guards that no dictionary which the program has is that of an object, where it writes to one of them: the other
    /// would change too.
    pub fn guard_namespaces(&mut self) {
        let (mut dicts, mut objects) = (Vec::new(), Vec::new());
        for id in self.vars.mutated() {
            let var = self.vars.get(*id);
            match (&var.kind, &var.source, &var.value) {
                (Kind::Dict(_), Some(source), _) => dicts.push(source.clone()),
                (Kind::Object(_) | Kind::Layer(_), Some(source), Some(_)) => {
                    objects.push(source.clone())
                }
                _ => {}
            }
        }
        let mut pairs = Vec::new();
        for dict in &dicts {
            pairs.extend(
                self.namespaces
                    .values()
                    .map(|own| (own.clone(), dict.clone())),
            );
        }
        for object in objects {
            let own = Arc::new(Tracker::InstanceDict(object));
            if !self.namespaces.values().any(|known| *known == own) {
                continue;
            }
            let all = self.vars.sources(|kind| matches!(kind, Kind::Dict(_)));
            pairs.extend(all.into_iter().map(|dict| (own.clone(), dict)));
        }
        for (own, dict) in pairs {
            self.guards.add(&own, GuardKind::OtherThan(dict));
        }
    }

    /// Called for a value whose reference goes away: stops when that may run a destructor.
    pub fn let_go(&mut self, id: VarId) -> Step<()> {
        let var = self.vars.get(id);
        let (real, known) = match (&var.kind, &var.value) {
            (Kind::Lazy | Kind::Opaque, Some(value)) => (value.bind(self.py).clone(), false),
            (Kind::Object(_), Some(value)) => (value.bind(self.py).clone(), true),
            _ => return Ok(()),
        };
        if known {
            super::classes::guard_names(self, &real.get_type(), &["__del__"]);
        }
        if super::attributes::lookup(&real.get_type(), "__del__").is_some() {
            return self.unsupported("an object with a destructor may go away");
        }
        Ok(())
    }

    /// The type of the value as user code would see it with `type(x)`, when it is known.
    pub fn type_of(&mut self, id: VarId) -> Option<Bound<'py, PyType>> {
        self.realize(id);
        let py = self.py;
        let builtin = |name: &str| {
            py.import("builtins")
                .ok()?
                .getattr(name)
                .ok()?
                .cast_into::<PyType>()
                .ok()
        };
        let var = self.vars.get(id).clone();
        let class = |class: &Obj| class.bind(py).cast::<PyType>().ok().cloned();
        match &var.kind {
            Kind::Tensor(tensor) => class(tensor.class.as_ref().unwrap_or(&self.paddle.tensor)),
            Kind::Object(object) | Kind::Layer(object) => class(&object.class),
            Kind::Layers { class: of, .. } => class(of),
            Kind::Tuple(_, Some(named)) => class(named),
            Kind::Dict(dict) => dict.class.as_ref().map_or_else(|| builtin("dict"), class),
            Kind::List(_) => var.class.as_ref().map_or_else(|| builtin("list"), class),
            Kind::Tuple(_, None) => builtin("tuple"),
            Kind::Set(set) => builtin(if set.frozen { "frozenset" } else { "set" }),
            Kind::Int(_) => builtin("int"),
            Kind::Float(_) => builtin("float"),
            Kind::SymNumber(symbol) => match self.graph.meta(*symbol)?.dtype {
                DType::Int64 => builtin("int"),
                DType::Bool => builtin("bool"),
                _ => None,
            },
            Kind::Slice(_) => builtin("slice"),
            Kind::Range(..) => builtin("range"),
            Kind::Function(_) => Some(py.get_type::<PyFunction>()),
            Kind::Method { .. } => py
                .import("types")
                .ok()?
                .getattr("MethodType")
                .ok()?
                .cast_into()
                .ok(),
            Kind::Const
            | Kind::Scalar
            | Kind::Callable
            | Kind::Class
            | Kind::Module
            | Kind::Opaque => var.value.as_ref().map(|value| value.bind(py).get_type()),
            _ => None,
        }
    }

    // --- classification ---------------------------------------------------------------------

    fn set_kind(&mut self, id: VarId, kind: Kind) {
        self.vars.update(id, |var| var.kind = kind);
    }

    /// Guards the class of `id`.
    pub(super) fn guard_class(&mut self, id: VarId) {
        if let Some(value) = self.value(id) {
            self.guard_type(id, &value);
        }
    }

    fn guard_type(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        self.guard(id, GuardKind::TypeIs(Obj::from(value.get_type())));
    }

    fn child(
        &mut self,
        source: Option<&TrackerRef>,
        value: &Bound<'py, PyAny>,
        step: impl FnOnce(TrackerRef) -> Tracker,
    ) -> VarId {
        match source {
            Some(source) => self.wrap(value, Arc::new(step(source.clone()))),
            None => self.constant(value),
        }
    }

    fn is_fixed(&self, id: VarId) -> bool {
        self.vars
            .get(id)
            .source
            .as_ref()
            .is_some_and(|source| matches!(**source, Tracker::Const(_)))
    }

    fn classify(&mut self, id: VarId) {
        let Some(value) = self.value(id) else { return };
        let source = self.source(id);
        let source = source.as_ref();
        if source.is_some_and(|source| self.options.dynamic_numbers.contains_key(source)) {
            self.guard_type(id, &value);
            let kind = if value.is_exact_instance_of::<PyInt>() {
                Kind::Int(NumberVar::Given)
            } else {
                Kind::Float(NumberVar::Given)
            };
            // Without its value, nothing can rely on it.
            self.vars.update(id, |var| {
                var.kind = kind;
                var.value = None;
            });
        } else if is_plain_constant(&value) {
            self.guard(id, GuardKind::ConstEq(Obj::from(&value)));
            self.set_kind(id, Kind::Const);
        } else if super::scalars::is_settled(source) && super::scalars::is_scalar(&value) {
            super::scalars::settle(self, id, &value);
        } else if self.paddle.is_tensor(&value) {
            self.classify_tensor(id, &value);
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.guard_type(id, &value);
            self.guard(id, GuardKind::Len(list.len()));
            self.distinct(id);
            let items = list
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    self.child(source, &item, |base| Tracker::ListItem(base, index))
                })
                .collect();
            self.set_kind(id, Kind::List(items));
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            let fixed = source.is_none_or(|source| matches!(**source, Tracker::Const(_)));
            if !fixed {
                self.guard_type(id, &value);
                self.guard(id, GuardKind::Len(tuple.len()));
            }
            let source = source.filter(|_| !fixed);
            let items = tuple
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    self.child(source, &item, |base| Tracker::TupleItem(base, index))
                })
                .collect();
            self.set_kind(id, Kind::Tuple(items, None));
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.classify_dict(id, dict, None, source);
        } else if let Some(dict) = self.ordered_dict(&value) {
            let class = Obj::from(value.get_type());
            self.classify_dict(id, &dict, Some(class), source);
        } else if let (true, Ok(set)) = (self.is_fixed(id), value.cast_exact::<PyFrozenSet>()) {
            let items: Vec<_> = set.iter().collect();
            let mut made = SetVar {
                frozen: true,
                ..SetVar::default()
            };
            for item in items {
                let item = self.constant(&item);
                match super::keys::key_of(self, item) {
                    Ok(key) => made.items.insert(key, item),
                    Err(_) => return self.set_kind(id, Kind::Opaque),
                };
            }
            self.set_kind(id, Kind::Set(made));
        } else if value.is_exact_instance_of::<PyFunction>() {
            self.guard_type(id, &value);
            self.set_kind(id, Kind::Function(FunctionVar::Real));
        } else if value.is_instance_of::<PyModule>() && is_plain_module(&value) {
            self.guard_identity(id);
            self.set_kind(id, Kind::Module);
        } else if value.is_instance_of::<PyType>() {
            self.guard_identity(id);
            self.set_kind(id, Kind::Class);
        } else if self.paddle.is_layer(&value) {
            self.guard_identity(id);
            self.guard_type(id, &value);
            let class = Obj::from(value.get_type());
            self.set_kind(
                id,
                Kind::Layer(ObjectVar {
                    class,
                    writes: Vec::new(),
                    base: None,
                }),
            );
        } else {
            self.classify_by_type_name(id, &value, source);
        }
    }

    /// Whether this is a method of a list that was made for one call: what a frame finds on its stack behind a break.
    fn is_list_method(&self, value: &Bound<'py, PyAny>, source: Option<&TrackerRef>) -> bool {
        let passed = source.is_some_and(|source| matches!(**source, Tracker::Local { .. }));
        let receiver = value.getattr("__self__");
        passed && receiver.is_ok_and(|receiver| receiver.is_exact_instance_of::<PyList>())
    }

    fn classify_by_type_name(
        &mut self,
        id: VarId,
        value: &Bound<'py, PyAny>,
        source: Option<&TrackerRef>,
    ) {
        let class = value.get_type();
        let name = class
            .name()
            .map(|name| name.to_string())
            .unwrap_or_default();
        match name.as_str() {
            "method" if class.module().is_ok_and(|module| module == "builtins") => {
                let (Ok(receiver), Ok(function)) =
                    (value.getattr("__self__"), value.getattr("__func__"))
                else {
                    return self.set_kind(id, Kind::Opaque);
                };
                self.guard_type(id, value);
                let receiver = self.child(source, &receiver, Tracker::MethodSelf);
                let function = self.child(source, &function, Tracker::MethodFunc);
                self.set_kind(id, Kind::Method { receiver, function });
            }
            "builtin_function_or_method" if self.is_list_method(value, source) => {
                let name: Option<String> = value
                    .getattr("__name__")
                    .and_then(|name| name.extract())
                    .ok();
                let list = self.py.get_type::<PyList>();
                let function = name.as_ref().and_then(|name| list.getattr(&**name).ok());
                let (Some(name), Some(function), Ok(receiver)) =
                    (name, function, value.getattr("__self__"))
                else {
                    return self.set_kind(id, Kind::Opaque);
                };
                self.guard_type(id, value);
                let receiver = self.child(source, &receiver, Tracker::MethodSelf);
                let function = self.child(source, &function, Tracker::MethodFunc);
                self.guard_identity(function);
                let name = Arc::from(name);
                self.set_kind(id, Kind::BoundBuiltin { receiver, name });
            }
            "builtin_function_or_method"
            | "method_descriptor"
            | "wrapper_descriptor"
            | "method-wrapper"
            | "classmethod_descriptor"
            | "getset_descriptor"
            | "member_descriptor"
            | "instancemethod"
            | "ufunc"
            | "_ArrayFunctionDispatcher"
            | "_lru_cache_wrapper"
            | "itemgetter"
            | "attrgetter"
            | "methodcaller"
            | "pybind11_builtins.pybind11_static_property" => {
                self.guard_identity(id);
                self.set_kind(id, Kind::Callable);
            }
            "cell" => {
                self.guard_type(id, value);
                self.set_kind(id, Kind::Cell(CellVar::Unread));
            }
            "slice" | "range" => self.classify_const_object(id, value),
            _ if is_enum_like(value) => {
                self.guard_identity(id);
                self.set_kind(id, Kind::Const);
            }
            _ if is_python_class(&class) => {
                self.guard_type(id, value);
                self.distinct(id);
                self.set_kind(
                    id,
                    Kind::Object(ObjectVar {
                        class: Obj::from(class),
                        writes: Vec::new(),
                        base: None,
                    }),
                );
            }
            _ => {
                self.guard_type(id, value);
                self.set_kind(id, Kind::Opaque);
            }
        }
    }

    fn classify_const_object(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        let parts = ["start", "stop", "step"].map(|name| value.getattr(name));
        let [Ok(start), Ok(stop), Ok(step)] = parts else {
            return self.set_kind(id, Kind::Opaque);
        };
        let plain = [&start, &stop, &step]
            .iter()
            .all(|part| is_plain_constant(part));
        if !plain {
            self.guard_type(id, value);
            return self.set_kind(id, Kind::Opaque);
        }
        self.guard(id, GuardKind::ConstEq(Obj::from(value)));
        if value.get_type().name().is_ok_and(|name| name == "range") {
            match (start.extract(), stop.extract(), step.extract()) {
                (Ok(start), Ok(stop), Ok(step)) => {
                    self.set_kind(id, Kind::Range(start, stop, step))
                }
                _ => self.set_kind(id, Kind::Opaque),
            }
        } else {
            let parts = [start, stop, step].map(|part| self.constant(&part));
            self.set_kind(id, Kind::Slice(parts));
        }
    }

    /// Opens the dims that differ between calls of what is found at `source`.
    pub fn leave_open(&self, source: &TrackerRef, meta: &mut TensorMeta) {
        for &dim in self.options.dynamic_dims.get(source).into_iter().flatten() {
            if let Some(open) = meta.shape.get_mut(dim) {
                *open = -1;
            }
        }
    }

    fn classify_tensor(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        let Some(meta) = tensor_meta(value) else {
            self.guard_type(id, value);
            return self.set_kind(id, Kind::Opaque);
        };
        let Some(source) = self.source(id) else {
            // A tensor without a source cannot be an input of the graph.
            return self.set_kind(id, Kind::Opaque);
        };
        let mut traced = meta.clone();
        self.leave_open(&source, &mut traced);
        self.guard_type(id, value);
        self.guard(id, GuardKind::Tensor(TensorGuard::of(&traced)));
        let class = value.get_type();
        let class = (!class.is(self.paddle.tensor.bind(self.py))).then(|| Obj::from(class));
        match self
            .graph
            .tensor_input(self.py, Obj::from(value), traced, source)
        {
            Ok(symbol) => {
                self.distinct(id);
                self.set_kind(
                    id,
                    Kind::Tensor(TensorVar {
                        symbol,
                        view: None,
                        class,
                    }),
                );
            }
            Err(_) => self.set_kind(id, Kind::Opaque),
        }
    }

    fn ordered_dict(&self, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
        let class = self
            .py
            .import("collections")
            .and_then(|module| module.getattr("OrderedDict"))
            .ok()?;
        if value.get_type().is(&class) {
            value.cast::<PyDict>().ok().cloned()
        } else {
            None
        }
    }

    fn classify_dict(
        &mut self,
        id: VarId,
        dict: &Bound<'py, PyDict>,
        class: Option<Obj>,
        source: Option<&TrackerRef>,
    ) {
        self.guard_type(id, dict.as_any());
        let is_namespace = self.namespaces.contains_key(&(dict.as_ptr() as usize))
            || ["__builtins__", "__spec__"]
                .iter()
                .any(|name| dict.contains(*name).unwrap_or(true));
        if is_namespace {
            // Its items are variables of the program, and attributes of an object, by other names.
            return self.set_kind(id, Kind::Opaque);
        }
        let Ok(Some(found)) = items_in_order(dict) else {
            return self.set_kind(id, Kind::Opaque);
        };
        let mut keys = Vec::with_capacity(dict.len());
        for (key, _) in &found {
            match dict_key(key) {
                Some(key) => keys.push(key),
                None => return self.set_kind(id, Kind::Opaque),
            }
        }
        self.guard(id, GuardKind::DictKeys(keys.clone()));
        self.distinct(id);
        let mut items = DictVar {
            class,
            ..DictVar::default()
        };
        for ((key, value), dict_key) in found.into_iter().zip(keys) {
            let simulated = match &dict_key {
                DictKey::Str(text) => Key::Str(text.clone()),
                DictKey::Int(number) => Key::Int(i128::from(*number)),
                DictKey::Identity(object) => Key::Identity(object.as_ptr() as usize),
            };
            let key = self.constant(&key);
            let value = self.child(source, &value, |base| Tracker::DictItem(base, dict_key));
            items.items.insert(simulated, (key, value));
        }
        self.set_kind(id, Kind::Dict(items));
    }

    fn distinct(&mut self, id: VarId) {
        if let Some(source) = self.source(id) {
            self.guards.add_distinct(&source);
        }
    }
}

/// Immutable builtin values whose content is all there is to know.
pub fn is_plain_constant(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyComplex>()
        || value.is_exact_instance_of::<PyCode>()
        || value.is(value.py().Ellipsis())
        || value.is(value.py().NotImplemented())
}

/// Containers that are not looked into: every item would be a guard.
const LONGEST: usize = 4096;

fn is_long(value: &Bound<'_, PyAny>) -> bool {
    let container = value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyDict>();
    container && value.len().is_ok_and(|len| len > LONGEST)
}

/// A module without Python code behind its attributes; `__getattr__` in its namespace aside.
fn is_plain_module(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    let plain = value.py().get_type::<PyModule>();
    class.is(&plain)
        || ["__getattribute__", "__setattr__", "__delattr__"]
            .iter()
            .all(|name| {
                let (own, base) = (
                    super::attributes::lookup(&class, name),
                    super::attributes::lookup(&plain, name),
                );
                matches!((own, base), (Some(own), Some(base)) if own.is(&base))
            })
}

/// Objects that are constants by identity: enum members, dtypes, places.
fn is_enum_like(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    let module = class
        .module()
        .map(|module| module.to_string())
        .unwrap_or_default();
    if module == "paddle"
        || module == "paddle.base.libpaddle"
        || module.starts_with("paddle.base.libpaddle.")
    {
        let name = class
            .name()
            .map(|name| name.to_string())
            .unwrap_or_default();
        return matches!(name.as_str(), "DataType" | "VarType" | "finfo" | "iinfo")
            || name.ends_with("Place");
    }
    is_enum_member(value)
}

/// A member of an enumeration none of whose operators is written in Python, other than in the module `enum`.
pub fn is_enum_member(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    let known = value
        .py()
        .import("enum")
        .and_then(|module| module.getattr("EnumType"));
    if !known.is_ok_and(|known| class.get_type().is(&known)) {
        return false;
    }
    const MAKING: &[&str] = &["__init__", "__new__", "__init_subclass__", "__set_name__"];
    class.mro().iter().all(|base| {
        let names = base
            .cast::<PyType>()
            .ok()
            .and_then(|base| crate::obj::of_type(base, "__dict__"));
        let items = names.and_then(|names| names.call_method0("items").ok());
        let Some(items) = items.and_then(|items| items.try_iter().ok()) else {
            return false;
        };
        items.flatten().all(|item| {
            let Ok((name, found)) = item.extract::<(String, Bound<'_, PyAny>)>() else {
                return false;
            };
            !name.starts_with("__")
                || MAKING.contains(&name.as_str())
                || !found.is_exact_instance_of::<PyFunction>()
                || super::attributes::is_of_enum_module(&found)
        })
    })
}

/// Whether the class was made by a `class` statement (a heap type with Python-level layout).
fn is_python_class(class: &Bound<'_, PyType>) -> bool {
    const HEAPTYPE: u64 = 1 << 9;
    let flags = class
        .getattr("__flags__")
        .and_then(|flags| flags.extract::<u64>())
        .unwrap_or(0);
    flags & HEAPTYPE != 0
        && class
            .getattr("__module__")
            .is_ok_and(|m| m.extract::<String>().is_ok_and(|m| m != "builtins"))
        && class
            .getattr("__dict__")
            .is_ok_and(|dict| dict.contains("__module__").unwrap_or(false))
}

fn dict_key(key: &Bound<'_, PyAny>) -> Option<DictKey> {
    if let Ok(text) = key.cast_exact::<PyString>() {
        return Some(DictKey::Str(Arc::from(text.to_str().ok()?)));
    }
    if key.is_exact_instance_of::<PyInt>() {
        return Some(DictKey::Int(key.extract().ok()?));
    }
    let identity = key.is_none() || key.is_instance_of::<PyType>() || is_enum_like(key);
    identity.then(|| DictKey::Identity(Obj::from(key)))
}
