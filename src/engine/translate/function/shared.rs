//! [`Shared`]: what a function shares with its resume functions and with those that its native
//! parts call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::CompiledGraph;
use crate::bytecode::ResumeSpec;
use crate::obj::Obj;
use crate::reason::{NoteOwnStep, SourceLoc, Stats};
use crate::simulator::TraceOptions;
use crate::sync::lock;
use crate::translate::callees::Listener;
use crate::translate::choice::BackendChoice;
use crate::translate::record::Node;

/// What `to_static` was asked for.
pub struct CompileOptions {
    /// The backend.
    pub backend: BackendChoice,
    /// One graph or an error.
    pub full_graph: bool,
    /// For the simulator.
    pub trace: TraceOptions,
}

/// What a backend has made of a graph.
#[derive(Clone)]
pub struct Made {
    /// The program.
    pub program: String,
    /// The backend.
    pub backend: String,
    /// What it says about it.
    pub report: Vec<String>,
}

impl Made {
    /// # Errors
    /// When the program cannot be shown.
    pub fn of(py: Python<'_>, graph: &dyn CompiledGraph) -> PyResult<Self> {
        Ok(Self {
            program: graph.program_text(py)?,
            backend: graph.backend_name().to_owned(),
            report: graph.report(),
        })
    }
}

/// A graph as `explain` shows it.
pub struct GraphInfo {
    /// The statements.
    pub ir: String,
    /// What the backend has made of it.
    pub made: Made,
    /// What it has made of it behind the translation.
    pub later: Option<Arc<OnceLock<Made>>>,
    /// The guards.
    pub guards: Vec<String>,
    /// The generation of the backend.
    pub generation: u64,
    /// The generated code object, if there is one.
    pub code: Option<Obj>,
    /// What flows through it, where that is recorded.
    pub nodes: Vec<Node>,
}

impl GraphInfo {
    /// What the backend has made of it by now.
    pub fn made(&self) -> &Made {
        let later = self.later.as_ref().and_then(|later| later.get());
        later.unwrap_or(&self.made)
    }
}

/// The original code object, the globals, the place, and the raising instruction.
pub type ResumeKey = (Obj, Obj, ResumeSpec, usize);

/// What a function shares with its resume functions.
pub struct Shared {
    /// The options.
    pub options: CompileOptions,
    /// Whether everything is translated, worth it or not.
    pub forced: bool,
    /// Counters and events.
    pub stats: Mutex<Stats>,
    /// Graphs, when `explain` asked for them.
    pub graphs: Mutex<Vec<Arc<GraphInfo>>>,
    /// Resume functions by original code object, place, and raising instruction.
    pub resumes: Mutex<FxHashMap<ResumeKey, (Obj, usize)>>,
    /// See `Detours::changed_later`.
    pub changed_later: Mutex<FxHashSet<SourceLoc>>,
    /// Functions called by parts that run natively, by address.
    pub callees: Mutex<FxHashMap<usize, Obj>>,
    /// Under forced translation: frames of code whose functions are made over and over, by the
    /// address of the code.
    pub seen: Mutex<FxHashMap<usize, usize>>,
    /// Under forced translation: what became of the frames, by what it was.
    pub frames: Mutex<FxHashMap<String, u64>>,
    /// Times that calls below native code were looked at, and whether one of them ever ran a graph.
    pub listened: AtomicUsize,
    /// See `listened`.
    pub found_graphs: AtomicBool,
}

/// Looks below native code that found nothing to translate, before no more are taken: the hook
/// makes every Python call slower.
const MAX_VAIN_LOOKS: usize = 32;

impl Shared {
    /// Nothing has happened yet.
    pub fn new(options: CompileOptions, forced: bool) -> Arc<Self> {
        Arc::new(Self {
            options,
            forced,
            stats: Mutex::default(),
            graphs: Mutex::default(),
            resumes: Mutex::default(),
            changed_later: Mutex::default(),
            callees: Mutex::default(),
            seen: Mutex::default(),
            frames: Mutex::default(),
            listened: AtomicUsize::new(0),
            found_graphs: AtomicBool::new(false),
        })
    }

    /// What generated code counts steps of optimizers by.
    pub(in crate::translate) fn note_own_step(shared: &Arc<Self>) -> NoteOwnStep {
        let shared = Arc::downgrade(shared);
        NoteOwnStep::new(move |reason| {
            if let Some(shared) = shared.upgrade() {
                lock(&shared.stats).note_own_steps(reason, 1);
            }
        })
    }

    /// Counts a frame, or a part of one, under forced translation.
    pub(in crate::translate) fn count(&self, what: &str) {
        if self.forced {
            let mut frames = lock(&self.frames);
            match frames.get_mut(what) {
                Some(count) => *count += 1,
                None => drop(frames.insert(what.to_owned(), 1)),
            }
        }
    }

    /// Whether calls below native code are looked at.
    pub(super) fn listens(&self) -> bool {
        self.forced
            || self.found_graphs.load(Ordering::Relaxed)
            || self.listened.load(Ordering::Relaxed) < MAX_VAIN_LOOKS
    }

    pub(super) fn listen(self: &Arc<Self>, py: Python<'_>) -> Option<Listener> {
        let pays = self.forced
            || self.found_graphs.load(Ordering::Relaxed)
            || self.listened.fetch_add(1, Ordering::Relaxed) < MAX_VAIN_LOOKS;
        pays.then(|| Listener::start(py, self)).flatten()
    }
}
