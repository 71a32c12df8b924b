//! Operators, comparisons and `super().name`: operands on the stack, and the answer in their place.

use pyo3::prelude::*;

use crate::bytecode::CmpOp;
use crate::call::call;
use crate::control_flow::maybe;
use crate::frame_state::FrameState;
use crate::operators::{self, UnaryOp};
use crate::variables::VarId;
use crate::variables::kinds::SUPER;
use crate::{Step, Tracer, attributes, comparisons, grown_lists, tensor_scalar, truth};

use super::control::to_bool;

/// Both operands, the left one first.
pub(super) fn pop_operands(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<(VarId, VarId)> {
    let right = f.pop(t)?;
    let left = f.pop(t)?;
    Ok((left, right))
}

/// `+x`, `-x` and `~x`.
pub(super) fn unary(t: &mut Tracer<'_>, f: &mut FrameState, op: UnaryOp) -> Step<()> {
    let value = f.pop(t)?;
    let value = operators::unary(t, op, value)?;
    f.push(value);
    Ok(())
}

/// `not x`
pub(super) fn unary_not(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let value = f.pop(t)?;
    let value = grown_lists::asked(t, value)?;
    let value = if tensor_scalar::is_captured(t, value) {
        tensor_scalar::negation(t, value)?
    } else {
        let truth = truth::truth(t, value)?;
        t.bool(!truth)
    };
    f.push(value);
    Ok(())
}

/// `x < y` and the like; from 3.13 on the instruction may ask for the truth of the answer, too.
pub(super) fn compare(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    op: CmpOp,
    asks_truth: bool,
) -> Step<()> {
    let (left, right) = pop_operands(t, f)?;
    let mut value = comparisons::compare(t, op, left, right)?;
    if asks_truth {
        value = to_bool(t, value)?;
    }
    f.push(value);
    Ok(())
}

/// `x is y`, and `x is not y` where it is inverted.
pub(super) fn is_same(t: &mut Tracer<'_>, f: &mut FrameState, invert: bool) -> Step<()> {
    let (left, right) = pop_operands(t, f)?;
    let value = match maybe::is_none(t, left, right)? {
        Some(is_none) if invert => tensor_scalar::negation(t, is_none)?,
        Some(is_none) => is_none,
        None => {
            let same = comparisons::is_same(t, left, right)?;
            t.bool(same != invert)
        }
    };
    f.push(value);
    Ok(())
}

/// `x in y`, and `x not in y` where it is inverted.
pub(super) fn contains(t: &mut Tracer<'_>, f: &mut FrameState, invert: bool) -> Step<()> {
    let (item, container) = pop_operands(t, f)?;
    let value = match truth::computed_contains(t, container, item)? {
        Some(found) if invert => tensor_scalar::negation(t, found)?,
        Some(found) => found,
        None => {
            let found = truth::contains(t, container, item)?;
            t.bool(found != invert)
        }
    };
    f.push(value);
    Ok(())
}

/// What `super(class, receiver)` finds under a name. `is_written`: the program says both, which
/// `super()` finds by itself.
pub(super) fn super_attribute(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    name: &str,
    is_written: bool,
) -> Step<VarId> {
    let receiver = f.pop(t)?;
    let class = f.pop(t)?;
    let function = f.pop(t)?;
    let args: &[VarId] = match is_written || is_super(t, function)? {
        true => &[class, receiver],
        false => &[],
    };
    let proxy = call(t, function, args, &[])?;
    attributes::get(t, proxy, name)
}

/// Whether it is Python's own `super`.
pub(super) fn is_super(t: &Tracer<'_>, function: VarId) -> Step<bool> {
    let own = t.builtin(SUPER)?;
    Ok(t.value(function).is_some_and(|function| function.is(&own)))
}
