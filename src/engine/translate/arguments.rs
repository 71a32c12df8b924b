//! Binding of call arguments to a function's parameters, for the call-site frame source.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;

use crate::native::Ptr;
use crate::obj::{self, Obj};

/// Bound arguments: one owned reference per parameter.
pub type Bound_<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// What is needed to bind arguments.
pub struct Parameters {
    names: Vec<Obj>,
    positional: usize,
    positional_only: usize,
    named: usize,
    varargs: bool,
    varkw: bool,
    function: Obj,
}

impl Parameters {
    /// The parameters of a Python function.
    ///
    /// # Errors
    /// When `function` has no code object.
    pub fn of(function: &Bound<'_, PyAny>) -> PyResult<Self> {
        let code = function.getattr("__code__")?;
        let number = |name: &str| code.getattr(name)?.extract::<usize>();
        let flags = number("co_flags")?;
        let positional = number("co_argcount")?;
        let mut names = Vec::new();
        for name in obj::locals_of_code(&code)?.try_iter()? {
            names.push(Obj::from(name?));
        }
        Ok(Self {
            names,
            positional,
            positional_only: number("co_posonlyargcount")?,
            named: positional + number("co_kwonlyargcount")?,
            varargs: flags & 0x04 != 0,
            varkw: flags & 0x08 != 0,
            function: Obj::from(function),
        })
    }

    /// Binds a call; `None` when the call would raise `TypeError` (the function itself then does).
    ///
    /// # Errors
    /// When defaults cannot be read.
    pub fn bind<'py>(
        &self,
        py: Python<'py>,
        receiver: Option<&Bound<'py, PyAny>>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound_<'py>>> {
        let mut given: Bound_<'py> = SmallVec::new();
        given.extend(receiver.cloned());
        given.extend(args.iter());
        let simple = kwargs.is_none_or(|kwargs| kwargs.is_empty()) && !self.varargs && !self.varkw;
        if simple && given.len() == self.positional && self.named == self.positional {
            return Ok(Some(given));
        }
        let extra = given.split_off_at(self.positional.min(given.len()));
        if !extra.is_empty() && !self.varargs {
            return Ok(None);
        }
        let mut slots: SmallVec<[Option<Bound<'py, PyAny>>; 8]> =
            given.into_iter().map(Some).collect();
        slots.resize(self.named, None);
        let rest = PyDict::new(py);
        for (name, value) in kwargs.into_iter().flat_map(|kwargs| kwargs.iter()) {
            let known = (self.positional_only..self.named)
                .find(|at| same_name(&name, self.names[*at].bind(py)));
            match known {
                Some(at) if slots[at].is_none() => slots[at] = Some(value),
                None if self.varkw && name.is_instance_of::<PyString>() => {
                    rest.set_item(name, value)?
                }
                _ => return Ok(None),
            }
        }
        if !self.fill_defaults(py, &mut slots)? {
            return Ok(None);
        }
        let mut bound: Bound_<'py> = slots.into_iter().flatten().collect();
        if self.varargs {
            bound.push(PyTuple::new(py, extra)?.into_any());
        }
        if self.varkw {
            bound.push(rest.into_any());
        }
        Ok(Some(bound))
    }

    fn fill_defaults<'py>(
        &self,
        py: Python<'py>,
        slots: &mut [Option<Bound<'py, PyAny>>],
    ) -> PyResult<bool> {
        if slots.iter().all(Option::is_some) {
            return Ok(true);
        }
        let function = self.function.bind(py);
        let defaults = function.getattr("__defaults__")?;
        let count = if defaults.is_none() {
            0
        } else {
            defaults.len()?
        };
        let missing: Vec<usize> = (0..self.named).filter(|at| slots[*at].is_none()).collect();
        for at in missing {
            if at < self.positional {
                let Some(index) = (at + count).checked_sub(self.positional) else {
                    return Ok(false);
                };
                slots[at] = Some(defaults.get_item(index)?);
            } else {
                let keyword = function.getattr("__kwdefaults__")?;
                let Ok(keyword) = keyword.cast::<PyDict>() else {
                    return Ok(false);
                };
                let Some(value) = keyword.get_item(self.names[at].bind(py))? else {
                    return Ok(false);
                };
                slots[at] = Some(value);
            }
        }
        Ok(true)
    }
}

fn same_name(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    a.is(b)
        || matches!((a.cast::<PyString>(), b.cast::<PyString>()), (Ok(a), Ok(b)) if a.to_str().ok() == b.to_str().ok())
}

trait SplitOff<T> {
    fn split_off_at(&mut self, at: usize) -> Vec<T>;
}

impl<T, const N: usize> SplitOff<T> for SmallVec<[T; N]> {
    fn split_off_at(&mut self, at: usize) -> Vec<T> {
        self.drain(at..).collect()
    }
}

/// The addresses of bound arguments, for the guard program.
pub fn addresses<'a>(bound: &'a [Bound<'_, PyAny>]) -> SmallVec<[Ptr<'a>; 8]> {
    bound.iter().map(Ptr::from).collect()
}
