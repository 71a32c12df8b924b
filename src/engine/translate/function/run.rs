//! A call, from the bound arguments to the result: the newest translation whose guards hold, the
//! function as it is where there is none, and the resume functions behind a break.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use smallvec::SmallVec;

use crate::backend;
use crate::c_stack;
use crate::codegen::Plan;
use crate::frame::{self, PassFrame};
use crate::reason::{Break, BreakKind};
use crate::simulator::lookup_attribute;
use crate::sync::lock;
use crate::translate::arguments::{Bound_, addresses};
use crate::translate::callable::ResumeFunction;
use crate::translate::callees::Listener;
use crate::translate::choice::Configured;
use crate::translate::declared_dynamic::DynamicTensors;
use crate::translate::inner_steps;
use crate::translate::paddle_sot_hook::Quiet;
use crate::translate::pin::{self, Pin};
use crate::translate::record;

use super::cache::Entry;
use super::compile_lock::{fails_on_recompile, is_switched_off};
use super::destructors;
use super::gains::Tally;
use super::nesting::{self, CallOfObject, Nested};
use super::retrace_count::Running;
use super::{Translated, sharded};

/// What is to be done after a function ran to its end or to a break.
pub(super) enum Next {
    /// Nothing: this is the result.
    Return(Py<PyAny>),
    /// Go on with this resume function, on the same backend.
    Resume(Py<PyAny>, Py<PyTuple>, Arc<Configured>),
    /// Nothing has happened: the interpreter evaluates the frame itself.
    AsItIs,
}

/// How a function came to run.
#[derive(Clone, Copy)]
pub(super) enum Run<'a, 'py> {
    /// It was called with this.
    Called(&'a Bound<'py, PyTuple>, Option<&'a Bound<'py, PyDict>>),
    /// In the place of a frame of the interpreter, which this makes drop its arguments.
    Frame(&'a dyn Fn()),
    /// A resume function, by the function that broke.
    Resumed,
}

impl Translated {
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
        if is_switched_off() || self.is_watched(py) {
            return self.call_original(py, args, kwargs);
        }
        if let Some(other) = self.of_other_code(py)? {
            return other.call(py, args, kwargs);
        }
        let _quiet = Quiet::new(py)?;
        let _call = CallOfObject::new(py);
        if self.runs_unasked(py, || args.iter_borrowed(), kwargs) {
            let _nested = Nested::new();
            return self.call_original(py, args, kwargs);
        }
        let _running = Running::new();
        let _recorded = record::Call::new(&self.location);
        let receiver = self.receiver.as_ref().map(|receiver| receiver.bind(py));
        let run = Run::Called(args, kwargs);
        let mut tally = Tally::default();
        let next = match self.parameters.bind(py, receiver, args, kwargs)? {
            Some(bound) => self.step(py, bound, run, &mut tally)?,
            None => self.native(py, Bound_::new(), run)?,
        };
        self.finish(py, next, tally)
    }

    fn finish(&self, py: Python<'_>, next: Next, tally: Tally) -> PyResult<Py<PyAny>> {
        let answer = self.go_on(py, next, tally)?;
        answer.ok_or_else(|| PyRuntimeError::new_err("a call answered like a frame"))
    }

    /// Runs a resume function that something else than the driver's loop reached.
    pub(in crate::translate) fn resume(
        &self,
        py: Python<'_>,
        args: Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        let _call = CallOfObject::new(py);
        let bound = args.iter().collect();
        drop(args);
        let mut tally = Tally::default();
        let next = self.step(py, bound, Run::Resumed, &mut tally)?;
        self.finish(py, next, tally)
    }

