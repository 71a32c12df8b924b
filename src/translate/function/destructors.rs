//! Frames that alone hold something whose end runs code of the user's: an object with `__del__`, or with a weak reference
//! that is told. When that is depends on what holds it at each moment, down to lists and temporary values, so such frames
//! run as they are.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types;
use pyo3::types::{PyFunction, PyList, PyModule, PyType};

use crate::frame::Modules;
use crate::guard::native;
use crate::obj::of_type;
use crate::paddle::Paddle;
use crate::simulator::attributes;

/// Objects that are looked at.
const MOST: usize = 256;

/// The arguments whose end, or that of what only they hold, runs code of the user's. `references`: how many the frame and
/// its caller have for each place.
pub(super) fn held(bound: &[Bound<'_, PyAny>], references: usize) -> Vec<usize> {
    let mut left = MOST;
    let mut is_held = |value: &Bound<'_, PyAny>| {
        let places = bound.iter().filter(|other| other.is(value)).count();
        native::references(value) <= places * references && ends(value, &mut left).unwrap_or(false)
    };
    let found = bound.iter().enumerate();
    found
        .filter(|(_, value)| is_held(value))
        .map(|(at, _)| at)
        .collect()
}

fn ends(value: &Bound<'_, PyAny>, left: &mut usize) -> PyResult<bool> {
    let py = value.py();
    let class = value.get_type();
    let is_plain = value.is_instance_of::<PyType>()
        || value.is_instance_of::<PyModule>()
        || value.is_instance_of::<types::PyCode>()
        || Paddle::get(py)?.is_tensor(value);
    if is_plain || *left == 0 {
        return Ok(false);
    }
    *left -= 1;
    if let Some(found) = attributes::lookup(&class, "__del__") {
        return Ok(is_users(&found));
    }
    if is_watched(value, &class)? {
        return Ok(true);
    }
    if !native::is_tracked(value) {
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
        if native::references(&item) <= 3 && ends(&item, left)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether somebody wrote this `__del__` in Python, and not Paddle.
fn is_users(destructor: &Bound<'_, PyAny>) -> bool {
    let module = destructor.getattr("__module__");
    let module = module.and_then(|module| module.extract::<String>());
    destructor.is_instance_of::<PyFunction>()
        && !module.is_ok_and(|module| module.split('.').next() == Some("paddle"))
}

/// Whether a weak reference to it has a callback.
fn is_watched(value: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<bool> {
    let offset = of_type(class, "__weakrefoffset__").map(|offset| offset.extract::<isize>());
    if value.is_instance_of::<PyFunction>() || !matches!(offset, Some(Ok(offset)) if offset != 0) {
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
