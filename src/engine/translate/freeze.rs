//! Freezing: a function as one compiled graph for inference, without guards.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::abi;
use crate::backend::{CompileRequest, CompiledGraph};
use crate::obj::{Obj, text_of};
use crate::reason::{Break, BreakKind};
use crate::simulator::{Tracer, contexts};
use crate::variables::{ContextVar, Kind, VarId};

use super::export::{Whole, bound, open_dims, whole};
use super::finish::is_layer;
use super::function::{Translated, exclusively};

/// A graph with all that it takes but the arguments of a call.
pub struct FrozenGraph {
    graph: Box<dyn CompiledGraph>,
    given: Vec<Given>,
}

/// An input of the graph.
enum Given {
    /// Of the tensors of a call, by position.
    Argument(usize),
    Kept(Obj),
}

impl FrozenGraph {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the graph.
    pub fn call<'py>(
        &self,
        py: Python<'py>,
        tensors: &[Bound<'py, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let inputs: SmallVec<[Bound<'py, PyAny>; 16]> = self
            .given
            .iter()
            .map(|given| match given {
                Given::Argument(at) => tensors[*at].clone(),
                Given::Kept(tensor) => tensor.bind(py).clone(),
            })
            .collect();
        let results = self.graph.call(py, &inputs)?;
        for result in &results {
            // An argument that is a result is a copy, and takes over whether it has gradients.
            let is_given = inputs.iter().any(|input| input.is(result));
            if !is_given && !abi::is_dense(py, result.as_ptr(), true) {
                result.setattr(py, pyo3::intern!(py, "stop_gradient"), true)?;
            }
        }
        Ok(results)
    }

    /// What the backend says of it, line by line.
    pub fn report(&self) -> Vec<String> {
        self.graph.report()
    }

    /// Visits what it owns, for the cycle collector.
    pub fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.graph.traverse(visit);
    }
}

impl Translated {
    /// Compiles the function for these arguments as one graph; it does not run. `inputs` are the
    /// tensors among the arguments, with the dims that stay open, in the order of
    /// `FrozenGraph::call`; `keep.keep` answers with another for each other tensor, and
    /// `keep.keep_layer` for each layer that is called as a whole.
    ///
    /// # Errors
    /// `GraphBreakError` when it is not one graph or changes something, `TypeError` when the
    /// arguments do not bind, and what the backend says when it cannot compile.
    pub fn freeze(
        &self,
        py: Python<'_>,
        inputs: &[(Obj, Vec<usize>)],
        keep: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<FrozenGraph> {
        let bound = bound(py, self, "freeze", args, kwargs)?;
        exclusively(py, |_| freeze(py, self, &bound, inputs, keep))?
            .map_err(|reason| self.refusal(py, reason))
    }
}

/// What a call would change, for a message; `None` where there is nothing to see of it.
///
/// Managers of the grad mode that exist note the mode that they leave, `auto_cast` warns where it
/// casts nothing, and a new layer (`nn.Softmax()(x)`, `self.blocks[:2]`) takes a name.
fn changed(t: &Tracer<'_>) -> Option<String> {
    let is_unseen = |id: &VarId| {
        let kind = t.vars.kind(*id);
        matches!(
            kind,
            Kind::Context(ContextVar::AutoCast { .. }) | Kind::Layer(_) | Kind::Layers { .. }
        )
    };
    let in_front = &t.graph.in_front;
    if !in_front.flags.is_empty() || !in_front.seeds.is_empty() {
        return Some(String::new());
    }
    if !t.global_writes.is_empty() || !t.left_behind.iter().all(is_unseen) {
        return Some(String::new());
    }
    for id in t.vars.mutated() {
        let var = t.vars.get(*id);
        let class = var.value.as_ref().map(|it| it.bind(t.py).get_type());
        if var.source.is_none()
            || class
                .as_ref()
                .is_some_and(|it| contexts::is_of_grad_mode(it))
        {
            continue;
        }
        let name = class.map(|class| text_of(&class, "__name__"));
        return Some(name.map_or_else(String::new, |name| format!(": of type {name}")));
    }
    None
}

fn freeze(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    inputs: &[(Obj, Vec<usize>)],
    keep: &Bound<'_, PyAny>,
) -> Result<FrozenGraph, Break> {
    let wanted = open_dims(inputs.iter().map(|(tensor, dims)| (tensor, dims)));
    let Whole {
        tracer,
        outputs,
        backend,
    } = whole(py, of, bound, &wanted, FxHashMap::default())?;
    if let Some(changed) = changed(&tracer) {
        return Err(Break::new(
            BreakKind::UnsupportedOperation,
            format!("the function changes something that exists before the call{changed}"),
        ));
    }
    let (mut sir, graph_inputs, session) = tracer.graph.into_parts();
    let (layers, tensors): (Vec<_>, Vec<_>) = graph_inputs
        .iter()
        .partition(|input| is_layer(&sir, input.symbol));
    let mut given = Vec::with_capacity(tensors.len());
    let mut example_inputs = Vec::with_capacity(tensors.len());
    for input in &tensors {
        let address = input.value.as_ptr();
        let argument = inputs
            .iter()
            .position(|(tensor, _)| tensor.as_ptr() == address);
        let (which, example) = match argument {
            Some(at) => (Given::Argument(at), input.value.clone()),
            None => {
                let kept = Obj::from(keep.call_method1("keep", (input.value.bind(py),))?);
                (Given::Kept(kept.clone()), kept)
            }
        };
        given.push(which);
        example_inputs.push(example);
    }
    sir.inputs = layers
        .iter()
        .chain(&tensors)
        .map(|input| input.symbol)
        .collect();
    sir.outputs = outputs;
    // What runs call by call has them of a layer.
    sir.replace_layers(py, &mut |layer| keep.call_method1("keep_layer", (layer,)))?;
    let request = CompileRequest {
        sir: Arc::new(sir),
        session,
        example_inputs,
        grad_enabled: false,
        least: 0,
    };
    let graph = backend.backend.compile(py, request)?;
    Ok(FrozenGraph { graph, given })
}
