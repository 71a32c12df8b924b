//! Which threads listen to frames, and whether the hook is set in the interpreter.
//!
//! A hook that is set turns off the interpreter's inlined Python calls for all threads, so it is
//! set only while some thread listens. Threads that do not listen pass straight through.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

use super::FrameHandler;
use super::pep523::hook;
use super::runtime;
use super::version::{InterpreterFrame, ThreadState};

pub(super) type EvalFrame =
    unsafe extern "C" fn(*mut ThreadState, *mut InterpreterFrame, c_int) -> *mut PyObject;

unsafe extern "C" {
    fn _PyEval_EvalFrameDefault(
        state: *mut ThreadState,
        frame: *mut InterpreterFrame,
        throwflag: c_int,
    ) -> *mut PyObject;
    fn _PyInterpreterState_GetEvalFrameFunc(interp: *mut c_void) -> EvalFrame;
    fn _PyInterpreterState_SetEvalFrameFunc(interp: *mut c_void, function: EvalFrame);
    fn PyInterpreterState_Get() -> *mut c_void;
}

/// What one thread listens with.
pub(super) struct Local {
    handler: Cell<Option<FrameHandler>>,
    suspended: Cell<u32>,
    /// How many hooked calls nest on the C stack.
    pub(super) depth: Cell<u32>,
    /// See [`refused_frames`](super::refused_frames).
    pub(super) refused: Cell<u64>,
}

impl Local {
    pub(super) fn listener(&self) -> Option<FrameHandler> {
        match self.suspended.get() {
            0 => self.handler.get(),
            _ => None,
        }
    }
}

thread_local! {
    pub(super) static LOCAL: Local = const {
        Local { handler: Cell::new(None), suspended: Cell::new(0), depth: Cell::new(0), refused: Cell::new(0) }
    };
}

static HANDLER: OnceLock<FrameHandler> = OnceLock::new();

/// Open scopes of all threads. The GIL orders the changes of this and the next three.
static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// What ran before us; null is the default.
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Somebody else's hook was found on top of ours; it may call ours.
static BURIED: AtomicBool = AtomicBool::new(false);

/// Registers the handler of the process; the first one stays.
pub fn set_handler(handler: FrameHandler) -> bool {
    HANDLER.set(handler).is_ok()
}

fn current_hook() -> EvalFrame {
    // SAFETY: called with the GIL held.
    unsafe { _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) }
}

fn same(a: EvalFrame, b: EvalFrame) -> bool {
    std::ptr::fn_addr_eq(a, b)
}

/// Whether the interpreter's hook is ours at the moment.
pub fn is_installed(_py: Python<'_>) -> bool {
    same(current_hook(), hook)
}

/// Whether the interpreter's hook is somebody else's at the moment.
pub fn is_hooked_by_others(_py: Python<'_>) -> bool {
    let current = current_hook();
    !same(current, _PyEval_EvalFrameDefault) && !same(current, hook)
}

fn install() {
    let current = current_hook();
    if same(current, hook) {
        BURIED.store(false, Ordering::Relaxed);
        return;
    }
    let is_default = same(current, _PyEval_EvalFrameDefault);
    if BURIED.load(Ordering::Relaxed) && !is_default {
        // It may chain to us already: hooking it again could make a circle.
        return;
    }
    BURIED.store(false, Ordering::Relaxed);
    let previous = match is_default {
        true => std::ptr::null_mut(),
        false => current as *mut c_void,
    };
    PREVIOUS.store(previous, Ordering::Relaxed);
    // SAFETY: the GIL is held and `hook` has the signature of an evaluation function.
    unsafe { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook) };
}

fn uninstall() {
    if same(current_hook(), hook) {
        // SAFETY: the GIL is held; the previous function was in this place before.
        unsafe { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), previous()) };
    } else {
        BURIED.store(true, Ordering::Relaxed);
    }
}

pub(super) fn previous() -> EvalFrame {
    let previous = PREVIOUS.load(Ordering::Relaxed);
    if previous.is_null() {
        return _PyEval_EvalFrameDefault;
    }
    // SAFETY: only evaluation functions that CPython gave us are stored.
    unsafe { std::mem::transmute::<*mut c_void, EvalFrame>(previous) }
}