    /// Runs the function in the place of a frame with these bound arguments; `None` when the frame
    /// is to be evaluated as it is.
    pub(in crate::translate) fn call_frame<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        release: &dyn Fn(),
    ) -> Option<PyResult<Py<PyAny>>> {
        if self.is_watched(py) {
            return None;
        }
        let mut tally = Tally::default();
        let next = self.step(py, bound, Run::Frame(release), &mut tally);
        next.and_then(|next| self.go_on(py, next, tally))
            .transpose()
    }

    /// Runs resume functions until one returns.
    fn go_on(
        &self,
        py: Python<'_>,
        mut next: Next,
        mut tally: Tally,
    ) -> PyResult<Option<Py<PyAny>>> {
        let mut pin = None;
        loop {
            let (callable, args, backend) = match next {
                Next::Return(value) => {
                    tally.end();
                    return Ok(Some(value));
                }
                Next::AsItIs => return Ok(None),
                Next::Resume(callable, args, backend) => {
                    (callable.into_bound(py), args.into_bound(py), backend)
                }
            };
            pin.get_or_insert_with(|| Pin::new(&self.shared, backend));
            let resume = callable.cast::<ResumeFunction>().map_err(PyErr::from)?;
            let bound = args.iter().collect();
            drop(args);
            let resume = resume.get().inner();
            next = resume.step(py, bound, Run::Resumed, &mut tally)?;
        }
    }

    /// Runs the function up to its end or its first break: from the cache, translated now, or as it
    /// is.
    fn step<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
        tally: &mut Tally,
    ) -> PyResult<Next> {
        c_stack::for_call(|| self.step_on_this_stack(py, bound, how, tally))
    }

    fn step_on_this_stack<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
        tally: &mut Tally,
    ) -> PyResult<Next> {
        let _nested = Nested::new();
        if self.is_watched(py) || self.is_too_deep() {
            return self.native(py, bound, how);
        }
        let locals = addresses(&bound);
        let inputs = self.guard_inputs(&locals);
        let entries = self.entries();
        let generation = self.generation();
        let mut failed = None;
        for entry in entries.iter().rev() {
            let is_stale =
                generation.is_some_and(|generation| generation != entry.backend.generation);
            if is_stale || entry.is_refused() {
                continue;
            }
            match entry.guard.check(py, inputs) {
                Ok(slots) => {
                    drop(locals);
                    if let (true, Run::Called(args, kwargs)) = (entry.asks, &how) {
                        self.declared(py, args, *kwargs)?;
                    }
                    lock(&self.shared.stats).cache_hits += 1;
                    entry.counters.checked(None);
                    if !matches!(how, Run::Resumed) && self.is_a_loss(entry) {
                        drop(slots);
                        if let Run::Called(args, kwargs) = &how {
                            self.expect_alike(py, entry, args, *kwargs);
                        }
                        return self.native(py, bound, how);
                    }
                    tally.ran(entry);
                    return self.run(py, entry, slots, bound, how);
                }
                Err(failure) => {
                    entry.counters.checked(Some(failure));
                    failed = failed.or_else(|| Some((entry.clone(), failure)));
                }
            }
        }
        drop((entries, locals));
        let is_given_up = self.is_given_up(generation);
        let waits =
            !is_given_up && !matches!(how, Run::Resumed) && self.waits_for_sizes(py, &bound);
        let wanted = match how {
            Run::Called(args, kwargs) => {
                if !is_given_up && !waits {
                    self.observe(py, args, kwargs)?;
                }
                self.declared(py, args, kwargs)?
            }
            Run::Frame(_) | Run::Resumed => DynamicTensors::default(),
        };
        if let (true, Run::Called(args, kwargs)) = (waits, how) {
            // What it calls is part of the translation that may follow.
            drop(bound);
            return self.call_original(py, args, kwargs).map(Next::Return);
        }
        if is_given_up || waits {
            return self.native(py, bound, how);
        }
        if !self.shared.options.full_graph && sharded::among(py, &bound).unwrap_or(false) {
            self.note_fallback(
                BreakKind::ShardedTensor,
                "a sharded tensor among the arguments",
            );
            return self.native(py, bound, how);
        }
        if let (Some((entry, index)), true) = (&failed, fails_on_recompile()) {
            let guard = self.what_failed(py, &bound, (entry, *index));
            return Err(self.recompile_error(py, &guard));
        }
        tally.forget();
        self.miss(py, bound, failed, &wanted, how)
    }

    pub(super) fn run<'py>(
        &self,
        py: Python<'py>,
        entry: &Arc<Entry>,
        slots: SmallVec<[Bound<'py, PyAny>; 8]>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        let set = |slots: &[Bound<'py, PyAny>]| {
            let in_front = entry.in_front.as_ref();
            in_front.map(|it| it.run(py, slots)).transpose()
        };
        let outputs = match &entry.graph {
            None => {
                set(&slots)?;
                SmallVec::new()
            }
            Some(graph) => {
                if self.is_callee && entry.gains.are_expected() {
                    self.shared.found_graphs.store(true, Ordering::Relaxed);
                }
                // What runs again finds the flags that are set in front of the graph.
                let undo = set(&slots)?;
                let undo = || undo.map_or(Ok(()), |undo| undo.undo(py));
                let seen = match &entry.backward_guard {
                    None => None,
                    Some(backward_guard) => {
                        let locals = addresses(&bound);
                        let seen = backward_guard.look(py, self.guard_inputs(&locals));
                        drop(locals);
                        match seen {
                            Ok(seen) => Some((backward_guard, seen)),
                            Err(what) => {
                                undo()?;
                                self.fall_back(
                                    py,
                                    Break::internal(format!(
                                        "{what} holds, and does not for what runs again"
                                    )),
                                );
                                self.remove(entry);
                                return self.native(py, bound, how);
                            }
                        }
                    }
                };
                let before = entry.randomness.before(py)?;
                let inputs = &entry.graph_inputs;
                let mut kept = None;
                let run = |inputs: &[Bound<'_, PyAny>]| {
                    if entry.statistics.are_kept() {
                        kept = Some(entry.statistics.before(inputs));
                    }
                    entry.counters.in_executor(|| graph.call(py, inputs))
                };
                match inputs.with(py, &slots, run) {
                    Ok(Some(outputs)) => {
                        entry.randomness.ran(py, before)?;
                        entry.statistics.ran();
                        if let Some((backward_guard, seen)) = seen {
                            backward_guard.watch(py, seen, &outputs)?;
                        }
                        outputs
                    }
                    Ok(None) => {
                        undo()?;
                        return self.native(py, bound, how);
                    }
                    Err(err) => {
                        if let Some(before) = before {
                            before.restore(py)?;
                        }
                        undo()?;
                        if let Some(kept) = kept {
                            kept.restore(py)?;
                        }
                        if let Some(unready) = inner_steps::unready(py, &err)? {
                            let steps = entry.inner_steps.as_ref();
                            if steps.is_some_and(|steps| steps.is_given_up()) {
                                lock(&self.learnt.detours).steps_inside = Some(false);
                                self.remove(entry);
                            }
                            let Run::Called(args, kwargs) = how else {
                                return self.native(py, bound, how);
                            };
                            // Nothing that it calls is translated by itself.
                            drop((slots, bound));
                            let answer = self.call_original(py, args, kwargs)?;
                            if let Some(steps) = steps {
                                steps.ran(py, &unready)?;
                            }
                            return Ok(Next::Return(answer));
                        }
                        if frame::is_of_a_handler(py, &err) {
                            return Err(err);
                        }
                        // Nothing has happened yet: the original raises the user's exception
                        // itself.
                        log::info!(target: "paddle_sot_rs.graph_breaks", "{}: the graph failed: {err}", self.location);
                        if backend::is_panic(py, &err) {
                            self.fall_back(py, Break::internal(err.to_string()));
                            self.remove(entry);
                            return self.native(py, bound, how);
                        }
                        let answer = self.native(py, bound, how)?;
                        // A frame has not run yet.
                        if let Next::Return(_) = answer {
                            let message = format!("only the graph raised: {err}");
                            self.fall_back(py, Break::new(BreakKind::GraphFailed, message));
                        }
                        return Ok(answer);
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
                let run = || function.bind(py).call1((rest, outputs));
                let answer = entry.counters.behind(run)?;
                if matches!(entry.plan, Plan::Code(_)) {
                    return Ok(Next::Return(answer.unbind()));
                }
                let (callable, args): (Bound<'_, PyAny>, Bound<'_, PyTuple>) = answer.extract()?;
                let backend = entry.backend.clone();
                Ok(Next::Resume(callable.unbind(), args.unbind(), backend))
            }
        }
    }

    pub(super) fn native<'py>(
        &self,
        py: Python<'py>,
        bound: Bound_<'py>,
        how: Run<'_, 'py>,
    ) -> PyResult<Next> {
        let why = self
            .shared
            .forced
            .then(|| lock(&self.learnt.attempts.why).clone());
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
        // Its own frame runs as it is; those it calls are looked at. Through the hook a frame owns
        // its arguments alone: one that has a destructor dies where eager mode lets it die.
        let has_destructor =
            |value: &Bound<'_, PyAny>| lookup_attribute(&value.get_type(), "__del__").is_some();
        let resumed = matches!(how, Run::Resumed);
        let held = match resumed {
            true => destructors::held(&bound, 1),
            false => Vec::new(),
        };
        let dies = resumed && (!held.is_empty() || bound.iter().any(has_destructor));
        // A value on the stack may be an argument of the next call, whose frame is its only holder
        // without the hook.
        let of_stack = |at: &usize| {
            let origin = self.origin.as_ref();
            let slot = *at as u32;
            origin.is_some_and(|(_, it)| !it.slots.contains(&slot) && !it.moved.contains(&slot))
        };
        let alone = held.iter().any(of_stack);
        let deep = nesting::is_too_deep();
        let listener = match dies || deep {
            true => Listener::start(py, &self.shared),
            false => self.shared.listen(py),
        };
        let backend = listener.as_ref().and_then(|_| {
            let pinned = pin::backend(&self.shared);
            pinned.or_else(|| self.shared.options.backend.current(py).ok())
        });
        let _pin = backend.map(|backend| Pin::new(&self.shared, backend));
        let code = self.function.bind(py).getattr("__code__")?;
        let pass = listener.is_some().then(|| match alone || deep {
            true => PassFrame::alone(&code),
            false => PassFrame::of(&code),
        });
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
}
