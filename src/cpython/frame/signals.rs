//! [`HeldSignals`]: handlers of signals wait while the engine translates.
//!
//! They are the user's code. What one raises (an interrupt, the end of a time limit) would look
//! like something that the translation ran into: the graph would break there, and nobody would hear
//! of the signal.

use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyFunction;

use super::modules::Modules;
use crate::obj::{called, of_type};
use crate::sync::lock;

/// A handler, and how the process answered to its signal.
struct Handler {
    number: i32,
    function: Py<PyAny>,
    action: libc::sigaction,
}

impl Handler {
    fn put_back(&self, signal: &Bound<'_, PyAny>) -> PyResult<()> {
        signal.call_method1("signal", (self.number, &self.function))?;
        // Python forgets whether calls of the system go on after the signal.
        set_action(self.number, &self.action)
    }
}

/// What Python calls in the place of the handlers.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
struct Waiting {
    handlers: Vec<Handler>,
    arrived: Mutex<Vec<i32>>,
    hurried: AtomicBool,
}

impl Waiting {
    fn handler(&self, number: i32) -> Option<&Handler> {
        self.handlers.iter().find(|known| known.number == number)
    }

    fn take(&self) -> Vec<i32> {
        std::mem::take(&mut *lock(&self.arrived))
    }
}

#[pymethods]
impl Waiting {
    /// Whoever sends a signal twice does not want to wait.
    fn __call__(&self, py: Python<'_>, number: i32, frame: Py<PyAny>) -> PyResult<()> {
        {
            let mut arrived = lock(&self.arrived);
            if !arrived.contains(&number) {
                arrived.push(number);
                return Ok(());
            }
        }
        self.hurried.store(true, Ordering::Relaxed);
        match self.handler(number) {
            Some(handler) => handler.function.call1(py, (number, frame)).map(drop),
            None => Ok(()),
        }
    }
}

/// Handlers that wait; they are in place again when this is dropped.
pub struct HeldSignals<'py> {
    signal: Bound<'py, PyAny>,
    /// None in threads that run no handlers.
    waiting: Option<Bound<'py, Waiting>>,
}

impl<'py> HeldSignals<'py> {
    /// Holds the handlers that Python would run in this thread.
    ///
    /// # Errors
    /// Whatever Python's signal module raises.
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        let signal = py.module("_signal")?;
        let mut this = Self {
            signal,
            waiting: None,
        };
        if !is_main_thread(py)? {
            return Ok(this);
        }
        let mut handlers = Vec::new();
        for (number, function) in handlers_of(&this.signal)? {
            handlers.push(Handler {
                number,
                function: function.unbind(),
                action: action(number)?,
            });
        }
        if handlers.is_empty() {
            return Ok(this);
        }
        let numbers: Vec<i32> = handlers.iter().map(|handler| handler.number).collect();
        let waiting = Waiting {
            handlers,
            arrived: Mutex::default(),
            hurried: AtomicBool::new(false),
        };
        let waiting = this.waiting.insert(Bound::new(py, waiting)?);
        for number in numbers {
            let set = this.signal.call_method1("signal", (number, &*waiting));
            match set {
                // Another interpreter's main thread, or one that is made up.
                Err(err) if err.is_instance_of::<PyValueError>(py) => break,
                set => drop(set?),
            }
        }
        Ok(this)
    }

    /// Whether a signal was sent again and its handler ran: what was done meanwhile may be cut
    /// short.
    pub fn hurried(&self) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.get().hurried.load(Ordering::Relaxed))
    }

    /// Puts the handlers back, and runs those whose signals have arrived.
    ///
    /// # Errors
    /// What a handler raises; those behind it run when the interpreter gets to it.
    pub fn deliver(self) -> PyResult<()> {
        self.restore()?;
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        let mut arrived = waiting.get().take().into_iter();
        while let Some(number) = arrived.next() {
            let Some(handler) = waiting.get().handler(number) else {
                continue;
            };
            let py = waiting.py();
            let frame = py.module("sys")?.call_method0("_getframe")?;
            if let Err(raised) = handler.function.call1(py, (number, frame)) {
                for later in arrived {
                    self.signal.call_method1("raise_signal", (later,))?;
                }
                return Err(raised);
            }
        }
        Ok(())
    }

    fn restore(&self) -> PyResult<()> {
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        for handler in &waiting.get().handlers {
            let current = self.signal.call_method1("getsignal", (handler.number,))?;
            if current.is(waiting) {
                handler.put_back(&self.signal)?;
            }
        }
        Ok(())
    }
}

impl Drop for HeldSignals<'_> {
    fn drop(&mut self) {
        if let Err(err) = self.restore() {
            err.write_unraisable(self.signal.py(), None);
        }
    }
}

/// Puts handlers back that another thread has held, which is not in this process: for a child after
/// a fork.
///
/// # Errors
/// Whatever Python's signal module raises.
pub fn free_signals(py: Python<'_>) -> PyResult<()> {
    let signal = py.module("_signal")?;
    for (number, function) in handlers_of(&signal)? {
        let Ok(waiting) = function.cast::<Waiting>() else {
            continue;
        };
        if let Some(handler) = waiting.get().handler(number) {
            handler.put_back(&signal)?;
        }
    }
    Ok(())
}

/// Whether the handler of a signal has raised this, wherever the interpreter ran it.
pub fn is_of_a_handler(py: Python<'_>, raised: &PyErr) -> bool {
    // The handler of an interrupt has no frame.
    !raised.is_instance_of::<PyException>(py) || passed_one(py, raised).unwrap_or(false)
}

/// The signals that have handlers in Python, with those.
fn handlers_of<'py>(signal: &Bound<'py, PyAny>) -> PyResult<Vec<(i32, Bound<'py, PyAny>)>> {
    let end: i32 = signal.getattr("NSIG")?.extract()?;
    let mut handlers = Vec::new();
    for number in 1..end {
        let function = signal.call_method1("getsignal", (number,))?;
        if function.is_callable() {
            handlers.push((number, function));
        }
    }
    Ok(handlers)
}

/// The function that a callable calls.
fn behind<'py>(callable: &Bound<'py, PyAny>) -> Option<Bound<'py, PyFunction>> {
    let called = called(callable)?;
    match called.cast::<PyFunction>() {
        Ok(function) => Some(function.clone()),
        Err(_) => of_type(&called.get_type(), "__call__")?.cast_into().ok(),
    }
}

/// Whether a frame of a handler is in the traceback.
fn passed_one(py: Python<'_>, raised: &PyErr) -> PyResult<bool> {
    let mut codes = Vec::new();
    for (_, handler) in handlers_of(&py.module("_signal")?)? {
        if let Some(function) = behind(&handler) {
            codes.push(function.getattr("__code__")?);
        }
    }
    let mut step = raised.traceback(py).map(Bound::into_any);
    while let Some(found) = step.filter(|step| !step.is_none()) {
        let code = found.getattr("tb_frame")?.getattr("f_code")?;
        if codes.iter().any(|known| known.is(&code)) {
            return Ok(true);
        }
        step = Some(found.getattr("tb_next")?);
    }
    Ok(false)
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.module("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

fn action(number: i32) -> PyResult<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: no action is set; the place for the one that is has its type.
    let answer = unsafe { libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) };
    if answer != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: the call has filled it.
    Ok(unsafe { action.assume_init() })
}

fn set_action(number: i32, action: &libc::sigaction) -> PyResult<()> {
    // SAFETY: the action was in place before, and its handler is Python's own.
    let answer = unsafe { libc::sigaction(number, action, std::ptr::null_mut()) };
    match answer {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}
