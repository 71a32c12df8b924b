//! What a report shows beyond the counters of `stats`: guards that held and failed, and where time
//! went.
//! Nothing is recorded before it is asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Arg, Callee, StatementIr, SymbolId, SymbolKind};
use crate::guard::GuardFailure;
use crate::reason::{Break, Seconds, SourceLoc, Stats};
use crate::sync::lock;

use super::function::{GraphInfo, Translated};

static ON: AtomicBool = AtomicBool::new(false);
static START: Mutex<Option<Instant>> = Mutex::new(None);
static CALLS: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static GONE: Mutex<Vec<FunctionRecord>> = Mutex::new(Vec::new());

/// Most calls that the time line shows, and functions that are gone.
const CALLS_SHOWN: usize = 20_000;
const GONE_SHOWN: usize = 1000;

/// Whether things are recorded now.
pub(super) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts anew, or stops; what was recorded stays until the next start.
pub fn record(on: bool) {
    if on {
        lock(&CALLS).clear();
        lock(&GONE).clear();
        *lock(&START) = Some(Instant::now());
    }
    ON.store(on, Ordering::Relaxed);
}

/// A time, in seconds since the start.
fn since_start(at: Instant) -> f64 {
    let start = *lock(&START);
    start.map_or(0.0, |start| {
        at.saturating_duration_since(start).as_secs_f64()
    })
}

/// One call of a translated function.
#[derive(Clone, Debug)]
pub struct Span {
    /// The function.
    pub function: SourceLoc,
    /// Seconds from the start of the record.
    pub start: f64,
    /// How long it took.
    pub seconds: f64,
}

/// A call of a translated function runs until this is dropped.
pub(super) struct Call<'a> {
    of: &'a SourceLoc,
    start: Option<Instant>,
}

impl<'a> Call<'a> {
    pub(super) fn new(of: &'a SourceLoc) -> Self {
        let start = is_on().then(Instant::now);
        Self { of, start }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Some(start) = self.start else { return };
        let seconds = start.elapsed().as_secs_f64();
        let start = since_start(start);
        let mut calls = lock(&CALLS);
        if calls.len() < CALLS_SHOWN {
            let function = self.of.clone();
            calls.push(Span {
                function,
                start,
                seconds,
            });
        }
    }
}

/// What became of one translation.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    failures: Mutex<FxHashMap<GuardFailure, u64>>,
    executor: AtomicU64,
    between: AtomicU64,
    /// What making it took, and when.
    made: Mutex<(Seconds, f64)>,
}

impl Counters {
    /// A call looked at its guards.
    pub(super) fn checked(&self, failed: Option<GuardFailure>) {
        if !is_on() {
            return;
        }
        match failed {
            None => {
                self.hits.fetch_add(1, Ordering::Relaxed);
            }
            Some(guard) => *lock(&self.failures).entry(guard).or_default() += 1,
        }
    }

    /// Runs the graph.
    pub(super) fn in_executor<T>(&self, run: impl FnOnce() -> T) -> T {
        Self::timed(&self.executor, run)
    }

    /// Runs what follows the graph: generated code, and what breaks the graph.
    pub(super) fn behind<T>(&self, run: impl FnOnce() -> T) -> T {
        Self::timed(&self.between, run)
    }

    fn timed<T>(sum: &AtomicU64, run: impl FnOnce() -> T) -> T {
        if !is_on() {
            return run();
        }
        let start = Instant::now();
        let answer = run();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        sum.fetch_add(nanoseconds, Ordering::Relaxed);
        answer
    }

    /// It was made so.
    pub(super) fn was_made(&self, start: Instant, seconds: Seconds) {
        if is_on() {
            *lock(&self.made) = (seconds, since_start(start));
        }
    }
}

/// An operation of a graph, for a picture of it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The values it takes.
    pub inputs: Vec<String>,
    /// The values it makes, with shape and dtype.
    pub outputs: Vec<(String, String)>,
    /// Where it stands.
    pub loc: SourceLoc,
}

/// What flows through a graph: its inputs and its operations.
pub(super) fn nodes(py: Python<'_>, sir: &StatementIr) -> Vec<Node> {
    if !is_on() {
        return Vec::new();
    }
    let shown = |id: SymbolId| (sir.symbol_name(id), described(sir, id));
    let input = |id: &SymbolId| Node {
        name: "input".to_owned(),
        inputs: Vec::new(),
        outputs: vec![shown(*id)],
        loc: SourceLoc::default(),
    };
    let tensors = sir.inputs.iter();
    let mut nodes: Vec<Node> = tensors
        .filter(|id| matches!(sir.kind(**id), SymbolKind::Tensor(_)))
        .map(input)
        .collect();
    for it in &sir.statements {
        let mut inputs = Vec::new();
        let arguments = it.args.iter().chain(it.kwargs.iter().map(|(_, arg)| arg));
        arguments.for_each(|arg: &Arg| {
            arg.for_each_symbol(&mut |id| {
                if matches!(sir.kind(id), SymbolKind::Tensor(_)) {
                    inputs.push(sir.symbol_name(id));
                }
            });
        });
        let mut outputs = Vec::new();
        it.output.for_each_symbol(&mut |id| outputs.push(shown(id)));
        let name = match &it.callee {
            Callee::Layer(layer) => match sir.kind(*layer) {
                SymbolKind::Layer(layer) => layer.class_name().to_owned(),
                SymbolKind::Tensor(_) => "Layer".to_owned(),
            },
            Callee::Sir(region) => region.name().to_owned(),
            Callee::Method(name) | Callee::Attribute(name) => name.to_string(),
            Callee::Api(_) => it.callee.api_names(py).concat(),
        };
        nodes.push(Node {
            name,
            inputs,
            outputs,
            loc: it.loc.clone(),
        });
    }
    nodes
}

