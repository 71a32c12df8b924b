//! [`Caches`]: what the runs of one program keep: primitives, and weights in oneDNN's layouts.
//! Paddle finds it by a session of the thread and the names of variables, and frees it with the
//! executor, or when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

use libloading::Library;
use paddle_sot_backend::paddle::core_library;
use paddle_sot_backend::sync::lock;
use paddle_sot_backend_paddle::{before_dropping, try_exclusive};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::scopes;

/// `common::DataLayout::NCHW`.
const NCHW: i32 = 2;
/// `phi::AllocationType::CPU`.
const CPU: i8 = 1;
/// The constructor of `phi::Place` from that and the name of a device.
const PLACE: &[u8] = b"_ZN3phi5PlaceC1ENS_14AllocationTypeE\
    RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
/// `OneDNNContext::SetBlob` and `GetBlob`.
const PUT: &[u8] = b"_ZNK3phi13OneDNNContext7SetBlobE\
    RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt10shared_ptrIvE";
const GET: &[u8] = b"_ZNK3phi13OneDNNContext7GetBlobE\
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
pub struct Text {
    pub address: *const u8,
    length: usize,
    inside: [u8; 16],
}

impl Text {
    /// Of at most 15 bytes.
    pub fn new(text: &[u8]) -> Box<Self> {
        let mut inside = [0; 16];
        inside[..text.len()].copy_from_slice(text);
        let mut made = Box::new(Self {
            address: std::ptr::null(),
            length: text.len(),
            inside,
        });
        made.address = made.inside.as_ptr();
        made
    }

    /// Whether its bytes lie in itself.
    pub fn is_inside(&self) -> bool {
        self.address == self.inside.as_ptr()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: text is of the length that it says.
        unsafe { std::slice::from_raw_parts(self.address, self.length) }
    }
}

/// A `std::shared_ptr<void>` that owns nothing.
#[repr(C)]
struct Shared {
    address: usize,
    owner: usize,
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
    put: extern "C" fn(*mut u8, *const Text, *const Shared),
    get: extern "C" fn(*mut Shared, *mut u8, *const Text) -> *mut Shared,
    _library: Library,
}

static FUNCTIONS: PyOnceLock<Option<Functions>> = PyOnceLock::new();
static SESSIONS: AtomicUsize = AtomicUsize::new(DEFAULT + 1);

fn functions(py: Python<'_>) -> PyResult<Option<&'static Functions>> {
    let found = FUNCTIONS.get_or_try_init(py, || Ok::<_, PyErr>(load(&core_library(py)?)))?;
    Ok(found.as_ref())
}

fn load(file: &std::path::Path) -> Option<Functions> {
    if !cfg!(target_arch = "x86_64") {
        // Elsewhere C++ hands objects back in another way.
        return None;
    }
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
            put: *library.get(PUT).ok()?,
            get: *library.get(GET).ok()?,
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

    /// Frees what an executor has kept in a session. Neither runs meanwhile.
    ///
    /// Paddle lets a request pass for each run of a loop or branch that there ever was. So
    /// something is put there that tells when one was heard.
    fn free(&self, session: usize, executor: usize) {
        const MOST: usize = 1 << 24;
        let (mut place, name, nothing) = ([0; 4], Text::new(b"sot"), Text::new(b""));
        (self.make_place)(&raw mut place, CPU, &raw const *nothing);
        let context = (self.context)((self.pool)(), &raw const place);
        let body = (self.fetch)();
        // A thread may be on its way to a run when something else goes.
        // SAFETY: the body is longer than that; what `executor` reads lies there.
        let (run, before, at) = unsafe {
            let at = body.add(EXECUTOR).cast::<usize>();
            let run = body.add(SESSION).cast::<usize>().read();
            (run, at.replace(executor), at)
        };
        (self.set_session)(body, session);
        let mark = Shared {
            address: 1,
            owner: 0,
        };
        (self.put)(context, &raw const *name, &raw const mark);
        for _ in 0..MOST {
            (self.forget)(context, executor);
            let mut found = Shared {
                address: 0,
                owner: 0,
            };
            (self.get)(&raw mut found, context, &raw const *name);
            if found.address == 0 {
                break;
            }
        }
        (self.set_session)(body, run);
        // SAFETY: as above.
        unsafe { at.write(before) };
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

/// Sessions and executors that have something.
static KEPT: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// Sessions of programs that have gone while others ran.
static GONE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Frees what these have kept, and those of programs that have gone. No program runs meanwhile.
fn free(functions: &Functions, which: impl Fn(usize) -> bool) {
    let (mut kept, mut gone) = (lock(&KEPT), lock(&GONE));
    let is_free = |(session, _): &(usize, usize)| which(*session) || gone.contains(session);
    let (free, left): (Vec<_>, Vec<_>) = kept.drain(..).partition(is_free);
    *kept = left;
    gone.clear();
    drop((kept, gone));
    for (session, executor) in free {
        functions.free(session, executor);
    }
}

/// How often executors were dropped.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Before executors are dropped: Paddle would not free what they have kept.
fn free_all() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
    Python::attach(|py| {
        if let Ok(Some(functions)) = functions(py) {
            free(functions, |_| true);
        }
    });
}

/// What one program keeps.
#[pyclass(frozen, module = "paddle_sot_rs._onednn")]
pub struct Caches {
    functions: &'static Functions,
    session: AtomicUsize,
    /// The executors of the blocks of the program, and `DROPPED` when they were there.
    of_blocks: Mutex<(usize, Vec<usize>)>,
}

impl Caches {
    /// `None`: this Paddle does not let anyone set the state of a thread.
    ///
    /// # Errors
    /// When Paddle cannot be imported.
    pub fn new(py: Python<'_>) -> PyResult<Option<Self>> {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| before_dropping(free_all));
        Ok(functions(py)?.map(|functions| Self {
            functions,
            session: AtomicUsize::new(SESSIONS.fetch_add(1, Ordering::Relaxed)),
            of_blocks: Mutex::default(),
        }))
    }

    /// After a run: notes whose it was, and gives the thread back.
    pub fn leave(&self) {
        let session = self.session.load(Ordering::Relaxed);
        if let Some(executor) = self.functions.executor() {
            let (mut kept, of_blocks) = (lock(&KEPT), lock(&self.of_blocks));
            for executor in [executor].iter().chain(&of_blocks.1) {
                if !kept.contains(&(session, *executor)) {
                    kept.push((session, *executor));
                }
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

    /// Whether this Paddle tells which executors the blocks of a program have.
    ///
    /// # Errors
    /// When Paddle cannot be imported.
    #[getter]
    fn knows_blocks(&self, py: Python<'_>) -> PyResult<bool> {
        scopes::are_told(py)
    }

    /// An executor of the program was made in this scope, with those of the blocks.
    ///
    /// # Errors
    /// When Paddle cannot be imported.
    fn made(&self, scope: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = scopes::executors(scope)?;
        let now = DROPPED.load(Ordering::Relaxed);
        let mut known = lock(&self.of_blocks);
        if known.0 != now {
            *known = (now, Vec::new());
        }
        known.1.extend(found);
        known.1.sort_unstable();
        known.1.dedup();
        Ok(())
    }

    /// Nothing that was kept is found any more. No program runs meanwhile.
    fn forget(&self) {
        let next = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let session = self.session.swap(next, Ordering::Relaxed);
        free(self.functions, |other| other == session);
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        let session = self.session.load(Ordering::Relaxed);
        if let Some(_turn) = try_exclusive() {
            free(self.functions, |other| other == session);
        } else {
            lock(&GONE).push(session);
        }
    }
}
