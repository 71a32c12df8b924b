//! Deferred calls: a train step's `backward()`, `step()` and `clear_grad()` run behind the graph.
//!
//! The generated code makes them in their order, in the user's lines, on the real objects; so they
//! do what they do in eager mode. What they change is known: gradients, the numbers of tensors and
//! the optimizer's own state. Behind them this graph computes only what they do not matter to (see
//! [`unchanged`]), and their state is not read; where the frame goes on to compute something else,
//! the last of them runs in the interpreter instead, and another graph begins behind it.
//!
//! No code of the user's may run in them, since it could change what is already read. Leaves are
//! guarded to have no hooks, optimizers to be Paddle's and to hold no functions of the user's but
//! `predicates`.

mod calls;
mod clips;
pub mod inside;
pub mod joined;
mod optimizers;
mod predicates;
mod schedulers;
pub mod unchanged;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyType};

use crate::bytecode::{Code, Loc};
use crate::obj::Obj;
use crate::variables::{Kind, TensorVar, VarId};

use crate::frame_state::{FrameState, SimulatedFrame};
use crate::inplace::Change;
use crate::{Kwargs, Step, Tracer, attributes, classes, partial_gradients, provenance};

pub use crate::inplace::{settle, to_compute};
pub use calls::DeferredCalls;

/// A call that the generated code makes behind the graph.
#[derive(Clone, Debug)]
pub struct DeferredCall {
    /// The call, a partial: it is among [`Tracer::left_behind`].
    pub call: VarId,
    /// Given the arguments, this answers with what is called in the place of the function, and does
    /// the same.
    pub through: Option<Obj>,
    /// What that is given behind the arguments.
    pub more: Vec<VarId>,
    /// The instruction of the outermost frame.
    pub at: usize,
    /// The user's place in it.
    pub loc: Loc,
    /// The frames below that one, outermost first, down to the one that makes the call.
    pub frames: Vec<FramePlace>,
    /// What it changes in place, where that is all it does.
    pub change: Option<Change>,
    /// What it is to gradients.
    pub act: Act,
}

/// What a deferred call is to gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It goes back through what the graph made.
    Backward,
    /// A step of an optimizer, which takes those of its parameters.
    Steps,
    /// The same by a scaler that is off.
    StepsFor,
    /// It does nothing.
    Nothing,
    /// It clears them, and changes nothing else.
    Clears,
    /// It takes them as they are.
    Other,
}

/// A frame as a traceback shows it.
#[derive(Clone, Debug)]
pub struct FramePlace {
    /// Its code.
    pub code: Arc<Code>,
    /// Its line.
    pub line: u32,
}

/// What the graph is asked for behind deferred calls; the answer of the simulator is another trace,
/// in which the last of them runs natively.
pub const CLOSED: &str = "what is computed behind a train step begins another graph";

/// The receiver and name of a bound method of a builtin class.
fn method_of(kind: &Kind) -> Option<(VarId, Arc<str>)> {
    if let Kind::BoundBuiltin { receiver, name } = kind {
        Some((*receiver, name.clone()))
    } else {
        None
    }
}

