//! Sharded tensors (`paddle.distributed.shard_tensor`), of which each process holds a part. No
//! program computes with them: a call that has one among its arguments, or a layer with such
//! parameters, runs as it is. Guards of translations do not hold for them.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::paddle::Paddle;
use crate::simulator::instance_dict;

/// Layers in layers deeper than this are not looked at.
const DEEPEST: usize = 16;

/// Whether one of the arguments is such a tensor, or a layer that has one.
pub(super) fn among(py: Python<'_>, bound: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    let paddle = Paddle::get(py)?;
    let is_sharded = paddle.tensor.bind(py).getattr("is_dist")?;
    let asks = Asks { paddle, is_sharded };
    for value in bound {
        if asks.holds(value, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Asks<'py> {
    paddle: &'static Paddle,
    /// `paddle.Tensor.is_dist`: a subclass may have another one.
    is_sharded: Bound<'py, PyAny>,
}

impl<'py> Asks<'py> {
    fn holds(&self, value: &Bound<'py, PyAny>, depth: usize) -> PyResult<bool> {
        if self.paddle.is_tensor(value) {
            return self.is_sharded.call1((value,))?.is_truthy();
        }
        if depth > DEEPEST || !self.paddle.is_layer(value) {
            return Ok(false);
        }
        let own = instance_dict(value)?;
        for registry in ["_parameters", "_sub_layers"] {
            let Some(items) = own.get_item(registry)? else {
                continue;
            };
            let Ok(items) = items.cast_into::<PyDict>() else {
                continue;
            };
            for item in items.values() {
                if self.holds(&item, depth + 1)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
