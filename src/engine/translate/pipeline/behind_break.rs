//! What the code at and behind a break may ask of the graph in front of it.

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple};

use crate::bytecode::stack_effect;
use crate::bytecode::{Code, Instr, flow};
use crate::obj::{Obj, text_of};
use crate::reason::BreakKind;
use crate::simulator::{BreakPoint, Tracer};
use crate::variables::{Kind, VarId};

/// What calls of them say to keep a graph.
const KEEPS: [&str; 2] = ["retain_graph", "create_graph"];

/// Whether the code at or behind a break calls something like `paddle.grad`, keeps a graph for
/// another backward, or listens to gradients of tensors: those between the operations of a program
/// never come out of it. `stack`: what is loaded there.
pub(in crate::translate) fn takes_gradients(
    t: &Tracer<'_>,
    code: &Code,
    (start, stack): (usize, &[VarId]),
) -> bool {
    const NAMES: [&str; 3] = ["grad", "register_hook", "retain_grads"];
    let py = t.py;
    let keeps = |names: &Bound<'_, PyAny>| {
        let mut known = KEEPS.iter();
        known.any(|name| names.contains(name).unwrap_or(false))
    };
    let is_named = |value: &Obj| {
        let value = value.bind(py);
        value.is_exact_instance_of::<PyFunction>()
            && NAMES.contains(&text_of(value, "__name__").as_str())
    };
    // To look into what is loaded would guard it.
    let loaded = stack.iter().any(|id| {
        let var = t.vars.get(*id);
        if let Kind::BoundBuiltin { name, .. } = &var.kind {
            return NAMES.contains(&&**name);
        }
        matches!(var.kind, Kind::Function(_) | Kind::Lazy)
            && var.value.as_ref().is_some_and(is_named)
    });
    let behind = flow::reachable(code, start);
    let mut instructions = code.instructions.iter().zip(behind);
    loaded
        || instructions.any(|(it, behind)| {
            if !behind {
                return false;
            }
            if let Instr::LoadAttr { name, method: true } = it.instr {
                return NAMES.contains(&&*code.names[name as usize]);
            }
            let (Instr::KwNames { index } | Instr::LoadConst { index }) = it.instr else {
                return false;
            };
            let names = code.consts[index as usize].bind(py);
            names.is_instance_of::<PyTuple>() && keeps(names)
        })
}

/// Whether the instruction that breaks the graph may run Python functions.
pub(in crate::translate) fn calls_python(t: &mut Tracer<'_>, code: &Code, at: &BreakPoint) -> bool {
    let last = &code.instructions[at.end - 1].instr;
    let pops = stack_effect::effect(last).map_or(at.stack.len(), |(pops, _)| pops);
    let from = at.stack.len().saturating_sub(pops);
    // A step calls Paddle's own functions, but for a closure that it is given.
    let is_step = at.reason.kind == BreakKind::GradientStep;
    at.stack[from..].iter().any(|id| {
        let kind = t.vars.kind(*id);
        if is_step && matches!(kind, Kind::Method { .. } | Kind::Object(_)) {
            return false;
        }
        matches!(
            kind,
            Kind::Lazy
                | Kind::Function(_)
                | Kind::Method { .. }
                | Kind::Layer(_)
                | Kind::Object(_)
                | Kind::Class
                | Kind::Partial { .. }
                | Kind::Opaque
                | Kind::Iter(_)
        )
    })
}
