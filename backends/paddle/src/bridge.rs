//! The embedded Python module that builds programs.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static BRIDGE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The module; made at first use.
pub fn bridge(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    let module = BRIDGE.get_or_try_init(py, || {
        let source = std::ffi::CString::new(include_str!("bridge.py"))?;
        PyModule::from_code(
            py,
            &source,
            c"paddle_sot_rs/backends/bridge.py",
            c"paddle_sot_rs._bridge",
        )
        .map(Bound::unbind)
    })?;
    Ok(module.bind(py))
}
