//! Builtins that take all that something yields, where a program knows what that is: numbers that
//! it computes, and generators that go over what it counts.

use crate::bytecode::{BinOp, CmpOp};
use crate::frame_state::{Consumer, Exit, FrameState};
use crate::graph::Arg;
use crate::phi::refuse;
use crate::tracker::number::Type;
use crate::variables::{CellVar, IterVar, Kind, VarId};
use crate::{
    Step, Stop, TraceMark, Tracer, branches, cell_get, item, iterate, opcode_executor, operators,
    program_numbers, tensor_scalar, truth,
};

/// What CPython calls the code of a generator expression.
const GENERATOR_EXPRESSION: &str = "<genexpr>";

/// The result of a consumer that a generator is given to which goes over what the graph counts;
/// `None` for others.
///
/// The generator runs as one captured loop, and what it yields is taken inside of that.
pub fn of_generator(
    t: &mut Tracer<'_>,
    consumer: Consumer,
    over: VarId,
    start: VarId,
) -> Step<Option<VarId>> {
    let Kind::Iter(IterVar::Generator { frame, made_at }) = *t.kind(over) else {
        return Ok(None);
    };
    let mut frame = t.frames.suspended(frame).clone();
    let counted = frame.locals.first().copied().flatten();
    let counted =
        counted.is_some_and(|outer| matches!(t.kind(outer), Kind::Iter(IterVar::Numbers { .. })));
    if frame.pc > 0 || !counted || !t.options.capture_control_flow {
        return Ok(None);
    }
    // Python may stop in the middle: nothing but the loop may be in it.
    let stops = consumer != Consumer::Sum;
    if stops && &*frame.code.name != GENERATOR_EXPRESSION {
        return Ok(None);
    }
    let result = t.add(Kind::Cell(CellVar::Full(start)));
    frame.consumer = Some((consumer, result));
    let mark = t.mark();
    t.frames.running.push(over);
    let exit = opcode_executor::run(t, &mut frame, false);
    t.frames.running.pop();
    match exit {
        Ok(Exit::Return(_)) => {}
        Ok(Exit::Yield(_) | Exit::Next(_)) => return refuse(t, "a generator that leaves a loop"),
        Err(Stop::Raise(_)) => return refuse(t, "a generator that raises"),
        Err(stop) => return Err(stop),
    }
    if stops && graph_acts(t, &mark) {
        return refuse(
            t,
            "a generator in any() or all() that draws or changes something",
        );
    }
    let left = match stops {
        true => IterVar::Advanced,
        false => IterVar::Ended { made_at },
    };
    t.vars.update(over, |var| var.kind = Kind::Iter(left));
    cell_get(t, result).map(Some)
}

/// Takes what a frame yields; whether it has a consumer.
pub fn take(t: &mut Tracer<'_>, frame: &FrameState, value: VarId) -> Step<bool> {
    let Some((consumer, result)) = frame.consumer else {
        return Ok(false);
    };
    let known = cell_get(t, result)?;
    let taken = match consumer {
        Consumer::Sum => {
            if program_numbers::numbers_class(t, value) == Some(Type::Float) {
                return t.unsupported("sum() of floats that differ between calls");
            }
            operators::binary(t, BinOp::Add, false, known, value)?
        }
        Consumer::Any | Consumer::All => {
            let condition = truth_in_graph(t, value)?;
            joined(t, consumer == Consumer::Any, Some(known), condition)?
        }
    };
    t.vars
        .mutate(result, |var| var.kind = Kind::Cell(CellVar::Full(taken)));
    Ok(true)
}

/// The truth of a value, as a bool of the graph where that knows it.
fn truth_in_graph(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    if tensor_scalar::is_captured(t, value) {
        let symbol = tensor_scalar::condition(t, value)?;
        return Ok(item::variable(t, symbol));
    }
    let truth = truth::truth(t, value)?;
    Ok(t.bool(truth))
}

