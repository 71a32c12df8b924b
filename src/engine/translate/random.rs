//! Random numbers of graphs that fail: the function then runs as it is, from the beginning, and
//! must draw the numbers that the graph has drawn.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::frame::Modules;

/// Where Paddle has its functions: in `paddle` itself a program may put others in their places.
const RANDOM: &str = "paddle.framework.random";

const UNKNOWN: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// Whether a graph draws random numbers: seen at its first run.
#[derive(Debug, Default)]
pub struct Randomness(AtomicU8);

/// The state of Paddle's generators in front of a graph.
pub(super) struct Before(Py<PyAny>);

impl Randomness {
    /// Of a graph that does not do the same in every run.
    pub(super) fn assumed() -> Self {
        Self(AtomicU8::new(ALWAYS))
    }

    /// The state to go back to; `None` where the graph draws nothing.
    pub(super) fn before(&self, py: Python<'_>) -> PyResult<Option<Before>> {
        if self.0.load(Ordering::Relaxed) == NEVER {
            return Ok(None);
        }
        Before::now(py).map(Some)
    }

    /// Learns from a run that succeeded.
    pub(super) fn ran(&self, py: Python<'_>, before: Option<Before>) -> PyResult<()> {
        let (UNKNOWN, Some(before)) = (self.0.load(Ordering::Relaxed), before) else {
            return Ok(());
        };
        let after = state_of(py)?;
        let drew = text(before.0.bind(py))? != text(&after)?;
        let found = if drew { ALWAYS } else { NEVER };
        self.0.store(found, Ordering::Relaxed);
        Ok(())
    }
}

impl Before {
    pub(super) fn now(py: Python<'_>) -> PyResult<Self> {
        Ok(Self(state_of(py)?.unbind()))
    }

    /// Goes back.
    pub(super) fn restore(self, py: Python<'_>) -> PyResult<()> {
        py.module(RANDOM)?
            .call_method1("set_rng_state", (self.0,))?;
        Ok(())
    }
}

fn state_of(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.module(RANDOM)?.call_method0("get_rng_state")
}

/// What tells two states apart: a state prints its engine, and addresses.
fn text(states: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let mut words = Vec::new();
    for state in states.cast::<PyList>()?.iter() {
        let state = state.str()?.to_string();
        let parts = state.split_whitespace();
        words.extend(
            parts
                .filter(|word| !word.starts_with("0x"))
                .map(str::to_owned),
        );
    }
    Ok(words)
}
