//! CPython 3.13: `Include/internal/pycore_frame.h`, `Include/cpython/code.h`,
//! `Include/cpython/pystate.h`.

use std::ffi::{c_char, c_int, c_void};

use pyo3::ffi::{self, PyObject};

/// `_PyInterpreterFrame`
#[repr(C)]
pub struct InterpreterFrame {
    executable: *mut Code,
    previous: *mut InterpreterFrame,
    function: *mut PyObject,
    globals: *mut PyObject,
    builtins: *mut PyObject,
    locals: *mut PyObject,
    frame_object: *mut PyObject,
    instr_ptr: *const u16,
    stacktop: c_int,
    return_offset: u16,
    owner: c_char,
    localsplus: [*mut PyObject; 1],
}

/// `PyCodeObject`
#[repr(C)]
pub struct Code {
    base: ffi::PyVarObject,
    consts: [*mut PyObject; 3],
    pub(super) flags: c_int,
    pub(super) argcount: c_int,
    pub(super) posonlyargcount: c_int,
    pub(super) kwonlyargcount: c_int,
    stacksize: c_int,
    firstlineno: c_int,
    pub(super) nlocalsplus: c_int,
    framesize: c_int,
    nlocals: c_int,
    ncellvars: c_int,
    pub(super) nfreevars: c_int,
    version: u32,
    pub(super) localsplusnames: *mut PyObject,
    rest: [*mut PyObject; 5],
    weakreflist: *mut PyObject,
    executors: *mut c_void,
    cached: *mut c_void,
    instrumentation_version: usize,
    monitoring: *mut c_void,
    firsttraceable: c_int,
    extra: *mut c_void,
    adaptive: [c_char; 1],
}

/// The start of `PyThreadState`.
#[repr(C)]
pub struct ThreadState {
    links: [*mut c_void; 2],
    pub(super) interp: *mut c_void,
    pub(super) eval_breaker: usize,
    status: u32,
    whence: c_int,
    state: c_int,
    py_recursion_remaining: c_int,
    pub(super) recursion_limit: c_int,
    c_recursion_remaining: c_int,
    recursion_headroom: c_int,
    pub(super) tracing: c_int,
    what_event: c_int,
    current_frame: *mut InterpreterFrame,
    pub(super) c_profilefunc: *mut c_void,
    pub(super) c_tracefunc: *mut c_void,
}

// `offsetof` of the C headers.
const _: () = {
    assert!(std::mem::offset_of!(Code, flags) == 48);
    assert!(std::mem::offset_of!(Code, argcount) == 52);
    assert!(std::mem::offset_of!(Code, nlocalsplus) == 72);
    assert!(std::mem::offset_of!(Code, nfreevars) == 88);
    assert!(std::mem::offset_of!(Code, adaptive) == 200);
    assert!(std::mem::offset_of!(InterpreterFrame, localsplus) == 72);
    assert!(std::mem::offset_of!(InterpreterFrame, owner) == 70);
    assert!(std::mem::offset_of!(InterpreterFrame, stacktop) == 64);
    assert!(std::mem::offset_of!(ThreadState, c_tracefunc) == 88);
    assert!(std::mem::offset_of!(ThreadState, c_profilefunc) == 80);
    assert!(std::mem::offset_of!(ThreadState, tracing) == 60);
    assert!(std::mem::offset_of!(ThreadState, c_recursion_remaining) == 52);
};

const OWNED_BY_THREAD: c_char = 0;

unsafe extern "C" {
    fn _PyEval_FrameClearAndPop(state: *mut ThreadState, frame: *mut InterpreterFrame);
}

impl InterpreterFrame {
    pub(super) fn code(&self) -> *mut PyObject {
        self.executable.cast()
    }

    pub(super) fn function(&self) -> *mut PyObject {
        self.function
    }

    pub(super) fn globals(&self) -> *mut PyObject {
        self.globals
    }

    pub(super) fn builtins(&self) -> *mut PyObject {
        self.builtins
    }

    pub(super) fn locals(&self) -> *const *mut PyObject {
        self.localsplus.as_ptr()
    }

    /// An ordinary call whose first instruction has not run.
    pub(super) fn is_fresh(&self) -> bool {
        // SAFETY: a frame keeps its executable alive; `f_executable` may also be None.
        if unsafe { ffi::PyCode_Check(self.executable.cast()) } == 0 {
            return false;
        }
        // SAFETY: it is a code object; the code starts at `adaptive`.
        let start = unsafe { std::ptr::addr_of!((*self.executable).adaptive).cast::<u16>() };
        self.owner == OWNED_BY_THREAD
            && self.frame_object.is_null()
            && self.locals.is_null()
            && self.instr_ptr == start
            // SAFETY: as above.
            && self.stacktop == unsafe { (*self.executable).nlocalsplus }
    }
}

/// Whether [`finish`] can be trusted with this frame: CPython's own function does it.
pub(super) unsafe fn can_finish(_state: *mut ThreadState, _frame: *mut InterpreterFrame) -> bool {
    true
}

/// Ends a frame that was not evaluated.
pub(super) unsafe fn finish(state: *mut ThreadState, frame: *mut InterpreterFrame) {
    _PyEval_FrameClearAndPop(state, frame);
}

/// A hooked Python call nests on the C stack where an ordinary one does not: it must not count.
pub(super) unsafe fn grant_c_recursion(state: *mut ThreadState, by: c_int) {
    (*state).c_recursion_remaining += by;
}

/// A resume function, which is an object of ours, is called through C, and so is what it runs.
pub(super) unsafe fn grant_nesting(state: *mut ThreadState, by: c_int) {
    (*state).c_recursion_remaining += 3 * by;
}
