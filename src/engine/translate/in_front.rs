//! What a call does in front of its graph, on what exists: it sets `stop_gradient` of tensors, and
//! the random state. Where the graph fails that is undone, since the function runs from its
//! beginning then.

use pyo3::prelude::*;

use crate::simulator::function_graph::{self, GraphInput};
use crate::tracker::TrackerRef;

use super::random;

/// What is done in front of the graph of an entry.
#[derive(Debug)]
pub struct InFront {
    /// Slots of tensors, and what their flag becomes.
    flags: Vec<(usize, bool)>,
    /// A function that sets the random state, and what it is given.
    seed: Option<(Py<PyAny>, Py<PyAny>)>,
}

/// Tensors with the flags that they had, and the random state.
pub(super) struct Undo {
    flags: Vec<(Py<PyAny>, bool)>,
    state: Option<random::Before>,
}

impl InFront {
    /// That of a trace; `None` where there is nothing to do. The tensors are found in new slots.
    pub(super) fn new(
        py: Python<'_>,
        traced: &function_graph::InFront,
        inputs: &[GraphInput],
        slots: &mut Vec<TrackerRef>,
    ) -> Option<Self> {
        let mut flags: Vec<(usize, bool)> = Vec::new();
        for (symbol, stops) in &traced.flags {
            let input = inputs.iter().find(|input| input.symbol == *symbol)?;
            slots.push(input.tracker.clone());
            flags.push((slots.len() - 1, *stops));
        }
        let seed = traced.seeds.last().map(|(function, number)| {
            let object = |it: &crate::obj::Obj| it.bind(py).clone().unbind();
            (object(function), object(number))
        });
        (!flags.is_empty() || seed.is_some()).then_some(Self { flags, seed })
    }

    /// Does it.
    pub(super) fn run(&self, py: Python<'_>, slots: &[Bound<'_, PyAny>]) -> PyResult<Undo> {
        let tensors = self
            .flags
            .iter()
            .map(|(slot, stops)| (&slots[*slot], *stops));
        let mut undo = flag(tensors)?;
        if let Some((function, number)) = &self.seed {
            undo.state = Some(random::Before::now(py)?);
            function.call1(py, (number,))?;
        }
        Ok(undo)
    }
}

/// Sets flags of these tensors.
pub(super) fn flag<'a, 'py: 'a>(
    tensors: impl Iterator<Item = (&'a Bound<'py, PyAny>, bool)>,
) -> PyResult<Undo> {
    let mut flags = Vec::new();
    for (tensor, stops) in tensors {
        let name = pyo3::intern!(tensor.py(), "stop_gradient");
        let was = tensor.getattr(name)?.is_truthy()?;
        tensor.setattr(name, stops)?;
        flags.push((tensor.clone().unbind(), was));
    }
    Ok(Undo { flags, state: None })
}

impl Undo {
    /// Goes back.
    pub(super) fn undo(self, py: Python<'_>) -> PyResult<()> {
        for (tensor, was) in self.flags.into_iter().rev() {
            tensor.setattr(py, pyo3::intern!(py, "stop_gradient"), was)?;
        }
        match self.state {
            Some(state) => state.restore(py),
            None => Ok(()),
        }
    }
}
