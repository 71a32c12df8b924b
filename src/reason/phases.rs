//! Where the time of a translation goes, and the line that says so while it takes long.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::SourceLoc;

/// What a translation does that is timed. The rest of it is the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Paddle says what a call returns.
    Infer,
    /// The backend compiles a graph.
    Backend,
}

/// Seconds of translations, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Byte code is simulated, and code and guards are made.
    pub trace: f64,
    /// See [`Phase::Infer`].
    pub infer: f64,
    /// See [`Phase::Backend`].
    pub backend: f64,
}

impl Seconds {
    /// None.
    pub const NONE: Self = Self {
        trace: 0.0,
        infer: 0.0,
        backend: 0.0,
    };

    /// Adds those of another translation.
    pub fn add(&mut self, other: &Self) {
        self.trace += other.trace;
        self.infer += other.infer;
        self.backend += other.backend;
    }
}

/// What a translation has done so far, for the thread that shows progress.
#[derive(Default)]
struct Done {
    operations: AtomicUsize,
    compiles: AtomicBool,
}

thread_local! {
    static INFER: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static BACKEND: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static DONE: Cell<Option<Arc<Done>>> = const { Cell::new(None) };
}

fn with_done(tell: impl FnOnce(&Done)) {
    let done = DONE.take();
    if let Some(done) = &done {
        tell(done);
    }
    DONE.set(done);
}

/// Runs a part of this thread's translation.
pub fn timed<T>(phase: Phase, run: impl FnOnce() -> T) -> T {
    let spent = match phase {
        Phase::Infer => {
            with_done(|done| {
                done.operations.fetch_add(1, Ordering::Relaxed);
            });
            &INFER
        }
        Phase::Backend => {
            with_done(|done| done.compiles.store(true, Ordering::Relaxed));
            &BACKEND
        }
    };
    let start = Instant::now();
    let answer = run();
    spent.set(spent.get() + start.elapsed());
    answer
}

static SHOWN: AtomicBool = AtomicBool::new(true);

/// Whether long translations show a line where stderr is a terminal.
pub fn show_progress(shown: bool) {
    SHOWN.store(shown, Ordering::Relaxed);
}

/// How long a translation is silent, and how often the line changes then.
const SILENT: Duration = Duration::from_secs(2);
const ROUND: Duration = Duration::from_secs(1);

/// Measures one translation on this thread.
pub struct Clock {
    start: Instant,
    progress: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Clock {
    /// It starts now.
    pub fn new(of: &SourceLoc) -> Self {
        INFER.set(Duration::ZERO);
        BACKEND.set(Duration::ZERO);
        let start = Instant::now();
        let shows = SHOWN.load(Ordering::Relaxed) && std::io::stderr().is_terminal();
        Self {
            start,
            progress: shows.then(|| progress(of, start)).flatten(),
        }
    }

    /// When it started.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// What it has taken so far.
    pub fn seconds(&self) -> Seconds {
        let (infer, backend) = (INFER.get().as_secs_f64(), BACKEND.get().as_secs_f64());
        Seconds {
            trace: (self.start.elapsed().as_secs_f64() - infer - backend).max(0.0),
            infer,
            backend,
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        DONE.set(None);
        if let Some((sender, thread)) = self.progress.take() {
            // The thread sees that nobody can send any more, and writes its last line.
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Starts the thread that writes the line, without the GIL: the backend may hold that.
fn progress(of: &SourceLoc, start: Instant) -> Option<(Sender<()>, JoinHandle<()>)> {
    let done = Arc::new(Done::default());
    DONE.set(Some(done.clone()));
    let (sender, receiver) = channel::<()>();
    let of = of.to_string();
    let write = move |doing: &str, end: &str| {
        let count = done.operations.load(Ordering::Relaxed);
        let seconds = start.elapsed().as_secs();
        let line = format!("paddle_sot_rs {doing} {of}: {count} operations, {seconds} s");
        // A terminal that is gone is no reason to end a translation.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}{end}");
        done.compiles.load(Ordering::Relaxed)
    };
    let show = move || {
        let mut wait = SILENT;
        let mut compiles = false;
        while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(wait) {
            wait = ROUND;
            compiles = write(if compiles { "compiles" } else { "translates" }, "");
        }
        if wait == ROUND {
            write("has translated", "\n");
        }
    };
    // Where no thread can be made, nothing is shown.
    let thread = std::thread::Builder::new().spawn(show).ok()?;
    Some((sender, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_inferred_nor_compiled_is_traced() {
        let clock = Clock::new(&SourceLoc::default());
        timed(Phase::Infer, || {
            std::thread::sleep(Duration::from_millis(20));
        });
        let seconds = clock.seconds();
        assert!(seconds.infer >= 0.02 && seconds.backend == 0.0);
        assert!(seconds.trace < seconds.infer);
        let mut sum = Seconds::NONE;
        sum.add(&seconds);
        assert_eq!(sum, seconds);
    }
}
