//! The options of the backend.

use std::collections::BTreeSet;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use paddle_sot_backend::frame::Modules;

use paddle_sot_backend::ops::{Fact, knows};

/// What the user configured.
#[derive(Clone, Default)]
pub struct Options {
    /// Names refused on top of the table.
    pub added: BTreeSet<String>,
    /// Names of the table that are not refused.
    pub removed: BTreeSet<String>,
    /// Raise where Paddle is built without CINN.
    pub require_cinn: bool,
    /// Seconds one graph may take to compile.
    pub compile_budget: Option<f64>,
}

impl Options {
    /// Reads the dict.
    ///
    /// # Errors
    /// `ValueError` or `TypeError` that names the option.
    pub fn parse(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut options = Self::default();
        for (key, value) in given.iter() {
            let name: String = key
                .extract()
                .map_err(|_| PyTypeError::new_err("options: the keys must be names"))?;
            match name.as_str() {
                "cdbl" => options.read_lists(&value)?,
                "require_cinn" => options.require_cinn = boolean(&value)?,
                "compile_budget_s" => options.compile_budget = budget(&value)?,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "options: the cinn backend has no option {name:?}; it has \"cdbl\", \"compile_budget_s\" and \"require_cinn\""
                    )));
                }
            }
        }
        Ok(options)
    }

    fn read_lists(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let lists = value.cast::<PyDict>().map_err(|_| {
            PyTypeError::new_err(
                "options: \"cdbl\" must be a dict {\"add\": [...], \"remove\": [...]}",
            )
        })?;
        for (key, entries) in lists.iter() {
            let key = key.str()?.to_string();
            let argument = format!("options: cdbl[{key:?}]");
            if key != "add" && key != "remove" {
                return Err(PyValueError::new_err(format!(
                    "{argument}: unknown; cdbl has \"add\" and \"remove\""
                )));
            }
            // The names of each entry: one thing may have several.
            let groups: Vec<Vec<String>> = value
                .py()
                .module("paddle_sot_rs._listing")?
                .call_method1("bare_names", (&argument, entries))?
                .extract()?;
            let unknown = |group: &&Vec<String>| !group.iter().any(|name| in_table(name));
            if key == "add" {
                self.added = groups.into_iter().flatten().collect();
                continue;
            }
            if let Some(group) = groups.iter().find(unknown) {
                return Err(PyValueError::new_err(format!(
                    "{argument}: {} is not in the table that docs/backends.md shows",
                    group.join(" or ")
                )));
            }
            self.removed = groups.into_iter().flatten().collect();
        }
        match self.added.intersection(&self.removed).next() {
            Some(both) => Err(PyValueError::new_err(format!(
                "options: cdbl adds and removes {both:?}"
            ))),
            None => Ok(()),
        }
    }
}

fn in_table(name: &str) -> bool {
    knows(name, Fact::UnknownDims) || knows(name, Fact::MayHaveUnknownDims)
}

fn boolean(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.cast::<PyBool>().map_or_else(
        |_| {
            Err(PyTypeError::new_err(
                "options: \"require_cinn\" must be True or False",
            ))
        },
        |value| Ok(value.is_true()),
    )
}

fn budget(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    let is_bool = value.is_instance_of::<PyBool>();
    let seconds = value.extract::<f64>().ok().filter(|_| !is_bool);
    match seconds {
        None => Err(PyTypeError::new_err(
            "options: \"compile_budget_s\" must be a number of seconds",
        )),
        Some(seconds) if seconds.is_nan() || seconds < 0.0 => Err(PyValueError::new_err(format!(
            "options: \"compile_budget_s\" must be 0 or more, got {seconds}"
        ))),
        Some(seconds) => Ok(Some(seconds)),
    }
}
