//! [`FrameView`]: a call at its start.

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple};

use super::version;

/// A call at its start: arguments are bound, no instruction has run, cells are not made yet.
#[derive(Clone, Copy)]
pub struct FrameView<'a> {
    pub(super) code: *mut PyObject,
    pub(super) globals: *mut PyObject,
    pub(super) builtins: *mut PyObject,
    pub(super) function: *mut PyObject,
    pub(super) arguments: &'a [*mut PyObject],
}

/// The fields of a code object that decide how it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    pub positional: usize,
    pub positional_only: usize,
    pub keyword_only: usize,
    pub varargs: bool,
    pub varkw: bool,
}

impl Signature {
    /// How many slots arguments fill.
    pub fn slots(&self) -> usize {
        self.named() + usize::from(self.varargs) + usize::from(self.varkw)
    }

    /// How many parameters have names that a caller can use.
    pub fn named(&self) -> usize {
        self.positional + self.keyword_only
    }
}

/// # Safety
/// `code` must be a code object.
pub(super) unsafe fn code_fields<'a>(code: *mut PyObject) -> &'a version::Code {
    &*code.cast::<version::Code>()
}

/// # Safety
/// `code` must be a code object.
pub(super) unsafe fn signature(code: *mut PyObject) -> Signature {
    let code = code_fields(code);
    Signature {
        positional: code.argcount as usize,
        positional_only: code.posonlyargcount as usize,
        keyword_only: code.kwonlyargcount as usize,
        varargs: code.flags & ffi::CO_VARARGS != 0,
        varkw: code.flags & ffi::CO_VARKEYWORDS != 0,
    }
}

impl<'a> FrameView<'a> {
    /// The code object.
    pub fn code<'py>(&self, py: Python<'py>) -> Bound<'py, PyCode> {
        // SAFETY: the call keeps its code object alive, and sources only show code objects.
        unsafe { Bound::from_borrowed_ptr(py, self.code).cast_into_unchecked() }
    }

    /// The globals.
    pub fn globals<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the call keeps its function, and that its globals, alive.
        unsafe { Bound::from_borrowed_ptr(py, self.globals) }
    }

    /// The builtins.
    pub fn builtins<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: as for the globals.
        unsafe { Bound::from_borrowed_ptr(py, self.builtins) }
    }

    /// The function called, when there is one.
    pub fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: borrowed from the call; null is allowed.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.function) }
    }

    /// The bound arguments in the order of the frame's slots: positional, keyword-only, `*args`,
    /// `**kwargs`. Borrowed references, none null.
    pub fn arguments(&self) -> &'a [*mut PyObject] {
        self.arguments
    }

    /// One bound argument.
    pub fn argument<'py>(&self, py: Python<'py>, index: usize) -> Option<Bound<'py, PyAny>> {
        let value = *self.arguments.get(index)?;
        // SAFETY: the call owns its arguments.
        Some(unsafe { Bound::from_borrowed_ptr(py, value) })
    }

    /// The bound arguments by name, in a new dict.
    ///
    /// # Errors
    /// When the dict cannot be filled.
    pub fn locals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let locals = PyDict::new(py);
        // SAFETY: `code` is a code object; its names are a tuple it owns.
        let names = unsafe {
            let names = code_fields(self.code).localsplusnames;
            Bound::from_borrowed_ptr(py, names)
        };
        let names = names.cast::<PyTuple>()?;
        for index in 0..self.arguments.len() {
            if let Some(value) = self.argument(py, index) {
                locals.set_item(names.get_item(index)?, value)?;
            }
        }
        Ok(locals)
    }
}
