//! Functions of Paddle's that clip the gradients that exist, in place, where nobody takes the
//! result.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList};

use crate::bytecode::Instr;
use crate::obj::{Obj, text_of};
use crate::variables::{Kind, VarId};

use super::{Act, Called};
use crate::frame_state::FrameState;
use crate::{Kwargs, Step, Tracer, provenance};

/// Name and arguments: tensors with gradients, then numbers and flags.
const FUNCTIONS: &[(&str, &[&str])] = &[
    (
        "clip_grad_norm_",
        &["parameters", "max_norm", "norm_type", "error_if_nonfinite"],
    ),
    ("clip_grad_value_", &["parameters", "clip_value"]),
];

/// Where they are, each in a module of its own name.
const PACKAGE: &str = "paddle.nn.utils.";

/// The arguments of a function, where it is one of these.
pub(super) fn known(t: &mut Tracer<'_>, function: VarId) -> Option<&'static [&'static str]> {
    let function = t.value(function)?;
    let name = text_of(&function, "__name__");
    let (_, arguments) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    let is_it = provenance::is_of_paddle(&function)
        && text_of(&function, "__module__") == format!("{PACKAGE}{name}");
    is_it.then_some(arguments)
}

/// The call, where it takes tensors from outside and plain numbers.
pub(super) fn call(
    t: &mut Tracer<'_>,
    f: &FrameState,
    (function, names): (VarId, &[&str]),
    (args, kwargs): (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    if !is_dropped(f) {
        return Ok(None);
    }
    let Some(all) = in_order(names, args, kwargs) else {
        return Ok(None);
    };
    let [tensors, numbers @ ..] = &all[..] else {
        return Ok(None);
    };
    for number in numbers {
        let is_plain = |value: Bound<'_, PyAny>| {
            value.is_exact_instance_of::<PyFloat>()
                || value.is_exact_instance_of::<PyInt>()
                || value.is_exact_instance_of::<PyBool>()
        };
        if !t.const_value(*number).is_some_and(is_plain) {
            return Ok(None);
        }
    }
    if !are_from_outside(t, *tensors) {
        return Ok(None);
    }
    let Some(called) = t.value(function).map(Obj::from) else {
        return Ok(None);
    };
    t.guard_identity(function);
    Ok(Some(Called {
        function: called,
        args: all,
        through: None,
        changes: true,
        act: Act::Other,
    }))
}

/// Whether nobody takes the result of the call.
pub(super) fn is_dropped(f: &FrameState) -> bool {
    let next = f.code.instructions.get(f.pc);
    next.is_some_and(|it| matches!(it.instr, Instr::PopTop))
}

/// The arguments by place, where none is left out between others.
fn in_order(names: &[&str], args: &[VarId], kwargs: &Kwargs) -> Option<Vec<VarId>> {
    let mut all = args.to_vec();
    for name in names.get(args.len()..)? {
        match kwargs.iter().find(|(known, _)| &**known == *name) {
            Some((_, value)) => all.push(*value),
            None => break,
        }
    }
    (all.len() == args.len() + kwargs.len()).then_some(all)
}

/// Whether it is a tensor, or a list of tensors, that exist before the call.
fn are_from_outside(t: &mut Tracer<'_>, tensors: VarId) -> bool {
    t.realize(tensors);
    let items = if let Kind::Tensor(_) = t.kind(tensors) {
        vec![tensors]
    } else if let Kind::List(items) = t.kind(tensors).clone() {
        let value = t.value(tensors);
        if value.is_some_and(|value| !value.is_exact_instance_of::<PyList>()) {
            return false;
        }
        items
    } else {
        return false;
    };
    items.into_iter().all(|id| {
        t.realize(id);
        matches!(t.kind(id), Kind::Tensor(_)) && t.source(id).is_some()
    })
}
