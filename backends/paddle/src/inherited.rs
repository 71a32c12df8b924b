//! Executors that came into a process by a fork. Their threads did not: who destroys one waits for
//! them for ever, or ends the process. So they stay.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an executor was made here, or in a process that this one is forked from.
static MADE: AtomicBool = AtomicBool::new(false);

/// Whether there are executors of another process.
static INHERITED: AtomicBool = AtomicBool::new(false);

/// A program will run.
pub fn note_executors() {
    MADE.store(true, Ordering::Relaxed);
}

/// Whether executors must not be destroyed.
pub fn have_executors() -> bool {
    INHERITED.load(Ordering::Relaxed)
}

/// In a child after a fork. `others`: whether programs that are not ours have run.
pub fn after_fork(others: bool) {
    if others || MADE.load(Ordering::Relaxed) {
        INHERITED.store(true, Ordering::Relaxed);
    }
}
