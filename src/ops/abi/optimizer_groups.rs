//! Groups and parameters of an optimizer: whether a step calls code of the user's for one of them.
//!
//! A parameter may have a regularizer of its own, a group its own clip, rate and decays. Lists of
//! another class than `list` are gone through by code of their own.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};

use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::native::{instance_dict, to_bound};

/// Paddle's own that are called in a step: module and class.
const CALLED: &[(&str, &str)] = &[
    ("paddle.regularizer", "L1Decay"),
    ("paddle.regularizer", "L2Decay"),
    ("paddle.nn", "ClipGradByGlobalNorm"),
    ("paddle.nn", "ClipGradByNorm"),
    ("paddle.nn", "ClipGradByValue"),
];
const PARAMETERS: &[(&str, &str)] = &[
    ("paddle.base.framework", "EagerParamBase"),
    ("paddle", "Tensor"),
];

/// Whether all that an optimizer's groups and parameters hold is Paddle's, or is not called.
pub fn has_plain_groups(optimizer: &Bound<'_, PyAny>) -> bool {
    has_plain(optimizer).unwrap_or(false)
}

fn has_plain(optimizer: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = optimizer.py();
    let Some(own) = attributes(optimizer) else {
        return Ok(false);
    };
    let parameters = own.get_item(intern!(py, "_parameter_list"))?;
    let groups = own.get_item(intern!(py, "_param_groups"))?;
    let is_same = match (&parameters, &groups) {
        (Some(parameters), Some(groups)) => parameters.is(groups),
        _ => false,
    };
    for list in [parameters.filter(|_| !is_same), groups] {
        match list {
            Some(list) if !list.is_none() && !is_plain_list(&list)? => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

/// Whether it is a list of Python's own, of parameters and groups of such.
fn is_plain_list(list: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(list) = list.cast_exact::<PyList>() else {
        return Ok(false);
    };
    for item in list {
        let is_plain = match item.cast_exact::<PyDict>() {
            Ok(group) => is_plain_group(group)?,
            Err(_) => is_plain_parameter(&item)?,
        };
        if !is_plain {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_plain_group(group: &Bound<'_, PyDict>) -> PyResult<bool> {
    for (name, value) in group {
        let is_plain = match name.eq(intern!(name.py(), "params"))? {
            true => is_plain_list(&value)?,
            false => is_plain_setting(&value)?,
        };
        if !is_plain {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether it is a parameter or a tensor, and of no class of the user's.
pub(super) fn is_parameter(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let py = object.py();
    Ok(is_one_of(
        object,
        CLASSES.get_or_try_init(py, || found(py, PARAMETERS))?,
    ))
}

fn is_plain_parameter(parameter: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = parameter.py();
    if !is_parameter(parameter)? {
        return Ok(false);
    }
    let Some(own) = attributes(parameter) else {
        return Ok(true);
    };
    match own.get_item(intern!(py, "regularizer"))? {
        Some(regularizer) => is_plain_setting(&regularizer),
        None => Ok(true),
    }
}

/// Whether it is not called, or calls code of Paddle's alone.
fn is_plain_setting(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let py = value.py();
    if !value.is_callable() {
        return Ok(true);
    }
    if !is_one_of(value, CLASSES.get_or_try_init(py, || found(py, CALLED))?) {
        return Ok(false);
    }
    let held = attributes(value);
    Ok(held.is_none_or(|held| held.iter().all(|(_, value)| !value.is_callable())))
}

fn is_one_of(value: &Bound<'_, PyAny>, classes: &[Py<PyType>]) -> bool {
    let class = value.get_type();
    classes.iter().any(|it| class.is(it))
}

fn found(py: Python<'_>, names: &[(&str, &str)]) -> PyResult<Vec<Py<PyType>>> {
    let found = names.iter().map(|(module, name)| {
        let class = py.module(module)?.getattr(*name)?;
        Ok(class.cast_into::<PyType>()?.unbind())
    });
    found.collect()
}

/// The instance dictionary of an object.
pub(super) fn attributes<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    let py = object.py();
    let dict = instance_dict(py, object.as_ptr());
    match dict.is_null() {
        true => None,
        false => to_bound(py, dict).cast_into_exact::<PyDict>().ok(),
    }
}
