//! The inputs of a graph: tensors that the guards have found, and those made of numbers and arrays
//! at each call.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::abi;
use crate::graph::DType;
use crate::simulator::{arrays, tensor_of};
use crate::tracker::number::Number;
use crate::tracker::{ArrayMaker, Tracker, TrackerRef};

/// How the inputs of a graph follow from the first slots of its guards.
#[derive(Debug, Default)]
pub struct GraphInputs {
    /// The first slots are inputs.
    found: usize,
    /// Slots that inputs are found in or made of.
    pub slots: usize,
    made: Vec<Made>,
}

/// An input that each call makes; places are slots.
#[derive(Debug)]
enum Made {
    Number(Number<usize>, DType),
    Array(usize, ArrayMaker),
}

impl GraphInputs {
    /// Whether a call makes this input. Those that it finds come first.
    pub(super) fn is_made(tracker: &Tracker) -> bool {
        matches!(tracker, Tracker::Number(..) | Tracker::Array(..))
    }

    /// One more input: its slot, or slots for what it is made of.
    pub(super) fn add(&mut self, input: &TrackerRef, slots: &mut Vec<TrackerRef>) {
        if let Tracker::Number(number, dtype) = &**input {
            let number = number.map(&mut |place| {
                slots.push(place.clone());
                slots.len() - 1
            });
            self.made.push(Made::Number(number, *dtype));
        } else if let Tracker::Array(place, maker) = &**input {
            slots.push(place.clone());
            self.made.push(Made::Array(slots.len() - 1, *maker));
        } else {
            slots.push(input.clone());
            self.found += 1;
        }
        self.slots = slots.len();
    }

    /// Calls with the inputs; `None` where a number is too large for the graph.
    pub(super) fn with<'py, T>(
        &self,
        py: Python<'py>,
        slots: &[Bound<'py, PyAny>],
        call: impl FnOnce(&[Bound<'py, PyAny>]) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        if self.made.is_empty() {
            return call(&slots[..self.found]).map(Some);
        }
        let mut inputs: SmallVec<[Bound<'py, PyAny>; 8]> = slots[..self.found].into();
        for made in &self.made {
            inputs.push(match made {
                Made::Number(number, dtype) => {
                    let read = &mut |slot: &usize, dim| abi::value(py, (&slots[*slot]).into(), dim);
                    let Some(value) = number.value(py, read) else {
                        return Ok(None);
                    };
                    tensor_of(py, value, *dtype)?
                }
                Made::Array(slot, maker) => arrays::tensor_of(&slots[*slot], *maker)?,
            });
        }
        call(&inputs).map(Some)
    }
}
