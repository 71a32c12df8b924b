//! The extension module `paddle_sot_rs._core`. What it holds is a crate of its own, which begins
//! with the metadata of the engine: a `cdylib` waits until all that it needs is linked.

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    paddle_sot_bindings::fill(module)
}
