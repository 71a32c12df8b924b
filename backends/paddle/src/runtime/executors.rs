//! Paddle's executors. Paddle keeps one, with threads of its own, for each program and scope that
//! ever ran, for as long as the process lives; and on a CPU each hands every tensor it is done with
//! to another thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::sync::lock;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::double_backward::waits_for_backward;
use crate::{flags, onednn};

use super::garbage::ENOUGH;
use super::{RUNTIME, executor_lock, inherited};

/// What the process knows of Paddle's executors.
pub(super) struct State {
    /// Scopes that are gone while their executors are not.
    gone: AtomicUsize,
    /// How often all executors were dropped, and one: those made under a smaller number are gone.
    epoch: AtomicUsize,
    /// Scopes that are of no use any more, until their executors are gone: Paddle would find those
    /// for a new scope at the same address.
    addresses: Mutex<Vec<Py<PyAny>>>,
    /// What goes before they are dropped, while no program runs.
    hooks: Mutex<Vec<fn()>>,
    /// Whether they collect before they free: see [`be_patient`].
    patient: PyOnceLock<()>,
    /// The bits of what the flag was set to for a backward that has begun; 0: nothing is to be put
    /// back.
    lent: AtomicU64,
    /// Runs of loops under way, and what the user had set the flag to.
    loops: Mutex<(usize, Option<f64>)>,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            gone: AtomicUsize::new(0),
            epoch: AtomicUsize::new(1),
            addresses: Mutex::new(Vec::new()),
            hooks: Mutex::new(Vec::new()),
            patient: PyOnceLock::new(),
            lent: AtomicU64::new(0),
            loops: Mutex::new((0, None)),
        }
    }
}

/// So many, before all executors are dropped. Those of living graphs are made again at the next
/// run, which takes about as long as a call.
const MANY: usize = 64;

/// So many, and they are dropped although programs wait for their backward: see
/// `Scope::is_spoiled`.
const TOO_MANY: usize = 2 * MANY;

/// Keeps a scope alive for as long as its executors are.
pub fn keep_address(scope: Py<PyAny>) {
    lock(&RUNTIME.executors.addresses).push(scope);
}

/// The number that executors made now are known by.
pub fn epoch() -> usize {
    RUNTIME.executors.epoch.load(Ordering::Relaxed)
}

/// The executors of one scope.
#[derive(Debug)]
pub struct Executors;

