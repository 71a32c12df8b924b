//! Frames that alone hold something whose end runs code of the user's: an object with `__del__`, or
//! with a weak reference that is told. When that is depends on what holds it at each moment, down
//! to lists and temporary values, so such frames run as they are.

use pyo3::prelude::*;

use crate::abi;
use crate::native;

/// The arguments whose end, or that of what only they hold, runs code of the user's. `references`:
/// how many the frame and its caller have for each place.
pub(super) fn held(bound: &[Bound<'_, PyAny>], references: usize) -> Vec<usize> {
    let mut ends = abi::Ends::of_frames();
    let mut is_held = |value: &Bound<'_, PyAny>| {
        let places = bound.iter().filter(|other| other.is(value)).count();
        native::references(value) <= places * references && ends.runs_code(value).unwrap_or(false)
    };
    let found = bound.iter().enumerate();
    found
        .filter(|(_, value)| is_held(value))
        .map(|(at, _)| at)
        .collect()
}
