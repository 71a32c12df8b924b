//! Paddle's flags, which its executors take over when they are made.

use paddle_sot_backend::frame::Modules;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::runtime::RUNTIME;

/// What a flag is set to.
///
/// # Errors
/// Where this Paddle has no such flag.
pub fn get<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    // `get_flags` takes ten times as long.
    let flags = RUNTIME.flags.get_or_try_init(py, || -> PyResult<_> {
        let core = py.module("paddle.base.core")?;
        Ok(core.call_method0("globals")?.unbind())
    })?;
    flags.bind(py).get_item(name)
}

/// Sets a flag.
///
/// # Errors
/// What Paddle raises for the name, or for the value.
pub fn set<'py>(py: Python<'py>, name: &str, value: impl IntoPyObject<'py>) -> PyResult<()> {
    let flags = PyDict::new(py);
    flags.set_item(name, value)?;
    py.paddle()?.call_method1("set_flags", (flags,)).map(drop)
}

/// Makes a run whose executor is made for it, and whose operators write into buffers of their own.
///
/// # Errors
/// Those of the run.
pub fn keeping<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    const IN_PLACE: &str = "FLAGS_pir_apply_inplace_pass";
    let is_on = get(py, &PyString::intern(py, IN_PLACE))?.is_truthy()?;
    if is_on {
        set(py, IN_PLACE, false)?;
    }
    let answer = run();
    if is_on {
        set(py, IN_PLACE, true)?;
    }
    answer
}
