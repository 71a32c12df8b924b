//! Calls that nest on the C stack, where those of plain Python do not: functions that call
//! themselves and break the graph.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::frame;

/// Functions that nest. What is called below them runs natively and without the hook, as plain
/// Python does.
const MOST: u32 = 200;

/// Of those, so many may nest that nothing but this file counts.
const DEEP: u32 = 50;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the function that runs now is one too many.
pub(super) fn is_too_deep() -> bool {
    DEPTH.get() > MOST
}

/// Whether so many nest that each of them is looked at.
pub(super) fn is_deep() -> bool {
    DEPTH.get() > DEEP
}

/// A function runs on this thread until this is dropped.
pub(super) struct Nested;

impl Nested {
    pub(super) fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        // Stacks that are switched (greenlets) end in any order.
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// An object of ours is called, until this is dropped: a call that plain Python does not make,
/// beside the frame that it stands for. Where a frame itself is taken over, none is made.
pub(super) struct CallOfObject<'py>(Python<'py>);

impl<'py> CallOfObject<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        frame::grant_nesting(py, 1);
        Self(py)
    }
}

impl Drop for CallOfObject<'_> {
    fn drop(&mut self) {
        frame::grant_nesting(self.0, -1);
    }
}
