//! Whether code of the user's runs when an object goes: `__del__`, the callback of a weak
//! reference, the `finally` of a generator, its own or that of something only it holds.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types;
use pyo3::types::{PyBytes, PyFunction, PyList, PyModule, PyType};

use crate::paddle::Paddle;
use paddle_sot_cpython::frame::Modules;

use paddle_sot_cpython::native::{Ptr, to_bound};
use paddle_sot_cpython::native::{is_tracked, is_weakly_referenced, references};

/// Objects that are looked at.
const MOST: usize = 256;

/// A walk over what goes with objects.
pub struct Ends {
    left: usize,
    generators: bool,
}

impl Ends {
    /// Of what a frame holds. Its context managers hold generators, which `with` brings to their
    /// end.
    pub fn of_frames() -> Self {
        Self {
            left: MOST,
            generators: false,
        }
    }

    /// Of what an object, a container or a module holds.
    pub fn of_holders() -> Self {
        Self {
            left: MOST,
            generators: true,
        }
    }

    /// Whether the end of `value` runs code of the user's, where nothing else holds it.
    pub fn runs_code(&mut self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        let class = value.get_type();
        let is_plain = value.is_instance_of::<PyType>()
            || value.is_instance_of::<PyModule>()
            || value.is_instance_of::<types::PyCode>()
            || Paddle::get(py)?.is_tensor(value);
        if is_plain || self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        if self.generators && is_open_generator(value)? {
            return Ok(true);
        }
        let name = pyo3::intern!(py, "__del__");
        let found = paddle_sot_cpython::native::type_attr(class.as_ptr(), name.as_ptr());
        if !found.is_null() {
            return Ok(is_users(&to_bound(py, found)));
        }
        if is_watched(value)? {
            return Ok(true);
        }
        if !is_tracked(value) {
            return Ok(false);
        }
        static REFERENTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let referents = REFERENTS
            .get_or_try_init(py, || {
                py.module("gc")?.getattr("get_referents").map(Bound::unbind)
            })?
            .bind(py);
        let found = match value.cast::<PyFunction>() {
            Ok(function) => referents.call1((function.getattr("__closure__")?,))?,
            Err(_) => referents.call1((value,))?,
        };
        let found = found.cast_into::<PyList>()?;
        for at in 0..found.len() {
            let item = found.get_item(at)?;
            // Its holder, the list, and this.
            if references(&item) <= 3 && self.runs_code(&item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether no code of the user's runs when an object, a container or a module lets this go.
pub fn is_quiet(py: Python<'_>, object: Ptr) -> bool {
    let value = to_bound(py, object);
    let class = value.get_type_ptr();
    let leaves = [
        py.None().bind(py).get_type_ptr(),
        &raw mut ffi::PyBool_Type,
        &raw mut ffi::PyLong_Type,
        &raw mut ffi::PyFloat_Type,
        &raw mut ffi::PyUnicode_Type,
    ];
    leaves.contains(&class) || !Ends::of_holders().runs_code(&value).unwrap_or(true)
}

/// Whether a generator stands at a `yield`, maybe in a `try` or `with` block.
fn is_open_generator(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let is_generator = value.get_type_ptr() == &raw mut ffi::PyGen_Type;
    if !is_generator || !value.getattr("gi_suspended")?.extract::<bool>()? {
        return Ok(false);
    }
    // An entry begins at each byte that has this bit. From 3.12 on one handler is around all of a
    // generator.
    const BEGINS: u8 = 0x80;
    let table = value.getattr("gi_code")?.getattr("co_exceptiontable")?;
    let entries = table.cast::<PyBytes>()?.as_bytes().iter();
    let entries = entries.filter(|byte| **byte & BEGINS != 0).count();
    Ok(entries > usize::from(py.version_info() >= (3, 12)))
}

/// Whether somebody wrote this `__del__` in Python, and not Paddle.
fn is_users(destructor: &Bound<'_, PyAny>) -> bool {
    let module = destructor.getattr("__module__");
    let module = module.and_then(|module| module.extract::<String>());
    destructor.is_instance_of::<PyFunction>()
        && !module.is_ok_and(|module| module.split('.').next() == Some("paddle"))
}

/// Whether a weak reference to it has a callback.
fn is_watched(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyFunction>() || !is_weakly_referenced(value) {
        return Ok(false);
    }
    static FIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let find = FIND.get_or_try_init(py, || {
        py.module("weakref")?
            .getattr("getweakrefs")
            .map(Bound::unbind)
    })?;
    let found = find.bind(py).call1((value,))?;
    for reference in found.cast_into::<PyList>()? {
        if !reference.getattr("__callback__")?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}
