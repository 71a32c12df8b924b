//! Plain records handed to Python.

use paddle_sot::reason::{Break, BreakId, Stats};
use paddle_sot::translate;
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
    function: String,
    hint: String,
    id: String,
    title: String,
    link: String,
    count: u64,
}

impl BreakRecord {
    fn new(reason: &Break, count: u64) -> Self {
        let info = reason.id.info();
        Self {
            code: reason.kind.code().to_string(),
            kind: format!("{:?}", reason.kind),
            message: reason.message.clone(),
            file: reason.loc.file.to_string(),
            line: reason.loc.line,
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
    graph_breaks: Vec<BreakRecord>,
    recompiles: Vec<String>,
    fallbacks: Vec<BreakRecord>,
}

impl From<&Stats> for StatsRecord {
    fn from(stats: &Stats) -> Self {
        Self {
            graphs: stats.graphs,
            ops: stats.ops,
            translations: stats.translations,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses,
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
        }
    }
}

/// A compiled graph, for `explain`.
#[pyclass(frozen, get_all, module = "paddle_sot_rs._core")]
pub struct GraphRecord {
    pub(crate) ir: String,
    pub(crate) program: String,
    pub(crate) guards: Vec<String>,
    pub(crate) backend: String,
    pub(crate) report: Vec<String>,
    pub(crate) code: Option<Py<PyAny>>,
}

/// Counters of all translated functions together, those that are gone included.
#[pyfunction]
pub fn total_stats() -> StatsRecord {
    (&translate::totals()).into()
}

/// Forgets the translations and counters of all translated functions.
#[pyfunction]
pub fn reset_all(py: Python<'_>) {
    translate::reset_all(py);
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
