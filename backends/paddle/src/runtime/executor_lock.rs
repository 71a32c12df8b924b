//! Whose turn it is to run programs. Paddle keeps the executors of all programs in one map without
//! a lock and looks them up without the GIL: while one is made, no other thread may run a program.
//! And a scope says that it can be used again before a backward has emptied it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::{RUNTIME, inherited};
use crate::double_backward::resume_interrupted;

/// Who runs programs, of all threads.
pub(super) struct State {
    /// Threads that run programs now, or `EXCLUSIVE`.
    running: AtomicUsize,
    /// Threads that wait to be alone: others do not begin before them.
    waiting: AtomicUsize,
    /// How many threads are going backward through programs, by their numbers modulo the length.
    backward: [AtomicUsize; 256],
    /// Whether a program has run that is not ours.
    others: AtomicBool,
    /// The number of the next thread.
    threads: AtomicUsize,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            backward: [const { AtomicUsize::new(0) }; 256],
            others: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
        }
    }
}

const EXCLUSIVE: usize = usize::MAX;

/// A thread that is not let in for so long is not the one to blame: what runs may be waiting for
/// this one, in a hook.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Out,
    Shared,
    Exclusive,
}

/// What a thread has.
#[derive(Clone, Copy, Debug)]
struct Held {
    kind: Kind,
    /// Whether it has gone backward through a program since its outermost pass of autograd began.
    goes_backward: bool,
    /// Passes of autograd that it is in.
    passes: usize,
}

thread_local! {
    /// What this thread had before it began to fork.
    static FORKS: Cell<Kind> = const { Cell::new(Kind::Out) };
    static NUMBER: usize = RUNTIME.turns.threads.fetch_add(1, Ordering::Relaxed);
    /// It goes with the thread.
    static TOKEN: Arc<()> = Arc::default();
    static HELD: Cell<Held> = const {
        Cell::new(Held {
            kind: Kind::Out,
            goes_backward: false,
            passes: 0,
        })
    };
}

/// The number of this thread; none has 0.
pub fn this_thread() -> usize {
    NUMBER.with(|number| *number)
}

/// What tells this thread from others, and whether it has ended.
pub fn thread_token() -> Weak<()> {
    TOKEN.try_with(Arc::downgrade).unwrap_or_default()
}

fn backward_of(thread: usize) -> &'static AtomicUsize {
    let all = &RUNTIME.turns.backward;
    &all[thread % all.len()]
}

/// Whether this may be another thread that is going backward through a program at this moment.
pub fn is_another_at_work(thread: usize) -> bool {
    thread != 0 && thread != this_thread() && backward_of(thread).load(Ordering::Acquire) > 0
}

