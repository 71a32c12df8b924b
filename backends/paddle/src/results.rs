//! Results of programs, as tensors of their own.

use paddle_sot_backend::abi;
use pyo3::prelude::*;

/// The same memory with an in-place version of its own. All runs in one scope hand out the version
/// of the scope's variable: a later result that is changed in place would look like a change of an
/// earlier one, and the backward that this one was saved for would refuse.
pub fn with_own_version(output: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    with_own_name(abi::with_own_version(output)?)
}

/// Without the name of the program's variable, which the results of all runs share: the tensor
/// makes one up when it is asked.
pub fn with_own_name(output: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = output.py();
    output.setattr(pyo3::intern!(py, "name"), pyo3::intern!(py, ""))?;
    Ok(output.unbind())
}
