//! Pauses of the garbage collector.
//!
//! What guards find is borrowed until all of them have answered: no destructor may let go of it
//! meanwhile. And a translation makes as many objects as make the collector walk through all that
//! the process has, a fifth of a first call, of which nothing is garbage yet.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

/// While this lives, making an object starts no garbage collection. Only 3.11 would start one
/// there: later versions wait for the next instruction of Python code.
#[must_use]
pub struct NoCollection<'py> {
    #[cfg(not(Py_3_12))]
    was_on: bool,
    _attached: PhantomData<Python<'py>>,
}

impl<'py> NoCollection<'py> {
    /// Until the answer is dropped.
    pub fn new(_py: Python<'py>) -> Self {
        Self {
            // SAFETY: the GIL is held, as it is until this is dropped: nobody else sees that it is
            // off.
            #[cfg(not(Py_3_12))]
            was_on: unsafe { ffi::PyGC_Disable() } != 0,
            _attached: PhantomData,
        }
    }
}

#[cfg(not(Py_3_12))]
impl Drop for NoCollection<'_> {
    fn drop(&mut self) {
        if self.was_on {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// How many long pauses there are, of all threads; the GIL orders who counts.
static PAUSES: AtomicUsize = AtomicUsize::new(0);

/// Whether the collector was on in front of them.
static WAS_ON: AtomicBool = AtomicBool::new(false);

/// Switches the collector off, until [`end_pause`] was called as often. Python code runs meanwhile,
/// of this thread and of others: the last of all pauses switches it on again.
pub fn begin_pause(_py: Python<'_>) {
    if PAUSES.fetch_add(1, Ordering::Relaxed) == 0 {
        // SAFETY: the GIL is held.
        WAS_ON.store(unsafe { ffi::PyGC_Disable() } != 0, Ordering::Relaxed);
    }
}

/// The end of a pause.
pub fn end_pause(_py: Python<'_>) {
    let left = PAUSES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
    if left == Ok(1) && WAS_ON.load(Ordering::Relaxed) {
        // SAFETY: the GIL is held.
        unsafe { ffi::PyGC_Enable() };
    }
}

/// For a child after a fork, where those who paused are gone.
pub fn forget_pauses(_py: Python<'_>) {
    if PAUSES.swap(0, Ordering::Relaxed) > 0 && WAS_ON.load(Ordering::Relaxed) {
        // SAFETY: the GIL is held.
        unsafe { ffi::PyGC_Enable() };
    }
}

/// A long pause that ends when this is dropped.
#[must_use]
pub struct LongPause<'py>(Python<'py>);

impl<'py> LongPause<'py> {
    /// Begins it.
    pub fn new(py: Python<'py>) -> Self {
        begin_pause(py);
        Self(py)
    }
}

impl Drop for LongPause<'_> {
    fn drop(&mut self) {
        end_pause(self.0);
    }
}
