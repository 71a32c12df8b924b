//! Modules that the engine asks for.
//!
//! `PyImport_Import` asks the `__import__` in the builtins of the running frame, which is the user's: it may be a
//! function of theirs, or not be there.

use std::ptr;

use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{ffi, PyAny};

/// Importing that asks nothing of the running frame.
pub trait Modules<'py> {
    /// The module of this name, imported where nobody has done so yet.
    ///
    /// # Errors
    /// When it cannot be imported.
    fn module(self, name: impl AsRef<str>) -> PyResult<Bound<'py, PyAny>>;
}

impl<'py> Modules<'py> for Python<'py> {
    fn module(self, name: impl AsRef<str>) -> PyResult<Bound<'py, PyAny>> {
        let name = PyString::intern(self, name.as_ref());
        if let Some(module) = loaded(&name)? {
            return Ok(module);
        }
        // SAFETY: the name is a live string, what is null may be; the answer is a new reference, or null with an
        // exception set. It is the outermost package: the module itself is in `sys.modules` then.
        unsafe {
            let null = ptr::null_mut();
            let outermost =
                ffi::PyImport_ImportModuleLevelObject(name.as_ptr(), null, null, null, 0);
            Bound::from_owned_ptr_or_err(self, outermost)?;
        }
        loaded(&name)?.ok_or_else(|| {
            let text = format!("{name} is not in sys.modules after it was imported");
            pyo3::exceptions::PyImportError::new_err(text)
        })
    }
}

/// What `sys.modules` has under a name.
fn loaded<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = name.py();
    // SAFETY: the name is a live string; the answer is a new reference to an entry of `sys.modules`, or null, with an
    // exception set where looking for it has raised.
    let found = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(name.as_ptr())) };
    match found {
        None => PyErr::take(py).map_or(Ok(None), Err),
        Some(module) if module.is_none() => Ok(None),
        Some(module) => Ok(Some(module)),
    }
}
