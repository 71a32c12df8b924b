//! What holds for all translated functions of the process.

use std::sync::OnceLock;

use paddle_sot::translate::Stance;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Tells whether there are hooks on the tensors that autograd saves.
#[pyfunction]
pub fn note_hooked_saves(hooked: bool) {
    paddle_sot::translate::note_hooked_saves(hooked);
}

/// For a child after a fork, where no other thread translates.
#[pyfunction]
pub fn take_turns_anew(py: Python<'_>) -> PyResult<()> {
    paddle_sot::translate::take_turns_anew(py)
}

/// Lets all translated functions of the process run as they are, or not any more.
#[pyfunction]
pub fn switch_off(off: bool) {
    paddle_sot::translate::switch_off(off);
}

/// What calls of translated functions do, by its number in `stance.py`.
#[pyfunction]
pub fn set_stance(stance: u8) -> PyResult<()> {
    let stance = match stance {
        0 => Stance::Default,
        1 => Stance::Eager,
        2 => Stance::FailOnRecompile,
        _ => return Err(PyValueError::new_err(format!("no such stance: {stance}"))),
    };
    paddle_sot::translate::set_stance(stance);
    Ok(())
}

static LOG_HANDLE: OnceLock<pyo3_log::ResetHandle> = OnceLock::new();

/// Keeps what forgets the levels of Python's loggers.
pub fn keep_log_handle(handle: pyo3_log::ResetHandle) {
    // The first one is that of the logger that is installed.
    let _ = LOG_HANDLE.set(handle);
}

/// Asks Python's loggers for their levels anew: they are remembered otherwise.
#[pyfunction]
pub fn reset_log_levels() {
    if let Some(handle) = LOG_HANDLE.get() {
        handle.reset();
    }
}
