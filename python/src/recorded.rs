//! What is counted and recorded of all translated functions.

use paddle_sot::reason::SourceLoc;
use paddle_sot::translate;
use paddle_sot_bindings_base::records::{BreakRecord, StatsRecord, of_phases};
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
