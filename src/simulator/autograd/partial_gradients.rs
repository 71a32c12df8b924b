//! `paddle.grad` of what the graph has computed: a statement of the graph.
//!
//! Paddle's Python code around it is followed, so what it refuses is refused. What is left is one
//! call of C++ code (or what stands for that), which walks from the outputs to the inputs. All that
//! it walks through has to be in the graph: of what was computed before, nobody here knows how it
//! depends on the inputs.

use pyo3::prelude::*;

use crate::abi;
use crate::frame::Modules;
use crate::graph::Callee;
use crate::guard::GuardKind;
use crate::obj::{Obj, name_of};
use crate::reason::BreakId;
use crate::variables::{Kind, TensorVar, VarId};

use crate::alias_analysis::is_all_of_base;
use crate::{Kwargs, Step, Stop, Tracer, tensors};

/// The result of the call that `paddle.grad` ends with; `None` where it is another function of
/// `double_backward.py`.
pub fn try_call(
    t: &mut Tracer<'_>,
    function: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(object) = t.value(function) else {
        return Ok(None);
    };
    if name_of(&object).as_deref() != Some("run_partial_grad") {
        return Ok(None);
    }
    let given = Given::of(t, args, kwargs);
    let given = match given.and_then(|given| check(t, &given).map(|()| given)) {
        Ok(given) => given,
        Err(why) => {
            return t.stop(
                BreakId::PartialGradients,
                format!("paddle.grad() {why}: it walks the autograd graph"),
            );
        }
    };
    if !given.inputs.iter().all(|id| is_made(t, *id)) && !leaves_only(t) {
        return t.stop(
            BreakId::PartialGradients,
            "paddle.grad() of what was computed before, or of what has hooks",
        );
    }
    t.guard_identity(function);
    let callee = callee(t.py)?;
    let outputs = t.add(Kind::List(given.outputs));
    let inputs = t.add(Kind::List(given.inputs));
    let seeds = t.add(Kind::List(given.seeds));
    let [retains, creates, unused] = [
        given.retains_graph,
        given.creates_graph,
        given.allows_unused,
    ]
    .map(|flag| t.bool(flag));
    let args = [outputs, inputs, seeds, retains, creates, unused];
    match tensors::capture(t, callee, None, &args, &[], &mut |_| None) {
        Err(Stop::Break(why)) if why.id == BreakId::InferenceFailed => {
            t.stop(BreakId::PartialGradients, why.message)
        }
        made => made.map(Some),
    }
}

/// What the graph calls for gradients.
///
/// # Errors
/// Where the package's own module cannot be read.
pub fn callee(py: Python<'_>) -> PyResult<Callee> {
    let home = py.module("paddle_sot_rs._graph.control")?;
    Ok(Callee::Api(Obj::from(home.getattr("partial_gradients")?)))
}

/// The arguments of the call.
struct Given {
    outputs: Vec<VarId>,
    inputs: Vec<VarId>,
    /// What arrives at the outputs: nothing, or a tensor or `None` for each.
    seeds: Vec<VarId>,
    retains_graph: bool,
    creates_graph: bool,
    allows_unused: bool,
}

impl Given {
    fn of(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Result<Self, &'static str> {
        const UNUSUAL: &str = "with unusual arguments";
        let (
            &[
                outputs,
                inputs,
                seeds,
                retains,
                creates,
                only,
                unused,
                stops,
                ref rest @ ..,
            ],
            [],
        ) = (args, kwargs)
        else {
            return Err(UNUSUAL);
        };
        // Where the graph is to be drawn.
        if !rest.iter().all(|it| t.is_none(*it)) {
            return Err(UNUSUAL);
        }
        let stops = items(t, stops).ok_or(UNUSUAL)?;
        if !stops.is_empty() {
            return Err("with no_grad_vars");
        }
        if flag(t, only) != Some(true) {
            return Err(UNUSUAL);
        }
        Ok(Self {
            outputs: items(t, outputs).ok_or(UNUSUAL)?,
            inputs: items(t, inputs).ok_or(UNUSUAL)?,
            seeds: items(t, seeds).ok_or(UNUSUAL)?,
            retains_graph: flag(t, retains).ok_or(UNUSUAL)?,
            creates_graph: flag(t, creates).ok_or(UNUSUAL)?,
            allows_unused: flag(t, unused).ok_or(UNUSUAL)?,
        })
    }
}

