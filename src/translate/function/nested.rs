//! Calls that nest on the C stack, where those of plain Python do not: functions that call themselves and break the graph.

use std::cell::Cell;

use pyo3::prelude::*;

use crate::frame;

/// Functions that nest. What is called below them runs natively and without the hook, as plain Python does.
const MOST: u32 = 200;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the function that runs now is one too many.
pub(super) fn is_too_deep() -> bool {
    DEPTH.get() > MOST
}

/// A function runs on this thread until this is dropped.
pub(super) struct Nested<'py> {
    depth: u32,
    py: Python<'py>,
}

impl<'py> Nested<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        // The outermost calls are those that plain Python makes too.
        if depth > 0 {
            frame::grant_nesting(py, 1);
        }
        Self { depth, py }
    }
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        if self.depth > 0 {
            frame::grant_nesting(self.py, -1);
        }
        // Stacks that are switched (greenlets) end in any order.
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}
