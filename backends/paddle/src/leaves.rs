//! `stop_gradient` of what leaves get from a program.
//!
//! `run_program` makes gradients without a description for autograd, and such a tensor says
//! `stop_gradient=True`. Those of eager mode's operators say False: code that computes with
//! `p.grad` takes its result to be differentiable, or not. A hook on each leaf describes them.

use paddle_sot_backend::abi::{has_own_hook, know_own_hook, let_gradients_through};
use pyo3::prelude::*;

use crate::runtime::RUNTIME;

/// Called with what a leaf gets; the answer takes its place.
#[pyfunction]
fn with_description(gradient: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if !gradient.is_none() {
        let_gradients_through(&gradient)?;
    }
    Ok(gradient)
}

/// Sees to it that a leaf's gradients say what they say in eager mode. What is no leaf has no
/// hook: its gradient is seen by nobody but hooks and who retains it.
#[pyfunction]
pub fn describe(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    if has_own_hook(tensor) {
        return Ok(());
    }
    let says = |name| tensor.getattr(name)?.is_truthy();
    if says(pyo3::intern!(py, "stop_gradient"))? || !says(pyo3::intern!(py, "is_leaf"))? {
        return Ok(());
    }
    let hook = RUNTIME.hook_of_leaves.get_or_try_init(py, || {
        pyo3::wrap_pyfunction!(with_description, py).map(Bound::unbind)
    })?;
    tensor.call_method1(pyo3::intern!(py, "_register_grad_hook"), (hook,))?;
    know_own_hook(tensor)
}