/// The call of a method of a tensor.
fn of_tensor(
    t: &mut Tracer<'_>,
    (tensor, name): (VarId, &str),
    (args, kwargs): (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    match (name, args, kwargs) {
        ("backward", [], []) if can_step(t) => backward(t, tensor),
        ("clear_grad", [], []) | ("clear_gradient", [], []) if can_defer(t) => {
            clear(t, name, &[tensor])
        }
        // Paddle does not look at an argument that has a name.
        ("clear_gradient", [how], []) if can_defer(t) => {
            let is_flag = |value: Bound<'_, PyAny>| value.is_exact_instance_of::<PyBool>();
            match t.const_value(*how).is_some_and(is_flag) {
                true => clear(t, name, &[tensor, *how]),
                false => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// A parameter from outside lets go of its gradient, or it becomes zeros.
fn clear(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<Option<Called>> {
    let class = t.paddle.parameter.bind(t.py).clone();
    let is_parameter = |id: &VarId| {
        let value = t.value(*id).filter(|_| t.source(*id).is_some());
        value.is_some_and(|value| value.get_type().is(&class))
    };
    if !args.first().is_some_and(is_parameter) || !clears_natively(t, &class)? {
        return Ok(None);
    }
    let method = t.paddle.tensor.bind(t.py).getattr(name)?;
    Ok(Some(Called {
        function: Obj::from(method),
        args: args.to_vec(),
        through: None,
        // Who holds a gradient sees that it is cleared.
        changes: true,
        act: Act::Clears,
    }))
}

/// Whether gradients of parameters are cleared by code in C, which `clear_grad` calls too; guarded.
fn clears_natively(t: &mut Tracer<'_>, parameters: &Bound<'_, PyAny>) -> Step<bool> {
    const CLEARS: &str = "clear_gradient";
    let Ok(class) = parameters.cast::<PyType>() else {
        return Ok(false);
    };
    classes::guard_names(t, class, &[CLEARS]);
    let in_c = t.py.get_type::<PyList>().getattr("append")?.get_type();
    Ok(attributes::lookup(class, CLEARS).is_some_and(|found| found.get_type().is(&in_c)))
}

/// Defers a call, if it is one that can be: its result is `None`.
pub(crate) fn defer(
    t: &mut Tracer<'_>,
    f: &FrameState,
    callee: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<bool> {
    if t.frames.simulated.len() > MOST_FRAMES
        || t.options.detours.not_deferred.contains(&t.frames.outermost)
    {
        return Ok(false);
    }
    let called = if let Some((receiver, name)) = method_of(t.kind(callee)) {
        of_tensor(t, (receiver, &name), (args, kwargs))?
    } else if let Kind::Method { receiver, function } = *t.kind(callee) {
        match optimizers::known(t, (receiver, function), clips::is_dropped(f)) {
            Some(method) if can_step(t) => optimizers::call(t, &method, receiver, (args, kwargs))?,
            _ => match schedulers::known(t, receiver, function) {
                Some(step) if can_defer(t) => schedulers::call(t, step, receiver, (args, kwargs))?,
                _ => None,
            },
        }
    } else {
        match clips::known(t, callee) {
            Some(names) if can_defer(t) => clips::call(t, f, (callee, names), (args, kwargs))?,
            _ => None,
        }
    };
    let Some(Called {
        function,
        args,
        through,
        changes,
        act,
    }) = called
    else {
        return Ok(false);
    };
    let function = t.constant(function.bind(t.py));
    let call = t.add(Kind::Partial {
        function,
        args,
        kwargs: Vec::new(),
    });
    let Some((loc, frames)) = places(t) else {
        return Ok(false);
    };
    let at = t.frames.outermost;
    if t.deferred.is_empty() && waits(t) {
        t.deferred.writes_first = Some(t.vars.mutations());
    }
    t.left_behind.push(call);
    t.deferred.push(DeferredCall {
        call,
        through,
        more: Vec::new(),
        at,
        loc,
        frames,
        change: None,
        act,
    });
    let is_first = act == Act::Clears
        && t.options.detours.clears_first == Some(true)
        && t.deferred.iter().all(|call| call.act == Act::Clears);
    if changes && !is_first {
        t.graph.close(CLOSED);
    }
    if act == Act::Clears {
        inside::enter(t)?;
    }
    Ok(true)
}

/// Most frames below one another.
const MOST_FRAMES: usize = 16;

/// The place in the outermost frame, and the frames below that one.
fn places(t: &Tracer<'_>) -> Option<(Loc, Vec<FramePlace>)> {
    let (outermost, inlined) = t.frames.simulated.split_first()?;
    let loc = outermost.code.instructions.get(t.frames.outermost)?.loc;
    let place = |frame: &SimulatedFrame| {
        let line = frame.code.instructions.get(frame.at)?.loc.line?;
        let code = frame.code.clone();
        Some(FramePlace { code, line })
    };
    Some((loc, inlined.iter().map(place).collect::<Option<_>>()?))
}

/// Whether nothing that can be seen is waiting to be done behind the graph, which would come later
/// than this, and no handler would see what this raises.
fn can_defer(t: &Tracer<'_>) -> bool {
    is_plain(t) && (!waits(t) || is_written_first(t))
}

/// The same of a call of a train step, which may be part of the graph: what is waiting comes behind
/// that, and where the graph raises the function runs from its beginning.
fn can_step(t: &Tracer<'_>) -> bool {
    let inside = t.options.detours.steps_inside == Some(true) && t.deferred.begins_step();
    is_plain(t) && (inside || !waits(t) || is_written_first(t))
}

/// Whether the frame does nothing special in this place.
fn is_plain(t: &Tracer<'_>) -> bool {
    let plain = !t.flow.is_captured()
        && !t.options.forward_only
        && t.grad.is_plain()
        && t.grad.cut_off == 0
        && t.replays.operations.is_empty()
        && t.grad.enabled
        && t.grad.at_entry
        && !t.graph.sir.has_regions();
    plain
        && !t
            .frames
            .simulated
            .iter()
            .any(SimulatedFrame::sees_exceptions)
}

/// Whether something that can be seen is waiting to be done behind the graph.
fn waits(t: &Tracer<'_>) -> bool {
    t.changes_what_exists() || !t.deferred.written_layers.is_empty()
}

/// Whether all that waits came before the first deferred call, and may be done before it: what is
/// written to are plain objects of the user's, and lists that are no optimizer's.
fn is_written_first(t: &Tracer<'_>) -> bool {
    if !t.global_writes.is_empty() || !t.deferred.written_layers.is_empty() {
        return false;
    }
    if let Some(written) = t.deferred.writes_first {
        return t.vars.mutations() == written;
    }
    let is_plain = |id: &VarId| {
        let var = t.vars.get(*id);
        var.source.is_none()
            || var
                .value
                .as_ref()
                .is_some_and(|it| is_users(t, &var.kind, it))
    };
    t.left_behind.is_empty() && t.vars.mutated().iter().all(is_plain)
}

/// Whether an object is none of Paddle's, and a list holds no leaves or groups of such.
fn is_users(t: &Tracer<'_>, kind: &Kind, object: &Obj) -> bool {
    let object = object.bind(t.py);
    let is_plain = |item: Bound<'_, PyAny>| {
        let class = t.paddle.tensor.bind(t.py);
        let is_tensor = item.is_instance(class).unwrap_or(true);
        let stops = || item.getattr("stop_gradient")?.is_truthy();
        !item.is_instance_of::<PyDict>() && (!is_tensor || stops().unwrap_or(false))
    };
    if let Kind::List(items) | Kind::Appended(items) = kind {
        let is_plain_item = |id: &VarId| match &t.vars.get(*id).value {
            Some(value) => is_plain(value.bind(t.py).clone()),
            None => matches!(t.vars.kind(*id), Kind::Tensor(_) | Kind::Int(_)),
        };
        let list = object.cast_exact::<PyList>();
        return list.is_ok_and(|list| list.iter().all(is_plain)) && items.iter().all(is_plain_item);
    }
    matches!(kind, Kind::Object(_)) && provenance::module_in_paddle(&object.get_type()).is_none()
}

/// The instruction of the first deferred call, where something was written in front of it and
/// something else can be seen behind it.
pub fn overtaken(t: &Tracer<'_>) -> Option<usize> {
    t.deferred.writes_first?;
    let changes = t.deferred.iter().any(|call| call.change.is_some());
    let first = t.deferred.first()?;
    (changes || !is_written_first(t)).then_some(first.at)
}

/// What is called behind the graph.
struct Called {
    function: Obj,
    args: Vec<VarId>,
    /// See [`DeferredCall::through`].
    through: Option<Obj>,
    /// Whether it changes numbers that the graph may read.
    changes: bool,
    act: Act,
}

/// `loss.backward()` of what the graph computed from leaves without hooks.
fn backward(t: &mut Tracer<'_>, loss: VarId) -> Step<Option<Called>> {
    let Kind::Tensor(TensorVar { symbol, .. }) = *t.kind(loss) else {
        return Ok(None);
    };
    let is_made = !t.graph.is_input(symbol) && !t.graph.came_later(symbol);
    if !is_made || !t.graph.sir.carries_gradient(symbol) {
        return Ok(None);
    }
    if !partial_gradients::leaves_only(t) {
        return Ok(None);
    }
    let method = t.paddle.tensor.bind(t.py).getattr("backward")?;
    Ok(Some(Called {
        function: Obj::from(method),
        args: vec![loss],
        through: None,
        // Gradients that are there are added to.
        changes: true,
        act: Act::Backward,
    }))
}

/// The instruction of the call behind which another graph has to begin: the frame computes behind
/// the ones that were deferred.
pub fn last(t: &Tracer<'_>) -> Option<usize> {
    t.deferred.last().map(|call| call.at)
}

/// The instruction of a call that changes what an optimizer holds, and that the frame has looked at
/// by another name: it may have looked behind the call.
pub fn seen_elsewhere(t: &Tracer<'_>) -> Option<usize> {
    let sees = |call: &&DeferredCall| {
        matches!(t.vars.kind(call.call), Kind::Partial { args, .. }
            if args.iter().any(|id| optimizers::has_seen_state(t, *id)
                || schedulers::has_seen_state(t, *id)))
    };
    t.deferred.iter().find(sees).map(|call| call.at)
}

/// Stops where an attribute is read that a deferred call changes.
pub(crate) fn check_read(t: &mut Tracer<'_>, object: VarId, name: &str) -> Step<()> {
    if t.deferred.is_empty() {
        return Ok(());
    }
    optimizers::check_read(t, object, name)?;
    schedulers::check_read(t, object, name)
}

/// The call of a variable among [`Tracer::left_behind`], if it is one.
pub fn of(t: &Tracer<'_>, left: VarId) -> Option<DeferredCall> {
    t.deferred.iter().find(|it| it.call == left).cloned()
}
