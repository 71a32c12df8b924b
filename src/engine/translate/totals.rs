//! The counters of the whole process: of every translated function, those that are gone included.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

use crate::reason::Stats;
use crate::sync::lock;

use super::function::Translated;

/// The functions in the order they were made. The list keeps none of them alive.
static FUNCTIONS: Mutex<Vec<Weak<Translated>>> = Mutex::new(Vec::new());

/// The counters of functions that are gone.
static GONE: Mutex<Stats> = Mutex::new(Stats::new());

/// Events remembered of functions that are gone, so that a program that makes functions all the
/// time does not grow.
const EVENTS_OF_GONE: usize = 1000;

/// Makes a function part of the totals.
pub fn register(function: &Arc<Translated>) {
    let mut functions = lock(&FUNCTIONS);
    if functions.len() == functions.capacity() {
        functions.retain(|known| known.strong_count() > 0);
        // Room for as many again: the list is swept once per doubling, not at every call.
        let live = functions.len();
        functions.reserve(live.max(16));
    }
    functions.push(Arc::downgrade(function));
}

/// Keeps the counters of a function that is going.
pub(super) fn retire(stats: &Stats) {
    let mut gone = lock(&GONE);
    gone.merge(stats);
    gone.keep_newest_events(EVENTS_OF_GONE);
}

/// The answer must be dropped without a lock in hand: the last reference to a function may be in
/// it.
pub(super) fn functions() -> Vec<Arc<Translated>> {
    lock(&FUNCTIONS).iter().filter_map(Weak::upgrade).collect()
}

/// The sum over all functions since the process started or [`reset_all`].
pub fn totals() -> Stats {
    let functions = functions();
    let mut sum = lock(&GONE).clone();
    for function in &functions {
        sum.merge(&lock(&function.shared.stats));
    }
    sum
}

/// Forgets the translations and counters of every function.
pub fn reset_all(py: Python<'_>) {
    for function in functions() {
        function.reset(py);
    }
    *lock(&GONE) = Stats::new();
}
