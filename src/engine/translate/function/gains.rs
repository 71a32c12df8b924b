//! What a settled function gains over eager mode, in calls of operations, and what its cuts cost.
//! Where the cuts cost more, it runs as it is.
//!
//! Operations and cuts are counted; no time is measured: digits would depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::codegen::Plan;
use crate::graph::{Callee, Statement, StatementIr};
use crate::reason::BreakId;

use super::Translated;
use super::cache::Entry;

/// What a break costs, in calls of operations: its code object, and the resume function behind it.
const CUT: i64 = 8;

/// Calls in a row that lose, without a translation, before the function runs as it is.
const SETTLED: u32 = 16;

/// After that, where there are breaks, one call of so many runs in pieces: it may take another way
/// through. Each of them that loses makes the next one come after twice as many.
const PROBE: u32 = 256;

/// But never after more.
const RAREST_PROBE: u32 = 4096;

/// What guards and the way into and out of operations made one by one cost, in calls of operations.
const ENTRY: i64 = 2;

/// As many guards cost what one operation does.
const GUARDS_OF_ONE: i64 = 16;

/// Calls of Python functions that one operation costs as much as.
const FRAMES_OF_ONE: i64 = 6;

const SMALL_PIECES: &str = "its pieces are too small to win what the breaks between them cost";
const SMALL_GRAPH: &str = "its graph is too small to win what its guards cost";

/// What each result of a program costs but the first, in calls of operations.
const RESULT: usize = 3;

/// Operations that a program has to save for each of its results to be there.
pub fn of_results(count: usize) -> usize {
    RESULT * count.saturating_sub(1)
}

/// Of so many operators in training one does not count.
const OPERATORS: usize = 3;

/// Operations that a program in training has to save for its operators of Python: eager mode runs
/// these without Python code around them, and the backward pass costs as much as that of others.
pub fn of_operators(sir: &StatementIr) -> usize {
    let is_operator = |it: &&Statement| match &it.callee {
        Callee::Method(name) => name.starts_with("__"),
        Callee::Api(_) | Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
    };
    sir.statements.iter().filter(is_operator).count() / OPERATORS
}

/// What operations gain that run call by call, or a translation that has none: calls of Python
/// functions that were followed are not made. Never more than nothing: it is no reason to look for
/// them.
pub fn of_calls(inlined: usize, guards: usize) -> i64 {
    let saved = inlined as i64 / FRAMES_OF_ONE;
    (saved - ENTRY - guards as i64 / GUARDS_OF_ONE).min(0)
}

/// What one translation gains.
pub struct Gains {
    /// In calls of operations; `None` where it is not for this engine to weigh.
    gain: Option<i64>,
    /// Calls in a row that began with it, ran in pieces and lost.
    losses: AtomicU32,
    /// Calls that ran as they are since the last one in pieces.
    passed: AtomicU32,
    /// One of so many runs in pieces.
    probe: AtomicU32,
}

impl Gains {
    /// Nothing has run yet.
    pub fn new(gain: Option<i64>) -> Self {
        Self {
            gain,
            losses: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            probe: AtomicU32::new(PROBE),
        }
    }

    /// A call that began with it won, or cannot be weighed.
    fn won(&self) {
        self.losses.store(0, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
        self.probe.store(PROBE, Ordering::Relaxed);
    }

    /// A call that began with it lost.
    fn lost(&self) {
        if self.losses.fetch_add(1, Ordering::Relaxed) >= SETTLED {
            let probe = self.probe.load(Ordering::Relaxed);
            let next = (2 * probe).min(RAREST_PROBE);
            self.probe.store(next, Ordering::Relaxed);
        }
        self.passed.store(0, Ordering::Relaxed);
    }

    /// Whether calls that it is for run as they are.
    pub(super) fn is_settled_loss(&self) -> bool {
        self.losses.load(Ordering::Relaxed) >= SETTLED
    }

    /// Takes up to `wanted` calls that run as they are: those in front of the one that runs in
    /// pieces.
    pub(super) fn take(&self, wanted: u32) -> u32 {
        let passed = self.passed.load(Ordering::Relaxed);
        let probe = self.probe.load(Ordering::Relaxed);
        let taken = wanted.min((probe - 1).saturating_sub(passed));
        self.passed.fetch_add(taken, Ordering::Relaxed);
        taken
    }

    /// Whether it is worth looking for, by a hook that makes every call slower.
    pub(super) fn are_expected(&self) -> bool {
        self.gain.is_none_or(|gain| gain > 0)
    }
}

/// The pieces of one call, added up.
#[derive(Default)]
pub(super) struct Tally {
    first: Option<Arc<Entry>>,
    gain: i64,
    /// A piece was translated, or is not to be weighed.
    is_void: bool,
}

impl Tally {
    /// A piece runs.
    pub(super) fn ran(&mut self, entry: &Arc<Entry>) {
        match entry.gains.gain {
            Some(gain) => self.gain += gain,
            None => self.is_void = true,
        }
        if matches!(entry.plan, Plan::Resume(_)) {
            self.gain -= CUT;
        }
        if self.first.is_none() {
            self.first = Some(entry.clone());
        }
    }

    /// A piece is translated.
    pub(super) fn forget(&mut self) {
        self.is_void = true;
    }

    /// The call is over.
    pub(super) fn end(&self) {
        let Some(first) = &self.first else {
            return;
        };
        match self.is_void || self.gain >= 0 {
            true => first.gains.won(),
            false => first.gains.lost(),
        }
    }
}

impl Translated {
    /// Whether a call that this translation is for runs faster as it is.
    pub(super) fn is_a_loss(&self, entry: &Entry) -> bool {
        let gains = &entry.gains;
        let count = gains.losses.load(Ordering::Relaxed);
        if count < SETTLED || self.shared.options.full_graph || self.shared.forced {
            return false;
        }
        if count == SETTLED {
            match &entry.plan {
                Plan::Resume(_) => self.note_fallback(BreakId::CutsCostMore, SMALL_PIECES),
                Plan::Direct(_) | Plan::Code(_) => {
                    self.note_fallback(BreakId::GuardsCostMore, SMALL_GRAPH)
                }
            }
            gains.losses.store(SETTLED + 1, Ordering::Relaxed);
        }
        if !matches!(entry.plan, Plan::Resume(_)) {
            gains.passed.store(0, Ordering::Relaxed);
            return true;
        }
        // One that runs in pieces counts itself when it is over.
        gains.take(1) == 1
    }
}
