//! Where a run keeps its variables, and what is known of the backward that may follow it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::runtime::executor_lock;
use crate::runtime::executors::{self, Executors};
use crate::steady::Ready;

use super::Shared;
use super::saved_tensors::Found;

/// Where runs of a program keep its variables.
pub struct Scope {
    /// The scope alone in a list, as runs take it.
    pub list: Py<PyList>,
    /// The scope.
    pub scope: Py<PyAny>,
    /// Whether nothing was recorded in the last run: no backward can be waiting.
    pub is_over: bool,
    /// What is known of its last run.
    pub backward: Arc<Backward>,
    /// What its executor has kept caches of.
    pub ready: Ready,
    /// The thread that ran in it last, by `executor_lock::thread_token`.
    pub thread: Weak<()>,
    _executors: Executors,
}

/// What is known of the last run in a scope and its backward.
#[derive(Default)]
pub struct Backward {
    /// When the executor of the run was made, by `executors::epoch`; none was at 0.
    pub(super) forward_made: AtomicUsize,
    /// Whether the executor of the backward was made while that of the run was gone.
    pub(super) is_spoiled: AtomicBool,
    /// The same for its backward.
    pub(super) made: AtomicUsize,
    /// The thread that the run was in, by `executor_lock::this_thread`.
    pub(super) ran_in: AtomicUsize,
    /// Whether the backward of what is in the scope has begun: that stays there.
    pub(super) has_begun: AtomicBool,
    /// Runs whose scope it is while what they have saved is elsewhere.
    pub(super) elsewhere: AtomicUsize,
    /// Where the variables lie.
    pub(super) found: Found,
    /// The thread that it began in, by `executor_lock::this_thread`.
    pub(super) thread: AtomicUsize,
    /// The number of the run that the scope was used for last, once that has ended; before, and
    /// without training, 0.
    pub(super) user: AtomicUsize,
    /// Passes under way that may give the scope back what its backward freed.
    pub(super) held: AtomicUsize,
}

/// What Paddle says of a scope: true before its backward, or what nothing went backward through,
/// has been emptied.
pub(super) fn can_be_reused(py: Python<'_>, scope: &Py<PyAny>) -> PyResult<bool> {
    scope
        .bind(py)
        .getattr(pyo3::intern!(py, "_can_reused"))?
        .is_truthy()
}

impl Scope {
    /// One that has to be asked whether its backward is over.
    pub fn new(py: Python<'_>, scope: Py<PyAny>) -> PyResult<Self> {
        Ok(Self {
            list: PyList::new(py, [&scope])?.unbind(),
            scope,
            is_over: false,
            backward: Arc::default(),
            ready: Ready::default(),
            thread: Weak::new(),
            _executors: Executors,
        })
    }

    /// Whether nothing waits for its backward or is about to empty it after that.
    pub fn is_free(&self, py: Python<'_>) -> PyResult<bool> {
        let Backward { thread, held, .. } = &*self.backward;
        let is_left = || {
            held.load(Ordering::Relaxed) == 0
                && !executor_lock::is_another_at_work(thread.load(Ordering::Relaxed))
        };
        Ok(self.is_over || (can_be_reused(py, &self.scope)? && is_left()))
    }

    /// Whether it is of no use any more. A backward executor that was made while that of the run
    /// was gone does not know what to keep: the backward of a later run would find no memory.
    pub fn is_spoiled(&self) -> bool {
        self.backward.is_spoiled.load(Ordering::Relaxed)
    }

    /// Whether the executor of a run in it is there.
    pub fn is_made(&self) -> bool {
        self.backward.forward_made.load(Ordering::Relaxed) == executors::epoch()
    }

    /// Whether a run in this thread may take it: those of another thread may have to go back to it
    /// at any moment.
    pub fn is_open(&self) -> bool {
        let Backward {
            elsewhere, ran_in, ..
        } = &*self.backward;
        elsewhere.load(Ordering::Relaxed) == 0
            || ran_in.load(Ordering::Relaxed) == executor_lock::this_thread()
    }

    /// A run in it begins, whose executor is there or made now.
    pub fn begin(&mut self, py: Python<'_>, is_over: bool, shared: &Shared) -> PyResult<()> {
        self.backward.renew_versions(py, &self.scope, shared)?;
        self.is_over = is_over;
        self.thread = executor_lock::thread_token();
        self.backward.user.store(0, Ordering::Relaxed);
        self.backward.has_begun.store(false, Ordering::Relaxed);
        let thread = executor_lock::this_thread();
        self.backward.ran_in.store(thread, Ordering::Relaxed);
        let made = &self.backward.forward_made;
        made.store(executors::epoch(), Ordering::Relaxed);
        Ok(())
    }
}
