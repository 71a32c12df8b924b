//! The inputs of a graph: tensors that the guards have found, and those made of numbers at each call.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::graph::DType;
use crate::guard::native;
use crate::guard::number::{Number, Value};
use crate::simulator::numbers::tensor_of;
use crate::tracker::TrackerRef;

/// How the inputs of a graph follow from the first slots of its guards.
#[derive(Debug, Default)]
pub struct GraphInputs {
    /// The first slots are inputs.
    pub found: usize,
    /// Slots that inputs are found in or made of.
    pub slots: usize,
    made: Vec<(Number<usize>, DType)>,
}

impl GraphInputs {
    /// One more input, and slots for what it is made of.
    pub(super) fn make(&mut self, number: &Number, dtype: DType, slots: &mut Vec<TrackerRef>) {
        let number = number.map(&mut |place| {
            slots.push(place.clone());
            slots.len() - 1
        });
        self.made.push((number, dtype));
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
        for (number, dtype) in &self.made {
            let value = number.value(&mut |slot, dim| {
                let object = slots[*slot].as_ptr();
                match dim {
                    None => native::number(object),
                    Some(dim) => native::dim(py, object, dim).map(Value::Int),
                }
            });
            let Some(value) = value else {
                return Ok(None);
            };
            inputs.push(tensor_of(py, value, *dtype)?);
        }
        call(&inputs).map(Some)
    }
}
