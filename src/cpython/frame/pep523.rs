//! The interpreter's frame evaluation hook (PEP 523).
//!
//! A hook that is set turns off the interpreter's inlined Python calls for all threads, so it is
//! set only while some thread listens. Threads that do not listen pass straight through.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::c_stack;

use super::code_state::{CodeState, Policy};
use super::runtime;
use super::version::{self, InterpreterFrame, ThreadState};
use super::view::{code_fields, signature};
use super::{
    CustomCode, FrameDecision, FrameHandler, FrameSource, FrameView, Instead, replacement,
    user_is_tracing,
};

type EvalFrame =
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

/// Hooked calls that may nest on the C stack; deeper ones run without the hook, as plain Python
/// does.
const MAX_DEPTH: u32 = 400;

struct Local {
    handler: Cell<Option<FrameHandler>>,
    suspended: Cell<u32>,
    depth: Cell<u32>,
    refused: Cell<u64>,
}

impl Local {
    fn listener(&self) -> Option<FrameHandler> {
        match self.suspended.get() {
            0 => self.handler.get(),
            _ => None,
        }
    }
}

thread_local! {
    static LOCAL: Local = const {
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

fn previous() -> EvalFrame {
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

    fn for_frame(callees: bool) -> Self {
        match callees {
            true => Self::Listen(None),
            false => Self::suspend(),
        }
    }

    fn suspend() -> Self {
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
                decision => replaced(py, &self.view, decision, callees),
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

thread_local! {
    /// The code whose next frame on this thread is a replacement that was just decided on.
    static PASS: Cell<*mut PyObject> = const { Cell::new(std::ptr::null_mut()) };
    /// Whether that frame runs without the hook, with all that it calls.
    static ALONE: Cell<bool> = const { Cell::new(false) };
    /// The arguments of that frame, to be dropped when it owns its own references.
    static GIVEN: Cell<Option<SmallVec<[Py<PyAny>; 8]>>> = const { Cell::new(None) };
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

/// Without the hook, Python calls do not nest on the C stack.
///
/// # Safety
/// As for [`evaluate`].
unsafe fn evaluate_unhooked(
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

unsafe extern "C" fn hook(
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
    if PASS.with(|pass| pass.get() == code && !pass.replace(std::ptr::null_mut()).is_null()) {
        drop(GIVEN.take());
        if ALONE.replace(false) {
            return evaluate_unhooked(state, frame, throwflag);
        }
        return evaluate(state, frame, throwflag);
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
