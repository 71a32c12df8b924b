//! Generators that the frame made: `next`, `send`, `throw` and `close`, and what `yield from` does
//! with them. See `Objects/genobject.c` of CPython.

use pyo3::prelude::*;

use crate::bytecode::{Code, Instr, OpTable};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{IterVar, Kind, VarId};

use crate::call::call;
use crate::frame_state::{Exit, FrameState};
use crate::methods::row::{MethodCall, MethodRow};
use crate::opcode_executor;
use crate::{Step, Stop, Tracer};
use crate::{attributes, exceptions, given_iterators, iterate};

/// Methods of generators.
pub const GENERATOR: &[MethodRow] = &[
    MethodRow::new("send", (1, 1), |t, call| {
        let answer = resume(t, call.receiver, Sent::Value(call.args[0]))?;
        value_or_stop(t, answer)
    })
    .refused(BreakId::Generator),
    MethodRow::new("throw", (1, 3), throw).refused(BreakId::Generator),
    MethodRow::new("close", (0, 0), |t, call| close(t, call.receiver)).refused(BreakId::Generator),
];

/// What a suspended generator goes on with.
#[derive(Clone, Copy)]
pub enum Sent {
    /// The value of its `yield` expression.
    Value(VarId),
    /// An exception that its `yield` expression raises.
    Exception(VarId),
}

/// Where a generator stopped.
pub enum Resumed {
    /// At its next `yield`.
    Yielded(VarId),
    /// At its end, with this value.
    Returned(VarId),
}

/// `next(generator)`; `None` at the end.
pub fn next(t: &mut Tracer<'_>, generator: VarId) -> Step<Option<VarId>> {
    let none = t.none();
    match resume(t, generator, Sent::Value(none))? {
        Resumed::Yielded(value) => Ok(Some(value)),
        Resumed::Returned(_) => Ok(None),
    }
}

/// Lets a generator go on up to its next `yield` or its end.
pub fn resume(t: &mut Tracer<'_>, generator: VarId, sent: Sent) -> Step<Resumed> {
    if t.frames.running.contains(&generator) {
        return t.stop(BreakKind::RaisesException, "a generator that runs already");
    }
    t.frames.running.push(generator);
    let answer = resume_idle(t, generator, sent);
    t.frames.running.pop();
    answer
}

fn resume_idle(t: &mut Tracer<'_>, generator: VarId, sent: Sent) -> Step<Resumed> {
    let (frame, made_at) = match (t.kind(generator), sent) {
        (Kind::Iter(IterVar::Generator { frame, made_at }), _) => (*frame, *made_at),
        (Kind::Iter(IterVar::Ended { .. }), Sent::Value(_)) => {
            return Ok(Resumed::Returned(t.none()));
        }
        (Kind::Iter(IterVar::Ended { .. }), Sent::Exception(exception)) => {
            return Err(Stop::Raise(exception));
        }
        _ => return t.stop(BreakId::Generator, "not a generator"),
    };
    let mut state = t.frames.suspended(frame).clone();
    let started = state.pc > 0;
    let ended = Kind::Iter(IterVar::Ended { made_at });
    let exit = match sent {
        Sent::Value(value) if started => {
            state.stack.push(value);
            opcode_executor::run(t, &mut state, false)
        }
        Sent::Value(value) if t.is_none(value) => opcode_executor::run(t, &mut state, false),
        Sent::Value(_) => {
            return t.stop(
                BreakKind::RaisesException,
                "a value is sent to a generator that has not started",
            );
        }
        Sent::Exception(exception) if started => throw_into(t, &mut state, exception),
        Sent::Exception(exception) => Err(Stop::Raise(exception)),
    };
    match exit {
        Ok(Exit::Yield(value)) => {
            let frame = t.frames.suspend(state);
            let next = Kind::Iter(IterVar::Generator { frame, made_at });
            t.vars.update(generator, |var| var.kind = next);
            Ok(Resumed::Yielded(value))
        }
        Ok(Exit::Return(value)) => {
            t.vars.update(generator, |var| var.kind = ended);
            Ok(Resumed::Returned(value))
        }
        Ok(Exit::Next(_)) => t.stop(BreakId::Generator, "a generator that leaves a loop"),
        Err(Stop::Raise(exception)) => {
            t.vars.update(generator, |var| var.kind = ended);
            if exceptions::is_a(t, exception, "StopIteration")? {
                return t.stop(
                    BreakKind::RaisesException,
                    "a StopIteration leaves a generator",
                );
            }
            Err(Stop::Raise(exception))
        }
        Err(stop) => Err(stop),
    }
}

