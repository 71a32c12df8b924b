//! What the engine knows about one code object, kept in its `co_extra` and freed with it.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCode;

/// What to do with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Look at it.
    #[default]
    Default,
    /// Leave it alone.
    Skip,
    /// Use what is there, translate nothing new.
    RunOnly,
}

/// The state of one code object. The GIL protects it.
#[derive(Default)]
pub struct CodeState {
    frame: Cell<Policy>,
    callees: Cell<Policy>,
    engine: OnceCell<Box<dyn Any + Send>>,
}

static INDEX: PyOnceLock<ffi::Py_ssize_t> = PyOnceLock::new();

unsafe extern "C" fn free(state: *mut c_void) {
    if state.is_null() {
        return;
    }
    // SAFETY: only `CodeState::of` stores a value in our slot, and CPython frees it once.
    let state = unsafe { Box::from_raw(state.cast::<CodeState>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
}

fn index(py: Python<'_>) -> PyResult<ffi::Py_ssize_t> {
    INDEX
        .get_or_try_init(py, || {
            // SAFETY: the GIL is held.
            let index = unsafe { ffi::PyUnstable_Eval_RequestCodeExtraIndex(free) };
            if index < 0 {
                return Err(PyRuntimeError::new_err(
                    "CPython has no room left for extra data on code objects",
                ));
            }
            Ok(index)
        })
        .copied()
}

impl CodeState {
    /// The state of a code object, if it has one.
    ///
    /// # Errors
    /// When CPython has no slot for extra data.
    pub fn find<'a>(code: &'a Bound<'_, PyCode>) -> PyResult<Option<&'a CodeState>> {
        let index = index(code.py())?;
        let mut extra = std::ptr::null_mut();
        // SAFETY: `code` is a code object and `index` ours.
        if unsafe { ffi::PyUnstable_Code_GetExtra(code.as_ptr(), index, &mut extra) } != 0 {
            return Err(PyErr::fetch(code.py()));
        }
        // SAFETY: the slot holds null or a `CodeState` that lives as long as the code object.
        Ok(unsafe { extra.cast::<CodeState>().as_ref() })
    }

    /// The state of a code object, made when it has none.
    ///
    /// # Errors
    /// When CPython has no slot for extra data, or no memory.
    pub fn of<'a>(code: &'a Bound<'_, PyCode>) -> PyResult<&'a CodeState> {
        if let Some(known) = Self::find(code)? {
            return Ok(known);
        }
        let state = Box::into_raw(Box::<CodeState>::default());
        // SAFETY: `code` is a code object, `index` ours, and the slot takes ownership.
        let failed = unsafe {
            ffi::PyUnstable_Code_SetExtra(code.as_ptr(), index(code.py())?, state.cast())
        };
        if failed != 0 {
            // SAFETY: CPython refused it, so it is still ours.
            drop(unsafe { Box::from_raw(state) });
            return Err(PyErr::fetch(code.py()));
        }
        // SAFETY: just stored; it lives as long as the code object.
        Ok(unsafe { &*state })
    }

    /// For frames of this code.
    pub fn frame(&self) -> Policy {
        self.frame.get()
    }

    /// For frames called from frames of this code.
    pub fn callees(&self) -> Policy {
        self.callees.get()
    }

    /// Sets both policies.
    pub fn set_policies(&self, frame: Policy, callees: Policy) {
        self.frame.set(frame);
        self.callees.set(callees);
    }

    /// The engine's own value, made at first use.
    pub fn engine<T: Any + Send>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.engine.get_or_init(|| Box::new(make())).downcast_ref()
    }
}
