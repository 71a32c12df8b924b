//! The Python part, `paddle_sot_rs._paddle`: what talks to the parts of Paddle that only Python
//! reaches.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use paddle_sot_backend::frame::Modules;

use crate::runtime::{RUNTIME, executor_lock, executors};

/// Its modules, each behind those that it imports. What a module replaces in Paddle is replaced in
/// this order.
const MODULES: &[&str] = &[
    "constants",
    "tracing",
    "gradients.conditional_grads",
    "views",
    "kernels",
    "gradients.higher_derivatives",
    "gradients.backward",
    "gradients.double_backward",
    "foreign_programs",
    "block_values",
    "allocator",
    "gradients.grad_masks",
    "value_patches",
    "effects",
    "strides",
    "static_mode",
    "open_sizes",
    "calls.argument_checks",
    "gradients.stop_gradients",
    "calls.call_rewrites",
    "calls.operation_checks",
    "gradients.nested_gradients",
    "gradients.inner_steps",
    "gradients.ordered_sums",
    "gradients.grad_reachability",
    "open_dims",
    "blocks",
    "gradients.grad_liveness",
    "aliases",
    "gradients.backward_reads",
    "aliased_outputs",
    "trace",
    "runnable",
    "programs",
    "region",
    "predictors",
    "export",
];

/// The module of this name.
///
/// # Errors
/// When it, or one that it needs, cannot be loaded.
pub fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    load_python(py)?;
    py.module(format!("paddle_sot_rs._paddle.{name}"))
}

/// What the Python part calls in this crate: `paddle_sot_rs._core.paddle_backend`.
///
/// # Errors
/// When Python cannot make the module.
pub fn native(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "paddle_backend")?;
    for function in [
        wrap_pyfunction!(crate::foreign::caught, py)?,
        wrap_pyfunction!(crate::double_backward::arrivals::watch, py)?,
        wrap_pyfunction!(crate::double_backward::runs, py)?,
        wrap_pyfunction!(crate::double_backward::now, py)?,
        wrap_pyfunction!(crate::double_backward::next_number, py)?,
        wrap_pyfunction!(crate::leaves::describe, py)?,
        wrap_pyfunction!(crate::edge_pruning::can_cut, py)?,
        wrap_pyfunction!(executors::begin_loops, py)?,
        wrap_pyfunction!(executors::end_loops, py)?,
        wrap_pyfunction!(executors::restore_flag, py)?,
        wrap_pyfunction!(executors::drop_executors, py)?,
        wrap_pyfunction!(executor_lock::begin_pass, py)?,
        wrap_pyfunction!(executor_lock::begin_other, py)?,
        wrap_pyfunction!(executor_lock::end_pass, py)?,
        wrap_pyfunction!(executor_lock::be_exclusive, py)?,
        wrap_pyfunction!(executor_lock::be_shared, py)?,
    ] {
        module.add_function(function)?;
    }
    Ok(module)
}

/// Loads all of them, the first time.
///
/// # Errors
/// When one cannot be loaded.
pub fn load_python(py: Python<'_>) -> PyResult<()> {
    RUNTIME.loaded.get_or_try_init(py, || {
        for name in MODULES {
            py.own(&format!("paddle_sot_rs._paddle.{name}"))?;
            if *name == "static_mode" {
                register_fork_hooks(py)?;
            }
        }
        Ok::<_, PyErr>(())
    })?;
    Ok(())
}

/// Behind those of `static_mode`, and so called before them: who runs a program may wait for a
/// window.
fn register_fork_hooks(py: Python<'_>) -> PyResult<()> {
    let hooks = PyDict::new(py);
    let alone = wrap_pyfunction!(executor_lock::exclusive_before_fork, py)?;
    hooks.set_item("before", alone)?;
    let among = wrap_pyfunction!(executor_lock::shared_after_fork, py)?;
    hooks.set_item("after_in_parent", among)?;
    let alone = wrap_pyfunction!(executor_lock::exclusive_after_fork, py)?;
    hooks.set_item("after_in_child", alone)?;
    py.module("os")?
        .call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
