//! Dims that the user declared dynamic or static: by an input specification, or by a mark on a
//! tensor.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::reason::Break;
use crate::simulator::function_graph::GraphInput;
use crate::tracker::TrackerRef;

/// Tensors of one call whose dims an input specification leaves open, by address.
pub type DynamicTensors = FxHashMap<usize, Vec<usize>>;

/// The mark of `mark_dynamic`, which is the one of `paddle.jit.marker.dynamic_dims` too.
const DYNAMIC: &str = "__sot_dynamic_dims";
/// The mark of `mark_static`.
const STATIC: &str = "__sot_static_dims";

/// Declarations, by the tracker of the tensor.
#[derive(Default)]
pub struct Declared {
    /// Dims that are dynamic from the first call on.
    pub dynamic: FxHashMap<TrackerRef, Vec<usize>>,
    fixed: FxHashMap<TrackerRef, Vec<usize>>,
}

impl Declared {
    /// What was declared about the inputs of a graph.
    ///
    /// # Errors
    /// When a mark is not a tuple of dims.
    pub fn of(
        py: Python<'_>,
        inputs: &[GraphInput],
        wanted: &DynamicTensors,
    ) -> Result<Self, Break> {
        let mut declared = Self::default();
        for input in inputs {
            let value = input.value.bind(py);
            let mut dims: Vec<usize> = wanted
                .get(&(value.as_ptr() as usize))
                .cloned()
                .unwrap_or_default();
            dims.extend(marked(value, DYNAMIC)?);
            if !dims.is_empty() {
                declared.dynamic.insert(input.tracker.clone(), dims);
            }
            let fixed = marked(value, STATIC)?;
            if !fixed.is_empty() {
                declared.fixed.insert(input.tracker.clone(), fixed);
            }
        }
        Ok(declared)
    }

    /// Whether this dim never becomes dynamic by itself.
    pub fn is_static(&self, tracker: &TrackerRef, dim: usize) -> bool {
        self.fixed
            .get(tracker)
            .is_some_and(|dims| dims.contains(&dim))
    }
}

/// Whether dims of this tensor are marked to be dynamic.
pub fn is_marked(tensor: &Bound<'_, PyAny>) -> bool {
    matches!(tensor.getattr_opt(DYNAMIC), Ok(Some(_)))
}

fn marked(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<usize>> {
    match value.getattr_opt(name)? {
        Some(dims) => dims.extract(),
        None => Ok(Vec::new()),
    }
}
