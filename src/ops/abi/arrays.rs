//! Reads of NumPy arrays.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use smallvec::SmallVec;

use super::guards::ArrayGuard;
use paddle_sot_cpython::frame::Modules;

use super::tensor::dim_matches;
use paddle_sot_cpython::native::{Ptr, to_bound, type_of};

/// Whether this is such an array. Attributes of arrays that are no subclass run no user code.
pub fn array_matches(py: Python<'_>, object: Ptr<'_>, guard: &ArrayGuard) -> bool {
    if !is_array(py, object) {
        return false;
    }
    let object = to_bound(py, object);
    let matches = || -> PyResult<bool> {
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let shape = object.getattr(intern!(py, "shape"))?;
        let dims: SmallVec<[i64; 6]> = shape.extract::<Vec<i64>>()?.into();
        let same = dtype.as_ptr() == guard.dtype.as_ptr() || dtype.eq(guard.dtype.bind(py))?;
        let mut pairs = dims.iter().zip(&guard.dims);
        Ok(same
            && dims.len() == guard.dims.len()
            && pairs.all(|(dim, wanted)| dim_matches(*dim, *wanted)))
    };
    matches().unwrap_or(false)
}

static ARRAY: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();

/// Whether this is a NumPy array, and no subclass.
pub fn is_array(py: Python<'_>, object: Ptr<'_>) -> bool {
    let class = ARRAY.get_or_init(py, || {
        let class = py.numpy().and_then(|numpy| numpy.getattr("ndarray"));
        class.ok().map(Bound::unbind)
    });
    class
        .as_ref()
        .is_some_and(|class| type_of(object) == class.into())
}

/// A dim of a NumPy array.
pub fn array_dim(py: Python<'_>, object: Ptr<'_>, at: usize) -> Option<i64> {
    let object = to_bound(py, object);
    let shape = object.getattr(intern!(py, "shape")).ok()?;
    shape.get_item(at).ok()?.extract().ok()
}
