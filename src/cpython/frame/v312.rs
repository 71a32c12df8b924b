//! CPython 3.12: `Include/internal/pycore_frame.h`, `Include/cpython/code.h`,
//! `Include/cpython/pystate.h`.

use std::ffi::{c_char, c_int, c_ulong, c_void};

use pyo3::ffi::{self, PyObject};

/// `_PyInterpreterFrame`
#[repr(C)]
pub struct InterpreterFrame {
    code: *mut Code,
    previous: *mut InterpreterFrame,
    function: *mut PyObject,
    globals: *mut PyObject,
    builtins: *mut PyObject,
    locals: *mut PyObject,
    frame_object: *mut PyObject,
    prev_instr: *const u16,
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
    rest: [*mut PyObject; 6],
    cached: *mut c_void,
    instrumentation_version: u64,
    monitoring: *mut c_void,
    firsttraceable: c_int,
    extra: *mut c_void,
    adaptive: [c_char; 1],
}

#[repr(C)]
struct StackChunk {
    previous: *mut StackChunk,
    size: usize,
    top: usize,
    data: [*mut PyObject; 1],
}

#[repr(C)]
struct Trashcan {
    nesting: c_int,
    later: *mut PyObject,
}

/// The start of `PyThreadState`.
#[repr(C)]
pub struct ThreadState {
    links: [*mut c_void; 2],
    pub(super) interp: *mut c_void,
    status: u32,
    py_recursion_remaining: c_int,
    pub(super) recursion_limit: c_int,
    c_recursion_remaining: c_int,
    recursion_headroom: c_int,
    pub(super) tracing: c_int,
    what_event: c_int,
    cframe: *mut c_void,
    pub(super) c_profilefunc: *mut c_void,
    pub(super) c_tracefunc: *mut c_void,
    trace_objects: [*mut PyObject; 2],
    current_exception: *mut PyObject,
    exc_info: *mut c_void,
    dict: *mut PyObject,
    gilstate_counter: c_int,
    async_exc: *mut PyObject,
    thread_ids: [c_ulong; 2],
    trash: Trashcan,
    on_delete: [*mut c_void; 2],
    coroutine_origin_tracking_depth: c_int,
    async_gen: [*mut PyObject; 2],
    context: *mut PyObject,
    context_ver: u64,
    id: u64,
    datastack_chunk: *mut StackChunk,
    datastack_top: *mut *mut PyObject,
    datastack_limit: *mut *mut PyObject,
}

// `offsetof` of the C headers.
const _: () = {
    assert!(std::mem::offset_of!(Code, flags) == 48);
    assert!(std::mem::offset_of!(Code, argcount) == 52);
    assert!(std::mem::offset_of!(Code, nlocalsplus) == 72);
    assert!(std::mem::offset_of!(Code, nfreevars) == 88);
    assert!(std::mem::offset_of!(Code, adaptive) == 192);
    assert!(std::mem::offset_of!(InterpreterFrame, localsplus) == 72);
    assert!(std::mem::offset_of!(InterpreterFrame, owner) == 70);
    assert!(std::mem::offset_of!(InterpreterFrame, stacktop) == 64);
    assert!(std::mem::offset_of!(ThreadState, c_tracefunc) == 72);
    assert!(std::mem::offset_of!(ThreadState, c_profilefunc) == 64);
    assert!(std::mem::offset_of!(ThreadState, tracing) == 44);
    assert!(std::mem::offset_of!(ThreadState, c_recursion_remaining) == 36);
    assert!(std::mem::offset_of!(ThreadState, datastack_top) == 240);
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

/// Whether [`finish`] can be trusted with this frame: the frame is on top of the data stack
/// (the assertion of `clear_thread_frame` in `Python/ceval.c`).
pub(super) unsafe fn can_finish(state: *mut ThreadState, frame: *mut InterpreterFrame) -> bool {
    let size = (*(*frame).code).framesize;
    !(*state).datastack_chunk.is_null()
        && size > 0
        && frame
            .cast::<*mut PyObject>()
            .wrapping_add(size as usize)
            .eq(&(*state).datastack_top)
}

/// Ends a frame that was not evaluated: `clear_thread_frame` of `Python/ceval.c`, which is not
/// exported.
pub(super) unsafe fn finish(state: *mut ThreadState, frame: *mut InterpreterFrame) {
    // Destructors may run Python code: like CPython, leave them room and keep the frame in place.
    (*state).c_recursion_remaining -= 1;
    let locals = (*frame).localsplus.as_mut_ptr();
    let count = (*frame).stacktop;
    (*frame).stacktop = 0;
    for index in 0..count as usize {
        let slot = locals.add(index);
        ffi::Py_XDECREF(std::ptr::replace(slot, std::ptr::null_mut()));
    }
    ffi::Py_XDECREF((*frame).locals);
    ffi::Py_XDECREF((*frame).function);
    ffi::Py_DECREF((*frame).code.cast());
    (*state).c_recursion_remaining += 1;
    pop(state, frame);
}

/// `_PyThreadState_PopFrame` of `Python/pystate.c`, which is not exported.
unsafe fn pop(state: *mut ThreadState, frame: *mut InterpreterFrame) {
    let base = frame.cast::<*mut PyObject>();
    let chunk = (*state).datastack_chunk;
    if base != (*chunk).data.as_mut_ptr() {
        (*state).datastack_top = base;
        return;
    }
    let previous = (*chunk).previous;
    (*state).datastack_top = (*previous).data.as_mut_ptr().add((*previous).top);
    (*state).datastack_chunk = previous;
    let mut arenas = std::mem::MaybeUninit::<ffi::PyObjectArenaAllocator>::uninit();
    ffi::PyObject_GetArenaAllocator(arenas.as_mut_ptr());
    let arenas = arenas.assume_init();
    if let Some(free) = arenas.free {
        free(arenas.ctx, chunk.cast(), (*chunk).size);
    }
    (*state).datastack_limit = previous.cast::<u8>().add((*previous).size).cast();
}

/// A hooked Python call nests on the C stack where an ordinary one does not: it must not count.
pub(super) unsafe fn grant_c_recursion(state: *mut ThreadState, by: c_int) {
    (*state).c_recursion_remaining += by;
}

/// A resume function, which is an object of ours, is called through C, and so is what it runs.
pub(super) unsafe fn grant_nesting(state: *mut ThreadState, by: c_int) {
    (*state).c_recursion_remaining += 3 * by;
}
