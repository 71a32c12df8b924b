//! Instructions that decide where control goes: jumps, loops, `yield from`, `with`, handlers.

use pyo3::prelude::*;

use crate::call::call;
use crate::frame_state::FrameState;
use crate::generators::{self, Resumed};
use crate::loops::kept_open::keep_open;
use crate::variables::{IterVar, Kind, VarId};
use crate::{
    Step, Tracer, attributes, branches, contexts, groups, grown_lists, iterate, keys,
    tensor_scalar, truth,
};

use super::{Flow, dialect};

/// `bool(value)`. The interpreter's jumps want a real bool: what is captured is one when it is
/// rebuilt.
pub(crate) fn to_bool(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let value = grown_lists::asked(t, value)?;
    if tensor_scalar::is_captured(t, value) {
        return tensor_scalar::truth_value(t, value);
    }
    let truth = truth::truth(t, value)?;
    Ok(t.bool(truth))
}

/// The iterator of a loop, which nobody sees. Python goes over an enumeration with a generator,
/// that only the interpreter could make where the loop breaks; its members stand for it.
pub(super) fn iter_of_loop(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let iterator = iterate::get_iter(t, value)?;
    if !matches!(t.kind(value), Kind::Class) || !is_enumeration(t, value)? {
        return Ok(iterator);
    }
    let mut members = Vec::new();
    iterate::drain(t, iterator, |_, member| {
        members.push(member);
        Ok(())
    })?;
    let members = t.add(Kind::Tuple(members, None));
    iterate::get_iter(t, members)
}

/// Whether a class is gone over as enumerations are.
fn is_enumeration(t: &mut Tracer<'_>, class: VarId) -> Step<bool> {
    let found_by = |meta| attributes::lookup(&meta, "__iter__");
    let own = found_by(keys::enumeration(t.py)?.get_type());
    let found = t.type_of(class).and_then(found_by);
    Ok(matches!((found, own), (Some(found), Some(own)) if found.is(&own)))
}

/// A conditional jump. `popped`: the value is gone on both sides, else where it does not jump.
pub(super) fn jump_if(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    at: usize,
    target: usize,
    jumps_if: bool,
    popped: bool,
) -> Step<Flow> {
    let value = if popped { f.pop(t)? } else { f.peek(t, 1)? };
    let value = grown_lists::asked(t, value)?;
    if tensor_scalar::is_captured(t, value) {
        return captured_jump(t, f, at, value, target, jumps_if, popped);
    }
    if truth::truth(t, value)? == jumps_if {
        return Ok(Flow::Jump(target));
    }
    if !popped {
        f.pop(t)?;
    }
    Ok(Flow::Next)
}

/// The same on a tensor.
pub(super) fn captured_jump(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    at: usize,
    value: VarId,
    target: usize,
    jumps_if: bool,
    popped: bool,
) -> Step<Flow> {
    let (mut jumped, mut went_on) = (f.clone(), f.clone());
    jumped.pc = target;
    went_on.pc = at + 1;
    if !popped {
        went_on.pop(t)?;
    }
    let (yes, no) = if jumps_if {
        (jumped, went_on)
    } else {
        (went_on, jumped)
    };
    branches::branch(t, f, at, value, yes, no)
}

pub(super) fn for_iter(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    at: usize,
    target: usize,
) -> Step<Flow> {
    let iterator = f.peek(t, 1)?;
    keep_open(t, f, at, iterator)?;
    if let Kind::Iter(IterVar::Numbers { .. } | IterVar::Range { .. }) = t.kind(iterator) {
        let counts = matches!(t.kind(iterator), Kind::Iter(IterVar::Numbers { .. }));
        let mut behind = f.clone();
        if let Flow::Jump(target) = for_end(t, &mut behind, target)? {
            behind.pc = target;
        }
        if counts {
            return branches::for_numbers(t, f, at, behind);
        }
        if let Some(flow) = branches::for_many_rounds(t, f, at, &behind)? {
            return Ok(flow);
        }
    }
    match iterate::next(t, iterator)? {
        Some(value) => f.push(value),
        None => return for_end(t, f, target),
    }
    Ok(Flow::Next)
}

/// At the end of a loop the iterator is popped; from 3.12 on the clean-up instructions at the
/// target are skipped (FOR_ITER in `Python/bytecodes.c`).
fn for_end(t: &Tracer<'_>, f: &mut FrameState, target: usize) -> Step<Flow> {
    f.pop(t)?;
    let skipped = dialect(t)?.skipped_at_loop_end().len();
    Ok(Flow::Jump(target + skipped))
}

pub(super) fn send(t: &mut Tracer<'_>, f: &mut FrameState, target: usize) -> Step<Flow> {
    let sent = f.pop(t)?;
    let receiver = f.peek(t, 1)?;
    match generators::delegate(t, receiver, sent)? {
        Resumed::Yielded(value) => {
            f.push(value);
            Ok(Flow::Next)
        }
        Resumed::Returned(value) => {
            if dialect(t)?.send_pops_receiver() {
                f.pop(t)?;
            }
            f.push(value);
            Ok(Flow::Jump(target))
        }
    }
}

pub(super) fn prepare_reraise(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let list = f.pop(t)?;
    let original = f.pop(t)?;
    let left = groups::left_over(t, original, list)?;
    let left = left.unwrap_or_else(|| t.none());
    f.push(left);
    Ok(())
}

pub(super) fn before_with(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let manager = f.pop(t)?;
    if matches!(t.kind(manager), Kind::Context(_)) {
        let exit = t.add(Kind::ContextMethod {
            context: manager,
            exit: true,
        });
        f.push(exit);
        let value = contexts::enter(t, manager)?;
        f.push(value);
        return Ok(());
    }
    let enter = attributes::get_special(t, manager, "__enter__")?;
    let exit = attributes::get_special(t, manager, "__exit__")?;
    f.push(exit);
    let value = call(t, enter, &[], &[])?;
    f.push(value);
    Ok(())
}

/// An exception is being handled from here on.
pub(super) fn push_handled(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let exception = f.pop(t)?;
    let previous = match f.handling.last() {
        Some(previous) => *previous,
        None => t.none(),
    };
    f.push(previous);
    f.push(exception);
    f.handling.push(exception);
    Ok(())
}

/// `except*`
pub(super) fn check_group_match(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let class = f.pop(t)?;
    let exception = f.pop(t)?;
    let (matched, rest) = groups::matched(t, exception, class)?;
    // What `raise` raises again, and `sys.exception()` answers with.
    if let (Some(matched), Some(current)) = (matched, f.handling.last_mut()) {
        *current = matched;
    }
    let none = t.none();
    f.push(rest.unwrap_or(none));
    f.push(matched.unwrap_or(none));
    Ok(())
}
