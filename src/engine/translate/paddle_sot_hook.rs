//! Paddle's own bytecode translation (`paddle.jit.sot`) in the same thread.
//!
//! It hooks every frame while a function of its runs, those of this engine too, and would replace
//! their code. While a translated function runs it is off.

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::{frame, obj};

/// Paddle's translation is off until this is dropped.
pub(super) struct Quiet {
    callback: Option<Py<PyAny>>,
}

impl Quiet {
    /// Costs two reads where nobody else hooks frames.
    pub(super) fn new(py: Python<'_>) -> PyResult<Self> {
        let callback = match frame::is_hooked_by_others(py) {
            false => None,
            true => {
                let old = set_callback(py, py.None().bind(py))?;
                (!old.is_none()).then(|| old.unbind())
            }
        };
        Ok(Self { callback })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let Some(callback) = self.callback.take() else {
            return;
        };
        Python::attach(|py| {
            obj::aside(py, || {
                if let Err(err) = set_callback(py, callback.bind(py)) {
                    err.write_unraisable(py, None);
                }
            });
        });
    }
}

fn set_callback<'py>(py: Python<'py>, callback: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    py.paddle()?
        .getattr("base")?
        .getattr("core")?
        .call_method1("set_eval_frame", (callback,))
}
