//! Paddle's library of bindings.

use pyo3::prelude::*;

use paddle_sot_cpython::frame::Modules;

use crate::paddle::core_library;

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
