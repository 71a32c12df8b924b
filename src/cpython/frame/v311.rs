//! CPython 3.11: `Include/internal/pycore_frame.h`, `Include/cpython/code.h`,
//! `Include/cpython/pystate.h`.

use std::ffi::{c_char, c_int, c_short, c_void};

use pyo3::ffi::PyObject;

/// `_PyInterpreterFrame`
#[repr(C)]
pub struct InterpreterFrame {
    function: *mut PyObject,
    globals: *mut PyObject,
    builtins: *mut PyObject,
    locals: *mut PyObject,
    code: *mut Code,
    frame_object: *mut PyObject,
    previous: *mut InterpreterFrame,
    prev_instr: *const u16,
    stacktop: c_int,
    is_entry: bool,
    owner: c_char,
    localsplus: [*mut PyObject; 1],
}

/// `PyCodeObject`
#[repr(C)]
pub struct Code {
    base: pyo3::ffi::PyVarObject,
    consts: [*mut PyObject; 3],
    pub(super) flags: c_int,
    warmup: c_short,
    linearray_entry_size: c_short,
    pub(super) argcount: c_int,
    pub(super) posonlyargcount: c_int,
    pub(super) kwonlyargcount: c_int,
    stacksize: c_int,
    firstlineno: c_int,
    pub(super) nlocalsplus: c_int,
    nlocals: c_int,
    nplaincellvars: c_int,
    ncellvars: c_int,
    pub(super) nfreevars: c_int,
    pub(super) localsplusnames: *mut PyObject,
    rest: [*mut PyObject; 5],
    weakreflist: *mut PyObject,
    cached_code: *mut PyObject,
    linearray: *mut c_char,
    firsttraceable: c_int,
    extra: *mut c_void,
    adaptive: [c_char; 1],
}

/// The start of `PyThreadState`.
#[repr(C)]
pub struct ThreadState {
    links: [*mut c_void; 2],
    pub(super) interp: *mut c_void,
    initialized: c_int,
    is_static: c_int,
    recursion_remaining: c_int,
    pub(super) recursion_limit: c_int,
    recursion_headroom: c_int,
    pub(super) tracing: c_int,
    tracing_what: c_int,
    cframe: *mut c_void,
    pub(super) c_profilefunc: *mut c_void,
    pub(super) c_tracefunc: *mut c_void,
}

// `offsetof` of the C headers.
const _: () = {
    assert!(std::mem::offset_of!(Code, flags) == 48);
    assert!(std::mem::offset_of!(Code, argcount) == 56);
    assert!(std::mem::offset_of!(Code, nlocalsplus) == 76);
    assert!(std::mem::offset_of!(Code, nfreevars) == 92);
    assert!(std::mem::offset_of!(Code, adaptive) == 184);
    assert!(std::mem::offset_of!(InterpreterFrame, localsplus) == 72);
    assert!(std::mem::offset_of!(InterpreterFrame, owner) == 69);
    assert!(std::mem::offset_of!(InterpreterFrame, stacktop) == 64);
    assert!(std::mem::offset_of!(ThreadState, c_tracefunc) == 72);
    assert!(std::mem::offset_of!(ThreadState, c_profilefunc) == 64);
    assert!(std::mem::offset_of!(ThreadState, tracing) == 44);
};

const OWNED_BY_THREAD: c_char = 0;

impl InterpreterFrame {
    pub(super) fn code(&self) -> *mut PyObject {
        self.code.cast()
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
        // SAFETY: a frame keeps its code object alive; the code starts at `adaptive`.
        let start = unsafe { std::ptr::addr_of!((*self.code).adaptive).cast::<u16>() };
        self.owner == OWNED_BY_THREAD
            && self.frame_object.is_null()
            && self.locals.is_null()
            && self.prev_instr == start.wrapping_sub(1)
            // SAFETY: as above.
            && self.stacktop == unsafe { (*self.code).nlocalsplus }
    }
}

/// Whether [`finish`] can be trusted with this frame: in 3.11 the caller clears it.
pub(super) unsafe fn can_finish(_state: *mut ThreadState, _frame: *mut InterpreterFrame) -> bool {
    true
}

/// Ends a frame that was not evaluated.
pub(super) unsafe fn finish(_state: *mut ThreadState, _frame: *mut InterpreterFrame) {}

/// In 3.11 a Python call costs the same whether it nests on the C stack or not.
pub(super) unsafe fn grant_c_recursion(_state: *mut ThreadState, _by: c_int) {}

/// The call of a resume function, which is an object of ours, counts beside the frame that it runs.
pub(super) unsafe fn grant_nesting(state: *mut ThreadState, by: c_int) {
    (*state).recursion_remaining += by;
}
