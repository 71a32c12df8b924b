//! What a tensor or an array from outside has to be.

use smallvec::SmallVec;

use crate::meta::{DType, TensorMeta};
use paddle_sot_cpython::obj::Obj;

/// What is relied on about a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorGuard {
    /// Dims; `None` is any of 2 and more.
    pub dims: SmallVec<[Option<i64>; 6]>,
    /// Element type.
    pub dtype: DType,
    /// `stop_gradient`.
    pub stop_gradient: bool,
}

impl TensorGuard {
    /// All of the metadata; dims of -1 are open.
    pub fn of(meta: &TensorMeta) -> Self {
        Self {
            dims: open_dims(&meta.shape),
            dtype: meta.dtype,
            stop_gradient: meta.stop_gradient,
        }
    }
}

/// The dims of a guard for a shape in which -1 stands for an open dim.
pub fn open_dims(shape: &[i64]) -> SmallVec<[Option<i64>; 6]> {
    let dims = shape.iter().map(|dim| (*dim >= 0).then_some(*dim));
    dims.collect()
}

/// What is relied on about a NumPy array, which is no subclass: not what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayGuard {
    /// Its `dtype`.
    pub dtype: Obj,
    /// Its dims; `None` is any of 2 and more.
    pub dims: SmallVec<[Option<i64>; 6]>,
}