fn enter(kind: Kind) -> bool {
    let running = RUNTIME.turns.running.load(Ordering::Relaxed);
    let (from, to) = match kind {
        Kind::Out => return true,
        Kind::Shared
            if running == EXCLUSIVE || RUNTIME.turns.waiting.load(Ordering::Relaxed) > 0 =>
        {
            return false;
        }
        Kind::Shared => (running, running + 1),
        Kind::Exclusive => (0, EXCLUSIVE),
    };
    RUNTIME
        .turns
        .running
        .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

fn enter_in_time(kind: Kind) -> bool {
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(20);
    while Instant::now() < end {
        if enter(kind) {
            return true;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
    false
}

/// Goes from what this thread has to `kind`, if that is more. A thread that waits runs no program:
/// meanwhile it gives up what it has. `false`: it has waited in vain.
fn upgrade(py: Python<'_>, kind: Kind) -> bool {
    let before = HELD.get().kind;
    if kind <= before {
        return true;
    }
    downgrade(Kind::Out);
    let mut is_in = enter(kind);
    if !is_in {
        let alone = usize::from(kind == Kind::Exclusive);
        RUNTIME.turns.waiting.fetch_add(alone, Ordering::Relaxed);
        is_in = py.detach(|| enter_in_time(kind));
        RUNTIME.turns.waiting.fetch_sub(alone, Ordering::Relaxed);
    }
    if is_in || enter(before) {
        set(if is_in { kind } else { before });
    }
    is_in
}

/// Goes from what this thread has to `kind`, if that is less.
fn downgrade(kind: Kind) {
    let held = HELD.get();
    if kind >= held.kind {
        return;
    }
    match (held.kind, kind) {
        (Kind::Exclusive, kind) => RUNTIME
            .turns
            .running
            .store(usize::from(kind == Kind::Shared), Ordering::Release),
        _ => {
            RUNTIME.turns.running.fetch_sub(1, Ordering::Release);
        }
    }
    set(kind);
}

fn set(kind: Kind) {
    HELD.set(Held { kind, ..HELD.get() });
}

fn kind(makes: bool) -> Kind {
    if makes { Kind::Exclusive } else { Kind::Shared }
}

/// A run of a program, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    before: Kind,
}

impl Drop for Turn {
    fn drop(&mut self) {
        downgrade(self.before);
    }
}

/// Says what comes of having waited in vain.
pub fn warn_of_others(what: &str) {
    log::warn!(
        target: "paddle_sot_rs.backend",
        "{what}: other threads have been running programs for {} s, maybe in a hook that waits for this thread",
        PATIENCE.as_secs(),
    );
}

/// A program is about to run. `makes`: Paddle makes an executor for it. `None`: it must not run.
pub fn take(py: Python<'_>, makes: bool) -> Option<Turn> {
    let before = HELD.get().kind;
    upgrade(py, kind(makes)).then(|| Turn { before })
}

/// A turn of its own, if no program runs or is about to run now, in this thread or another.
pub fn try_exclusive() -> Option<Turn> {
    if HELD.get().kind != Kind::Out || !enter(Kind::Exclusive) {
        return None;
    }
    set(Kind::Exclusive);
    Some(Turn { before: Kind::Out })
}

/// The backward of a program is about to run. Nothing tells when it ends: this thread has its turn
/// until the pass of autograd is over.
pub fn go_backward(py: Python<'_>, makes: bool) {
    if HELD.get().passes == 0 {
        // A pass that nothing told of could never be over.
        return;
    }
    if HELD.get().kind == Kind::Shared && RUNTIME.turns.waiting.load(Ordering::Relaxed) > 0 {
        // What ran before in this pass is over.
        downgrade(Kind::Out);
    }
    if !upgrade(py, kind(makes)) {
        warn_of_others("a graph goes backward beside others");
    }
    let held = HELD.get();
    if !held.goes_backward {
        backward_of(this_thread()).fetch_add(1, Ordering::AcqRel);
        HELD.set(Held {
            goes_backward: true,
            ..held
        });
    }
}

/// Whether no other thread runs programs before the pass of autograd is over.
pub fn is_alone() -> bool {
    HELD.get().kind == Kind::Exclusive
}

/// Waits until no other thread runs programs; none does before the pass of autograd is over, or
/// `be_shared` is called.
#[pyfunction]
pub fn be_exclusive(py: Python<'_>) {
    go_backward(py, true);
}

/// Lets the other threads run programs again.
#[pyfunction]
pub fn be_shared() {
    downgrade(Kind::Shared);
}

/// A pass of autograd begins. The answer is for `end_pass`.
#[pyfunction]
pub fn begin_pass(py: Python<'_>) -> (u8, bool) {
    let held = HELD.get();
    HELD.set(Held {
        passes: held.passes + 1,
        ..held
    });
    if RUNTIME.turns.others.load(Ordering::Relaxed) {
        // Nothing tells when one of those goes backward.
        upgrade(py, Kind::Shared);
    }
    (held.kind as u8, held.goes_backward)
}

/// A program that is not ours is about to run. The answer is for `end_pass`.
#[pyfunction]
pub fn begin_other(py: Python<'_>) -> (u8, bool) {
    RUNTIME.turns.others.store(true, Ordering::Relaxed);
    begin_pass(py)
}

/// A pass of autograd is over.
#[pyfunction]
pub fn end_pass(py: Python<'_>, before: (u8, bool)) -> PyResult<()> {
    let (kind, goes_backward) = before;
    let kinds = [Kind::Out, Kind::Shared, Kind::Exclusive];
    downgrade(kinds[usize::from(kind).min(2)]);
    let held = HELD.get();
    if held.goes_backward && !goes_backward {
        backward_of(this_thread()).fetch_sub(1, Ordering::AcqRel);
    }
    HELD.set(Held {
        goes_backward,
        passes: held.passes.saturating_sub(1),
        ..held
    });
    resume_interrupted(py, held.passes)
}

/// Passes of autograd that this thread is in.
pub fn passes() -> usize {
    HELD.get().passes
}

/// A process is about to be forked: who runs a program in another thread holds locks of Paddle's,
/// and the child would find them held for ever.
#[pyfunction]
pub fn exclusive_before_fork(py: Python<'_>) {
    FORKS.set(HELD.get().kind);
    if !upgrade(py, Kind::Exclusive) {
        warn_of_others("a process is forked beside others");
    }
}

/// In the parent, after that.
#[pyfunction]
pub fn shared_after_fork() {
    downgrade(FORKS.get());
}

/// In a child after a fork, where the other threads are gone.
#[pyfunction]
pub fn exclusive_after_fork() {
    let held = HELD.get();
    RUNTIME.turns.waiting.store(0, Ordering::Relaxed);
    for count in &RUNTIME.turns.backward {
        count.store(0, Ordering::Relaxed);
    }
    backward_of(this_thread()).store(usize::from(held.goes_backward), Ordering::Relaxed);
    let running = match held.kind {
        Kind::Out => 0,
        Kind::Shared => 1,
        Kind::Exclusive => EXCLUSIVE,
    };
    RUNTIME.turns.running.store(running, Ordering::Release);
    downgrade(FORKS.get());
    inherited::after_fork(RUNTIME.turns.others.load(Ordering::Relaxed));
}
