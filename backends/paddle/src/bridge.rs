//! The embedded Python modules: what talks to the parts of Paddle that only Python reaches.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use paddle_sot::frame::Modules;

static LOADED: PyOnceLock<()> = PyOnceLock::new();

/// The module of this name.
///
/// # Errors
/// When it, or one that it needs, cannot be loaded.
pub fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    load_python(py)?;
    py.module(format!("paddle_sot_rs._{name}"))
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
            PyModule::from_code(py, &source, &file, &name)
        };
        load("tracing", include_str!("tracing.py"))?;
        load("arrivals", include_str!("arrivals.py"))?;
        load("views", include_str!("views.py"))?;
        load("backward", include_str!("backward.py"))?;
        let again = load("again", include_str!("again.py"))?;
        again.setattr("watch", wrap_pyfunction!(crate::again::watch, &again)?)?;
        again.setattr("runs", wrap_pyfunction!(crate::again::runs, &again)?)?;
        again.setattr("now", wrap_pyfunction!(crate::again::now, &again)?)?;
        let begin = wrap_pyfunction!(crate::executors::begin_loops, &again)?;
        again.setattr("begin_loops", begin)?;
        let end = wrap_pyfunction!(crate::executors::end_loops, &again)?;
        again.setattr("end_loops", end)?;
        let settle = wrap_pyfunction!(crate::executors::settle, &again)?;
        again.setattr("settle", settle)?;
        let begin = wrap_pyfunction!(crate::turns::begin_pass, &again)?;
        again.setattr("begin_pass", begin)?;
        let end = wrap_pyfunction!(crate::turns::end_pass, &again)?;
        again.setattr("end_pass", end)?;
        again.setattr(
            "be_alone",
            wrap_pyfunction!(crate::turns::be_alone, &again)?,
        )?;
        again.setattr(
            "be_among",
            wrap_pyfunction!(crate::turns::be_among, &again)?,
        )?;
        let hooks = PyDict::new(py);
        let alone = wrap_pyfunction!(crate::turns::alone_after_fork, &again)?;
        hooks.set_item("after_in_child", alone)?;
        py.module("os")?
            .call_method("register_at_fork", (), Some(&hooks))?;
        let others = load("others", include_str!("others.py"))?;
        let begin = wrap_pyfunction!(crate::turns::begin_other, &others)?;
        others.setattr("begin_other", begin)?;
        let end = wrap_pyfunction!(crate::turns::end_pass, &others)?;
        others.setattr("end_pass", end)?;
        let drop_executors = wrap_pyfunction!(crate::executors::drop_executors, &others)?;
        others.setattr("drop_executors", drop_executors)?;
        load("allocator", include_str!("allocator.py"))?;
        load("gates", include_str!("gates.py"))?;
        load("values", include_str!("values.py"))?;
        load("strides", include_str!("strides.py"))?;
        load("window", include_str!("window.py"))?;
        load("calls", include_str!("calls.py"))?;
        let reach = load("reach", include_str!("reach.py"))?;
        reach.setattr("can_cut", wrap_pyfunction!(crate::cuts::can_cut, &reach)?)?;
        load("open_dims", include_str!("open_dims.py"))?;
        load("blocks", include_str!("blocks.py"))?;
        load("used", include_str!("used.py"))?;
        load("aliases", include_str!("aliases.py"))?;
        load("reads", include_str!("reads.py"))?;
        load("bases", include_str!("bases.py"))?;
        load("trace", include_str!("trace.py"))?;
        load("programs", include_str!("programs.py"))?;
        load("region", include_str!("region.py"))?;
        load("predictors", include_str!("predictors.py"))?;
        load("export", include_str!("export.py"))?;
        Ok::<_, PyErr>(())
    })?;
    Ok(())
}
