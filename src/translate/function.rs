//! [`Translated`]: one function (or resume function), its cache and its counters.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::backend::{self, CompiledGraph};
use crate::bytecode::{Origin, ResumeSpec};
use crate::codegen::Plan;
use crate::frame::{self, user_is_tracing, CodeState, PassFrame, Policy};
use crate::guard::{CompiledGuard, GuardInputs};
use crate::obj::Obj;
use crate::plugin;
use crate::reason::{Break, BreakKind, Fallback, Recompile, SourceLoc, Stats};
use crate::simulator::{attributes, TraceOptions};
use crate::tracker::TrackerRef;

use super::arguments::{addresses, Bound_, Parameters};
use super::callable::{CalleeFunction, ResumeFunction};
use super::callees::Listener;
use super::choice::{BackendChoice, Configured};
use super::declared::DynamicTensors;
use super::graph_inputs::GraphInputs;
use super::neighbour::Quiet;
use super::pin::{self, Pin};
use super::pipeline;
use super::random::Randomness;
use super::totals;

/// What `to_static` was asked for.
pub struct CompileOptions {
    /// The backend.
    pub backend: BackendChoice,
    /// One graph or an error.
    pub full_graph: bool,
    /// For the simulator.
    pub trace: TraceOptions,
}

/// A graph as `explain` shows it.
pub struct GraphInfo {
    /// The statements.
    pub ir: String,
    /// The backend's program.
    pub program: String,
    /// The guards.
    pub guards: Vec<String>,
    /// The backend.
    pub backend: String,
    /// The generation of the backend.
    pub generation: u64,
    /// What the backend says about it.
    pub report: Vec<String>,
    /// The generated code object, if there is one.
    pub code: Option<Obj>,
}

/// The original code object, the globals, the place, and the raising instruction.
pub type ResumeKey = (Obj, Obj, ResumeSpec, usize);

/// What a function shares with its resume functions.
pub struct Shared {
    /// The options.
    pub options: CompileOptions,
    /// Whether everything is translated, worth it or not.
    pub forced: bool,
    /// Counters and events.
    pub stats: Mutex<Stats>,
    /// Graphs, when `explain` asked for them.
    pub graphs: Mutex<Vec<GraphInfo>>,
    /// Resume functions by original code object, place, and raising instruction.
    pub resumes: Mutex<FxHashMap<ResumeKey, (Obj, usize)>>,
    /// Functions called by parts that run natively, by address.
    pub callees: Mutex<FxHashMap<usize, Obj>>,
    /// Under forced translation: frames of code whose functions are made over and over, by the address of the code.
    pub seen: Mutex<FxHashMap<usize, usize>>,
    /// Under forced translation: what became of the frames, by what it was.
    pub frames: Mutex<FxHashMap<String, u64>>,
    /// Times that calls below native code were looked at, and whether one of them ever ran a graph.
    pub listened: AtomicUsize,
    /// See `listened`.
    pub found_graphs: AtomicBool,
}

/// Looks below native code that found nothing to translate, before no more are taken: the hook
/// makes every Python call slower.
const MAX_VAIN_LOOKS: usize = 32;

impl Shared {
    /// Nothing has happened yet.
    pub fn new(options: CompileOptions, forced: bool) -> Arc<Self> {
        Arc::new(Self {
            options,
            forced,
            stats: Mutex::default(),
            graphs: Mutex::default(),
            resumes: Mutex::default(),
            callees: Mutex::default(),
            seen: Mutex::default(),
            frames: Mutex::default(),
            listened: AtomicUsize::new(0),
            found_graphs: AtomicBool::new(false),
        })
    }

    /// Counts a frame, or a part of one, under forced translation.
    pub(super) fn count(&self, what: &str) {
        if self.forced {
            let mut frames = lock(&self.frames);
            match frames.get_mut(what) {
                Some(count) => *count += 1,
                None => drop(frames.insert(what.to_owned(), 1)),
            }
        }
    }

    fn listen(self: &Arc<Self>, py: Python<'_>) -> Option<Listener> {
        let pays = self.forced
            || self.found_graphs.load(Ordering::Relaxed)
            || self.listened.fetch_add(1, Ordering::Relaxed) < MAX_VAIN_LOOKS;
        pays.then(|| Listener::start(py, self)).flatten()
    }
}

