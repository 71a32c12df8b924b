//! The interpreter's frame evaluation hook (PEP 523).
//!
//! It hands fresh frames to the handler of a thread that listens, and carries its decision out.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use crate::c_stack;

use super::code_state::{CodeState, Policy};
use super::listening::{CalleeScope, LOCAL, Local, evaluate_unhooked, previous};
use super::pass_frame::{self, Passes, run_new_code};
use super::runtime;
use super::version::{self, InterpreterFrame, ThreadState};
use super::view::{code_fields, signature};
use super::{
    CustomCode, FrameDecision, FrameHandler, FrameSource, FrameView, Instead, replacement,
    user_is_tracing,
};

/// Hooked calls that may nest on the C stack; deeper ones run without the hook, as plain Python
/// does.
const MAX_DEPTH: u32 = 400;

/// A frame the interpreter is about to evaluate.
pub struct Pep523Frame<'a> {
    frame: *mut InterpreterFrame,
    view: FrameView<'a>,
}

impl Pep523Frame<'_> {
    /// The frames handlers may see: ordinary calls of functions, before their first instruction.
    ///
    /// # Safety
    /// `frame` must be the argument of an evaluation function.
    unsafe fn new(frame: *mut InterpreterFrame) -> Option<Self> {
        const NEEDED: c_int = ffi::CO_OPTIMIZED | ffi::CO_NEWLOCALS;
        const REFUSED: c_int = ffi::CO_GENERATOR
            | ffi::CO_COROUTINE
            | ffi::CO_ASYNC_GENERATOR
            | ffi::CO_ITERABLE_COROUTINE;
        let raw = &*frame;
        if !raw.is_fresh() {
            return None;
        }
        let code = raw.code();
        let flags = code_fields(code).flags;
        if flags & NEEDED != NEEDED || flags & REFUSED != 0 {
            return None;
        }
        let arguments = std::slice::from_raw_parts(raw.locals(), signature(code).slots());
        if arguments.iter().any(|argument| argument.is_null()) {
            return None;
        }
        let function = raw.function();
        let is_function = !function.is_null() && ffi::PyFunction_Check(function) != 0;
        Some(Self {
            frame,
            view: FrameView {
                code,
                globals: raw.globals(),
                builtins: raw.builtins(),
                function: if is_function {
                    function
                } else {
                    std::ptr::null_mut()
                },
                arguments,
            },
        })
    }
}

impl FrameSource for Pep523Frame<'_> {
    fn view(&self) -> FrameView<'_> {
        self.view
    }

    /// Evaluates the frame or its replacement and ends the frame: it is gone afterwards.
    fn run(&self, py: Python<'_>, decision: FrameDecision) -> PyResult<Py<PyAny>> {
        let result = self.run_raw(py, decision);
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, result).map(Bound::unbind) }
    }
}

impl Pep523Frame<'_> {
    /// Exceptions stay where CPython has them: user exceptions must not change on the way.
    fn run_raw(&self, py: Python<'_>, decision: FrameDecision) -> *mut PyObject {
        let state = runtime::thread_state(py);
        let callees = match &decision {
            FrameDecision::Run(custom) => !custom.disable_eval_frame,
            FrameDecision::Replace { callees, .. } => *callees,
            FrameDecision::Instead(_) => false,
            FrameDecision::Raise(_) => true,
        };
        let scope = CalleeScope::for_frame(callees);
        // SAFETY: the frame is fresh and on top of its thread's stack; it is ended exactly once:
        // by its evaluation, or by `finish` after something else ran in its place.
        unsafe {
            let as_it_is = matches!(decision, FrameDecision::Run(CustomCode { code: None, .. }));
            if as_it_is || !version::can_finish(state, self.frame) {
                return evaluate(state, self.frame, 0);
            }
            let result = match decision {
                FrameDecision::Instead(instead) => match self.instead(py, instead) {
                    Some(result) => result,
                    None => {
                        drop(scope);
                        return evaluate(state, self.frame, 0);
                    }
                },
                decision @ (FrameDecision::Run(_)
                | FrameDecision::Replace { .. }
                | FrameDecision::Raise(_)) => replaced(py, &self.view, decision, callees),
            };
            drop(scope);
            // Destructors run with the exception set, as they do when CPython ends a frame.
            version::finish(state, self.frame);
            result
        }
    }
}

impl Pep523Frame<'_> {
    /// Null when an exception is set; `None` when the frame is to be evaluated after all.
    fn instead(&self, py: Python<'_>, instead: Box<dyn Instead>) -> Option<*mut PyObject> {
        let count = self.view.arguments.len();
        let frame = self.frame;
        let release = move || {
            for index in 0..count {
                // SAFETY: the frame is fresh: its first slots own its arguments, and may be null
                // where nobody evaluates it any more. What ends it allows null slots.
                unsafe {
                    let slot = (*frame).locals().cast_mut().add(index);
                    ffi::Py_XDECREF(std::ptr::replace(slot, std::ptr::null_mut()));
                }
            }
        };
        Some(match instead.run(py, &release)? {
            Ok(value) => value.into_ptr(),
            Err(err) => {
                err.restore(py);
                std::ptr::null_mut()
            }
        })
    }
}

