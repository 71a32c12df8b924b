//! [`Caches`]: what the runs of one program keep: primitives, and weights in oneDNN's layouts.
//! Paddle finds it by a session of the thread and the names of variables, and frees it with the
//! executor, or when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use libloading::Library;
use paddle_sot::paddle::core_library;
use paddle_sot_backend_paddle::executors_dropped;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `common::DataLayout::NCHW`.
const NCHW: i32 = 2;
/// `phi::AllocationType::CPU`.
const CPU: i8 = 1;
/// The constructor of `phi::Place` from that and the name of a device.
const PLACE: &[u8] = b"_ZN3phi5PlaceC1ENS_14AllocationTypeE\
    RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
/// The session of everybody else.
const DEFAULT: usize = 0;

/// Where `OneDNNContextThreadLocals::Body` has what no function tells, in bytes: the session, the
/// suffix of keys (a `std::string`: address, length) and the executor that ran last.
const SESSION: usize = 8;
const SUFFIX: usize = 88;
const EXECUTOR: usize = 128;

/// A `std::string`.
#[repr(C)]
struct Text {
    address: *const u8,
    length: usize,
    inside: [u8; 16],
}

/// Functions of Paddle's C++ for the state of a thread. Nothing is kept where one is missing.
struct Functions {
    fetch: extern "C" fn() -> *mut u8,
    layout: extern "C" fn(*mut u8) -> i32,
    set_layout: extern "C" fn(*mut u8, i32),
    set_session: extern "C" fn(*mut u8, usize),
    make_place: extern "C" fn(*mut [usize; 4], i8, *const Text),
    pool: extern "C" fn() -> *mut u8,
    context: extern "C" fn(*mut u8, *const [usize; 4]) -> *mut u8,
    forget: extern "C" fn(*mut u8, usize),
    _library: Library,
}

static FUNCTIONS: PyOnceLock<Option<Functions>> = PyOnceLock::new();
static SESSIONS: AtomicUsize = AtomicUsize::new(DEFAULT + 1);

fn functions(py: Python<'_>) -> PyResult<Option<&'static Functions>> {
    let found = FUNCTIONS.get_or_try_init(py, || Ok::<_, PyErr>(load(&core_library(py)?)))?;
    Ok(found.as_ref())
}

fn load(file: &std::path::Path) -> Option<Functions> {
    // SAFETY: Paddle has loaded the library and run its initialisers; these are functions and
    // methods of it, with the signatures that their names say.
    unsafe {
        let library = Library::new(file).ok()?;
        let body = |name: &str| format!("_ZN3phi25OneDNNContextThreadLocals{name}");
        let functions = Functions {
            fetch: *library.get(body("5fetchEv").as_bytes()).ok()?,
            layout: *library
                .get(body("4Body26get_cur_paddle_data_layoutEv").as_bytes())
                .ok()?,
            set_layout: *library
                .get(body("4Body26set_cur_paddle_data_layoutEN6common10DataLayoutE").as_bytes())
                .ok()?,
            set_session: *library
                .get(body("4Body25set_cur_onednn_session_idEm").as_bytes())
                .ok()?,
            make_place: *library.get(PLACE).ok()?,
            pool: *library.get(b"_ZN3phi17DeviceContextPool8InstanceEv").ok()?,
            context: *library
                .get(b"_ZN3phi17DeviceContextPool3GetERKNS_5PlaceE")
                .ok()?,
            forget: *library
                .get(b"_ZN3phi13OneDNNContext12ResetBlobMapEPv")
                .ok()?,
            _library: library,
        };
        functions.are_known().then_some(functions)
    }
}

impl Functions {
    /// Whether the state of a thread lies as it does in the Paddle that this was written for.
    fn are_known(&self) -> bool {
        const PROBE: usize = 0x5eed;
        let body = (self.fetch)();
        (self.set_session)(body, PROBE);
        // SAFETY: the body is longer than that.
        let found = unsafe { body.add(SESSION).cast::<usize>().read() };
        (self.set_session)(body, DEFAULT);
        found == PROBE
    }

    /// The executor that ran last in this thread, where the suffix of keys says the same.
    fn executor(&self) -> Option<usize> {
        let body = (self.fetch)();
        // SAFETY: the body is longer than that, and a suffix is text of the length that it says.
        unsafe {
            let executor = body.add(EXECUTOR).cast::<usize>().read();
            let address = body.add(SUFFIX).cast::<*const u8>().read();
            let length = body.add(SUFFIX + 8).cast::<usize>().read();
            let suffix = format!("E{executor}");
            let is_so = length == suffix.len()
                && std::slice::from_raw_parts(address, length) == suffix.as_bytes();
            is_so.then_some(executor)
        }
    }
}

/// What one program keeps.
#[pyclass(frozen, module = "paddle_sot_rs._onednn")]
pub struct Caches {
    functions: &'static Functions,
    session: AtomicUsize,
    /// Those that ran it, and how often all executors had been dropped then: they are gone where
    /// that is another number now.
    executors: Mutex<Vec<(usize, usize)>>,
}

impl Caches {
    /// `None`: this Paddle does not let anyone set the state of a thread.
    ///
    /// # Errors
    /// When Paddle cannot be imported.
    pub fn new(py: Python<'_>) -> PyResult<Option<Self>> {
        Ok(functions(py)?.map(|functions| Self {
            functions,
            session: AtomicUsize::new(SESSIONS.fetch_add(1, Ordering::Relaxed)),
            executors: Mutex::new(Vec::new()),
        }))
    }

    /// After a run: notes whose it was, and gives the thread back.
    pub fn leave(&self) {
        if let (Some(executor), Ok(mut known)) = (self.functions.executor(), self.executors.lock())
        {
            let executor = (executors_dropped(), executor);
            if !known.contains(&executor) {
                known.push(executor);
            }
        }
        (self.functions.set_session)((self.functions.fetch)(), DEFAULT);
    }
}

#[pymethods]
impl Caches {
    /// Before a run in this thread. Paddle keeps the layout from program to program: one that
    /// computes in NHWC, by whatever backend, leaves it so for all that come after.
    pub fn enter(&self) {
        let body = (self.functions.fetch)();
        if (self.functions.layout)(body) != NCHW {
            (self.functions.set_layout)(body, NCHW);
        }
        (self.functions.set_session)(body, self.session.load(Ordering::Relaxed));
    }

    /// Nothing that was kept is found any more. This program does not run meanwhile.
    fn forget(&self) {
        let next = SESSIONS.fetch_add(1, Ordering::Relaxed);
        self.session.store(next, Ordering::Relaxed);
        let Ok(mut known) = self.executors.lock() else {
            return;
        };
        if known.is_empty() {
            return;
        }
        let mut place = [0; 4];
        let mut nothing = Text {
            address: std::ptr::null(),
            length: 0,
            inside: [0; 16],
        };
        nothing.address = nothing.inside.as_ptr();
        (self.functions.make_place)(&raw mut place, CPU, &raw const nothing);
        let context = (self.functions.context)((self.functions.pool)(), &raw const place);
        for (dropped, executor) in known.drain(..) {
            if dropped == executors_dropped() {
                (self.functions.forget)(context, executor);
            }
        }
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        self.forget();
    }
}
