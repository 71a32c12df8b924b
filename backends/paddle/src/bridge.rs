//! The embedded Python modules: what talks to the parts of Paddle that only Python reaches.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyString};

use paddle_sot::frame::Modules;

use crate::{executor_lock, executors};

static LOADED: PyOnceLock<()> = PyOnceLock::new();

/// The module of this name.
///
/// # Errors
/// When it, or one that it needs, cannot be loaded.
pub fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    load_python(py)?;
    py.module(format!("paddle_sot_rs._{name}"))
}

/// Puts a function into a module, under its own name.
fn give(module: &Bound<'_, PyModule>, function: Bound<'_, PyCFunction>) -> PyResult<()> {
    module.setattr(function.getattr("__name__")?.cast::<PyString>()?, function)
}

/// Loads all of them, the first time.
///
/// # Errors
/// When one cannot be loaded.
pub fn load_python(py: Python<'_>) -> PyResult<()> {
    LOADED.get_or_try_init(py, || {
        let load = |name: &str, source: &str| {
            let source = CString::new(source)?;
            let file = CString::new(format!("paddle_sot_rs/backends/{name}.py"))?;
            let name = CString::new(format!("paddle_sot_rs._{name}"))?;
            py.embedded(&source, &file, &name)
        };
        load("tracing", include_str!("tracing.py"))?;
        load("conditional_grads", include_str!("conditional_grads.py"))?;
        load("views", include_str!("views.py"))?;
        load("kernels", include_str!("kernels.py"))?;
        load("backward", include_str!("backward.py"))?;
        let double_backward = load("double_backward", include_str!("double_backward.py"))?;
        for function in [
            wrap_pyfunction!(crate::foreign::caught, py)?,
            wrap_pyfunction!(crate::double_backward::watch, py)?,
            wrap_pyfunction!(crate::double_backward::runs, py)?,
            wrap_pyfunction!(crate::double_backward::now, py)?,
            wrap_pyfunction!(executors::begin_loops, py)?,
            wrap_pyfunction!(executors::end_loops, py)?,
            wrap_pyfunction!(executors::restore_flag, py)?,
            wrap_pyfunction!(executor_lock::begin_pass, py)?,
            wrap_pyfunction!(executor_lock::end_pass, py)?,
            wrap_pyfunction!(executor_lock::be_exclusive, py)?,
            wrap_pyfunction!(executor_lock::be_shared, py)?,
        ] {
            give(&double_backward, function)?;
        }
        let foreign_programs = load("foreign_programs", include_str!("foreign_programs.py"))?;
        for function in [
            wrap_pyfunction!(executor_lock::begin_other, py)?,
            wrap_pyfunction!(executor_lock::end_pass, py)?,
            wrap_pyfunction!(executors::drop_executors, py)?,
        ] {
            give(&foreign_programs, function)?;
        }
        load("block_values", include_str!("block_values.py"))?;
        load("allocator", include_str!("allocator.py"))?;
        load("grad_masks", include_str!("grad_masks.py"))?;
        load("value_patches", include_str!("value_patches.py"))?;
        load("effects", include_str!("effects.py"))?;
        load("strides", include_str!("strides.py"))?;
        load("static_mode", include_str!("static_mode.py"))?;
        // Behind that of windows, and so called before it: who runs a program may wait for a
        // window.
        let hooks = PyDict::new(py);
        let alone = wrap_pyfunction!(executor_lock::exclusive_before_fork, py)?;
        hooks.set_item("before", alone)?;
        let among = wrap_pyfunction!(executor_lock::shared_after_fork, py)?;
        hooks.set_item("after_in_parent", among)?;
        let alone = wrap_pyfunction!(executor_lock::exclusive_after_fork, py)?;
        hooks.set_item("after_in_child", alone)?;
        py.module("os")?
            .call_method("register_at_fork", (), Some(&hooks))?;
        load("call_rewrites", include_str!("call_rewrites.py"))?;
        let grad_reachability = load("grad_reachability", include_str!("grad_reachability.py"))?;
        give(
            &grad_reachability,
            wrap_pyfunction!(crate::edge_pruning::can_cut, py)?,
        )?;
        load("open_dims", include_str!("open_dims.py"))?;
        load("blocks", include_str!("blocks.py"))?;
        load("grad_liveness", include_str!("grad_liveness.py"))?;
        load("aliases", include_str!("aliases.py"))?;
        load("backward_reads", include_str!("backward_reads.py"))?;
        load("aliased_outputs", include_str!("aliased_outputs.py"))?;
        load("trace", include_str!("trace.py"))?;
        load("constants", include_str!("constants.py"))?;
        load("programs", include_str!("programs.py"))?;
        load("region", include_str!("region.py"))?;
        load("predictors", include_str!("predictors.py"))?;
        load("export", include_str!("export.py"))?;
        Ok::<_, PyErr>(())
    })?;
    Ok(())
}
