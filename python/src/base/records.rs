//! Plain records handed to Python.

use std::collections::HashMap;

use paddle_sot_reason::{Break, BreakId, Seconds, Stats};
use pyo3::prelude::*;

/// A graph break or a fallback.
#[pyclass(frozen, get_all, module = "paddle_sot_rs._core")]
#[derive(Clone)]
pub struct BreakRecord {
    code: String,
    kind: String,
    message: String,
    file: String,
    line: u32,
    end_line: u32,
    columns: (u32, u32),
    function: String,
    hint: String,
    id: String,
    title: String,
    link: String,
    count: u64,
}

impl BreakRecord {
    /// The record of a reason, which graphs broke for so often.
    pub fn new(reason: &Break, count: u64) -> Self {
        let info = reason.id.info();
        Self {
            code: reason.kind.code().to_string(),
            kind: format!("{:?}", reason.kind),
            message: reason.message.clone(),
            file: reason.loc.file.to_string(),
            line: reason.loc.line,
            end_line: reason.loc.columns.end_line,
            columns: (reason.loc.columns.start, reason.loc.columns.end),
            function: reason.loc.function.to_string(),
            hint: info.advice.to_owned(),
            id: reason.id.to_string(),
            title: info.title.to_owned(),
            link: reason.id.link(),
            count,
        }
    }
}

/// Counters of one function, or of all.
#[pyclass(frozen, get_all, module = "paddle_sot_rs._core")]
#[derive(Clone)]
pub struct StatsRecord {
    graphs: u64,
    ops: u64,
    translations: u64,
    cache_hits: u64,
    cache_misses: u64,
    whole_steps: u64,
    graph_breaks: Vec<BreakRecord>,
    recompiles: Vec<String>,
    fallbacks: Vec<BreakRecord>,
    own_steps: HashMap<String, u64>,
    seconds: (f64, f64, f64),
}

impl From<&Stats> for StatsRecord {
    fn from(stats: &Stats) -> Self {
        Self {
            graphs: stats.graphs,
            ops: stats.ops,
            translations: stats.translations,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses,
            whole_steps: stats.whole_steps,
            graph_breaks: stats
                .graph_breaks
                .iter()
                .map(|event| BreakRecord::new(&event.reason, event.count))
                .collect(),
            recompiles: stats
                .recompiles
                .iter()
                .map(|event| format!("{}: {}", event.function, event.guard))
                .collect(),
            fallbacks: stats
                .fallbacks
                .iter()
                .map(|event| BreakRecord::new(&event.reason, event.count))
                .collect(),
            own_steps: stats.own_steps.iter().cloned().collect(),
            seconds: of_phases(&stats.seconds),
        }
    }
}

/// Seconds of the phases: trace, infer, backend.
pub fn of_phases(seconds: &Seconds) -> (f64, f64, f64) {
    (seconds.trace, seconds.infer, seconds.backend)
}

/// A compiled graph, for `explain`.
#[pyclass(frozen, get_all, module = "paddle_sot_rs._core")]
pub struct GraphRecord {
    /// The text of the graph.
    pub ir: String,
    /// What the backend made of it.
    pub program: String,
    /// Guards of the entry, in the order in which they are asked.
    pub guards: Vec<String>,
    /// The name of the backend.
    pub backend: String,
    /// What the backend says of the program.
    pub report: Vec<String>,
    /// The new code object, if there is one.
    pub code: Option<Py<PyAny>>,
}

/// What can be looked up: (id, class, title, what happens, what to do, code that breaks so).
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn break_table() -> Vec<(
    String,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
)> {
    let row = |id: &BreakId| {
        let info = id.info();
        (
            id.code(),
            id.class(),
            info.title,
            info.explanation,
            info.advice,
            id.example(),
        )
    };
    BreakId::ALL.iter().map(row).collect()
}

/// Whether long translations show a line in a terminal.
#[pyfunction]
pub fn show_progress(shown: bool) {
    paddle_sot_reason::show_progress(shown);
}