fn items(t: &mut Tracer<'_>, list: VarId) -> Option<Vec<VarId>> {
    t.realize(list);
    t.kind(list).items().map(<[VarId]>::to_vec)
}

fn flag(t: &mut Tracer<'_>, value: VarId) -> Option<bool> {
    t.realize(value);
    t.const_value(value)?.extract().ok()
}

/// Whether the gradients of a result of the graph can be computed in it.
pub fn may_be_in_graph(t: &Tracer<'_>, output: VarId) -> bool {
    check_around(t).is_ok() && !is_all_of_base(t, output)
}

/// Whether the graph has all that the call walks through, apart from what its inputs are made of.
fn check(t: &mut Tracer<'_>, given: &Given) -> Result<(), &'static str> {
    check_around(t)?;
    for id in &given.outputs {
        if !is_made(t, *id) {
            return Err("of what was computed before");
        }
        if tensors::meta_of(t, *id).is_none_or(|meta| meta.stop_gradient) {
            return Err("of an output that has no gradient");
        }
    }
    if given
        .inputs
        .iter()
        .chain(&given.outputs)
        .any(|id| is_all_of_base(t, *id))
    {
        return Err("of a view that is all of another tensor, the same one to autograd");
    }
    for id in &given.inputs {
        if tensors::meta_of(t, *id).is_none_or(|meta| meta.stop_gradient) {
            return Err("of an input that takes no gradient");
        }
    }
    Ok(())
}

/// Whether the graph holds what the walk goes through, as far as its surroundings say.
fn check_around(t: &Tracer<'_>) -> Result<(), &'static str> {
    if t.flow.is_captured() || t.graph.sir.has_regions() {
        return Err("next to captured control flow, a PyLayer or recompute");
    }
    if t.grad.is_in_custom_operation() || t.replays.is_inside {
        return Err("in code that runs on the way back");
    }
    if !t.grad.enabled || !t.grad.at_entry {
        return Err("without gradients");
    }
    if t.grad.auto_casts > 0 || casts(t).unwrap_or(true) {
        return Err("with auto_cast");
    }
    Ok(())
}

/// Whether operations cast what they are given: the state is guarded.
fn casts(t: &Tracer<'_>) -> PyResult<bool> {
    let framework = t.py.module("paddle.base.framework")?;
    let level = framework
        .call_method0("_dygraph_tracer")?
        .getattr("_amp_level")?;
    let off = t.py.module("paddle.base.core")?.getattr("AmpLevel")?;
    Ok(!level.eq(off.getattr("O0")?)?)
}

/// Whether the graph makes a tensor: nothing that was there before depends on it.
fn is_made(t: &Tracer<'_>, id: VarId) -> bool {
    if let Kind::Tensor(TensorVar { symbol, .. }) = *t.vars.kind(id) {
        !t.graph.is_input(symbol)
    } else {
        false
    }
}

/// Whether all that the graph takes and that gradients flow to are leaves without hooks, guarded.
pub fn leaves_only(t: &mut Tracer<'_>) -> bool {
    let inputs = t.graph.inputs.iter();
    for input in inputs.filter(|input| t.graph.sir.carries_gradient(input.symbol)) {
        if !abi::is_unhooked(input.value.bind(t.py)) {
            return false;
        }
        t.guards.add(&input.tracker, GuardKind::Unhooked);
    }
    true
}
