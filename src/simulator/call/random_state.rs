//! `paddle.seed(number)`: the random state is set in front of the graph, where that has drawn
//! nothing so far, or behind it, where it draws nothing any more.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::frame::PADDLE;
use crate::obj::{Obj, module_and_name};
use crate::ops::{Fact, knows};
use crate::variables::{Kind, VarId};
use crate::{Kwargs, Step, Tracer, recompute};

use super::contexts::is_original;

/// Captures a call of a function that sets the state of Paddle's generators; `None` where it is
/// another one, or is left to the interpreter.
pub(super) fn call_seed<'py>(
    t: &mut Tracer<'py>,
    (callable, function): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let (_, name) = module_and_name(function);
    if !knows(&name, Fact::SetsRandomState) || !is_original(function, PADDLE, &name) {
        return Ok(None);
    }
    let number = match (args, kwargs) {
        ([number], []) => *number,
        ([], [(given, number)]) if **given == *name => *number,
        _ => return Ok(None),
    };
    let value = t
        .const_value(number)
        .filter(|value| value.is_exact_instance_of::<PyInt>());
    let Some(value) = value.filter(|_| is_plain(t)) else {
        return Ok(None);
    };
    t.guard_identity(callable);
    let is_call = |id: &VarId| matches!(t.vars.kind(*id), Kind::Partial { .. });
    if t.options.forward_only {
        let at = t.loc();
        t.graph.draw_no_more(format!(
            "random numbers behind paddle.{name}({value}) in {}:{}: a program that is saved or frozen has no random \
             state of its own; call paddle.{name}() where the program is called",
            at.file, at.line
        ));
        later(t, function, number);
    } else if t.graph.has_drawn() || t.left_behind.iter().any(is_call) {
        t.graph.draw_no_more(format!(
            "random numbers on both sides of paddle.{name}({value}): in one graph it stands in front of all of them, \
             or behind"
        ));
        later(t, function, number);
    } else {
        let seed = (Obj::from(function), Obj::from(&value));
        t.graph.in_front.seeds.push(seed);
    }
    // The generator, which is hardly ever used.
    Ok(Some(t.made_natively()))
}

/// Whether it happens once in a call, and in the order of the code.
fn is_plain(t: &Tracer<'_>) -> bool {
    !t.flow.is_captured()
        && !t.grad.is_in_custom_operation()
        && !t.replays.is_inside
        && t.deferred.is_empty()
        && recompute::check_reads(t).is_ok()
}

/// Calls it behind the graph.
fn later(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, number: VarId) {
    let function = t.constant(function);
    let call = t.add(Kind::Partial {
        function,
        args: vec![number],
        kwargs: Vec::new(),
    });
    t.left_behind.push(call);
}
