//! What runs have saved for their backward, moved out of the scope that they ran in. Paddle makes
//! an executor for each program and scope: with all that waits elsewhere, one scope does for any
//! number of runs that wait.
//!
//! What a run has saved goes back into the scope right in front of its backward. A node that goes
//! without one empties the scope: nothing may wait there, then. So once a run waits elsewhere,
//! those that follow it move out as soon as they have run.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use paddle_sot_backend::abi::{ScopeTensors, can_move_tensors};
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::sync::lock;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefMethods;

use crate::runtime::{RUNTIME, executor_lock};

use super::run_scope::can_be_reused;
use super::{Backward, Run, Shared};

/// So many are kept of what runs have waited in.
const MOST_SPARE: usize = 256;

/// The tensors of a scope that matter between runs.
pub struct Moving {
    /// What a backward takes from the run: `Shared::names`.
    saved: ScopeTensors,
    /// `Shared::results`.
    results: ScopeTensors,
}

/// Those of a scope as they were last found.
#[derive(Default)]
pub struct Found(Mutex<Option<Finding>>);

struct Finding {
    /// Under which executors, of runs and of backward passes: making one may replace variables.
    executors: (usize, usize),
    /// None: they cannot be moved.
    tensors: Option<Arc<Moving>>,
}

/// What runs of a program wait in.
#[derive(Default)]
pub struct Spare {
    /// Tensors of scopes that no program runs in, and nothing waits in now.
    tensors: Mutex<Vec<ScopeTensors>>,
    /// Whether runs have gone backward in another thread than they ran in. Such a thread waits
    /// until nothing runs in their scope: from then on each run has its own.
    crosses_threads: AtomicBool,
}

impl Spare {
    /// A run that waits elsewhere goes backward in another thread than it ran in.
    pub fn note_threads(&self) {
        self.crosses_threads.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    /// Runs that were about to go backward when a hook of the user's went backward through another
    /// run in their scope: with how many passes the thread was in then.
    static INTERRUPTED: RefCell<Vec<(usize, Py<Run>)>> = const { RefCell::new(Vec::new()) };
}

impl Backward {
    /// The tensors of its scope. None: they cannot be moved.
    fn moving(
        &self,
        py: Python<'_>,
        scope: &Py<PyAny>,
        shared: &Shared,
    ) -> PyResult<Option<Arc<Moving>>> {
        self.found(py, scope, shared, |moving| {
            moving.saved.are_in_place(py, &shared.names)
                && moving.results.are_in_place(py, &shared.results)
        })
    }

    /// The same, looked for anew where what was found is not in its place.
    fn found(
        &self,
        py: Python<'_>,
        scope: &Py<PyAny>,
        shared: &Shared,
        is_in_place: impl FnOnce(&Moving) -> bool,
    ) -> PyResult<Option<Arc<Moving>>> {
        if !can_move_tensors(py) {
            return Ok(None);
        }
        let now = (
            self.forward_made.load(Ordering::Relaxed),
            self.made.load(Ordering::Relaxed),
        );
        let known = {
            let found = lock(&self.found.0);
            let known = found.as_ref().filter(|found| found.executors == now);
            known.map(|found| found.tensors.clone())
        };
        if let Some(known) = known {
            if known.as_deref().is_none_or(is_in_place) {
                return Ok(known);
            }
        }
        let scope = scope.bind(py);
        let saved = ScopeTensors::of(scope, &shared.names, false);
        let found = saved.and_then(|saved| {
            let results = ScopeTensors::of(scope, &shared.results, false)?;
            Ok(Arc::new(Moving { saved, results }))
        });
        let stays = |err: &PyErr| {
            log::debug!(target: "paddle_sot_rs.backend", "what a run saves stays in its scope: {err}");
        };
        let tensors = found.inspect_err(stays).ok();
        let before = lock(&self.found.0).replace(Finding {
            executors: now,
            tensors: tensors.clone(),
        });
        drop(before);
        Ok(tensors)
    }

    /// The run that waits in its scope.
    fn waiting(&self, py: Python<'_>) -> Option<Py<Run>> {
        let number = self.user.load(Ordering::Relaxed);
        let known = lock(&RUNTIME.runs.alive);
        let run = known.get(&number).map(|run| run.clone_ref(py));
        drop(known);
        let run = run?.bind(py).upgrade()?;
        run.cast::<Run>().ok().map(|run| run.clone().unbind())
    }

    /// A run in its scope begins: its results will count their changes in place by themselves, not
    /// with those of the run before.
    pub(super) fn renew_versions(
        &self,
        py: Python<'_>,
        scope: &Py<PyAny>,
        shared: &Shared,
    ) -> PyResult<()> {
        if self.forward_made.load(Ordering::Relaxed) == 0 || shared.results.is_empty() {
            // Its variables are yet to be made.
            return Ok(());
        }
        let moving = self.found(py, scope, shared, |it| {
            it.results.are_in_place(py, &shared.results)
        })?;
        if let Some(moving) = moving {
            moving.results.renew_versions(py);
        }
        Ok(())
    }

