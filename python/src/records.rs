//! Plain records handed to Python.

use std::collections::HashMap;

use paddle_sot::reason::{Break, BreakId, Seconds, SourceLoc, Stats};
use paddle_sot::translate;
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
    fn new(reason: &Break, count: u64) -> Self {
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
fn of_phases(seconds: &Seconds) -> (f64, f64, f64) {
    (seconds.trace, seconds.infer, seconds.backend)
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

/// Starts to record for a report, or stops.
#[pyfunction]
pub fn record(on: bool) {
    translate::record::record(on);
}

/// Says whether graphs that this thread translates become programs at once; answers with what was
/// said before.
#[pyfunction]
pub fn compile_at_once(at_once: bool) -> bool {
    translate::compile_at_once(at_once)
}

/// Whether long translations show a line in a terminal.
#[pyfunction]
pub fn show_progress(shown: bool) {
    paddle_sot::reason::show_progress(shown);
}

type Place = (String, u32, String);

fn place(of: &SourceLoc) -> Place {
    (of.file.to_string(), of.line, of.function.to_string())
}

/// A call of a function: place, start, seconds.
type CallRow = (Place, f64, f64);

/// What was recorded: a dict for each function, and (place, start, seconds) for each call.
#[pyfunction]
pub fn recorded(py: Python<'_>) -> PyResult<(Vec<Py<PyDict>>, Vec<CallRow>)> {
    let (functions, calls) = translate::record::recorded(py);
    let functions = functions.iter().map(|of| function_record(py, of));
    let calls = calls.iter();
    let calls = calls.map(|call| (place(&call.function), call.start, call.seconds));
    Ok((functions.collect::<PyResult<_>>()?, calls.collect()))
}

fn function_record(py: Python<'_>, of: &translate::record::FunctionRecord) -> PyResult<Py<PyDict>> {
    let pieces = of.pieces.iter().map(|piece| {
        let made = PyDict::new(py);
        made.set_item("place", place(&piece.function))?;
        made.set_item("resumes", piece.resumes)?;
        made.set_item("guards", piece.guards.clone())?;
        made.set_item("failures", piece.failures.clone())?;
        made.set_item("hits", piece.hits)?;
        made.set_item("executor", piece.executor)?;
        made.set_item("between", piece.between)?;
        made.set_item("seconds", of_phases(&piece.seconds))?;
        made.set_item("start", piece.start)?;
        let reason = piece.reason.as_ref();
        made.set_item("reason", reason.map(|it| BreakRecord::new(it, 1)))?;
        made.set_item("graph", piece.graph)?;
        Ok(made.unbind())
    });
    let graphs = of.graphs.iter().map(|graph| {
        let nodes = graph.nodes.iter().map(|node| {
            let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
            (node.name.clone(), inputs, outputs, place(&node.loc))
        });
        let made = PyDict::new(py);
        made.set_item("ir", &graph.ir)?;
        made.set_item("made_by", &graph.backend)?;
        made.set_item("report", graph.report.clone())?;
        made.set_item("nodes", nodes.collect::<Vec<_>>())?;
        Ok(made.unbind())
    });
    let made = PyDict::new(py);
    made.set_item("place", place(&of.function))?;
    made.set_item("stats", StatsRecord::from(&of.stats))?;
    made.set_item("pieces", pieces.collect::<PyResult<Vec<_>>>()?)?;
    made.set_item("graphs", graphs.collect::<PyResult<Vec<_>>>()?)?;
    Ok(made.unbind())
}
