//! Results that an operation does not make, as the sum of a fused norm that was given nothing to
//! add: eager mode has a tensor without memory there. They may be dropped, and nothing else.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyAny;

use paddle_sot_cpython::obj::Obj;

static UNMADE: PyOnceLock<Obj> = PyOnceLock::new();

/// The constant that stands for such a result.
///
/// # Errors
/// When there is no memory for it.
pub fn unmade(py: Python<'_>) -> PyResult<Obj> {
    let object = py.get_type::<PyAny>();
    let made = UNMADE.get_or_try_init(py, || PyResult::Ok(Obj::from(object.call0()?)));
    made.cloned()
}

/// Whether a constant of a result stands for one.
pub fn is_unmade(py: Python<'_>, value: &Obj) -> bool {
    UNMADE.get(py).is_some_and(|unmade| unmade.is(value))
}
