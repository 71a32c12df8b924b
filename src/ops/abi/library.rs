//! Paddle's library of bindings.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use paddle_sot_cpython::frame::Modules;

use crate::paddle::core_library;

/// What is opened at its first use. Where that fails, what is done without it is logged once, and
/// the answer stays `None`.
pub(super) fn opened<T>(
    py: Python<'_>,
    once: &'static PyOnceLock<Option<T>>,
    open: impl FnOnce(Python<'_>) -> Result<T, String>,
    (target, without): (&str, &str),
) -> Option<&'static T> {
    let opened = once.get_or_init(py, || {
        let failed = |err: &String| log::info!(target: target, "{without}: {err}");
        open(py).inspect_err(failed).ok()
    });
    opened.as_ref()
}

/// `libpaddle`, opened once more: what is found in it lives as long as the answer.
pub(super) fn libpaddle(py: Python<'_>) -> Result<libloading::Library, String> {
    let file: String = py
        .module("paddle.base.libpaddle")
        .and_then(|module| module.getattr("__file__")?.extract())
        .map_err(|err| err.to_string())?;
    // SAFETY: Paddle is imported, so the library is loaded and its initialisers have run.
    unsafe { libloading::Library::new(file) }.map_err(|err| err.to_string())
}

/// The library of its core, opened in the same way.
pub(super) fn libpaddle_core(py: Python<'_>) -> Result<libloading::Library, String> {
    let file = core_library(py).map_err(|err| err.to_string())?;
    // SAFETY: Paddle is imported, so the library is loaded and its initialisers have run.
    unsafe { libloading::Library::new(file) }.map_err(|err| err.to_string())
}
