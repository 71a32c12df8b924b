//! Programs are made as if `FLAGS_use_onednn` were off. Eager mode does not know that flag, and an
//! executor that is made under it runs kernels that are wrong (gradients of pooling, of what is
//! behind a convolution) or end the process.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::flags;
use crate::runtime::RUNTIME;

/// The flag and its older name: each is enough. A Paddle without oneDNN has neither.
const FLAGS: [&str; 2] = ["FLAGS_use_onednn", "FLAGS_use_mkldnn"];

fn is_on(py: Python<'_>, flag: &str) -> bool {
    flags::get(py, &PyString::intern(py, flag))
        .and_then(|value| value.is_truthy())
        .unwrap_or(false)
}

/// Sets those off that are on: the answer says which.
fn set_off(py: Python<'_>) -> PyResult<u8> {
    let mut which = 0;
    for (number, flag) in FLAGS.iter().enumerate() {
        if is_on(py, flag) {
            flags::set(py, flag, false)?;
            which |= 1 << number;
        }
    }
    Ok(which)
}

fn set_on(py: Python<'_>, which: u8) -> PyResult<()> {
    for (number, flag) in FLAGS.iter().enumerate() {
        if which >> number & 1 != 0 {
            flags::set(py, flag, true)?;
        }
    }
    Ok(())
}

/// Makes a run whose executor is made for it.
pub fn without<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let which = set_off(py)?;
    let answer = run();
    set_on(py, which)?;
    answer
}

/// A backward begins whose executor is yet to be made.
pub fn set_flag(py: Python<'_>) -> PyResult<()> {
    RUNTIME
        .onednn_lent
        .fetch_or(set_off(py)?, Ordering::Relaxed);
    Ok(())
}

/// Whether there is something to put back.
pub fn is_lent() -> bool {
    RUNTIME.onednn_lent.load(Ordering::Relaxed) != 0
}

/// Puts the flags back.
pub fn restore_flag(py: Python<'_>) -> PyResult<()> {
    set_on(py, RUNTIME.onednn_lent.swap(0, Ordering::Relaxed))
}
