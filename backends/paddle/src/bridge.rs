//! The embedded Python module that builds programs.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static BRIDGE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The module; made at first use.
pub fn bridge(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    let module = BRIDGE.get_or_try_init(py, || {
        let load = |name: &str, source: &str| {
            let source = CString::new(source)?;
            let file = CString::new(format!("paddle_sot_rs/backends/{name}.py"))?;
            let name = CString::new(format!("paddle_sot_rs._{name}"))?;
            PyModule::from_code(py, &source, &file, &name)
        };
        load("backward", include_str!("backward.py"))?;
        let again = load("again", include_str!("again.py"))?;
        again.setattr("watch", wrap_pyfunction!(crate::again::watch, &again)?)?;
        again.setattr("runs", wrap_pyfunction!(crate::again::runs, &again)?)?;
        let drop_all = wrap_pyfunction!(crate::executors::drop_all, &again)?;
        again.setattr("drop_executors", drop_all)?;
        let begin = wrap_pyfunction!(crate::executors::begin_loops, &again)?;
        again.setattr("begin_loops", begin)?;
        let end = wrap_pyfunction!(crate::executors::end_loops, &again)?;
        again.setattr("end_loops", end)?;
        let settle = wrap_pyfunction!(crate::executors::settle, &again)?;
        again.setattr("settle", settle)?;
        load("others", include_str!("others.py"))?;
        load("allocator", include_str!("allocator.py"))?;
        load("gates", include_str!("gates.py"))?;
        load("reads", include_str!("reads.py"))?;
        let reach = load("reach", include_str!("reach.py"))?;
        reach.setattr("can_cut", wrap_pyfunction!(crate::cuts::can_cut, &reach)?)?;
        let module = load("bridge", include_str!("bridge.py"))?;
        load("region", include_str!("region.py"))?;
        load("predictors", include_str!("predictors.py"))?;
        load("export", include_str!("export.py"))?;
        Ok::<_, PyErr>(module.unbind())
    })?;
    Ok(module.bind(py))
}
