//! The embedded Python modules: what talks to the parts of Paddle that only Python reaches.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyString};

use paddle_sot::frame::Modules;

use crate::{executors, turns};

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
        load("arrivals", include_str!("arrivals.py"))?;
        load("views", include_str!("views.py"))?;
        load("kernels", include_str!("kernels.py"))?;
        load("backward", include_str!("backward.py"))?;
        let again = load("again", include_str!("again.py"))?;
        give(&again, wrap_pyfunction!(crate::foreign::caught, py)?)?;
        give(&again, wrap_pyfunction!(crate::again::watch, py)?)?;
        give(&again, wrap_pyfunction!(crate::again::runs, py)?)?;
        give(&again, wrap_pyfunction!(crate::again::now, py)?)?;
        give(&again, wrap_pyfunction!(executors::begin_loops, py)?)?;
        give(&again, wrap_pyfunction!(executors::end_loops, py)?)?;
        give(&again, wrap_pyfunction!(executors::settle, py)?)?;
        give(&again, wrap_pyfunction!(turns::begin_pass, py)?)?;
        give(&again, wrap_pyfunction!(turns::end_pass, py)?)?;
        give(&again, wrap_pyfunction!(turns::be_alone, py)?)?;
        give(&again, wrap_pyfunction!(turns::be_among, py)?)?;
        let others = load("others", include_str!("others.py"))?;
        give(&others, wrap_pyfunction!(turns::begin_other, py)?)?;
        give(&others, wrap_pyfunction!(turns::end_pass, py)?)?;
        give(&others, wrap_pyfunction!(executors::drop_executors, py)?)?;
        load("block_values", include_str!("block_values.py"))?;
        load("allocator", include_str!("allocator.py"))?;
        load("gates", include_str!("gates.py"))?;
        load("values", include_str!("values.py"))?;
        load("effects", include_str!("effects.py"))?;
        load("strides", include_str!("strides.py"))?;
        load("window", include_str!("window.py"))?;
        // Behind that of windows, and so called before it: who runs a program may wait for a window.
        let hooks = PyDict::new(py);
        let alone = wrap_pyfunction!(turns::alone_before_fork, py)?;
        hooks.set_item("before", alone)?;
        let among = wrap_pyfunction!(turns::among_after_fork, py)?;
        hooks.set_item("after_in_parent", among)?;
        let alone = wrap_pyfunction!(turns::alone_after_fork, py)?;
        hooks.set_item("after_in_child", alone)?;
        py.module("os")?
            .call_method("register_at_fork", (), Some(&hooks))?;
        load("calls", include_str!("calls.py"))?;
        let reach = load("reach", include_str!("reach.py"))?;
        give(&reach, wrap_pyfunction!(crate::cuts::can_cut, py)?)?;
        load("open_dims", include_str!("open_dims.py"))?;
        load("blocks", include_str!("blocks.py"))?;
        load("used", include_str!("used.py"))?;
        load("aliases", include_str!("aliases.py"))?;
        load("reads", include_str!("reads.py"))?;
        load("bases", include_str!("bases.py"))?;
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
