//! Frames of replacements, which pass the hook as they are, with arguments that are theirs alone.

use std::cell::Cell;
use std::marker::PhantomData;

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;

use super::{FrameView, replacement};

thread_local! {
    /// The code whose next frame on this thread is a replacement that was just decided on.
    static PASS: Cell<*mut PyObject> = const { Cell::new(std::ptr::null_mut()) };
    /// Whether that frame runs without the hook, with all that it calls.
    static ALONE: Cell<bool> = const { Cell::new(false) };
    /// The arguments of that frame, to be dropped when it owns its own references.
    static GIVEN: Cell<Option<SmallVec<[Py<PyAny>; 8]>>> = const { Cell::new(None) };
}

/// How a frame passes the hook.
pub(super) enum Passes {
    /// As it is; its callees are looked at.
    Hooked,
    /// Without the hook, with all that it calls.
    Alone,
}

/// Whether the frame of this code that begins now is the one that passes.
pub(super) fn take(code: *mut PyObject) -> Option<Passes> {
    let passes =
        PASS.with(|pass| pass.get() == code && !pass.replace(std::ptr::null_mut()).is_null());
    passes.then(|| {
        drop(GIVEN.take());
        match ALONE.replace(false) {
            true => Passes::Alone,
            false => Passes::Hooked,
        }
    })
}

/// The next frame of this code on this thread is evaluated as it is, if it starts before this is
/// dropped.
#[must_use]
pub struct PassFrame {
    _thread: PhantomData<*mut ()>,
}

impl PassFrame {
    /// For a call that is about to be made.
    pub fn of(code: &Bound<'_, PyAny>) -> Self {
        PASS.with(|pass| pass.set(code.as_ptr()));
        Self {
            _thread: PhantomData,
        }
    }

    /// The same, and the hook is gone while the frame runs: the interpreter makes its calls without
    /// the C stack, and arguments belong to their frames alone.
    pub fn alone(code: &Bound<'_, PyAny>) -> Self {
        ALONE.set(true);
        Self::of(code)
    }
}

impl Drop for PassFrame {
    fn drop(&mut self) {
        PASS.with(|pass| pass.set(std::ptr::null_mut()));
        ALONE.set(false);
    }
}

/// Calls a Python function with positional arguments. When its frame passes the hook, the arguments
/// are the frame's alone: they die when its locals do, not when the call ends.
///
/// # Errors
/// What the function raises.
pub fn call_giving(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    args: SmallVec<[Py<PyAny>; 8]>,
    pass: Option<&PassFrame>,
) -> PyResult<Py<PyAny>> {
    let pointers: SmallVec<[*mut PyObject; 8]> = args.iter().map(Py::as_ptr).collect();
    if pass.is_some() {
        GIVEN.set(Some(args));
        // SAFETY: the arguments are alive until the frame of the call owns references to them:
        // the hook drops ours when it sees that frame, and CPython does not look at the array after
        // that (`_PyEval_Vector` in `Python/ceval.c`).
        let result = unsafe {
            ffi::PyObject_Vectorcall(
                function.as_ptr(),
                pointers.as_ptr(),
                pointers.len(),
                std::ptr::null_mut(),
            )
        };
        drop(GIVEN.take());
        // SAFETY: a new reference, or null with an exception set.
        return unsafe { Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind) };
    }
    let result = replacement::call_owned(py, &function.clone().unbind(), &args);
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind) }
}

/// Runs new code; its own frame is not handed to the handler again. Null when an exception is set.
///
/// # Errors
/// When the new code does not fit the call.
pub(super) fn run_new_code(
    py: Python<'_>,
    view: &FrameView<'_>,
    code: &Py<pyo3::types::PyCode>,
    callees: bool,
) -> PyResult<*mut PyObject> {
    if callees {
        PASS.with(|pass| pass.set(code.as_ptr()));
    }
    let result = replacement::run_code(py, view, code.bind(py));
    PASS.with(|pass| pass.set(std::ptr::null_mut()));
    result
}