/// What a suspended frame delegates to with `yield from` (`_PyGen_yf`).
fn delegates_to(frame: &FrameState) -> Option<VarId> {
    const YIELD_FROM: u32 = 2;
    let next = frame.code.instructions.get(frame.pc)?;
    let delegates = matches!(next.instr, Instr::Resume) && next.arg & 3 == YIELD_FROM;
    // Below the value that was yielded, which is gone.
    frame.stack.last().copied().filter(|_| delegates)
}

fn throw_into(t: &mut Tracer<'_>, frame: &mut FrameState, exception: VarId) -> Step<Exit> {
    let Some(inner) = delegates_to(frame) else {
        return raise_in(t, frame, exception);
    };
    if !is_generator(t, inner) {
        return t.stop(
            BreakId::Generator,
            "an exception is thrown into another kind of iterator",
        );
    }
    if exceptions::is_a(t, exception, "GeneratorExit")? {
        return match close(t, inner) {
            Ok(_) => raise_in(t, frame, exception),
            Err(Stop::Raise(other)) => raise_in(t, frame, other),
            Err(stop) => Err(stop),
        };
    }
    let jumps = OpTable::get(t.py)?.dialect.send_pops_receiver();
    match resume(t, inner, Sent::Exception(exception)) {
        Ok(Resumed::Yielded(value)) => Ok(Exit::Yield(value)),
        // SEND, YIELD_VALUE, RESUME: it goes on where SEND jumps to.
        Ok(Resumed::Returned(value)) if jumps => {
            let send = frame.pc.checked_sub(2);
            let send = send.map(|at| &frame.code.instructions[at].instr);
            let Some(&Instr::Send { target }) = send else {
                return t.stop(
                    BreakId::Generator,
                    "a generator that delegates in another way",
                );
            };
            frame.pc = target;
            frame.stack.pop();
            frame.stack.push(value);
            opcode_executor::run(t, frame, false)
        }
        // As if the inner one raised StopIteration: CLEANUP_THROW takes its value.
        Ok(Resumed::Returned(value)) => {
            let class = t.builtin("StopIteration")?;
            let stop = exceptions::new(t, &class, vec![value]);
            raise_in(t, frame, stop)
        }
        Err(Stop::Raise(_)) if jumps => t.stop(
            BreakId::Generator,
            "an exception leaves what a generator delegates to",
        ),
        Err(Stop::Raise(exception)) => raise_in(t, frame, exception),
        Err(stop) => Err(stop),
    }
}

/// The `yield` that the frame is suspended at raises this.
fn raise_in(t: &mut Tracer<'_>, frame: &mut FrameState, exception: VarId) -> Step<Exit> {
    // In the place of what would have been sent.
    let none = t.none();
    frame.stack.push(none);
    opcode_executor::run_raising(t, frame, exception)
}

/// Whether a variable is a generator that the frame made.
pub fn is_generator(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(
        t.kind(id),
        Kind::Iter(IterVar::Generator { .. } | IterVar::Ended { .. })
    )
}

/// One round of `yield from receiver`: the value it yields, or the value of the whole expression.
pub fn delegate(t: &mut Tracer<'_>, receiver: VarId, sent: VarId) -> Step<Resumed> {
    if is_generator(t, receiver) {
        return resume(t, receiver, Sent::Value(sent));
    }
    if !t.is_none(sent) {
        return t.stop(BreakId::Generator, "send() of a value");
    }
    if matches!(t.kind(receiver), Kind::Object(_) | Kind::StandIn(_)) {
        return match next_or_stop(t, receiver) {
            Err(Stop::Raise(exception)) => {
                exceptions::stop_value(t, exception).map(Resumed::Returned)
            }
            answer => answer.map(Resumed::Yielded),
        };
    }
    match next_of_iterator(t, receiver) {
        Ok(Some(value)) => Ok(Resumed::Yielded(value)),
        Ok(None) => Ok(Resumed::Returned(t.none())),
        // A function that it calls may end it.
        Err(Stop::Raise(exception)) => exceptions::stop_value(t, exception).map(Resumed::Returned),
        Err(stop) => Err(stop),
    }
}

