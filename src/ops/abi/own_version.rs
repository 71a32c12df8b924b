//! A second tensor of the same memory that counts its own changes in place.
//!
//! Paddle 3.3 has `Tensor._new_shared_tensor` for it. Paddle 3.2 makes a tensor of that dtype and
//! those dims instead, which allocates before it is given the memory.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::paddle::Paddle;
use paddle_sot_cpython::frame::Modules;

/// How an empty tensor with the dtype and the dims of another one is made.
enum Make {
    /// `Tensor._new_shared_tensor`.
    Method,
    /// The constructor of tensors.
    Constructor {
        /// The kind of tensor that it asks for.
        kind: Py<PyAny>,
        /// `paddle.empty`: what has no elements has no memory to share, and gets its device so.
        empty: Py<PyAny>,
    },
}

static MAKE: PyOnceLock<Make> = PyOnceLock::new();

fn make(py: Python<'_>) -> PyResult<&'static Make> {
    MAKE.get_or_try_init(py, || {
        let tensor = Paddle::get(py)?.tensor.bind(py);
        if tensor.hasattr(intern!(py, "_new_shared_tensor"))? {
            return Ok(Make::Method);
        }
        let kinds = py
            .module("paddle.base.core")?
            .getattr("VarDesc")?
            .getattr("VarType")?;
        Ok(Make::Constructor {
            kind: kinds.getattr("DENSE_TENSOR")?.unbind(),
            empty: py.paddle()?.getattr("empty")?.unbind(),
        })
    })
}

/// A tensor with the memory of `tensor` and an in-place version of its own, which starts at 0.
///
/// # Errors
/// What Paddle raises: memory that is not contiguous, tensors that are not dense.
pub fn with_own_version<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let made = match make(py)? {
        Make::Method => tensor.call_method1(intern!(py, "_new_shared_tensor"), (false,))?,
        Make::Constructor { kind, empty } => {
            let dims = tensor.getattr(intern!(py, "shape"))?;
            let dtype = tensor.getattr(intern!(py, "dtype"))?;
            if dims.contains(0)? {
                return empty.bind(py).call1((dims, dtype));
            }
            let class = Paddle::get(py)?.tensor.bind(py);
            class.call1((dtype, dims, "", kind, false))?
        }
    };
    tensor.call_method1(intern!(py, "_share_buffer_to"), (&made,))?;
    Ok(made)
}

/// Shares tensors of several dims and dtypes, changes one of the two and looks at both.
pub(super) fn self_test(py: Python<'_>) -> PyResult<bool> {
    let paddle = py.paddle()?;
    for (shape, dtype) in [
        (vec![], "float32"),
        (vec![3], "int64"),
        (vec![2, 5], "float64"),
        (vec![1, 2, 3, 4], "bfloat16"),
        (vec![2, 1], "bool"),
    ] {
        let tensor = paddle.call_method1("ones", (shape, dtype))?;
        let other = with_own_version(&tensor)?;
        other.call_method0("zero_")?;
        let version = |of: &Bound<'_, PyAny>| of.getattr("inplace_version")?.extract::<u32>();
        let is_zero = |of: &Bound<'_, PyAny>| -> PyResult<bool> {
            of.call_method1("astype", ("bool",))?
                .call_method0("any")?
                .call_method0("item")?
                .is_truthy()
                .map(|any| !any)
        };
        if (version(&tensor)?, version(&other)?) != (0, 1)
            || !is_zero(&tensor)?
            || !other.getattr("shape")?.eq(tensor.getattr("shape")?)?
            || !other.getattr("dtype")?.eq(tensor.getattr("dtype")?)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
