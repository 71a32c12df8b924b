//! Frames that alone hold something whose end runs code of the user's: an object with `__del__`, or
//! with a weak reference that is told. When that is depends on what holds it at each moment, down
//! to lists and temporary values, so such frames run as they are.

use pyo3::prelude::*;

use crate::abi;

/// The arguments whose end, or that of what only they hold, runs code of the user's. `references`:
/// how many the frame and its caller have for each place.
pub(super) fn held(bound: &[Bound<'_, PyAny>], references: usize) -> Vec<usize> {
    abi::Ends::of_frames()
        .of_places(bound, references)
        .unwrap_or_default()
}
