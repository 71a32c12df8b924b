//! [`Held`]: objects that are no constants for Python, among the constants of generated code.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFrozenSet, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::obj::{Obj, is_plain_constant, of_type};

/// Holds an object. Code objects hash and compare their constants, and put interned strings in the
/// place of others: users meet generated code in frames (`frame.f_code in known`), and this one
/// hashes by its address.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
pub struct Held {
    #[pyo3(get)]
    value: Py<PyAny>,
}

#[pymethods]
impl Held {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.value)
    }
}

impl Held {
    /// What generated code has among its constants for this object.
    pub fn of(value: &Bound<'_, PyAny>) -> PyResult<Obj> {
        let holder = Self {
            value: value.clone().unbind(),
        };
        Ok(Obj::from(Bound::new(value.py(), holder)?))
    }
}

/// Whether a code object may hash it: to others (lists, objects with `__hash__`) that is an error,
/// or runs the user's code.
pub fn hashes_quietly(value: &Bound<'_, PyAny>) -> bool {
    if let Ok(items) = value.cast_exact::<PyTuple>() {
        return items.iter().all(|item| hashes_quietly(&item));
    }
    if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
        return items.iter().all(|item| hashes_quietly(&item));
    }
    is_plain_constant(value)
        || value.is_exact_instance_of::<PyCFunction>()
        || hashes_by_address(value)
}

fn hashes_by_address(value: &Bound<'_, PyAny>) -> bool {
    let object = value.py().get_type::<PyAny>();
    let hash = of_type(&value.get_type(), "__hash__");
    hash.is_some_and(|hash| object.getattr("__hash__").is_ok_and(|own| own.is(&hash)))
}
