//! The translations of one function: found by their guards, made where none holds, dropped with
//! their backend.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashMap;

use crate::backend::{self, CompiledGraph};
use crate::c_stack;
use crate::codegen::Plan;
use crate::guard::{CompiledGuard, GuardFailure, GuardInputs};
use crate::native::Ptr;
use crate::obj::Obj;
use crate::reason::{Break, BreakId, Clock, Recompile, Stats};
use crate::sync::lock;
use crate::tracker::Place;
use crate::translate::arguments::{Bound_, addresses};
use crate::translate::backward_guard::BackwardGuard;
use crate::translate::callable::{CalleeFunction, ResumeFunction};
use crate::translate::choice::Configured;
use crate::translate::declared_dynamic::DynamicTensors;
use crate::translate::graph_inputs::GraphInputs;
use crate::translate::in_front::InFront;
use crate::translate::inner_steps::InnerSteps;
use crate::translate::pipeline;
use crate::translate::random::Randomness;
use crate::translate::record::Counters;
use crate::translate::statistics::Statistics;

use super::Translated;
use super::compile_lock::exclusively;
use super::destructors;
use super::gains::Gains;
use super::recurrence::Recurrence;
use super::run::{Next, Run};
use super::shared::GraphInfo;

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
    /// What the graph writes.
    pub statistics: Statistics,
    /// What must not change until gradients of the graph were computed.
    pub backward_guard: Option<Arc<BackwardGuard>>,
    /// The inputs of the graph.
    pub graph_inputs: GraphInputs,
    /// What is done in front of the graph.
    pub in_front: Option<InFront>,
    /// Whether the instruction that breaks the graph may call Python functions.
    pub listens: bool,
    /// Whether it runs with arguments that the input specification may not allow: its graph does
    /// not take them, or the specification says which sizes open dims may have.
    pub asks: bool,
    /// The backend it was compiled by.
    pub backend: Arc<Configured>,
    /// The numbers, texts and containers that it is for, by the positions of their guards.
    pub values: FxHashMap<usize, Place>,
    /// Whether it is for all values of something that others are for single values of.
    pub general: bool,
    /// Whether its graph does steps of optimizers.
    pub does_steps: bool,
    /// Those that its graph does, if it does more behind them.
    pub(in crate::translate) inner_steps: Option<Arc<InnerSteps>>,
    /// What it gains over eager mode.
    pub gains: Gains,
    /// Its graph, as `explain` shows it.
    pub info: Option<Arc<GraphInfo>>,
    /// Why it ends in front of the end of the function.
    pub reason: Option<Break>,
    /// For a report.
    pub counters: Counters,
}

impl Entry {
    /// Whether a gradient of its graph was refused: see [`BackwardGuard`].
    pub(super) fn is_refused(&self) -> bool {
        let backward_guard = self.backward_guard.as_ref();
        backward_guard.is_some_and(|backward_guard| backward_guard.is_refused())
    }
}

/// Events of each kind that stay when a backend is swapped.
const EVENTS: usize = 1000;

/// Entries of the end of a function that only has a few operations, each of them one call.
const MAX_SMALL_ENDS: usize = 8;

/// The backend that makes a call of each operation.
pub(in crate::translate) const BY_CALLS: &str = "eager";

/// Entries of one function.
const MAX_ENTRIES: usize = 32;

/// Where a new entry goes: the last one is looked at first. One whose open dims keep a step out of
/// its graph leaves calls to those that do it.
fn place_of(entry: &Entry, entries: &[Arc<Entry>]) -> usize {
    if entry.general {
        return 0;
    }
    let stepping = entries.iter().position(|known| known.does_steps);
    let stepping = stepping.filter(|_| !entry.does_steps);
    stepping.unwrap_or(entries.len())
}

