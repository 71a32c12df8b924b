//! Whether a thread translates, whose turn it is, and the switch that lets everything run as it is.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arc_swap::ArcSwap;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::backend::{is_translating, set_translating};
use crate::frame::{HeldSignals, NoCollections, end_pause, free_signals};

static OFF: AtomicBool = AtomicBool::new(false);

/// What calls of translated functions do: see `set_stance` in `stance.py`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stance {
    /// They are translated.
    Default,
    /// They run as they are.
    Eager,
    /// One more translation is an error.
    FailOnRecompile,
}

static STANCE: AtomicU8 = AtomicU8::new(Stance::Default as u8);

/// Sets the stance of the process.
pub fn set_stance(stance: Stance) {
    STANCE.store(stance as u8, Ordering::Relaxed);
}

/// Whether translated functions run as they are.
pub(super) fn is_switched_off() -> bool {
    OFF.load(Ordering::Relaxed) || STANCE.load(Ordering::Relaxed) == Stance::Eager as u8
}

/// Whether one more translation of a function is an error.
pub(super) fn fails_on_recompile() -> bool {
    STANCE.load(Ordering::Relaxed) == Stance::FailOnRecompile as u8
}

/// Lets all translated functions of the process run as they are, or not any more.
pub fn switch_off(off: bool) {
    OFF.store(off, Ordering::Relaxed);
}

static SAVES_ARE_HOOKED: AtomicBool = AtomicBool::new(false);

/// Whether hooks see each tensor that autograd saves: those of a graph are not saved one by one.
pub(super) fn saves_are_hooked() -> bool {
    SAVES_ARE_HOOKED.load(Ordering::Relaxed)
}

/// Tells whether there are such hooks. Paddle has one pair of them for the process.
pub fn note_hooked_saves(hooked: bool) {
    SAVES_ARE_HOOKED.store(hooked, Ordering::Relaxed);
}

static TURN: LazyLock<ArcSwap<Mutex<()>>> = LazyLock::new(ArcSwap::default);

/// In a child after a fork: the thread that translated in the parent is not there to end its turn,
/// nor to put the handlers of signals back.
///
/// # Errors
/// When those cannot be put back.
pub fn take_turns_anew(py: Python<'_>) -> PyResult<()> {
    if is_translating() {
        return Ok(());
    }
    TURN.store(Arc::default());
    end_pause(py)?;
    free_signals(py)
}

/// The program that Paddle appends operators to is one per process: one translation at a time.
/// Waiting gives up the GIL.
///
/// # Errors
/// What handlers of signals raise that have arrived meanwhile.
pub(in crate::translate) fn exclusively<T>(
    py: Python<'_>,
    translate: impl FnOnce(&HeldSignals<'_>) -> T,
) -> PyResult<T> {
    let lock = TURN.load_full();
    let turn = lock
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner);
    set_translating(true);
    // Behind the lock: who waits for it runs nothing.
    let paused = NoCollections::new(py);
    let answer = HeldSignals::new(py).map(|signals| (translate(&signals), signals));
    set_translating(false);
    drop((paused, turn));
    let (answer, signals) = answer?;
    signals.deliver()?;
    Ok(answer)
}

/// What a call compiles behind its translation, in a turn of its own. A thread that translates has
/// its turn.
///
/// # Errors
/// What handlers of signals raise that have arrived meanwhile, and what `compile` raises.
pub(in crate::translate) fn in_turn<T>(
    py: Python<'_>,
    compile: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    if is_translating() {
        return compile();
    }
    exclusively(py, |_| compile())?
}
