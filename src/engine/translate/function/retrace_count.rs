//! Loops that break the graph: whether a function is translated again and again within one call of
//! the user's.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::lock;

use super::Translated;

/// More misses of one function within a call of the user's are rounds of a loop.
const FEW: usize = 3;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The number of the outermost call, where something was translated in it.
    static CALL: Cell<Option<u64>> = const { Cell::new(None) };
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// A call of a translated function runs on this thread until it is dropped.
pub(super) struct Running;

impl Running {
    pub(super) fn new() -> Self {
        let depth = DEPTH.get();
        if depth == 0 {
            CALL.set(None);
        }
        DEPTH.set(depth + 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The outermost call that runs on this thread.
fn outermost() -> Option<u64> {
    if DEPTH.get() == 0 {
        return None;
    }
    let number = CALL
        .get()
        .unwrap_or_else(|| CALLS.fetch_add(1, Ordering::Relaxed));
    CALL.set(Some(number));
    Some(number)
}

impl Translated {
    /// Notes that no translation was ready.
    pub(super) fn note_round(&self) {
        let Some(call) = outermost() else { return };
        let mut rounds = lock(&self.learnt.rounds);
        let seen = match *rounds {
            (Some(known), seen) if known == call => seen + 1,
            _ => 1,
        };
        *rounds = (Some(call), seen);
        if seen > FEW {
            self.learnt.loops.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was translated for round after round of a loop.
    pub(in crate::translate) fn loops(&self) -> bool {
        self.learnt.loops.load(Ordering::Relaxed)
    }
}
