//! Executors that came into a process by a fork. Their threads did not: who destroys one waits for
//! them for ever, or ends the process. So they stay.

use std::sync::atomic::{AtomicBool, Ordering};

use super::RUNTIME;

/// Whether executors came by a fork.
pub(super) struct State {
    /// Whether an executor was made here, or in a process that this one is forked from.
    made: AtomicBool,
    /// Whether there are executors of another process.
    inherited: AtomicBool,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            made: AtomicBool::new(false),
            inherited: AtomicBool::new(false),
        }
    }
}

/// A program will run.
pub fn note_executors() {
    RUNTIME.forks.made.store(true, Ordering::Relaxed);
}

/// Whether executors must not be destroyed.
pub fn have_executors() -> bool {
    RUNTIME.forks.inherited.load(Ordering::Relaxed)
}

/// In a child after a fork. `others`: whether programs that are not ours have run.
pub fn after_fork(others: bool) {
    if others || RUNTIME.forks.made.load(Ordering::Relaxed) {
        RUNTIME.forks.inherited.store(true, Ordering::Relaxed);
    }
}
