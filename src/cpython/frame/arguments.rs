//! Argument binding for [`super::CallSite`], as `initialize_locals` of `Python/ceval.c` does it.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use super::view::{Signature, code_fields, signature};
use crate::obj::Obj;

/// One pointer per argument slot of a frame.
///
/// The caller's values are borrowed for as long as the caller keeps them; what binding made or
/// took from the function (defaults, the `*args` tuple, the `**kwargs` dict) is owned here.
#[derive(Default)]
pub struct BoundLocals {
    slots: SmallVec<[*mut PyObject; 8]>,
    owned: SmallVec<[Py<PyAny>; 2]>,
}

impl BoundLocals {
    /// Positional, keyword-only, `*args`, `**kwargs`; none is null.
    pub fn as_slice(&self) -> &[*mut PyObject] {
        &self.slots
    }

    fn own(&mut self, index: usize, value: Bound<'_, PyAny>) {
        self.slots[index] = value.as_ptr();
        self.owned.push(value.unbind());
    }
}

/// Binds calls of one Python function.
pub struct ArgBinder {
    function: Obj,
    code: Obj,
    signature: Signature,
}

/// Keywords of a call, in either of the shapes CPython passes them.
#[derive(Clone, Copy)]
enum Keywords<'a, 'py> {
    None,
    Dict(&'a Bound<'py, PyDict>),
    Vector(&'a Bound<'py, PyTuple>, &'a [*mut PyObject]),
}

impl ArgBinder {
    /// Prepares to bind calls of `function`.
    ///
    /// # Errors
    /// `TypeError` when it is not a Python function.
    pub fn new(py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: the pointer is alive; the check precedes the use as a function.
        let code = unsafe {
            if ffi::PyFunction_Check(function.as_ptr()) == 0 {
                return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                    "a Python function is needed, not {}",
                    function.get_type().name()?
                )));
            }
            Bound::from_borrowed_ptr(py, ffi::PyFunction_GetCode(function.as_ptr()))
        };
        Ok(Self {
            function: Obj::from(function),
            // SAFETY: a function's code is a code object.
            signature: unsafe { signature(code.as_ptr()) },
            code: Obj::from(code),
        })
    }

    /// The function.
    pub fn function(&self) -> &Obj {
        &self.function
    }

    /// The code object that was bound for.
    pub fn code(&self) -> &Obj {
        &self.code
    }

    /// Whether the function still has the code it had: `f.__code__` can be assigned.
    pub fn is_current(&self) -> bool {
        // SAFETY: `function` is a Python function kept alive by `self`.
        unsafe { ffi::PyFunction_GetCode(self.function.as_ptr()) == self.code.as_ptr() }
    }

    /// Binds positional arguments and a dict of keywords.
    ///
    /// `None` when the call does not fit the parameters (or that cannot be told without running
    /// user code): call the function itself, it raises its own `TypeError`.
    pub fn bind(
        &self,
        py: Python<'_>,
        args: &[*mut PyObject],
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Option<BoundLocals> {
        match kwargs {
            Some(kwargs) if !kwargs.is_empty() => {
                self.bind_any(py, args, Keywords::Dict(kwargs), kwargs.len())
            }
            _ => self.bind_any(py, args, Keywords::None, 0),
        }
    }

    /// Binds the arguments of a vectorcall: `args` holds the positional values, then those of
    /// `names`.
    ///
    /// `None` as for [`Self::bind`].
    pub fn bind_vector(
        &self,
        py: Python<'_>,
        args: &[*mut PyObject],
        names: Option<&Bound<'_, PyTuple>>,
    ) -> Option<BoundLocals> {
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            return self.bind_any(py, args, Keywords::None, 0);
        };
        let positional = args.len().checked_sub(names.len())?;
        let (args, values) = args.split_at(positional);
        self.bind_any(py, args, Keywords::Vector(names, values), names.len())
    }

    fn bind_any(
        &self,
        py: Python<'_>,
        args: &[*mut PyObject],
        keywords: Keywords<'_, '_>,
        keyword_count: usize,
    ) -> Option<BoundLocals> {
        let shape = self.signature;
        if !self.is_current() {
            return None;
        }
        let mut bound = BoundLocals::default();
        if keyword_count == 0 && args.len() == shape.positional && shape.slots() == args.len() {
            bound.slots.extend_from_slice(args);
            return Some(bound);
        }
        bound.slots.resize(shape.slots(), std::ptr::null_mut());
        let taken = args.len().min(shape.positional);
        bound.slots[..taken].copy_from_slice(&args[..taken]);
        if shape.varargs {
            let extra = args[taken..].iter().map(|value| {
                // SAFETY: the caller keeps its arguments alive during the call.
                unsafe { Bound::from_borrowed_ptr(py, *value) }
            });
            bound.own(shape.named(), PyTuple::new(py, extra).ok()?.into_any());
        } else if args.len() > taken {
            return None;
        }
        let rest = shape.varkw.then(|| PyDict::new(py));
        self.place_keywords(py, &mut bound, keywords, rest.as_ref())?;
        self.place_defaults(py, &mut bound)?;
        if let Some(rest) = rest {
            bound.own(shape.slots() - 1, rest.into_any());
        }
        Some(bound)
    }

    fn place_keywords(
        &self,
        py: Python<'_>,
        bound: &mut BoundLocals,
        keywords: Keywords<'_, '_>,
        rest: Option<&Bound<'_, PyDict>>,
    ) -> Option<()> {
        match keywords {
            Keywords::None => Some(()),
            Keywords::Dict(dict) => {
                for (name, value) in dict.iter() {
                    self.place_keyword(bound, &name, &value, rest)?;
                    // A borrowed slot must outlive a dict that user code may change meanwhile.
                    bound.owned.push(value.unbind());
                }
                Some(())
            }
            Keywords::Vector(names, values) => {
                for (name, value) in names.iter().zip(values) {
                    // SAFETY: the caller keeps its arguments alive during the call.
                    let value = unsafe { Bound::from_borrowed_ptr(py, *value) };
                    self.place_keyword(bound, &name, &value, rest)?;
                }
                Some(())
            }
        }
    }

    fn place_keyword(
        &self,
        bound: &mut BoundLocals,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        rest: Option<&Bound<'_, PyDict>>,
    ) -> Option<()> {
        // A subclass of str compares by user code.
        // SAFETY: `name` is alive.
        if unsafe { ffi::PyUnicode_CheckExact(name.as_ptr()) } == 0 {
            return None;
        }
        match self.find(name.as_ptr()) {
            Some(index) if bound.slots[index].is_null() => {
                bound.slots[index] = value.as_ptr();
                Some(())
            }
            Some(_) => None,
            None => rest?.set_item(name, value).ok(),
        }
    }

    /// The parameter a keyword names. Positional-only names are free for `**kwargs`.
    fn find(&self, name: *mut PyObject) -> Option<usize> {
        let shape = self.signature;
        let named = shape.positional_only..shape.named();
        // SAFETY: the code object lives as long as `self`; its names are a tuple of at least
        // `named()` exact strings; comparing two exact strings runs no user code and cannot fail.
        unsafe {
            let names = code_fields(self.code.as_ptr()).localsplusnames;
            let at = |index: &usize| ffi::PyTuple_GET_ITEM(names, *index as isize);
            named.clone().find(|index| at(index) == name).or_else(|| {
                named
                    .clone()
                    .find(|index| ffi::PyUnicode_Compare(at(index), name) == 0)
            })
        }
    }

    fn place_defaults(&self, py: Python<'_>, bound: &mut BoundLocals) -> Option<()> {
        let shape = self.signature;
        let function = self.function.as_ptr();
        if bound.slots[..shape.positional]
            .iter()
            .any(|slot| slot.is_null())
        {
            // SAFETY: `function` is a Python function; its defaults are null or a tuple.
            let defaults = unsafe {
                let defaults = ffi::PyFunction_GetDefaults(function);
                Bound::from_borrowed_ptr_or_opt(py, defaults)?
            };
            let defaults = defaults.cast::<PyTuple>().ok()?;
            // More defaults than parameters is possible: the first ones are never reached.
            let first = shape.positional as isize - defaults.len() as isize;
            for index in 0..shape.positional {
                if bound.slots[index].is_null() {
                    let at = usize::try_from(index as isize - first).ok()?;
                    bound.own(index, defaults.get_item(at).ok()?);
                }
            }
        }
        for index in shape.positional..shape.named() {
            if !bound.slots[index].is_null() {
                continue;
            }
            // SAFETY: `function` is a Python function; keyword defaults are null or a dict; the
            // names are a tuple of strings.
            let (defaults, name) = unsafe {
                let defaults = ffi::PyFunction_GetKwDefaults(function);
                let names = code_fields(self.code.as_ptr()).localsplusnames;
                (
                    Bound::from_borrowed_ptr_or_opt(py, defaults)?,
                    Bound::from_borrowed_ptr(py, ffi::PyTuple_GET_ITEM(names, index as isize)),
                )
            };
            let value = defaults.cast::<PyDict>().ok()?.get_item(name).ok()??;
            bound.own(index, value);
        }
        Some(())
    }
}
