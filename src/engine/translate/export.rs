//! Export: a function as one program with named inputs, instead of something that runs.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashMap;

use crate::backend::{ExportInput, ExportRequest};
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::simulator::function_graph::FunctionGraph;
use crate::simulator::{self, Outcome, Tracer, arguments};
use crate::variables::{Exports, VarId, protocol};

use super::arguments::Bound_;
use super::automatic_dynamic::{self, Varies};
use super::check_dims::{self, Checked};
use super::choice::Configured;
use super::declared_dynamic::{Declared, DynamicTensors};
use super::function::{Translated, exclusively};
use super::pipeline::{Simulated, prepare, simulate};

/// A function as the backend exports it.
pub struct Exported {
    /// What the backend answered.
    pub program: Obj,
    /// The statements.
    pub ir: String,
    /// What it takes for granted of open dims.
    pub assumptions: Vec<String>,
}

impl Translated {
    /// Captures the function for these arguments as one program; it does not run. `inputs` are the
    /// tensors among the arguments that the program takes: name, tensor, and the dims that stay
    /// open.
    ///
    /// # Errors
    /// `GraphBreakError` when it is not one graph, `TypeError` when the arguments do not bind, and what
    /// the backend says when it cannot export.
    pub fn export(
        &self,
        py: Python<'_>,
        inputs: Vec<(String, Obj, Vec<usize>)>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Exported> {
        let bound = bound(py, self, "export", args, kwargs)?;
        exclusively(py, |_| export(py, self, &bound, inputs))?
            .map_err(|reason| self.refusal(py, reason))
    }
}

/// The arguments of a call by parameter; `what` begins the error where they do not bind.
pub(super) fn bound<'py>(
    py: Python<'py>,
    of: &Translated,
    what: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound_<'py>> {
    let receiver = of.receiver.as_ref().map(|receiver| receiver.bind(py));
    let bound = of.parameters.bind(py, receiver, args, kwargs)?;
    bound.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{what}: the arguments do not fit the function's parameters"
        ))
    })
}

/// The dims that stay open of the tensors among a call's arguments, by address.
pub(super) fn open_dims<'a>(
    inputs: impl Iterator<Item = (&'a Obj, &'a Vec<usize>)>,
) -> DynamicTensors {
    inputs
        .filter(|(_, dims)| !dims.is_empty())
        .map(|(tensor, dims)| (tensor.as_ptr() as usize, dims.clone()))
        .collect()
}

/// A function that is one graph.
pub(super) struct Whole<'py> {
    pub(super) tracer: Tracer<'py>,
    pub(super) outputs: Vec<SymbolId>,
    pub(super) backend: Arc<Configured>,
}

/// Captures a function as one graph. `names` are those of the tensors among its arguments, by
/// address.
pub(super) fn whole<'py>(
    py: Python<'py>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    wanted: &DynamicTensors,
    names: FxHashMap<usize, String>,
) -> Result<Whole<'py>, Break> {
    let (state, backend) = prepare(py, of)?;
    let mut varies = Varies {
        names,
        ..Varies::default()
    };
    let mut simulated = simulate(py, of, bound, &state, &backend, &varies)?;
    let declared = Declared::of(py, &simulated.tracer.graph.inputs, wanted)?;
    varies.dims = automatic_dynamic::dims(of, &simulated.tracer.guards, &declared, backend.dynamic);
    if !varies.dims.is_empty() {
        let known = simulated.tracer.graph;
        simulated = simulate(py, of, bound, &state, &backend, &varies)?;
        if let Outcome::Return(id) = simulated.outcome {
            // What is no result of a program is none for other sizes.
            protocol::exports(&mut simulated.tracer, id)?;
        }
        check(py, &simulated.tracer, &known, false).or_else(|reason| {
            // Rounds that may be left early are no rounds that stand one after the other.
            varies.kept_open = simulated.tracer.flow.captured_loops.clone();
            varies.dims.clear();
            if varies.kept_open.is_empty() {
                return Err(reason);
            }
            let known = simulate(py, of, bound, &state, &backend, &varies);
            let known = known.map_err(|_| reason.clone())?.tracer.graph;
            check(py, &simulated.tracer, &known, true).map_err(|_| reason)
        })?;
    }
    let Simulated {
        mut tracer,
        outcome,
        ..
    } = simulated;
    let result = match outcome {
        Outcome::Return(id) => id,
        Outcome::Break(at) => return Err(at.reason),
    };
    let mut outputs = Vec::new();
    flatten(&mut tracer, result, &mut outputs, 0)?;
    if outputs.is_empty() {
        return Err(Break::new(
            BreakKind::UnsupportedOperation,
            "the function returns no tensor",
        ));
    }
    Ok(Whole {
        tracer,
        outputs,
        backend,
    })
}

/// Compares what was captured with open dims and with known ones.
/// `loops`: where known dims are counted by loops too.
fn check(
    py: Python<'_>,
    open: &Tracer<'_>,
    known: &FunctionGraph,
    loops: bool,
) -> Result<(), Break> {
    let open = &open.graph;
    let checked = match loops {
        false => Checked::Exported,
        true => Checked::ExportedLoops,
    };
    let (sir, session) = (&open.sir, open.session());
    check_dims::check_dims(py, checked, (sir, session), (&known.sir, known.session()))
}

fn export(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    inputs: Vec<(String, Obj, Vec<usize>)>,
) -> Result<Exported, Break> {
    let wanted = open_dims(inputs.iter().map(|(_, tensor, dims)| (tensor, dims)));
    let names = inputs
        .iter()
        .map(|(name, tensor, _)| (tensor.as_ptr() as usize, name.clone()));
    let names = names.collect();
    let Whole {
        tracer,
        outputs,
        backend,
    } = whole(py, of, bound, &wanted, names)?;
    let (mut sir, graph_inputs, session) = tracer.graph.into_parts();
    sir.inputs = graph_inputs.iter().map(|input| input.symbol).collect();
    sir.outputs = outputs;
    let ir = sir.to_string();
    let assumptions = simulator::assumptions(py, &sir);
    let inputs = inputs
        .into_iter()
        .map(|(name, tensor, dynamic)| ExportInput {
            name,
            tensor,
            dynamic,
        })
        .collect();
    let request = ExportRequest {
        sir,
        session,
        inputs,
    };
    let program = backend.backend.export(py, request)?;
    Ok(Exported {
        program,
        ir,
        assumptions,
    })
}

/// Nesting of a result that is followed.
const DEEP: usize = 64;

/// The tensors of a result, and numbers that the graph computes or makes of open dims, in the order
/// of `paddle.utils.flatten`; other values are no outputs of a program.
fn flatten(
    t: &mut Tracer<'_>,
    id: VarId,
    outputs: &mut Vec<SymbolId>,
    depth: usize,
) -> Result<(), Break> {
    // One that no program computes is no output.
    if let Ok(Some(symbol)) = arguments::dims_as_result(t, id) {
        outputs.push(symbol);
        return Ok(());
    }
    let items = match protocol::exports(t, id)? {
        Exports::Output(symbol) => {
            outputs.push(symbol);
            return Ok(());
        }
        Exports::Nothing => return Ok(()),
        Exports::Items(items) => items,
    };
    if depth > DEEP {
        return Err(Break::new(
            BreakKind::UnsupportedOperation,
            "the function returns a container that is nested too deeply",
        ));
    }
    for item in items {
        flatten(t, item, outputs, depth + 1)?;
    }
    Ok(())
}