fn replaced(
    py: Python<'_>,
    view: &FrameView<'_>,
    decision: FrameDecision,
    callees: bool,
) -> *mut PyObject {
    let result = match decision {
        FrameDecision::Run(CustomCode { code: None, .. }) => {
            Err(PyRuntimeError::new_err("no code"))
        }
        FrameDecision::Run(CustomCode {
            code: Some(code), ..
        }) => run_new_code(py, view, &code, callees),
        FrameDecision::Replace { function, args, .. } => {
            Ok(replacement::call_owned(py, &function, &args))
        }
        FrameDecision::Instead(_) => Err(PyRuntimeError::new_err("not a function")),
        FrameDecision::Raise(err) => Err(err),
    };
    result.unwrap_or_else(|err| {
        err.restore(py);
        std::ptr::null_mut()
    })
}

/// Frames of this thread that handlers never see: generators, coroutines, bodies of classes and
/// modules.
pub fn refused_frames() -> u64 {
    LOCAL.with(|local| local.refused.get())
}

/// Evaluates a frame as it would have been without us.
///
/// # Safety
/// The arguments must be those of an evaluation function.
unsafe fn evaluate(
    state: *mut ThreadState,
    frame: *mut InterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    let depth = LOCAL.with(|local| local.depth.get());
    if depth >= MAX_DEPTH {
        return evaluate_unhooked(state, frame, throwflag);
    }
    LOCAL.with(|local| local.depth.set(depth + 1));
    version::grant_c_recursion(state, 1);
    let result = previous()(state, frame, throwflag);
    version::grant_c_recursion(state, -1);
    LOCAL.with(|local| local.depth.set(depth));
    result
}

/// Objects of ours that are called, or return, are not to count as calls: plain Python makes none.
pub fn grant_nesting(py: Python<'_>, by: i32) {
    if runtime::layout_is_known(py) {
        // SAFETY: it is the state of this thread, and laid out as expected.
        unsafe { version::grant_nesting(runtime::thread_state(py), by) };
    }
}

/// A Python call that an object of ours makes through C, in the place of one that does not nest
/// there.
pub fn grant_c_recursion(py: Python<'_>, by: i32) {
    if runtime::layout_is_known(py) {
        // SAFETY: it is the state of this thread, and laid out as expected.
        unsafe { version::grant_c_recursion(runtime::thread_state(py), by) };
    }
}

/// The evaluation function that is set while a thread listens.
///
/// # Safety
/// As for [`evaluate`].
pub(super) unsafe extern "C" fn hook(
    state: *mut ThreadState,
    frame: *mut InterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    c_stack::for_call(|| hooked(state, frame, throwflag))
}

unsafe fn hooked(
    state: *mut ThreadState,
    frame: *mut InterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    let Some(handler) = LOCAL.with(Local::listener).filter(|_| throwflag == 0) else {
        return evaluate(state, frame, throwflag);
    };
    let code = (*frame).code();
    match pass_frame::take(code) {
        Some(Passes::Alone) => return evaluate_unhooked(state, frame, throwflag),
        Some(Passes::Hooked) => return evaluate(state, frame, throwflag),
        None => {}
    }
    let Some(source) = Pep523Frame::new(frame) else {
        if (*frame).is_fresh() {
            LOCAL.with(|local| local.refused.set(local.refused.get() + 1));
        }
        return evaluate(state, frame, throwflag);
    };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        Python::try_attach(|py| decide(py, &source.view, handler))
    }));
    let decision = match decided {
        Ok(Some(decision)) => decision,
        // The handler panicked (its hook has reported that) or the interpreter is ending.
        _ => return evaluate(state, frame, throwflag),
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Python::try_attach(|py| source.run_raw(py, decision))
    }));
    match ran {
        Ok(Some(result)) => result,
        _ => {
            // Too late to evaluate the frame: it may have run.
            ffi::PyErr_SetString(
                ffi::PyExc_SystemError,
                c"paddle_sot_rs: a frame could not be replaced".as_ptr(),
            );
            std::ptr::null_mut()
        }
    }
}

fn decide(py: Python<'_>, view: &FrameView<'_>, handler: FrameHandler) -> FrameDecision {
    if user_is_tracing(py) {
        return FrameDecision::Run(CustomCode::LOOK_AT_CALLEES);
    }
    let code = view.code(py);
    if let Ok(Some(state)) = CodeState::find(&code) {
        if state.frame() == Policy::Skip {
            return FrameDecision::Run(CustomCode {
                code: None,
                disable_eval_frame: state.callees() == Policy::Skip,
            });
        }
    }
    // The handler runs Python itself: the translator must not be translated.
    let _quiet = CalleeScope::suspend();
    handler(py, view)
}
