//! The embedded Python module that builds programs.

use std::ffi::{CStr, CString};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static BRIDGE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The module; made at first use.
pub fn bridge(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    let module = BRIDGE.get_or_try_init(py, || {
        let load = |source: &str, file: &CStr, name: &CStr| {
            let source = CString::new(source)?;
            PyModule::from_code(py, &source, file, name)
        };
        let backward = include_str!("backward.py");
        let file = c"paddle_sot_rs/backends/backward.py";
        load(backward, file, c"paddle_sot_rs._backward")?;
        let again = include_str!("again.py");
        let file = c"paddle_sot_rs/backends/again.py";
        let again = load(again, file, c"paddle_sot_rs._again")?;
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
        let others = include_str!("others.py");
        let file = c"paddle_sot_rs/backends/others.py";
        load(others, file, c"paddle_sot_rs._others")?;
        let allocator = include_str!("allocator.py");
        let file = c"paddle_sot_rs/backends/allocator.py";
        load(allocator, file, c"paddle_sot_rs._allocator")?;
        let gates = include_str!("gates.py");
        let file = c"paddle_sot_rs/backends/gates.py";
        load(gates, file, c"paddle_sot_rs._gates")?;
        let reach = include_str!("reach.py");
        let file = c"paddle_sot_rs/backends/reach.py";
        let reach = load(reach, file, c"paddle_sot_rs._reach")?;
        reach.setattr("can_cut", wrap_pyfunction!(crate::cuts::can_cut, &reach)?)?;
        let bridge = include_str!("bridge.py");
        let file = c"paddle_sot_rs/backends/bridge.py";
        let module = load(bridge, file, c"paddle_sot_rs._bridge")?;
        let region = include_str!("region.py");
        let file = c"paddle_sot_rs/backends/region.py";
        load(region, file, c"paddle_sot_rs._region")?;
        let export = include_str!("export.py");
        let file = c"paddle_sot_rs/backends/export.py";
        load(export, file, c"paddle_sot_rs._export")?;
        Ok::<_, PyErr>(module.unbind())
    })?;
    Ok(module.bind(py))
}