/// This thread listens until the scope is dropped.
///
/// Scopes nest and are dropped in reverse order, with the GIL held.
#[must_use]
pub struct Pep523Scope {
    handler: Option<FrameHandler>,
    suspended: u32,
    // Thread-locals are restored on drop: the scope stays where it was made.
    _thread: PhantomData<*mut ()>,
}

impl Pep523Scope {
    /// Listens with the handler of the process; `None` when there is none or when this CPython is
    /// not laid out as expected.
    pub fn enter(py: Python<'_>) -> Option<Self> {
        Self::with_handler(py, *HANDLER.get()?)
    }

    /// Listens with a handler of its own.
    pub fn with_handler(py: Python<'_>, handler: FrameHandler) -> Option<Self> {
        if !runtime::layout_is_known(py) {
            return None;
        }
        if LISTENING.fetch_add(1, Ordering::Relaxed) == 0 || !same(current_hook(), hook) {
            install();
        }
        Some(LOCAL.with(|local| Self {
            handler: local.handler.replace(Some(handler)),
            suspended: local.suspended.replace(0),
            _thread: PhantomData,
        }))
    }
}

impl Drop for Pep523Scope {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            local.handler.set(self.handler);
            local.suspended.set(self.suspended);
        });
        stop_listening();
    }
}

/// Listening that outlives a call: for [`listen`].
pub struct Listening {
    active: Cell<bool>,
    _thread: PhantomData<*mut ()>,
}

/// This thread listens until the answer is stopped or dropped, on the same thread and with the
/// GIL held. At most one is active on a thread: stop the one before first.
///
/// # Errors
/// When this CPython is not laid out as expected.
pub fn listen(py: Python<'_>, handler: FrameHandler) -> PyResult<Listening> {
    let scope = Pep523Scope::with_handler(py, handler).ok_or_else(|| {
        PyRuntimeError::new_err("this build of CPython has an unknown layout of its thread state")
    })?;
    // Unlike a scope, it does not end what the caller has suspended.
    LOCAL.with(|local| local.suspended.set(scope.suspended));
    std::mem::forget(scope);
    Ok(Listening {
        active: Cell::new(true),
        _thread: PhantomData,
    })
}

impl Listening {
    /// Ends it, if it has not ended yet; whether this call did.
    pub fn stop(&self) -> bool {
        let ends = self.active.replace(false);
        if ends {
            LOCAL.with(|local| local.handler.set(None));
            stop_listening();
        }
        ends
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

fn stop_listening() {
    if LISTENING.fetch_sub(1, Ordering::Relaxed) == 1 {
        uninstall();
    }
}

/// Whether callees are looked at, until it is dropped.
pub(super) enum CalleeScope {
    Listen(#[allow(dead_code, reason = "held for its drop")] Option<Pep523Scope>),
    Suspend,
}

impl CalleeScope {
    /// For a call made by the engine: looking at callees needs the hook.
    pub fn for_call(py: Python<'_>, callees: bool) -> Self {
        if callees {
            let own = LOCAL.with(|local| local.handler.get());
            return Self::Listen(match own.or_else(|| HANDLER.get().copied()) {
                Some(handler) => Pep523Scope::with_handler(py, handler),
                None => None,
            });
        }
        Self::suspend()
    }

    pub(super) fn for_frame(callees: bool) -> Self {
        match callees {
            true => Self::Listen(None),
            false => Self::suspend(),
        }
    }

    pub(super) fn suspend() -> Self {
        LOCAL.with(|local| local.suspended.set(local.suspended.get() + 1));
        Self::Suspend
    }
}

impl Drop for CalleeScope {
    fn drop(&mut self) {
        if matches!(self, Self::Suspend) {
            // Saturating: a scope in between may have restored an older count.
            LOCAL.with(|local| local.suspended.set(local.suspended.get().saturating_sub(1)));
        }
    }
}

/// Without the hook, Python calls do not nest on the C stack.
///
/// # Safety
/// The arguments must be those of an evaluation function.
pub(super) unsafe fn evaluate_unhooked(
    state: *mut ThreadState,
    frame: *mut InterpreterFrame,
    throwflag: c_int,
) -> *mut PyObject {
    let function = previous();
    let ours = same(current_hook(), hook);
    if ours {
        uninstall();
    }
    let result = function(state, frame, throwflag);
    if ours && LISTENING.load(Ordering::Relaxed) > 0 {
        install();
    }
    result
}
