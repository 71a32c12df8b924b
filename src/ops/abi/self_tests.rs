//! Every self-test of what is read of Paddle's objects, by name: a version of Paddle that nobody
//! has tried is used where all of them pass.

use pyo3::prelude::*;

use super::{
    edges, flags, gradient_hooks, history, inplace_version, own_version, scope_tensors,
    stop_gradient, storage, tensor,
};

/// What of Paddle's objects is not as it is known to be: what is read, and why it cannot be.
pub fn layout_faults(py: Python<'_>) -> Vec<(&'static str, String)> {
    let asked = |test: PyResult<bool>| match test {
        Ok(true) => None,
        Ok(false) => Some("what is read is not what was done".to_owned()),
        Err(err) => Some(err.to_string()),
    };
    [
        ("fields of tensors", tensor::open(py).err()),
        ("flags of autograd and AMP", flags::open(py).err()),
        ("edges of autograd", edges::open(py).err()),
        (
            "hooks of gradients",
            asked(gradient_hooks::learn(py).map(|layout| layout.is_some())),
        ),
        ("histories of tensors", history::open(py).err()),
        ("flags of gradients", stop_gradient::open(py).err()),
        ("in-place versions", inplace_version::open(py).err()),
        ("memory of tensors", storage::open(py).err()),
        ("tensors of scopes", scope_tensors::open(py).err()),
        ("shared memory", asked(own_version::self_test(py))),
    ]
    .into_iter()
    .filter_map(|(name, fault)| Some((name, fault?)))
    .collect()
}