impl Translated {
    pub(in crate::translate) fn entries(&self) -> Arc<Vec<Arc<Entry>>> {
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
        let dims = std::mem::take(&mut *lock(&self.learnt.dims));
        let numbers = std::mem::take(&mut *lock(&self.learnt.numbers));
        let others = std::mem::take(&mut *lock(&self.others));
        lock(&self.unasked).clear();
        self.learnt.attempts.forget();
        self.learnt.loops.store(false, Ordering::Relaxed);
        *lock(&self.learnt.recurrence) = Recurrence::default();
        for other in &others {
            other.forget();
        }
        drop((entries, dims, numbers, others));
    }

    pub(super) fn miss<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        failed: Option<(Arc<Entry>, GuardFailure)>,
        wanted: &DynamicTensors,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        lock(&self.shared.stats).cache_misses += 1;
        if let Some((entry, failure)) = &failed {
            let guard = self.what_failed(py, &bound, (entry, *failure));
            // No lock is held here: what handles records of the log may be translated code, and
            // other threads may run.
            let id = BreakId::Recompile;
            log::info!(target: "paddle_sot_rs.recompiles", "{id} {} is translated again: {guard}; see {}", self.location, id.link());
            lock(&self.shared.stats).recompiles.push(Recompile {
                function: self.location.clone(),
                guard,
            });
        }
        // The frame that is replaced holds its arguments too, and the stack of its caller.
        let references = match how {
            Run::Called(..) => 0,
            Run::Resumed => 1,
            Run::Frame(_) => 3,
        };
        if references > 0 && !destructors::held(&bound, references).is_empty() {
            self.fall_back(
                py,
                Break::new(
                    BreakId::Destructor,
                    "a local alone holds an object with a destructor",
                ),
            );
            return self.native(py, bound, how);
        }
        self.note_round();
        self.drop_stale();
        self.drop_refused();
        let before = self.entries();
        if before.len() >= MAX_ENTRIES {
            self.give_up();
            self.note_limit(py, MAX_ENTRIES);
            return self.native(py, bound, how);
        }
        if before.len() >= MAX_SMALL_ENDS && self.is_a_small_end(&before) {
            self.give_up();
            let id = BreakId::SmallEnd;
            log::info!(target: "paddle_sot_rs.recompiles", "{id} {} differs from call to call, and no program is in it; from now on it runs as it is; see {}", self.location, id.link());
            return self.native(py, bound, how);
        }
        let translated = exclusively(py, |signals| {
            if let Some(entry) = self.arrived(py, &bound, &before) {
                return Ok(entry);
            }
            let entry = self.translated(py, &bound, wanted)?;
            if signals.hurried() {
                return Err(Break::internal("interrupted".to_owned()));
            }
            let mut entries = lock(&self.entries);
            let entries = Arc::make_mut(&mut entries);
            entries.insert(place_of(&entry, entries), entry.clone());
            Ok(entry)
        })?;
        match translated {
            Ok(entry) => {
                if self.is_callee && entry.graph.is_none() && !self.shared.forced {
                    self.is_not_worth_it(py);
                }
                let locals = addresses(&bound);
                let found = entry.guard.check(py, self.guard_inputs(&locals));
                drop(locals);
                match found {
                    Ok(slots) => self.run(py, &entry, slots, bound, how),
                    Err(failure) => {
                        let guard = entry.guard.describe_failure(failure);
                        self.fall_back(
                            py,
                            Break::internal(format!(
                                "the guard {guard:?} fails right after the translation"
                            )),
                        );
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
                self.fall_back(py, reason);
                self.native(py, bound, how)
            }
        }
    }

    /// Whether this is the end of a function, behind a break, and no translation has a program.
    fn is_a_small_end(&self, entries: &[Arc<Entry>]) -> bool {
        let runs_by_calls = |entry: &Arc<Entry>| {
            let graph = entry.graph.as_ref();
            graph.is_none_or(|graph| graph.backend_name() == BY_CALLS)
        };
        let is_end = |entry: &Arc<Entry>| !matches!(entry.plan, Plan::Resume(_));
        self.origin.is_some()
            && !self.shared.forced
            && self.shared.options.backend.name() != BY_CALLS
            && entries
                .iter()
                .all(|entry| runs_by_calls(entry) && is_end(entry))
    }

    /// This function, with other code of it, what goes on behind breaks, and what native parts
    /// call.
    pub(in crate::translate) fn each_part(
        &self,
        py: Python<'_>,
        look: &mut dyn FnMut(&Translated),
    ) {
        look(self);
        let others = lock(&self.others).clone();
        others.iter().for_each(|other| look(other));
        let resumes: Vec<Obj> = {
            let resumes = lock(&self.shared.resumes);
            resumes.values().map(|(resume, _)| resume.clone()).collect()
        };
        for callable in &resumes {
            if let Ok(resume) = callable.bind(py).cast::<ResumeFunction>() {
                look(resume.get().inner());
            }
        }
        let callees: Vec<Obj> = lock(&self.shared.callees).values().cloned().collect();
        for callable in &callees {
            if let Ok(callee) = callable.bind(py).cast::<CalleeFunction>() {
                look(callee.get().inner());
            }
        }
    }

    /// What guards are evaluated on, by the addresses of the bound arguments.
    pub(super) fn guard_inputs<'a>(&'a self, locals: &'a [Ptr<'a>]) -> GuardInputs<'a> {
        let closure = self.closure.as_ref();
        GuardInputs {
            locals,
            closure: closure.map_or(Ptr::NULL, Ptr::from),
        }
    }

    /// What each translation is for, for which these arguments miss translations.
    pub(in crate::translate) fn missed(
        &self,
        py: Python<'_>,
        bound: &[Bound<'_, PyAny>],
    ) -> Vec<Place> {
        let locals = addresses(bound);
        let entries = self.entries();
        let missed = entries.iter().filter_map(|entry| {
            match entry.guard.check(py, self.guard_inputs(&locals)) {
                Ok(_) => None,
                Err(GuardFailure::Guard(index)) => entry.values.get(&index).copied(),
                Err(_) => None,
            }
        });
        missed.collect()
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
        let inputs = self.guard_inputs(&locals);
        let mut entries = entries.iter().rev();
        entries
            .find(|entry| {
                generation.is_none_or(|now| now == entry.backend.generation)
                    && !entry.is_refused()
                    && entry.guard.check(py, inputs).is_ok()
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
        let clock = Clock::new(&self.location);
        let translated = backend::caught(py, doing, || {
            Ok(c_stack::for_translation(|| {
                pipeline::translate(py, self, bound, wanted)
            }))
        })
        .unwrap_or_else(|err| Err(Break::internal(err.to_string())));
        let seconds = clock.seconds();
        lock(&self.shared.stats).seconds.add(&seconds);
        translated.map(|entry| {
            entry.counters.was_made(clock.start(), seconds);
            Arc::new(entry)
        })
    }

    /// Drops those whose gradients were refused.
    fn drop_refused(&self) {
        let refused: Vec<Arc<Entry>> = {
            let mut entries = lock(&self.entries);
            if !entries.iter().any(|entry| entry.is_refused()) {
                return;
            }
            let all = entries.iter().cloned();
            let (refused, others) = all.partition(|entry| entry.is_refused());
            *entries = Arc::new(others);
            refused
        };
        // Outside of the lock: user code may run.
        drop(refused);
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
        let graphs: Vec<Arc<GraphInfo>> = {
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

    pub(super) fn remove(&self, entry: &Arc<Entry>) {
        Arc::make_mut(&mut lock(&self.entries)).retain(|known| !Arc::ptr_eq(known, entry));
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
        let inputs = self.guard_inputs(&locals);
        let start = std::time::Instant::now();
        for _ in 0..times {
            if entry.guard.check(py, inputs).is_err() {
                return Err(PyRuntimeError::new_err(
                    "time_guards: the guards do not hold for these arguments",
                ));
            }
        }
        Ok(start.elapsed().as_secs_f64() / times.max(1) as f64)
    }
}