/// `a or b`, or `a and b`, of bools of which the graph may know some.
fn joined(t: &mut Tracer<'_>, any: bool, a: Option<VarId>, b: VarId) -> Step<VarId> {
    let Some(a) = a else { return Ok(b) };
    let symbols = [item::symbol(t, a), item::symbol(t, b)];
    let (known, other) = match symbols {
        [Some(x), Some(y)] => {
            let name = if any { "logical_or" } else { "logical_and" };
            let made = tensor_scalar::method(t, name, x, vec![Arg::Symbol(y)])?;
            return Ok(item::variable(t, made));
        }
        [None, _] => (a, b),
        [_, None] => (b, a),
    };
    let decides = truth::truth(t, known)? == any;
    Ok(if decides { known } else { other })
}

/// `any()` or `all()`.
pub fn quantify(t: &mut Tracer<'_>, over: VarId, wanted: bool) -> Step<VarId> {
    let consumer = if wanted { Consumer::Any } else { Consumer::All };
    let start = t.bool(!wanted);
    if let Some(found) = of_generator(t, consumer, over, start)? {
        return Ok(found);
    }
    let before = t.mark();
    let iterator = iterate::get_iter(t, over)?;
    let (mut found, mut decided) = (None, false);
    loop {
        let mark = t.mark();
        let next = iterate::next(t, iterator);
        let item = match (next, found) {
            (next, None) => next?,
            // Python may have stopped before.
            (Ok(_), Some(_)) if acts(t, &mark) => {
                return refuse(
                    t,
                    "a side effect behind a number of the graph in any() or all()",
                );
            }
            (Err(Stop::Raise(_)), Some(_)) => {
                return refuse(
                    t,
                    "an exception behind a number of the graph in any() or all()",
                );
            }
            (next, Some(_)) => next?,
        };
        let Some(item) = item else { break };
        if program_numbers::is_of_graph(t, item) && tensor_scalar::is_captured(t, item) {
            let condition = truth_in_graph(t, item)?;
            found = Some(joined(t, wanted, found, condition)?);
        } else if truth::truth(t, item)? == wanted {
            decided = true;
            break;
        }
    }
    if found.is_some() {
        // Nobody knows where Python stops.
        for (id, _) in t.changed(&before).unwrap_or_default() {
            if matches!(t.kind(id), Kind::Iter(_)) {
                t.vars
                    .update(id, |var| var.kind = Kind::Iter(IterVar::Advanced));
            }
        }
    }
    Ok(match found {
        _ if decided => t.bool(wanted),
        Some(found) => found,
        None => start,
    })
}

/// Whether anything but how far iterators are has changed since and outlives that.
fn acts(t: &mut Tracer<'_>, mark: &TraceMark) -> bool {
    if graph_acts(t, mark) {
        return true;
    }
    let Some(changed) = t.changed(mark) else {
        return true;
    };
    changed
        .iter()
        .any(|(id, _)| t.vars.get(*id).mutated && !matches!(t.kind(*id), Kind::Iter(_)))
}

/// Whether the graph has since drawn random numbers, or changed what tensors or layers hold.
fn graph_acts(t: &Tracer<'_>, mark: &TraceMark) -> bool {
    let statements = &t.graph.sir.statements;
    let made = statements.get(t.graph_len(mark)..).unwrap_or_default();
    branches::changes(made)
}

/// The least or greatest of numbers that an iterator yields, of which the program computes some;
/// `None` where they are none of these, and nothing has happened then.
pub fn extreme_of_iterator(t: &mut Tracer<'_>, op: CmpOp, over: VarId) -> Step<Option<VarId>> {
    if !t.options.capture_control_flow || !matches!(t.kind(over), Kind::Iter(_)) {
        return Ok(None);
    }
    let mark = t.mark();
    let items = iterate::collect_for_list(t, over)?;
    let found = program_numbers::extreme(t, op, &items)?;
    if found.is_none() {
        t.rollback(mark);
    }
    Ok(found)
}