impl Drop for Executors {
    fn drop(&mut self) {
        RUNTIME.executors.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// There will be one more graph: drops what is gone, if that is much.
pub fn evict(py: Python<'_>) -> PyResult<()> {
    RUNTIME
        .executors
        .patient
        .get_or_try_init(py, || be_patient(py))?;
    inherited::note_executors();
    if inherited::have_executors() {
        return Ok(());
    }
    let gone = RUNTIME.executors.gone.load(Ordering::Relaxed);
    if gone < MANY || (gone < TOO_MANY && (waits_for_backward(py)? || others(py, "do_wait")?)) {
        return Ok(());
    }
    // Another thread may be looking for its executor this moment, without the GIL.
    if let Some(_turn) = executor_lock::try_exclusive() {
        drop_all(py)?;
        RUNTIME.executors.gone.store(0, Ordering::Relaxed);
    }
    Ok(())
}

/// Drops all executors, those of living graphs too.
#[pyfunction]
pub fn drop_executors(py: Python<'_>) -> PyResult<()> {
    match executor_lock::take(py, true).filter(|_| !inherited::have_executors()) {
        Some(_turn) => drop_all(py),
        None => {
            executor_lock::warn_of_others("executors that do not know what to keep stay");
            Ok(())
        }
    }
}

/// `hook` is called before all executors are dropped.
pub fn before_dropping(hook: fn()) {
    lock(&RUNTIME.executors.hooks).push(hook);
}

fn drop_all(py: Python<'_>) -> PyResult<()> {
    let hooks = lock(&RUNTIME.executors.hooks).clone();
    hooks.iter().for_each(|hook| hook());
    let others = py.module("paddle_sot_rs._paddle.foreign_programs")?;
    others.call_method0("clear_executor_cache")?;
    RUNTIME.executors.epoch.fetch_add(1, Ordering::Relaxed);
    let kept = std::mem::take(&mut *lock(&RUNTIME.executors.addresses));
    drop(kept);
    others.call_method0("invalidate").map(drop)
}

/// What `foreign_programs.py` says of programs that are not ours.
fn others(py: Python<'_>, question: &str) -> PyResult<bool> {
    let others = py.module("paddle_sot_rs._paddle.foreign_programs")?;
    others.call_method0(question)?.extract()
}

const FLAG: &str = "FLAGS_eager_delete_tensor_gb";

fn threshold(py: Python<'_>) -> PyResult<f64> {
    flags::get(py, pyo3::intern!(py, FLAG))?.extract()
}

fn set_threshold(py: Python<'_>, value: f64) -> PyResult<()> {
    flags::set(py, FLAG, value)
}

/// On a CPU, executors collect this much before they wake the thread that frees it: for each tensor
/// it costs more than a small operation. And the C library keeps large blocks. What the user has
/// set stays.
fn be_patient(py: Python<'_>) -> PyResult<()> {
    let environment = py.module("os")?.getattr("environ")?;
    let place = py
        .module("paddle.base.framework")?
        .call_method0("_current_expected_place")?;
    if place.get_type().name()? != "CPUPlace" {
        return Ok(());
    }
    if threshold(py)? == 0.0 && !environment.contains(FLAG)? {
        set_threshold(py, ENOUGH)?;
    }
    py.module("paddle_sot_rs._paddle.allocator")?
        .call_method0("keep")
        .map(drop)
}

/// A backward begins whose executor is yet to be made. That of a small graph frees nothing before
/// the backward ends; other programs that may begin in the same pass must not see that: they can
/// have loops.
pub fn set_flag(py: Python<'_>, is_small: bool, value: f64) -> PyResult<()> {
    onednn::set_flag(py)?;
    let has_loops = lock(&RUNTIME.executors.loops).0 > 0;
    // Any other value is the user's.
    if has_loops || threshold(py)? != ENOUGH {
        return Ok(());
    }
    let value = if is_small && !others(py, "are_there")? {
        NEVER
    } else {
        value
    };
    if value == ENOUGH {
        return Ok(());
    }
    set_threshold(py, value)?;
    RUNTIME
        .executors
        .lent
        .store(value.to_bits(), Ordering::Relaxed);
    Ok(())
}

/// Puts the flags back: after a pass, when a node goes, and before anything else runs.
#[pyfunction]
pub fn restore_flag(py: Python<'_>) -> PyResult<()> {
    onednn::restore_flag(py)?;
    let lent = RUNTIME.executors.lent.swap(0, Ordering::Relaxed);
    if lent == 0 {
        return Ok(());
    }
    let value = f64::from_bits(lent);
    // Another value is a newer one of the user's.
    if threshold(py)? == value {
        set_threshold(py, ENOUGH)?;
    }
    Ok(())
}

/// Whether there is something to put back.
pub fn is_lent() -> bool {
    RUNTIME.executors.lent.load(Ordering::Relaxed) != 0 || onednn::is_lent()
}

/// As a threshold: the executor frees nothing before the run ends.
pub const NEVER: f64 = -1.0;

/// Makes a run whose executor, made for it, collects so many GiB before it frees any.
pub fn collecting<T>(
    py: Python<'_>,
    enough: f64,
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    // Any other value is the user's.
    if threshold(py)? != ENOUGH || enough == ENOUGH {
        return run();
    }
    set_threshold(py, enough)?;
    let answer = run();
    set_threshold(py, ENOUGH)?;
    answer
}

/// A run of captured loops begins. Paddle's loops are wrong in executors that free nothing: what a
/// round computes shares its memory with what the next round starts from, which writes its own
/// results there while it still reads. An executor takes the flag over when it is made, that of a
/// loop's body in its first round: any run may be that.
#[pyfunction]
pub fn begin_loops(py: Python<'_>) -> PyResult<()> {
    let set = threshold(py)?;
    let mut loops = lock(&RUNTIME.executors.loops);
    loops.0 += 1;
    if set < 0.0 {
        loops.1 = Some(set);
        drop(loops);
        set_threshold(py, ENOUGH)?;
    }
    Ok(())
}

/// A run of captured loops ends: after the last one the user's setting is there again.
#[pyfunction]
pub fn end_loops(py: Python<'_>) -> PyResult<()> {
    let before = {
        let mut loops = lock(&RUNTIME.executors.loops);
        loops.0 = loops.0.saturating_sub(1);
        if loops.0 == 0 { loops.1.take() } else { None }
    };
    match before {
        // Another value is a newer one of the user's.
        Some(before) if threshold(py)? == ENOUGH => set_threshold(py, before),
        _ => Ok(()),
    }
}

/// Makes a run that has captured loops in it.
pub fn looping<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    begin_loops(py)?;
    let answer = run();
    end_loops(py)?;
    answer
}