/// The next item of an iterator that is no generator and of no class of the user's. Stops at its
/// end where another one inside of it may have raised a `StopIteration` with a value, which goes
/// on.
fn next_of_iterator(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<VarId>> {
    let ends_with_value = may_end_with_value(t, iterator);
    let found = iterate::next(t, iterator)?;
    if found.is_none() && ends_with_value {
        return t.stop(
            BreakKind::RaisesException,
            "a StopIteration of an iterator inside of another one",
        );
    }
    Ok(found)
}

fn may_end_with_value(t: &Tracer<'_>, iterator: VarId) -> bool {
    let Kind::Iter(state) = t.vars.kind(iterator) else {
        return true;
    };
    if let IterVar::Generator { frame, .. } = state {
        return returns_a_value(t.py, &t.frames.suspended(*frame).code);
    }
    let mut inner = state.inner().into_iter();
    inner.any(|it| may_end_with_value(t, it))
}

fn returns_a_value(py: Python<'_>, code: &Code) -> bool {
    let is_none = |at: u32| {
        let found = code.consts.get(at as usize);
        found.is_some_and(|found| found.bind(py).is_none())
    };
    let before = std::iter::once(None).chain(code.instructions.iter().map(Some));
    let mut pairs = before.zip(&code.instructions);
    pairs.any(
        |(before, it)| match (&it.instr, before.map(|it| &it.instr)) {
            (Instr::ReturnConst { index }, _) => !is_none(*index),
            (Instr::ReturnValue, Some(Instr::LoadConst { index })) => !is_none(*index),
            (Instr::ReturnValue, _) => true,
            _ => false,
        },
    )
}

/// `next(iterator)`, with the exception at the end.
pub fn next_or_stop(t: &mut Tracer<'_>, iterator: VarId) -> Step<VarId> {
    if is_generator(t, iterator) {
        let none = t.none();
        let answer = resume(t, iterator, Sent::Value(none))?;
        return value_or_stop(t, answer);
    }
    let object = if let Kind::StandIn(object) = *t.kind(iterator) {
        object
    } else {
        iterator
    };
    if matches!(t.kind(object), Kind::Object(_)) {
        let method = attributes::get_special(t, object, "__next__")?;
        return call(t, method, &[], &[]);
    }
    if let Some(item) = given_iterators::next(t, iterator)? {
        return Ok(item);
    }
    match next_of_iterator(t, iterator)? {
        Some(value) => Ok(value),
        None => {
            let none = t.none();
            exceptions::stop_iteration(t, none)
        }
    }
}

fn throw(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let exception = match *call.args {
        [exception] => exceptions::raise(t, &[], &[exception])?,
        [class, exception, traceback]
            if !OpTable::get(t.py)?.dialect.throw_of_three_warns()
                && exceptions::is_own_traceback(t, exception, traceback)
                && exceptions::matches(t, exception, class)? =>
        {
            exception
        }
        _ => {
            return t.stop(
                BreakId::Generator,
                "throw() of a generator with these arguments",
            );
        }
    };
    let answer = resume(t, call.receiver, Sent::Exception(exception))?;
    value_or_stop(t, answer)
}

fn value_or_stop(t: &mut Tracer<'_>, answer: Resumed) -> Step<VarId> {
    let value = match answer {
        Resumed::Yielded(value) => return Ok(value),
        Resumed::Returned(value) => value,
    };
    exceptions::stop_iteration(t, value)
}

fn close(t: &mut Tracer<'_>, generator: VarId) -> Step<VarId> {
    let Kind::Iter(IterVar::Generator { frame, made_at }) = *t.kind(generator) else {
        return Ok(t.none());
    };
    let started = t.frames.suspended(frame).pc > 0;
    if !started {
        let ended = Kind::Iter(IterVar::Ended { made_at });
        t.vars.update(generator, |var| var.kind = ended);
        return Ok(t.none());
    }
    let class = t.builtin("GeneratorExit")?;
    let exit = exceptions::new(t, &class, Vec::new());
    match resume(t, generator, Sent::Exception(exit)) {
        Ok(Resumed::Yielded(_)) => t.stop(
            BreakKind::RaisesException,
            "a generator that ignores GeneratorExit",
        ),
        Ok(Resumed::Returned(value)) => {
            let kept = OpTable::get(t.py)?.dialect.close_returns_value();
            Ok(if kept { value } else { t.none() })
        }
        Err(Stop::Raise(exception)) if exceptions::is_a(t, exception, "GeneratorExit")? => {
            Ok(t.none())
        }
        Err(stop) => Err(stop),
    }
}
