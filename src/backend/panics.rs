//! Panics as Python exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::frame::Modules;

fn class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.module("paddle_sot_rs.errors")?
        .getattr("BackendPanicError")
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Runs `body`; a panic in it becomes `BackendPanicError`. `panicked` says who did, and where.
///
/// # Errors
/// What `body` answers with.
pub fn caught<R>(
    py: Python<'_>,
    panicked: std::fmt::Arguments<'_>,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = format!("{panicked}: {}", message(&*payload));
        Err(match class(py).and_then(|class| class.call1((&text,))) {
            Ok(error) => PyErr::from_value(error),
            Err(_) => PyRuntimeError::new_err(text),
        })
    })
}

/// Whether an exception stands for a panic.
pub fn is_panic(py: Python<'_>, err: &PyErr) -> bool {
    class(py).is_ok_and(|class| err.matches(py, class).unwrap_or(false))
}