    /// Makes room in its scope for another run, if what waits there can wait elsewhere.
    pub fn make_room(&self, py: Python<'_>, shared: &Shared) -> PyResult<bool> {
        let crosses_threads = shared.spare.crosses_threads.load(Ordering::Relaxed);
        let has_begun = self.has_begun.load(Ordering::Relaxed);
        if !shared.saves || crosses_threads || has_begun || self.held.load(Ordering::Relaxed) > 0 {
            return Ok(false);
        }
        match self.waiting(py) {
            Some(run) => run.get().leave_scope(py),
            None => Ok(false),
        }
    }
}

impl Shared {
    /// Tensors of a scope that no program runs in.
    fn spare(&self, py: Python<'_>) -> PyResult<ScopeTensors> {
        let spare = lock(&self.spare.tensors).pop();
        match spare {
            Some(spare) => Ok(spare),
            None => {
                let core = py.module("paddle.base")?.getattr("core")?;
                let scope = core.getattr("Scope")?.call0()?;
                ScopeTensors::of(&scope, &self.names, true)
            }
        }
    }
}

impl Run {
    /// Whether what it has saved is not in its scope.
    pub(super) fn waits_elsewhere(&self) -> bool {
        lock(&self.saved).is_some()
    }

    /// Moves what it has saved out of its scope, where it waits. False: it cannot be moved.
    fn leave_scope(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.shared.saves || !self.has_scope() {
            return Ok(false);
        }
        let Some(moving) = self.backward.moving(py, &self.scope, &self.shared)? else {
            return Ok(false);
        };
        let elsewhere = self.shared.spare(py)?;
        elsewhere.share(py, &moving.saved);
        moving.saved.clear(py);
        set_reusable(py, &self.scope, true)?;
        self.backward.user.store(0, Ordering::Relaxed);
        self.backward.has_begun.store(false, Ordering::Relaxed);
        self.wait_with(elsewhere);
        Ok(true)
    }

    /// The same where others of its scope wait elsewhere.
    pub fn leave_with_others(&self, py: Python<'_>) -> PyResult<()> {
        if self.backward.elsewhere.load(Ordering::Relaxed) > 0 {
            self.leave_scope(py)?;
        }
        Ok(())
    }

    /// From now on these are what it has saved.
    pub(super) fn wait_with(&self, tensors: ScopeTensors) {
        self.backward.elsewhere.fetch_add(1, Ordering::Relaxed);
        let before = lock(&self.saved).replace(tensors);
        debug_assert!(before.is_none(), "a run has saved tensors twice");
    }

    /// Copies what it has saved, where it waits. False: it cannot be moved.
    pub(super) fn note_tensors(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.shared.saves {
            return Ok(false);
        }
        let Some(moving) = self.backward.moving(py, &self.scope, &self.shared)? else {
            return Ok(false);
        };
        let noted = self.shared.spare(py)?;
        match &*lock(&self.saved) {
            Some(saved) => noted.share(py, saved),
            None => noted.share(py, &moving.saved),
        }
        lock(&self.noted).push(noted);
        Ok(true)
    }

    /// Moves what it has saved back into its scope: its backward is about to begin.
    pub(super) fn return_to_scope(&self, py: Python<'_>) -> PyResult<()> {
        let Some(elsewhere) = lock(&self.saved).take() else {
            return Ok(());
        };
        let moving = self.room(py).and_then(|()| {
            let moving = self.backward.moving(py, &self.scope, &self.shared)?;
            moving.ok_or_else(|| PyRuntimeError::new_err("the variables of a program are gone"))
        });
        let moving = match moving {
            Ok(moving) => moving,
            Err(err) => {
                *lock(&self.saved) = Some(elsewhere);
                return Err(err);
            }
        };
        moving.saved.share(py, &elsewhere);
        set_reusable(py, &self.scope, false)?;
        self.backward.user.store(self.number, Ordering::Relaxed);
        self.backward.has_begun.store(true, Ordering::Relaxed);
        self.backward.elsewhere.fetch_sub(1, Ordering::Relaxed);
        self.give_away(py, elsewhere);
        Ok(())
    }

    /// Makes its scope its own, in front of its backward.
    fn room(&self, py: Python<'_>) -> PyResult<()> {
        let backward = &self.backward;
        if can_be_reused(py, &self.scope)? {
            return Ok(());
        }
        let Some(other) = backward.waiting(py) else {
            return Ok(());
        };
        let was_interrupted = backward.has_begun.load(Ordering::Relaxed);
        if !other.get().leave_scope(py)? {
            return Err(PyRuntimeError::new_err(
                "two runs of a program want their scope at once",
            ));
        }
        if was_interrupted {
            let passes = executor_lock::passes();
            INTERRUPTED.with_borrow_mut(|all| all.push((passes, other)));
        }
        Ok(())
    }

    /// Nobody needs these any more.
    pub(super) fn give_away(&self, py: Python<'_>, tensors: ScopeTensors) {
        tensors.clear(py);
        let mut spare = lock(&self.shared.spare.tensors);
        if spare.len() < MOST_SPARE {
            spare.push(tensors);
        }
    }

    /// Nothing goes backward through it any more.
    pub(super) fn forget_saved(&self) {
        let elsewhere = lock(&self.saved).take();
        if let Some(elsewhere) = elsewhere {
            self.backward.elsewhere.fetch_sub(1, Ordering::Relaxed);
            Python::attach(|py| self.give_away(py, elsewhere));
        }
    }
}

/// A pass of autograd is over, the innermost of `passes` that the thread is in: runs that it has
/// interrupted go on.
pub fn resume_interrupted(py: Python<'_>, passes: usize) -> PyResult<()> {
    loop {
        let next = INTERRUPTED.with_borrow_mut(|all| match all.last() {
            Some((of, _)) if *of >= passes => all.pop(),
            _ => None,
        });
        match next {
            Some((_, run)) => run.get().return_to_scope(py)?,
            None => return Ok(()),
        }
    }
}

/// Tells Paddle whether a scope can be used again.
fn set_reusable(py: Python<'_>, scope: &Py<PyAny>, is_reusable: bool) -> PyResult<()> {
    scope
        .bind(py)
        .setattr(pyo3::intern!(py, "_can_reused"), is_reusable)
}
