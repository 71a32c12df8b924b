//! [`NoCollections`]: the garbage collector does not begin by itself while the engine translates.
//!
//! A translation makes as many objects as make the collector walk through all that the process
//! has, a fifth of a first call, and nothing of it is garbage yet. The threshold is raised: who
//! asks whether the collector is on, switches it off or collects by hand, in any thread, notices
//! nothing. A thread that asks for the threshold does.

use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::prelude::*;

use super::modules::{COLLECTOR, Modules};

/// A threshold that no count of objects reaches.
const NEVER: i32 = i32::MAX;

/// The threshold in front of a pause; negative where there is none.
static BEFORE: AtomicI64 = AtomicI64::new(-1);

type Thresholds = (i32, i32, i32);

/// A pause, until this is dropped. There is one at a time.
#[must_use]
pub struct NoCollections<'py>(Python<'py>);

impl<'py> NoCollections<'py> {
    /// Begins it; does nothing where Python's functions are not what they were.
    pub fn new(py: Python<'py>) -> Self {
        // Below zero the collector begins at each object: whoever asked for that gets it.
        if let Ok((first @ 0.., second, third)) = thresholds(py)
            && set_thresholds(py, (NEVER, second, third)).is_ok()
        {
            BEFORE.store(i64::from(first), Ordering::Relaxed);
        }
        Self(py)
    }
}

impl Drop for NoCollections<'_> {
    fn drop(&mut self) {
        // Both functions have been called for this pause, if there is one.
        let _ = end_pause(self.0);
    }
}

/// Ends a pause: also for a child after a fork, where who began it is gone. A threshold that was
/// set meanwhile stays.
///
/// # Errors
/// When Python's functions are not what they were.
pub fn end_pause(py: Python<'_>) -> PyResult<()> {
    let Ok(before) = i32::try_from(BEFORE.swap(-1, Ordering::Relaxed)) else {
        return Ok(());
    };
    if before < 0 {
        return Ok(());
    }
    match thresholds(py)? {
        (NEVER, second, third) => set_thresholds(py, (before, second, third)),
        _ => Ok(()),
    }
}

fn thresholds(py: Python<'_>) -> PyResult<Thresholds> {
    py.original(COLLECTOR, "get_threshold")?.call0()?.extract()
}

fn set_thresholds(py: Python<'_>, wanted: Thresholds) -> PyResult<()> {
    let set = py.original(COLLECTOR, "set_threshold")?;
    set.call1(wanted).map(|_| ())
}