/// What is to be done after a function ran to its end or to a break.
enum Next {
    /// Nothing: this is the result.
    Return(Py<PyAny>),
    /// Go on with this resume function, on the same backend.
    Resume(Py<PyAny>, Py<PyTuple>, Arc<Configured>),
    /// Nothing has happened: the interpreter evaluates the frame itself.
    AsItIs,
}

/// How a function came to run.
#[derive(Clone, Copy)]
enum Run<'a, 'py> {
    /// It was called with this.
    Called(&'a Bound<'py, PyTuple>, Option<&'a Bound<'py, PyDict>>),
    /// In the place of a frame of the interpreter, which this makes drop its arguments.
    Frame(&'a dyn Fn()),
    /// A resume function, by the function that broke.
    Resumed,
}

/// One translation.
pub struct Entry {
    /// When it may run.
    pub guard: Box<dyn CompiledGuard>,
    /// How.
    pub plan: Plan,
    /// The graph, if any statement is needed.
    pub graph: Option<Box<dyn CompiledGraph>>,
    /// Whether the graph draws random numbers.
    pub randomness: Randomness,
    /// The inputs of the graph.
    pub graph_inputs: GraphInputs,
    /// Whether the instruction that breaks the graph may call Python functions.
    pub listens: bool,
    /// The backend it was compiled by.
    pub backend: Arc<Configured>,
}

/// A function that is translated when it is called.
pub struct Translated {
    /// The Python function.
    pub function: Obj,
    /// Its `self`, when it was a bound method.
    pub receiver: Option<Obj>,
    /// For a resume function: the original code object, and how this one's code relates to it.
    pub origin: Option<(Obj, Arc<Origin>)>,
    /// Shared with resume functions.
    pub shared: Arc<Shared>,
    /// Dims seen and found to change, by tracker.
    pub dims: Mutex<FxHashMap<TrackerRef, Vec<Option<i64>>>>,
    /// The first value seen of numbers that were relied on, by tracker; `None` where Python needs the value.
    pub numbers: Mutex<FxHashMap<TrackerRef, Option<Obj>>>,
    /// Instructions that the interpreter runs; see `TraceOptions::native`.
    pub native: Mutex<FxHashSet<usize>>,
    /// For the rest of an inlined callee: the instruction of the break it goes on from, which was reported.
    pub reported: Option<usize>,
    /// Under `full_graph`: every reason of the last attempt.
    pub reasons: Mutex<Vec<Break>>,
    /// Whether it is called with bound arguments.
    pub(super) is_callee: bool,
    /// Checks the arguments of calls that no translation is ready for against the user's input
    /// specification; the answer is a list of (tensor, dynamic dims).
    specification: Option<Obj>,
    /// What the last arguments were that it was translated for; see `observed` in `specification.py`.
    observed: Mutex<Option<Obj>>,
    pub(super) parameters: Parameters,
    closure: Option<Obj>,
    location: SourceLoc,
    code: Obj,
    entries: Mutex<Arc<Vec<Arc<Entry>>>>,
    failures: AtomicUsize,
    gave_up: AtomicBool,
    /// Why it last ran natively, for counting.
    why: Mutex<Option<String>>,
    /// The generation of the backend that `failures` and `gave_up` are about: the next one is tried again.
    tried_under: AtomicU64,
}

thread_local! {
    static TRANSLATING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is translating.
pub fn is_translating() -> bool {
    TRANSLATING.get()
}

static OFF: AtomicBool = AtomicBool::new(false);

/// Whether translated functions run as they are.
fn is_switched_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Lets all translated functions of the process run as they are, or not any more.
pub fn switch_off(off: bool) {
    OFF.store(off, Ordering::Relaxed);
}

static TURN: Mutex<()> = Mutex::new(());

/// The program that Paddle appends operators to is one per process: one translation at a time.
/// Waiting gives up the GIL.
pub(super) fn exclusively<T>(py: Python<'_>, translate: impl FnOnce() -> T) -> T {
    let _turn = TURN
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner);
    TRANSLATING.set(true);
    let answer = translate();
    TRANSLATING.set(false);
    answer
}

/// Failed attempts on one function before it is left alone.
const MAX_FAILURES: usize = 3;
/// Events of each kind that stay when a backend is swapped.
const EVENTS: usize = 1000;
/// Entries of one function.
const MAX_ENTRIES: usize = 32;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks half-way through an update.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Translated {
    /// Prepares a Python function (or bound method).
    ///
    /// # Errors
    /// `TypeError` when `callable` is neither.
    pub fn new(callable: &Bound<'_, PyAny>, shared: Arc<Shared>) -> PyResult<Self> {
        let receiver = callable.getattr("__self__").ok();
        let function = if receiver.is_some() {
            callable.getattr("__func__")?
        } else {
            callable.clone()
        };
        let code = function.getattr("__code__")?;
        let closure = function.getattr("__closure__")?;
        Ok(Self {
            parameters: Parameters::of(&function)?,
            location: SourceLoc {
                file: Arc::from(code.getattr("co_filename")?.extract::<String>()?),
                line: code.getattr("co_firstlineno")?.extract()?,
                function: Arc::from(code.getattr("co_qualname")?.extract::<String>()?),
            },
            code: Obj::from(&code),
            closure: (!closure.is_none()).then(|| Obj::from(closure)),
            function: Obj::from(function),
            receiver: receiver.map(Obj::from),
            origin: None,
            is_callee: false,
            specification: None,
            observed: Mutex::default(),
            shared,
            dims: Mutex::default(),
            numbers: Mutex::default(),
            native: Mutex::default(),
            reported: None,
            reasons: Mutex::default(),
            entries: Mutex::default(),
            failures: AtomicUsize::new(0),
            gave_up: AtomicBool::new(false),
            why: Mutex::default(),
            tried_under: AtomicU64::new(0),
        })
    }

    /// The same, with a callable that checks arguments against an input specification.
    pub fn with_specification(mut self, specification: Option<Obj>) -> Self {
        self.specification = specification;
        self
    }

    fn observe(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let module = py.import("paddle_sot_rs.specification")?;
        let seen = module.call_method1("observed", (args, kwargs))?;
        *lock(&self.observed) = Some(Obj::from(seen));
        Ok(())
    }

    /// What the last arguments were that it was translated for.
    pub fn last_observed(&self) -> Option<Obj> {
        lock(&self.observed).clone()
    }

    /// Tensors of this call that the input specification leaves dims of open.
    fn declared(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<DynamicTensors> {
        let Some(specification) = &self.specification else {
            return Ok(DynamicTensors::default());
        };
        let declared = specification.bind(py).call1((args, kwargs))?;
        let declared: Vec<(Bound<'_, PyAny>, Vec<usize>)> = declared.extract()?;
        Ok(declared
            .into_iter()
            .map(|(tensor, dims)| (tensor.as_ptr() as usize, dims))
            .collect())
    }

    /// Prepares a function that a native part calls.
    ///
    /// # Errors
    /// `TypeError` when it is no Python function.
    pub fn callee(function: &Bound<'_, PyAny>, shared: Arc<Shared>) -> PyResult<Self> {
        let mut made = Self::new(function, shared)?;
        made.is_callee = true;
        Ok(made)
    }

    /// Whether translating it was given up.
    pub fn is_left_alone(&self) -> bool {
        self.is_given_up(self.generation())
    }

    /// The generation of the backend: the one this call began on, else the registered one, if there is any.
    fn generation(&self) -> Option<u64> {
        pin::generation(&self.shared)
            .or_else(|| backend::current(self.shared.options.backend.name()))
    }

    fn is_given_up(&self, generation: Option<u64>) -> bool {
        self.gave_up.load(Ordering::Relaxed)
            && generation.is_none_or(|now| now == self.tried_under.load(Ordering::Relaxed))
    }

    fn give_up(&self) {
        let now = self.generation().unwrap_or(0);
        self.tried_under.store(now, Ordering::Relaxed);
        self.gave_up.store(true, Ordering::Relaxed);
    }

    /// Whether the function still has the code it had.
    ///
    /// # Errors
    /// When the function cannot be asked.
    pub fn is_current(&self, py: Python<'_>) -> PyResult<bool> {
        let code = self.function.bind(py).getattr("__code__")?;
        Ok(code.is(self.code.bind(py)))
    }

    pub(super) fn entries(&self) -> Arc<Vec<Arc<Entry>>> {
        lock(&self.entries).clone()
    }

    /// Forgets all translations and counters, those of the resume functions too.
    pub fn reset(&self, py: Python<'_>) {
        self.forget();
        // What is dropped may run user code, which may call this function: no lock is held then.
        let resumes = std::mem::take(&mut *lock(&self.shared.resumes));
        for (callable, _) in resumes.values() {
            // Their translations hold one another: in a loop they would stay for ever.
            if let Ok(resume) = callable.bind(py).cast::<ResumeFunction>() {
                resume.get().inner().forget();
            }
        }
        let callees = std::mem::take(&mut *lock(&self.shared.callees));
        self.shared.listened.store(0, Ordering::Relaxed);
        self.shared.found_graphs.store(false, Ordering::Relaxed);
        for callable in callees.values() {
            if let Ok(callee) = callable.bind(py).cast::<CalleeFunction>() {
                callee.get().inner().forget();
            }
        }
        let graphs = std::mem::take(&mut *lock(&self.shared.graphs));
        *lock(&self.shared.stats) = Stats::new();
        drop((resumes, callees, graphs));
    }

    fn forget(&self) {
        let entries = std::mem::take(&mut *lock(&self.entries));
        let dims = std::mem::take(&mut *lock(&self.dims));
        let numbers = std::mem::take(&mut *lock(&self.numbers));
        self.failures.store(0, Ordering::Relaxed);
        self.gave_up.store(false, Ordering::Relaxed);
        drop((entries, dims, numbers));
    }

    /// Runs the original function.
    ///
    /// # Errors
    /// What the function raises.
    pub fn call_original(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let function = self.function.bind(py);
        match &self.receiver {
            None => function.call(args, kwargs),
            Some(receiver) => {
                let all: Vec<_> = std::iter::once(receiver.bind(py).clone())
                    .chain(args.iter())
                    .collect();
                function.call(PyTuple::new(py, all)?, kwargs)
            }
        }
        .map(Bound::unbind)
    }

    /// Runs the function, and the resume functions it ends in, one after the other.
    ///
    /// # Errors
    /// What the function raises.
    pub fn call(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        if TRANSLATING.get() || is_switched_off() || user_is_tracing(py) {
            return self.call_original(py, args, kwargs);
        }
        let _quiet = Quiet::new(py)?;
        let receiver = self.receiver.as_ref().map(|receiver| receiver.bind(py));
        let run = Run::Called(args, kwargs);
        let next = match self.parameters.bind(py, receiver, args, kwargs)? {
            Some(bound) => self.step(py, bound, run)?,
            None => self.native(py, Bound_::new(), run)?,
        };
        self.finish(py, next)
    }

    fn finish(&self, py: Python<'_>, next: Next) -> PyResult<Py<PyAny>> {
        let answer = self.go_on(py, next)?;
        answer.ok_or_else(|| PyRuntimeError::new_err("a call answered like a frame"))
    }

    /// Runs a resume function that something else than the driver's loop reached.
    pub(super) fn resume(&self, py: Python<'_>, args: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let bound = args.iter().collect();
        drop(args);
        let next = self.step(py, bound, Run::Resumed)?;
        self.finish(py, next)
    }

    /// Runs the function in the place of a frame with these bound arguments; `None` when the frame is to
    /// be evaluated as it is.
    pub(super) fn call_frame<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        release: &dyn Fn(),
    ) -> Option<PyResult<Py<PyAny>>> {
        if TRANSLATING.get() || user_is_tracing(py) {
            return None;
        }
        let next = self.step(py, bound, Run::Frame(release));
        next.and_then(|next| self.go_on(py, next)).transpose()
    }

    /// Runs resume functions until one returns.
    fn go_on(&self, py: Python<'_>, mut next: Next) -> PyResult<Option<Py<PyAny>>> {
        let mut pin = None;
        loop {
            let (callable, args, backend) = match next {
                Next::Return(value) => return Ok(Some(value)),
                Next::AsItIs => return Ok(None),
                Next::Resume(callable, args, backend) => {
                    (callable.into_bound(py), args.into_bound(py), backend)
                }
            };
            pin.get_or_insert_with(|| Pin::new(&self.shared, backend));
            let resume = callable.cast::<ResumeFunction>().map_err(PyErr::from)?;
            let bound = args.iter().collect();
            drop(args);
            next = resume.get().inner().step(py, bound, Run::Resumed)?;
        }
    }

    /// Runs the function up to its end or its first break: from the cache, translated now, or as it is.
    fn step<'py>(&self, py: Python<'py>, bound: Bound_<'py>, how: Run<'_, 'py>) -> PyResult<Next> {
        if TRANSLATING.get() || user_is_tracing(py) {
            return self.native(py, bound, how);
        }
        let locals = addresses(&bound);
        let inputs = GuardInputs {
            locals: &locals,
            closure: self
                .closure
                .as_ref()
                .map_or(std::ptr::null_mut(), Obj::as_ptr),
        };
        let entries = self.entries();
        let generation = self.generation();
        let mut failed = None;
        for entry in entries.iter().rev() {
            if generation.is_some_and(|generation| generation != entry.backend.generation) {
                continue;
            }
            match entry.guard.check(py, inputs) {
                Ok(slots) => {
                    lock(&self.shared.stats).cache_hits += 1;
                    let slots: SmallVec<[Bound<'_, PyAny>; 8]> =
                        slots.iter().map(|slot| borrowed(py, *slot)).collect();
                    return self.run(py, entry, slots, bound, how);
                }
                Err(index) => failed = failed.or_else(|| Some((entry.clone(), index))),
            }
        }
        drop(entries);
        let wanted = match how {
            Run::Called(args, kwargs) => {
                if !self.is_given_up(generation) {
                    self.observe(py, args, kwargs)?;
                }
                self.declared(py, args, kwargs)?
            }
            Run::Frame(_) | Run::Resumed => DynamicTensors::default(),
        };
        if self.is_given_up(generation) {
            return self.native(py, bound, how);
        }
        self.miss(py, bound, failed, &wanted, how)
    }

    fn miss<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        failed: Option<(Arc<Entry>, usize)>,
        wanted: &DynamicTensors,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        {
            let mut stats = lock(&self.shared.stats);
            stats.cache_misses += 1;
            if let Some((entry, index)) = &failed {
                let guard = entry.guard.describe_failure(*index);
                log::info!(target: "paddle_sot_rs.recompiles", "{} is translated again: {guard}", self.location);
                stats.recompiles.push(Recompile {
                    function: self.location.clone(),
                    guard,
                });
            }
        }
        self.drop_stale();
        let before = self.entries();
        if before.len() >= MAX_ENTRIES {
            self.give_up();
            log::warn!(target: "paddle_sot_rs.recompiles", "{} has {MAX_ENTRIES} translations; from now on it runs as it is", self.location);
            return self.native(py, bound, how);
        }
        let translated = exclusively(py, || {
            if let Some(entry) = self.arrived(py, &bound, &before) {
                return Ok(entry);
            }
            let entry = self.translated(py, &bound, wanted)?;
            Arc::make_mut(&mut lock(&self.entries)).push(entry.clone());
            Ok(entry)
        });
        match translated {
            Ok(entry) => {
                if self.is_callee && entry.graph.is_none() && !self.shared.forced {
                    self.is_not_worth_it(py);
                }
                let locals = addresses(&bound);
                let closure = self
                    .closure
                    .as_ref()
                    .map_or(std::ptr::null_mut(), Obj::as_ptr);
                match entry.guard.check(
                    py,
                    GuardInputs {
                        locals: &locals,
                        closure,
                    },
                ) {
                    Ok(slots) => {
                        let slots: SmallVec<[Bound<'_, PyAny>; 8]> =
                            slots.iter().map(|slot| borrowed(py, *slot)).collect();
                        self.run(py, &entry, slots, bound, how)
                    }
                    Err(index) => {
                        let guard = entry.guard.describe_failure(index);
                        self.fall_back(Break::internal(format!(
                            "the guard {guard:?} fails right after the translation"
                        )));
                        self.remove(&entry);
                        self.native(py, bound, how)
                    }
                }
            }
            Err(reason) => {
                if self.shared.options.full_graph {
                    let raises = self.only_raises(&reason);
                    let refusal = self.refusal(py, reason);
                    if raises {
                        // The user's own exception says more.
                        self.native(py, bound, how)?;
                    }
                    return Err(refusal);
                }
                self.fall_back(reason);
                self.native(py, bound, how)
            }
        }
    }

    /// What another thread translated while this one waited for its turn.
    fn arrived(
        &self,
        py: Python<'_>,
        bound: &[Bound<'_, PyAny>],
        before: &Arc<Vec<Arc<Entry>>>,
    ) -> Option<Arc<Entry>> {
        let entries = self.entries();
        if Arc::ptr_eq(before, &entries) {
            return None;
        }
        let generation = self.generation();
        let locals = addresses(bound);
        let inputs = || GuardInputs {
            locals: &locals,
            closure: self
                .closure
                .as_ref()
                .map_or(std::ptr::null_mut(), Obj::as_ptr),
        };
        let mut entries = entries.iter().rev();
        entries
            .find(|entry| {
                generation.is_none_or(|now| now == entry.backend.generation)
                    && entry.guard.check(py, inputs()).is_ok()
            })
            .cloned()
    }

    /// Translates; a panic is a reason to run natively.
    fn translated(
        &self,
        py: Python<'_>,
        bound: &[Bound<'_, PyAny>],
        wanted: &DynamicTensors,
    ) -> Result<Arc<Entry>, Break> {
        let name = self.shared.options.backend.name();
        let doing = format_args!("a translation for the backend {name:?} panicked");
        plugin::caught(py, doing, || {
            Ok(pipeline::translate(py, self, bound, wanted))
        })
        .unwrap_or_else(|err| Err(Break::internal(err.to_string())))
        .map(Arc::new)
    }

    /// The error of a function that must be one graph and is not.
    pub(super) fn refusal(&self, py: Python<'_>, reason: Break) -> PyErr {
        let reason = self.placed(reason);
        let mut reasons = std::mem::take(&mut *lock(&self.reasons));
        if reasons.is_empty() {
            reasons.push(reason);
        }
        graph_break_error(py, &reasons)
    }

    /// Whether nothing is in the way of one graph but an exception that leaves the function.
    fn only_raises(&self, reason: &Break) -> bool {
        let reasons = lock(&self.reasons);
        let first = reasons.first().unwrap_or(reason);
        reasons.len() < 2 && first.kind == BreakKind::RaisesException
    }

    /// A callee without tensor operations: after a few, its frames are not looked at any more.
    fn is_not_worth_it(&self, py: Python<'_>) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 < MAX_FAILURES {
            return;
        }
        self.give_up();
        let code = self.function.bind(py).getattr("__code__");
        let marked = code.and_then(|code| {
            let state = CodeState::of(code.cast()?)?;
            state.set_policies(Policy::Skip, Policy::Default);
            Ok(())
        });
        if let Err(err) = marked {
            log::debug!(target: "paddle_sot_rs.graph_breaks", "{}: {err}", self.location);
        }
    }

    /// Drops what was compiled by backends that were replaced since.
    fn drop_stale(&self) {
        let Some(generation) = backend::current(self.shared.options.backend.name()) else {
            return;
        };
        let stale: Vec<Arc<Entry>> = {
            let mut entries = lock(&self.entries);
            let is_live = |entry: &Arc<Entry>| entry.backend.generation == generation;
            if entries.iter().all(is_live) {
                return;
            }
            let (live, stale) = entries.iter().cloned().partition(is_live);
            *entries = Arc::new(live);
            stale
        };
        let graphs: Vec<GraphInfo> = {
            let mut graphs = lock(&self.shared.graphs);
            let (live, stale) = std::mem::take(&mut *graphs)
                .into_iter()
                .partition(|graph| graph.generation == generation);
            *graphs = live;
            stale
        };
        // Backends that are swapped all the time must not make them grow for ever.
        lock(&self.shared.stats).keep_newest_events(EVENTS);
        // Outside of the locks: user code may run.
        drop((stale, graphs));
    }

    fn remove(&self, entry: &Arc<Entry>) {
        Arc::make_mut(&mut lock(&self.entries)).retain(|known| !Arc::ptr_eq(known, entry));
    }

    /// A reason without a place is about the whole function.
    fn placed(&self, mut reason: Break) -> Break {
        if reason.loc == SourceLoc::default() {
            reason.loc = self.location.clone();
        }
        reason
    }

    fn fall_back(&self, reason: Break) {
        if self.shared.forced {
            let kind = format!("{:?}", reason.kind);
            // Messages name what they met: the first words tell the rule.
            let rule: String = reason
                .message
                .chars()
                .take_while(|c| !"0123456789'\"(".contains(*c))
                .take(50)
                .collect();
            *lock(&self.why) = Some(format!("{kind}: {}", rule.trim()));
        }
        let reason = self.placed(reason);
        log::info!(target: "paddle_sot_rs.graph_breaks", "{} runs as it is: {reason}", self.location);
        lock(&self.shared.stats).fallbacks.push(Fallback {
            function: self.location.clone(),
            reason,
        });
        let now = self.generation().unwrap_or(0);
        if self.tried_under.swap(now, Ordering::Relaxed) != now {
            self.failures.store(0, Ordering::Relaxed);
            self.gave_up.store(false, Ordering::Relaxed);
        }
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
            self.give_up();
            log::warn!(target: "paddle_sot_rs.graph_breaks", "{} could not be translated {MAX_FAILURES} times; it is left alone", self.location);
        }
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        entry: &Arc<Entry>,
        slots: SmallVec<[Bound<'py, PyAny>; 8]>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        let outputs = match &entry.graph {
            None => SmallVec::new(),
            Some(graph) => {
                if self.is_callee {
                    self.shared.found_graphs.store(true, Ordering::Relaxed);
                }
                let before = entry.randomness.before(py)?;
                let inputs = &entry.graph_inputs;
                match inputs.with(py, &slots, |inputs| graph.call(py, inputs)) {
                    Ok(Some(outputs)) => {
                        entry.randomness.ran(py, before)?;
                        outputs
                    }
                    Ok(None) => return self.native(py, bound, how),
                    Err(err) => {
                        if let Some(before) = before {
                            before.restore(py)?;
                        }
                        // Nothing has happened yet: the original raises the user's exception itself.
                        log::info!(target: "paddle_sot_rs.graph_breaks", "{}: the graph failed: {err}", self.location);
                        if plugin::is_panic(py, &err) {
                            self.fall_back(Break::internal(err.to_string()));
                            self.remove(entry);
                        }
                        return self.native(py, bound, how);
                    }
                }
            }
        };
        match how {
            Run::Frame(_) => self.shared.count("translated"),
            Run::Resumed => self.shared.count("after a break: translated"),
            Run::Called(..) => {}
        }
        let rest = &slots[entry.graph_inputs.slots..];
        match &entry.plan {
            Plan::Direct(tree) => tree.build(py, &outputs, rest).map(Next::Return),
            Plan::Code(function) | Plan::Resume(function) => {
                let rest = PyList::new(py, rest)?;
                drop(slots);
                let outputs = PyTuple::new(py, outputs)?;
                // From here on values live as long as the generated code keeps them.
                drop(bound);
                if matches!(entry.plan, Plan::Resume(_)) {
                    if let Run::Frame(release) = how {
                        release();
                    }
                }
                let _listener = match entry.listens {
                    true => self.shared.listen(py),
                    false => None,
                };
                let _pin = Pin::new(&self.shared, entry.backend.clone());
                let answer = function.bind(py).call1((rest, outputs))?;
                if matches!(entry.plan, Plan::Code(_)) {
                    return Ok(Next::Return(answer.unbind()));
                }
                let (callable, args): (Bound<'_, PyAny>, Bound<'_, PyTuple>) = answer.extract()?;
                let backend = entry.backend.clone();
                Ok(Next::Resume(callable.unbind(), args.unbind(), backend))
            }
        }
    }

    fn native<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        let why = self.shared.forced.then(|| lock(&self.why).clone());
        let why =
            why.map(|why| why.unwrap_or_else(|| "more translations than the limit".to_owned()));
        if let Run::Frame(_) = how {
            self.shared.count(&why.unwrap_or_default());
            return Ok(Next::AsItIs);
        }
        if let Run::Resumed = how {
            let why = why.unwrap_or_default();
            self.shared.count(&format!("after a break: {why}"));
        }
        // Its own frame runs as it is; those it calls are looked at.
        // Through the hook a frame owns its arguments alone: one that has a destructor dies where eager mode
        // lets it die.
        let dies = matches!(how, Run::Resumed)
            && bound
                .iter()
                .any(|value| attributes::lookup(&value.get_type(), "__del__").is_some());
        let listener = match dies {
            true => Listener::start(py, &self.shared),
            false => self.shared.listen(py),
        };
        let backend = listener.as_ref().and_then(|_| {
            let pinned = pin::backend(&self.shared);
            pinned.or_else(|| self.shared.options.backend.current(py).ok())
        });
        let _pin = backend.map(|backend| Pin::new(&self.shared, backend));
        let code = self.function.bind(py).getattr("__code__")?;
        let pass = listener.is_some().then(|| PassFrame::of(&code));
        let answer = match how {
            Run::Called(args, kwargs) => {
                drop(bound);
                self.call_original(py, args, kwargs)
            }
            // All parameters of a resume function are positional.
            Run::Frame(_) | Run::Resumed => {
                let args = bound.into_iter().map(Bound::unbind).collect();
                frame::call_giving(py, self.function.bind(py), args, pass.as_ref())
            }
        };
        drop(pass);
        answer.map(Next::Return)
    }

    /// Evaluates the guards of the newest entry `times` times: for benchmarks.
    ///
    /// # Errors
    /// When there is no entry or its guards do not hold.
    pub fn time_guards(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        times: usize,
    ) -> PyResult<f64> {
        let receiver = self.receiver.as_ref().map(|receiver| receiver.bind(py));
        let (Some(bound), Some(entry)) = (
            self.parameters.bind(py, receiver, args, kwargs)?,
            self.entries().last().cloned(),
        ) else {
            return Err(PyRuntimeError::new_err(
                "time_guards: call the function once with these arguments first",
            ));
        };
        let locals = addresses(&bound);
        let closure = self
            .closure
            .as_ref()
            .map_or(std::ptr::null_mut(), Obj::as_ptr);
        let start = std::time::Instant::now();
        for _ in 0..times {
            if entry
                .guard
                .check(
                    py,
                    GuardInputs {
                        locals: &locals,
                        closure,
                    },
                )
                .is_err()
            {
                return Err(PyRuntimeError::new_err(
                    "time_guards: the guards do not hold for these arguments",
                ));
            }
        }
        Ok(start.elapsed().as_secs_f64() / times.max(1) as f64)
    }

    /// Where the function is defined.
    pub fn location(&self) -> &SourceLoc {
        &self.location
    }
}

impl Drop for Translated {
    /// The function users hold ends its resume functions, and leaves its counters to the totals.
    fn drop(&mut self) {
        if self.origin.is_some() || self.is_callee {
            return;
        }
        totals::retire(&lock(&self.shared.stats));
        // Without an interpreter there is nothing left to free.
        Python::try_attach(|py| self.reset(py));
    }
}

/// `GraphBreakError` that lists the reasons.
pub fn graph_break_error(py: Python<'_>, reasons: &[Break]) -> PyErr {
    let lines: Vec<String> = reasons
        .iter()
        .map(|reason| format!("  {reason}\n    hint: {}", reason.kind.hint()))
        .collect();
    let message = format!(
        "full_graph=True, but the graph breaks:\n{}",
        lines.join("\n")
    );
    let make = || -> PyResult<PyErr> {
        let class = py
            .import("paddle_sot_rs.errors")?
            .getattr("GraphBreakError")?;
        Ok(PyErr::from_value(class.call1((message.as_str(),))?))
    };
    make().unwrap_or_else(|_| PyRuntimeError::new_err(message.clone()))
}

fn borrowed(py: Python<'_>, object: *mut ffi::PyObject) -> Bound<'_, PyAny> {
    crate::guard::native::to_bound(py, object)
}