fn described(sir: &StatementIr, id: SymbolId) -> String {
    let Some(meta) = sir.meta(id) else {
        return String::new();
    };
    let dim = |dim: &i64| match dim {
        ..0 => "?".to_owned(),
        dim => dim.to_string(),
    };
    let dims: Vec<String> = meta.shape.iter().map(dim).collect();
    format!("{} [{}]", meta.dtype.as_str(), dims.join(", "))
}

/// One translation, for a report.
#[derive(Clone, Debug)]
pub struct PieceRecord {
    /// The function that it is a piece of, from where it starts.
    pub function: SourceLoc,
    /// Whether it goes on behind a break.
    pub resumes: bool,
    /// Its guards.
    pub guards: Vec<String>,
    /// What failed, and how often.
    pub failures: Vec<(String, u64)>,
    /// Calls that it was ready for.
    pub hits: u64,
    /// Seconds in the executor.
    pub executor: f64,
    /// Seconds behind the graph, up to the end of the piece.
    pub between: f64,
    /// What making it took.
    pub seconds: Seconds,
    /// When it was made.
    pub start: f64,
    /// Why it ends where it does.
    pub reason: Option<Break>,
    /// Position of its graph among those of the function.
    pub graph: Option<usize>,
}

/// One translated function, for a report.
#[derive(Clone, Debug, Default)]
pub struct FunctionRecord {
    /// Where it is defined.
    pub function: SourceLoc,
    /// Its counters.
    pub stats: Stats,
    /// Its translations.
    pub pieces: Vec<PieceRecord>,
    /// Its graphs: the statements, the backend, and the operations.
    pub graphs: Vec<GraphRecord>,
}

/// One graph, for a report.
#[derive(Clone, Debug)]
pub struct GraphRecord {
    /// The statements.
    pub ir: String,
    /// The backend.
    pub backend: String,
    /// What the backend says.
    pub report: Vec<String>,
    /// What flows through it.
    pub nodes: Vec<Node>,
}

impl GraphRecord {
    fn of(info: &GraphInfo) -> Self {
        Self {
            ir: info.ir.clone(),
            backend: info.made().backend.clone(),
            report: info.made().report.clone(),
            nodes: info.nodes.clone(),
        }
    }
}

fn seconds(nanoseconds: &AtomicU64) -> f64 {
    Duration::from_nanos(nanoseconds.load(Ordering::Relaxed)).as_secs_f64()
}

impl Translated {
    /// What is known of it.
    pub fn recorded(&self, py: Python<'_>) -> FunctionRecord {
        let graphs = lock(&self.shared.graphs).clone();
        let mut pieces = Vec::new();
        self.each_part(py, &mut |part| {
            for entry in part.entries().iter() {
                let counters = &entry.counters;
                let failures = lock(&counters.failures).clone();
                let mut failures: Vec<(String, u64)> = failures
                    .into_iter()
                    .map(|(guard, count)| (entry.guard.describe_failure(guard), count))
                    .collect();
                failures.sort();
                let (made, start) = *lock(&counters.made);
                let is_it = |known: &Arc<GraphInfo>| {
                    let info = entry.info.as_ref();
                    info.is_some_and(|info| Arc::ptr_eq(info, known))
                };
                pieces.push(PieceRecord {
                    function: part.location().clone(),
                    resumes: part.origin.is_some(),
                    guards: entry.guard.describe(),
                    failures,
                    hits: counters.hits.load(Ordering::Relaxed),
                    executor: seconds(&counters.executor),
                    between: seconds(&counters.between),
                    seconds: made,
                    start,
                    reason: entry.reason.clone(),
                    graph: graphs.iter().position(is_it),
                });
            }
        });
        FunctionRecord {
            function: self.location().clone(),
            stats: lock(&self.shared.stats).clone(),
            pieces,
            graphs: graphs.iter().map(|info| GraphRecord::of(info)).collect(),
        }
    }
}

/// Keeps what is known of a function that is going.
pub(super) fn retire(py: Python<'_>, of: &Translated) {
    if is_on() {
        let record = of.recorded(py);
        let mut gone = lock(&GONE);
        if gone.len() < GONE_SHOWN {
            gone.push(record);
        }
    }
}

/// Everything: the functions that were called (all, where not all calls are known), those that are
/// gone first, and the calls.
pub fn recorded(py: Python<'_>) -> (Vec<FunctionRecord>, Vec<Span>) {
    let calls = lock(&CALLS).clone();
    let called: FxHashSet<SourceLoc> = calls.iter().map(|call| call.function.clone()).collect();
    let is_shown = |of: &SourceLoc| calls.len() >= CALLS_SHOWN || called.contains(of);
    let alive = super::totals::functions();
    let mut functions = lock(&GONE).clone();
    functions.retain(|function| is_shown(&function.function));
    let shown = alive
        .iter()
        .filter(|function| is_shown(function.location()));
    functions.extend(shown.map(|function| function.recorded(py)));
    (functions, calls)
}
