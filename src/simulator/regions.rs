//! Branches on tensors as part of the graph: both sides are simulated, cut out of the graph, and become the
//! nested graphs of one `cond`.

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use smallvec::SmallVec;

use crate::bytecode::{flow, live_locals, BinOp, CmpOp, Code, Instr};
use crate::graph::{Arg, Callee, Cut, DType, Region, SymbolId, SymbolKind, TensorMeta};
use crate::obj::Obj;
use crate::variables::{CellVar, Kind, NumberVar, TensorVar, VarId, Variable};

use super::aliases;
use super::conditions::{self, Condition};
use super::conversions;
use super::dispatch::Flow;
use super::executor;
use super::frame::{Exit, FrameState};
use super::loops;
use super::merge::{self, refuse, Joined, Merge, Piece};
use super::returns::Answer;
use super::tracer::TraceMark;
use super::{numbers, tensors};
use super::{Kwargs, Step, Stop, Tracer};

/// Whether the truth of `value` is only known when the graph runs, and branches on it are captured.
pub fn is_captured(t: &mut Tracer<'_>, value: VarId) -> bool {
    let is_of_graph =
        matches!(t.kind(value), Kind::Tensor(_)) || conversions::symbol(t, value).is_some();
    t.options.capture_control_flow && is_of_graph
}

/// `bool(value)` as a 0-d tensor of the graph.
pub fn condition(t: &mut Tracer<'_>, value: VarId) -> Step<SymbolId> {
    let mut symbol = match t.kind(value) {
        Kind::Tensor(tensor) => tensor.symbol,
        Kind::SymNumber(symbol) | Kind::Float(NumberVar::Graph(symbol)) => *symbol,
        _ => return refuse(t, "the condition is not a tensor"),
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return refuse(t, "the condition has no metadata");
    };
    if meta.shape.iter().any(|dim| *dim != 1) {
        return refuse(t, "the condition is not a single element");
    }
    if meta.dtype != DType::Bool {
        let is_tensor = matches!(t.kind(value), Kind::Tensor(_));
        symbol = match is_tensor {
            true => truth_of_tensor(t, symbol, meta.dtype)?,
            false => conversions::cast(t, symbol, DType::Bool)?,
        };
    }
    if !meta.shape.is_empty() {
        symbol = method(t, "reshape", symbol, vec![Arg::List(Vec::new())])?;
    }
    Ok(symbol)
}

/// What `Tensor.__bool__` answers: Paddle 3.3 asks whether the number is positive.
fn truth_of_tensor(t: &mut Tracer<'_>, symbol: SymbolId, dtype: DType) -> Step<SymbolId> {
    static POSITIVE: PyOnceLock<bool> = PyOnceLock::new();
    let comparable = matches!(
        dtype,
        DType::Float16
            | DType::Float32
            | DType::Float64
            | DType::Int64
            | DType::Int32
            | DType::Int16
            | DType::Int8
            | DType::UInt8
    );
    if !comparable || tensors::is_users(t, "__bool__") {
        return refuse(t, "the truth of such a tensor");
    }
    let py = t.py;
    let positive = POSITIVE.get_or_try_init(py, || -> PyResult<bool> {
        let negative = py.import("paddle")?.call_method1("to_tensor", (-1.0,))?;
        Ok(!negative.is_truthy()?)
    })?;
    if !positive {
        return conversions::cast(t, symbol, DType::Bool);
    }
    let zero = PyInt::new(py, 0).into_any();
    method(t, "__gt__", symbol, vec![Arg::Const(Obj::from(zero))])
}

/// `not value`, as Python sees it.
pub fn negation(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let symbol = condition(t, value)?;
    let symbol = method(t, "logical_not", symbol, Vec::new())?;
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// `bool(value)`, as Python sees it.
pub fn truth_value(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let symbol = condition(t, value)?;
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// A method of Paddle's tensors on tensors of the graph.
pub(super) fn method(
    t: &mut Tracer<'_>,
    name: &str,
    receiver: SymbolId,
    mut rest: Vec<Arg>,
) -> Step<SymbolId> {
    rest.insert(0, Arg::Symbol(receiver));
    t.graph.set_grad_enabled(t.grad_enabled);
    let loc = t.loc();
    let callee = Callee::Method(Arc::from(name));
    match t
        .graph
        .call(t.py, callee, rest, Vec::new(), loc, &mut |_| None)?
    {
        Arg::Symbol(symbol) => Ok(symbol),
        _ => refuse(t, format!("{name}() is not a tensor")),
    }
}

/// The dtype (for `paddle.full`) and metadata of a Python number in a graph; `None` when it cannot be one.
pub fn number_meta(t: &Tracer<'_>, value: &Obj) -> Step<Option<(Obj, TensorMeta)>> {
    let value = value.bind(t.py);
    let dtype = if value.is_exact_instance_of::<PyBool>() {
        DType::Bool
    } else if value.is_exact_instance_of::<PyInt>() && value.extract::<i64>().is_ok() {
        DType::Int64
    } else if is_plain_float(value) {
        DType::Float64
    } else {
        return Ok(None);
    };
    let name = Obj::from(PyString::new(t.py, dtype.as_str()).into_any());
    let meta = TensorMeta {
        shape: SmallVec::new(),
        dtype,
        stop_gradient: true,
    };
    Ok(Some((name, meta)))
}

/// A `float` that is a number, and not the zero that Paddle may take for the other one.
fn is_plain_float(value: &Bound<'_, PyAny>) -> bool {
    let exact = value.cast_exact::<PyFloat>();
    exact.is_ok_and(|value| {
        let value = value.value();
        !value.is_nan() && (value != 0.0 || value.is_sign_positive())
    })
}

/// A constant number as a tensor of the graph.
pub fn number(t: &mut Tracer<'_>, value: &Obj) -> Step<Option<SymbolId>> {
    let Some((dtype, _)) = number_meta(t, value)? else {
        return Ok(None);
    };
    let full = Obj::from(t.py.import("paddle")?.getattr("full")?);
    let args = vec![
        Arg::List(Vec::new()),
        Arg::Const(value.clone()),
        Arg::Const(dtype),
    ];
    let loc = t.loc();
    let made = t
        .graph
        .call(t.py, Callee::Api(full), args, Vec::new(), loc, &mut |_| {
            None
        })?;
    Ok(match made {
        Arg::Symbol(symbol) => Some(symbol),
        _ => None,
    })
}

/// The operands of an operator (`None`: a comparison). A number next to a tensor takes the tensor's dtype, as Python
/// numbers do.
pub fn as_operands(
    t: &mut Tracer<'_>,
    op: Option<BinOp>,
    a: VarId,
    b: VarId,
) -> Step<(VarId, VarId)> {
    if let Kind::Tensor(tensor) = t.kind(a).clone() {
        return Ok((a, number_like(t, op, b, tensor.symbol)?));
    }
    if let Kind::Tensor(tensor) = t.kind(b).clone() {
        return Ok((number_like(t, op, a, tensor.symbol)?, b));
    }
    Ok((a, b))
}

fn number_like(t: &mut Tracer<'_>, op: Option<BinOp>, id: VarId, tensor: SymbolId) -> Step<VarId> {
    let dtype = |t: &Tracer<'_>, symbol| t.graph.meta(symbol).map(|meta| meta.dtype);
    let Some(number) = numbers::in_graph(t, id)? else {
        let Some(wanted) = dtype(t, tensor) else {
            return Ok(id);
        };
        let fed = numbers::operand(t, id, wanted, op)?;
        return Ok(fed.map_or(id, |symbol| t.add(Kind::SymNumber(symbol))));
    };
    let symbol = match (dtype(t, number), dtype(t, tensor)) {
        (Some(DType::Int64), Some(wanted)) if wanted != DType::Bool && wanted != DType::Int64 => {
            let name = PyString::new(t.py, wanted.as_str()).into_any();
            method(t, "astype", number, vec![Arg::Const(Obj::from(name))])?
        }
        (Some(DType::Int64), Some(DType::Int64)) => number,
        _ => return refuse(t, "a bool and a tensor in one operation"),
    };
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// The dtype and graph argument of a whole number.
fn whole(t: &mut Tracer<'_>, id: VarId) -> Option<Arg> {
    match t.kind(id).clone() {
        Kind::SymNumber(symbol) => {
            let meta = t.graph.meta(symbol)?;
            (meta.dtype == DType::Int64).then_some(Arg::Symbol(symbol))
        }
        Kind::Const => {
            let value = t.value(id)?;
            let fits = value.is_exact_instance_of::<PyInt>() && value.extract::<i64>().is_ok();
            fits.then(|| Arg::Const(Obj::from(value)))
        }
        _ => None,
    }
}

pub(super) fn on_numbers(
    t: &mut Tracer<'_>,
    a: VarId,
    b: VarId,
    forward: &str,
    reflected: &str,
) -> Step<Option<VarId>> {
    let known = |t: &mut Tracer<'_>, id| matches!(t.kind(id), Kind::SymNumber(_));
    if !known(t, a) && !known(t, b) {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (whole(t, a), whole(t, b)) else {
        return refuse(t, "arithmetic on a number that is not whole");
    };
    let symbol = match (left, right) {
        (Arg::Symbol(left), right) => method(t, forward, left, vec![right])?,
        (left, Arg::Symbol(right)) => method(t, reflected, right, vec![left])?,
        _ => return Ok(None),
    };
    Ok(Some(t.add(Kind::SymNumber(symbol))))
}

/// `a op b` on whole numbers of the graph; `None` when neither is one.
pub fn arithmetic(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let positive = t
        .const_value(b)
        .and_then(|value| value.extract::<i64>().ok())
        .is_some_and(|value| value > 0);
    let total = match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => true,
        // No exception, and graphs round as Python does.
        BinOp::FloorDiv | BinOp::Rem => positive,
        _ => false,
    };
    let either = [a, b]
        .into_iter()
        .any(|id| matches!(t.kind(id), Kind::SymNumber(_)));
    if either && !total {
        return refuse(
            t,
            format!("the operator {} on a number of the graph", op.stem()),
        );
    }
    let (forward, reflected) = (format!("__{}__", op.stem()), format!("__r{}__", op.stem()));
    let made = on_numbers(t, a, b, &forward, &reflected)?;
    let grows = op == BinOp::Mul || [a, b].into_iter().all(|id| t.const_value(id).is_none());
    if let (Some(made), true) = (made, grows && total) {
        conversions::fits(t, op, a, b)?;
        return Ok(Some(made));
    }
    Ok(made)
}

/// `a op b` on whole numbers of the graph; `None` when neither is one.
pub fn comparison(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if matches!(t.kind(a), Kind::Tensor(_)) || matches!(t.kind(b), Kind::Tensor(_)) {
        return Ok(None);
    }
    if let Some(answer) = conversions::comparison(t, op, a, b)? {
        return Ok(Some(answer));
    }
    on_numbers(t, a, b, op.dunder(), op.reflected().dunder())
}

/// `range()` with tensors among its ends; `None` when there are none, or control flow is not captured.
pub fn range(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let captured = args.iter().any(|arg| is_captured(t, *arg));
    if !captured || !kwargs.is_empty() {
        return Ok(None);
    }
    let zero = t.int(0);
    let one = t.int(1);
    let (start, stop, step) = match *args {
        [stop] => (zero, stop, one),
        [start, stop] => (start, stop, one),
        [start, stop, step] => (start, stop, step),
        _ => return Ok(None),
    };
    let Some(step) = t.const_int(step).filter(|step| *step != 0) else {
        return refuse(t, "range() with such a step");
    };
    let (start, stop) = (index(t, start)?, index(t, stop)?);
    Ok(Some(t.add(Kind::NumberRange(start, stop, step))))
}

/// `operator.index(value)` of a constant or a tensor.
fn index(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let symbol = match t.kind(value) {
        Kind::Tensor(tensor) => tensor.symbol,
        _ => match whole(t, value) {
            Some(_) => return Ok(value),
            None => return refuse(t, "range() of something that is not a whole number"),
        },
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return refuse(t, "range() of a tensor without metadata");
    };
    let is_index = matches!(
        meta.dtype,
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8
    );
    if !is_index || meta.shape.iter().any(|dim| *dim != 1) {
        return refuse(t, "range() of a tensor that is not one whole number");
    }
    let mut symbol = symbol;
    if meta.dtype != DType::Int64 {
        let name = PyString::new(t.py, "int64").into_any();
        symbol = method(t, "astype", symbol, vec![Arg::Const(Obj::from(name))])?;
    }
    if !meta.shape.is_empty() {
        symbol = method(t, "reshape", symbol, vec![Arg::List(Vec::new())])?;
    }
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// A call of `paddle_sot_rs._control.name`; the answer is None.
pub fn statement(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let function = t.py.import("paddle_sot_rs._control")?.getattr(name)?;
    let args = args
        .iter()
        .map(|arg| tensors::to_arg(t, *arg))
        .collect::<Step<Vec<_>>>()?;
    let loc = t.loc();
    let callee = Callee::Api(Obj::from(function));
    t.graph
        .call(t.py, callee, args, Vec::new(), loc, &mut |_| None)?;
    Ok(t.none())
}

/// `assert`: one side does nothing but raise. The graph checks, and what follows is the other side.
fn assertion(
    t: &mut Tracer<'_>,
    value: VarId,
    yes: &FrameState,
    no: &FrameState,
) -> Step<Option<usize>> {
    let raises = |side: &FrameState| {
        let instruction = side.code.instructions.get(side.pc);
        instruction.is_some_and(|found| matches!(found.instr, Instr::LoadAssertionError))
    };
    let (holds, next) = match (raises(yes), raises(no)) {
        (false, true) => (truth_value(t, value)?, yes.pc),
        (true, false) => (negation(t, value)?, no.pc),
        _ => return Ok(None),
    };
    statement(t, "check", &[holds])?;
    Ok(Some(next))
}

/// How a way through the code ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In front of this instruction.
    At(usize),
    /// The frame returns.
    Return,
    /// The captured loop comes to its test.
    Next,
}

/// A way through the code, cut out of the trace.
pub struct Way {
    /// How it ends.
    pub end: End,
    /// The result, or the condition of the next round.
    pub value: Piece,
    /// Locals that may still be read; others are left out.
    pub locals: Vec<(usize, Piece)>,
    /// The value stack.
    pub stack: Vec<Piece>,
    /// Cells that were there before, with their new contents.
    pub cells: Vec<(VarId, Piece)>,
    /// Lists, dicts and tensors of the frame that were there before and changed, with what they are now.
    pub changed: Vec<(VarId, Piece)>,
    /// Tensors of it that may share storage with others.
    pub aliases: Vec<(SymbolId, SymbolId)>,
    /// Its statements.
    pub cut: Cut,
}

/// Simulates until `stop` (or the end of the captured loop's round, or a return).
pub fn run_to(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    stop: Option<usize>,
) -> Step<(End, Option<VarId>)> {
    let handling = frame.handling.len();
    loop {
        if Some(frame.pc) == stop {
            return Ok((End::At(frame.pc), None));
        }
        if let Some(condition) = loops::round_ends(t, frame)? {
            return Ok((End::Next, Some(condition)));
        }
        let exit = executor::advance(t, frame)?;
        if frame.handling.len() != handling {
            return refuse(t, "an exception is handled inside");
        }
        match exit {
            None => {}
            Some(Exit::Return(value)) => return leave(t, frame, value),
            Some(Exit::Next(condition)) => return Ok((End::Next, Some(condition))),
            Some(Exit::Yield(_)) => return refuse(t, "a generator yields inside"),
        }
    }
}

/// The frame returns `value`: inside of a captured loop that ends the round, and the loop.
fn leave(t: &mut Tracer<'_>, frame: &mut FrameState, value: VarId) -> Step<(End, Option<VarId>)> {
    let Some(region) = frame.region.clone() else {
        return Ok((End::Return, Some(value)));
    };
    region.returns.take(t, frame, value)?;
    Ok((End::Next, Some(t.bool(false))))
}

/// Describes what happened since `mark` and takes it out of the trace.
pub fn way(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    mark: TraceMark,
    end: End,
    value: Option<VarId>,
    live: &[usize],
    owned: &[VarId],
) -> Step<Way> {
    let Some(changed) = t.changed(&mark) else {
        return refuse(t, "a side effect outlives it");
    };
    let (mut cells, mut contents) = (Vec::new(), Vec::new());
    // A list under two names is one list.
    let mut seen = Vec::new();
    for (id, old) in changed {
        let now: Rc<Variable> = t.vars.get(id).clone();
        // Others may see what the frame did not make.
        let own = now.mutated && now.source.is_none() && now.value.is_none();
        match (&old.kind, &now.kind) {
            (Kind::Cell(_), Kind::Cell(CellVar::Full(content))) if now.mutated => {
                let content = *content;
                cells.push((id, merge::piece(t, Some(content), &mark, &mut seen)));
            }
            (Kind::List(_), Kind::List(_)) | (Kind::Dict(_), Kind::Dict(_)) if own => {
                contents.push((id, merge::content(t, id, &mark, &mut seen)));
            }
            (Kind::Tensor(old), Kind::Tensor(new)) if own && old.view.is_none() => {
                contents.push((id, Piece::Tensor(new.symbol, None)));
            }
            // The iterator of a loop that ends in here.
            _ if owned.contains(&id) && !frame.stack.contains(&id) => {}
            // What it is became known.
            (Kind::Lazy, _) if !now.mutated => {}
            _ => {
                let what = super::call::describe(t, id, &now.kind);
                return refuse(t, format!("{what} is changed inside"));
            }
        }
    }
    let value = merge::piece(t, value, &mark, &mut seen);
    let (mut locals, mut stack) = (Vec::new(), Vec::new());
    if end != End::Return {
        for &slot in live {
            locals.push((slot, merge::piece(t, frame.locals[slot], &mark, &mut seen)));
        }
        for id in &frame.stack {
            stack.push(merge::piece(t, Some(*id), &mark, &mut seen));
        }
    }
    let aliases = aliases::within(t, &mark);
    let cut = t.cut(mark);
    Ok(Way {
        aliases,
        end,
        value,
        locals,
        stack,
        cells,
        changed: contents,
        cut,
    })
}

/// Each takes a part of the native stack.
const DEEPEST: usize = 24;

/// A branch on a tensor: `yes` and `no` are the frame on either side.
pub fn branch(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    value: VarId,
    yes: FrameState,
    no: FrameState,
) -> Step<Flow> {
    if t.regions >= DEEPEST {
        return refuse(
            t,
            format!("more than {DEEPEST} branches inside of one another"),
        );
    }
    attempt(t, frame, |t, frame| {
        let (mut value, mut yes, mut no) = (value, yes, no);
        if let Some((condition, held)) = condition_of_many(t, frame, at, value, &yes, &no)? {
            (value, yes.pc, no.pc) = (held, condition.yes, condition.no);
        }
        match loops::at_branch(frame, at, yes.pc, no.pc) {
            Some(found) => loops::capture(t, frame, value, found, &yes, &no),
            None => choose(t, frame, at, value, yes, no),
        }
    })
}

/// The condition whose first test this branch is, and whether it holds: that of a loop, or the longest one.
fn condition_of_many(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    at: usize,
    value: VarId,
    yes: &FrameState,
    no: &FrameState,
) -> Step<Option<(Condition, VarId)>> {
    if yes.stack != no.stack || !frame.handling.is_empty() {
        return Ok(None);
    }
    let mut found = conditions::beginning_at(frame, at, yes.pc, no.pc);
    let of_loop = |it: &Condition| loops::at_branch(frame, at, it.yes, it.no).is_some();
    if let Some(longest) = found.iter().position(of_loop) {
        found.drain(..longest);
    }
    let Some(condition) = found.into_iter().next() else {
        return Ok(None);
    };
    let held = conditions::holds(t, yes, value, &condition)?;
    Ok(held.map(|held| (condition, held)))
}

/// Captures control flow; where it cannot, everything is as in front of it, for an ordinary graph break.
fn attempt<'py>(
    t: &mut Tracer<'py>,
    frame: &mut FrameState,
    capture: impl FnOnce(&mut Tracer<'py>, &mut FrameState) -> Step<Flow>,
) -> Step<Flow> {
    let mark = t.mark();
    let steps = (frame.clone(), t.locations.clone());
    t.regions += 1;
    let answer = capture(t, frame);
    t.regions -= 1;
    if answer.is_err() {
        (*frame, t.locations) = steps;
        t.rollback(mark);
    }
    match answer {
        // Another way may be taken: no handler is sure to see it.
        Err(Stop::Raise(_)) => refuse(t, "an exception is raised inside"),
        answer => answer,
    }
}

/// The next item of `range()` over numbers of the graph: the loop is captured.
pub fn for_numbers(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    behind: FrameState,
) -> Step<Flow> {
    if t.regions >= DEEPEST || !frame.handling.is_empty() {
        return refuse(t, "the loop stands in too much other control flow");
    }
    attempt(t, frame, |t, frame| {
        loops::capture_range(t, frame, at, &behind)
    })
}

fn choose(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    at: usize,
    value: VarId,
    yes: FrameState,
    no: FrameState,
) -> Step<Flow> {
    if !frame.handling.is_empty() {
        return refuse(t, "an exception is being handled");
    }
    if let Some(next) = assertion(t, value, &yes, &no)? {
        return Ok(Flow::Jump(next));
    }
    let code = frame.code.clone();
    // The round of a captured loop ends where the loop is left.
    let inside = |join: &usize| {
        let region = frame.region.as_ref();
        region.is_none_or(|region| region.body.contains(join))
    };
    let join = flow::join(&code, at).filter(inside);
    let condition = condition(t, value)?;
    let live = live_at(&code, join, frame);
    let owned = loop_iterators(t, frame);
    let (mut yes, mut no) = (yes, no);
    let locations = t.locations.clone();
    let walk = |t: &mut Tracer<'_>, side: &mut FrameState| -> Step<Way> {
        let mark = t.mark();
        let (end, value) = run_to(t, side, join)?;
        t.locations.clone_from(&locations);
        way(t, side, mark, end, value, &live, &owned)
    };
    let starts = (yes.pc, no.pc);
    let plain = yes.stack == frame.stack && no.stack == frame.stack;
    let mark = t.mark();
    let first = walk(t, &mut yes);
    let second = match &first {
        Ok(_) => walk(t, &mut no),
        Err(_) => refuse(t, "it is not needed"),
    };
    let raises = |way: &Step<Way>| matches!(way, Err(Stop::Raise(_)));
    if plain && (raises(&first) || raises(&second)) {
        // As with `assert`: the graph fails where control goes that way, and the interpreter raises.
        let other = if raises(&first) { starts.1 } else { starts.0 };
        t.rollback(mark);
        t.locations.clone_from(&locations);
        let passes = match raises(&first) {
            true => negation(t, value)?,
            false => truth_value(t, value)?,
        };
        statement(t, "check", &[passes])?;
        return Ok(Flow::Jump(other));
    }
    let (first, second) = (first?, second?);
    one_of(t, frame, condition, join, first, second)
}

/// Behind a loop that may have returned: one side returns what it did, the other goes on.
pub fn returned(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    returned: SymbolId,
    leaves: Vec<SymbolId>,
    answer: &Answer,
) -> Step<Flow> {
    let returned = t.add(Kind::SymNumber(returned));
    let condition = condition(t, returned)?;
    let code = frame.code.clone();
    let live = live_at(&code, None, frame);
    let owned = loop_iterators(t, frame);
    let locations = t.locations.clone();
    let (mut yes, mut no) = (frame.clone(), frame.clone());
    let mark = t.mark();
    let value = answer.build(t, &mut leaves.into_iter());
    let (end, value) = leave(t, &mut yes, value)?;
    let first = way(t, &yes, mark, end, value, &live, &owned)?;
    let mark = t.mark();
    let (end, value) = run_to(t, &mut no, None)?;
    t.locations = locations;
    let second = way(t, &no, mark, end, value, &live, &owned)?;
    one_of(t, frame, condition, None, first, second)
}

/// Adds the operation that runs the first way when the condition holds, and the second when not.
fn one_of(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    condition: SymbolId,
    join: Option<usize>,
    mut first: Way,
    mut second: Way,
) -> Step<Flow> {
    let code = frame.code.clone();
    t.graph.adopt(t.py, &mut first.cut)?;
    t.graph.adopt(t.py, &mut second.cut)?;
    if first.end != second.end || first.stack.len() != second.stack.len() {
        return refuse(
            t,
            "one side leaves the function or the loop and the other does not",
        );
    }
    let mut merge = Merge {
        cuts: [&mut first.cut, &mut second.cut],
        outputs: [Vec::new(), Vec::new()],
        objects: Vec::new(),
        changed: Vec::new(),
    };
    let changed = contents_of_both(t, &mut merge, &first.changed, &second.changed)?;
    let is_value = first.end != End::At(join.unwrap_or(usize::MAX));
    let result = match is_value {
        true => Some(merge.join(t, &first.value, &second.value, "the result")?),
        false => None,
    };
    let mut locals = Vec::with_capacity(first.locals.len());
    for ((slot, a), (_, b)) in first.locals.iter().zip(&second.locals) {
        let name = match code.localsplus.get(*slot) {
            Some(slot) => format!("{:?}", &*slot.name),
            None => "what the loop returns".to_owned(),
        };
        locals.push((*slot, merge.join(t, a, b, &name)?));
    }
    let mut stack = Vec::with_capacity(first.stack.len());
    for (a, b) in first.stack.iter().zip(&second.stack) {
        stack.push(merge.join(t, a, b, "a value of the expression")?);
    }
    let mut cells = Vec::new();
    for (id, _) in first.cells.iter().chain(&second.cells) {
        if cells.iter().any(|(known, _)| known == id) {
            continue;
        }
        let before = match t.kind(*id) {
            Kind::Cell(CellVar::Full(content)) => Piece::Same(*content),
            _ => Piece::Unbound,
        };
        let of = |cells: &[(VarId, Piece)]| {
            let found = cells.iter().find(|(known, _)| known == id);
            found.map_or_else(|| before.clone(), |(_, piece)| piece.clone())
        };
        let joined = merge.join(
            t,
            &of(&first.cells),
            &of(&second.cells),
            "a captured variable",
        )?;
        cells.push((*id, joined));
    }
    let outputs = std::mem::take(&mut merge.outputs);
    let (end, cuts) = (first.end, [&first.cut, &second.cut]);
    let made = match outputs[0].is_empty() {
        true if cuts.iter().any(|cut| acts(t.py, cut)) => {
            return refuse(t, "a layer or random operation whose result is not used");
        }
        true => Vec::new(),
        false => {
            let mut free = Vec::new();
            cuts[0].free(&outputs[0], &mut free);
            cuts[1].free(&outputs[1], &mut free);
            let free = with_kinds(t, free);
            let name = |side: &str| format!("{}_{side}", t.graph.sir.name);
            let region = Region::If {
                then: Arc::new(cuts[0].block(name("then"), &[], &free, &outputs[0])),
                otherwise: Arc::new(cuts[1].block(name("else"), &[], &free, &outputs[1])),
            };
            let made = emit(t, region, vec![condition], &free)?;
            for (way, (cut, outputs)) in [&first, &second].iter().zip(cuts.iter().zip(&outputs)) {
                for (at, (result, output)) in made.iter().zip(outputs).enumerate() {
                    let before = before_change(t, &changed, at);
                    for of in aliases::of(cut, &way.aliases, *output) {
                        if before != Some(of) {
                            aliases::note(t, *result, of);
                        }
                    }
                    // One tensor under two names.
                    let twice = outputs[..at].iter().position(|other| other == output);
                    if let Some(other) = twice {
                        aliases::note(t, *result, made[other]);
                    }
                }
            }
            made
        }
    };
    apply(t, frame, &made, &locals, &stack, &cells);
    for (id, joined) in &changed {
        change(t, *id, joined, &made);
    }
    let result = result.and_then(|result| merge::variable(t, &result, &made));
    Ok(match (end, result) {
        (End::At(target), _) => Flow::Jump(target),
        (End::Return, Some(value)) => Flow::Exit(Exit::Return(value)),
        (End::Next, Some(value)) => Flow::Exit(Exit::Next(value)),
        _ => return refuse(t, "a side without a result"),
    })
}

/// What lists, dicts and tensors that changed on either way are behind both.
fn contents_of_both(
    t: &mut Tracer<'_>,
    merge: &mut Merge<'_>,
    first: &[(VarId, Piece)],
    second: &[(VarId, Piece)],
) -> Step<Vec<(VarId, Joined)>> {
    let mut ids: Vec<VarId> = Vec::new();
    for (id, _) in first.iter().chain(second) {
        if !ids.contains(id) {
            ids.push(*id);
        }
    }
    let is_tensor = |t: &mut Tracer<'_>, id: &VarId| matches!(t.kind(*id), Kind::Tensor(_));
    let (tensors, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| is_tensor(t, id));
    let mut joined = Vec::new();
    let mut all = tensors.clone();
    all.extend(others);
    for (at, id) in all.into_iter().enumerate() {
        if at == tensors.len() {
            // From here on, such a tensor is not what it was before.
            merge.changed.clone_from(&tensors);
        }
        let of = |t: &mut Tracer<'_>, contents: &[(VarId, Piece)]| {
            let found = contents.iter().find(|(known, _)| *known == id);
            match found {
                Some((_, piece)) => piece.clone(),
                None => merge::unchanged(t, id),
            }
        };
        let (a, b) = (of(t, first), of(t, second));
        joined.push((id, merge.join(t, &a, &b, "what is changed")?));
    }
    merge.changed = tensors;
    Ok(joined)
}

/// What the tensor was that became this result of the operation.
fn before_change(
    t: &mut Tracer<'_>,
    changed: &[(VarId, Joined)],
    result: usize,
) -> Option<SymbolId> {
    let is_it = |joined: &Joined| matches!(joined, Joined::Output(at) if *at == result);
    let (id, _) = changed.iter().find(|(_, joined)| is_it(joined))?;
    match t.kind(*id) {
        Kind::Tensor(tensor) => Some(tensor.symbol),
        _ => None,
    }
}

/// Makes a list, dict or tensor of the frame what it is behind captured control flow.
fn change(t: &mut Tracer<'_>, id: VarId, joined: &Joined, made: &[SymbolId]) {
    match joined {
        Joined::Output(at) => {
            let symbol = made[*at];
            change_tensor(t, id, symbol);
        }
        Joined::List(items, _) => {
            let many: Vec<VarId> = items
                .iter()
                .filter_map(|item| merge::variable(t, item, made))
                .collect();
            t.vars.mutate(id, |var| {
                if let Kind::List(items) = &mut var.kind {
                    *items = many;
                }
            });
        }
        Joined::Dict(_) => {
            let Some(like) = merge::variable(t, joined, made) else {
                return;
            };
            let Kind::Dict(like) = t.kind(like).clone() else {
                return;
            };
            t.vars.mutate(id, |var| {
                if let Kind::Dict(dict) = &mut var.kind {
                    dict.items = like.items;
                }
            });
        }
        _ => {}
    }
}

/// Puts a tensor of the graph into the place of a tensor of the frame.
pub fn change_tensor(t: &mut Tracer<'_>, id: VarId, symbol: SymbolId) {
    t.vars.mutate(id, |var| {
        if let Kind::Tensor(tensor) = &mut var.kind {
            tensor.symbol = symbol;
        }
    });
}

/// Puts another item into a list or dict of the frame, which has as many items as before.
pub fn change_item(t: &mut Tracer<'_>, id: VarId, at: usize, item: VarId) {
    t.vars.mutate(id, |var| match &mut var.kind {
        Kind::List(items) => {
            if let Some(known) = items.get_mut(at) {
                *known = item;
            }
        }
        Kind::Dict(dict) => {
            if let Some((_, known)) = dict.items.get_index_mut(at) {
                known.1 = item;
            }
        }
        _ => {}
    });
}

/// Iterators that only the value stack holds, and those they advance.
fn loop_iterators(t: &mut Tracer<'_>, frame: &FrameState) -> Vec<VarId> {
    let mut open: Vec<VarId> = frame
        .stack
        .iter()
        .copied()
        .filter(|id| !frame.locals.contains(&Some(*id)))
        .collect();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        if let (Kind::Iter(state), None) = (t.kind(id).clone(), t.source(id)) {
            found.push(id);
            open.extend(state.inner());
        }
    }
    found
}

/// Parts of the names of what draws random numbers.
const DRAWS: &[&str] = &[
    "attention",
    "bernoulli",
    "binomial",
    "cauchy",
    "dropout",
    "exponential",
    "fractional",
    "gamma",
    "geometric",
    "gumbel",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rrelu",
    "sampl",
    "shuffle",
    "uniform",
];

/// Whether statements do more than give results.
fn acts(py: Python<'_>, cut: &Cut) -> bool {
    let draws = |callee: &Callee| {
        let mut names = callee.api_names(py).into_iter();
        names.any(|name| DRAWS.iter().any(|part| name.contains(part)))
    };
    let acts = |statement: &crate::graph::Statement| {
        matches!(statement.callee, Callee::Layer(_) | Callee::Sir(_))
            || matches!(statement.output, Arg::Const(_))
            || draws(&statement.callee)
    };
    cut.statements.iter().any(acts)
}

/// Slots that may be read at `at`, or in the rest of a captured loop.
pub fn live_at(code: &Code, at: Option<usize>, frame: &FrameState) -> Vec<usize> {
    let mut live = at.map_or_else(Vec::new, |at| live_locals(code, at));
    if let Some(region) = &frame.region {
        live.extend(&region.live);
    }
    live.sort_unstable();
    live.dedup();
    live
}

/// Symbols of the graph with their kinds.
pub fn with_kinds(t: &Tracer<'_>, symbols: Vec<SymbolId>) -> Vec<(SymbolId, SymbolKind)> {
    symbols
        .into_iter()
        .map(|symbol| (symbol, t.graph.sir.kind(symbol).clone()))
        .collect()
}

/// Adds the statement; the answer is its results.
pub fn emit(
    t: &mut Tracer<'_>,
    region: Region,
    leading: Vec<SymbolId>,
    free: &[(SymbolId, SymbolKind)],
) -> Step<Vec<SymbolId>> {
    let args = leading
        .into_iter()
        .chain(free.iter().map(|(symbol, _)| *symbol))
        .map(Arg::Symbol)
        .collect();
    let loc = t.loc();
    t.graph.set_grad_enabled(t.grad_enabled);
    let callee = Callee::Sir(Arc::new(region));
    let output = t
        .graph
        .call(t.py, callee, args, Vec::new(), loc, &mut |_| None)?;
    let Arg::Tuple(items) = output else {
        return refuse(t, "the operation has no results");
    };
    let symbols: Option<Vec<SymbolId>> = items
        .iter()
        .map(|item| match item {
            Arg::Symbol(symbol) => Some(*symbol),
            _ => None,
        })
        .collect();
    match symbols {
        Some(symbols) => Ok(symbols),
        None => refuse(t, "the operation has a result that is not a tensor"),
    }
}

/// Puts joined values into the frame.
pub fn apply(
    t: &mut Tracer<'_>,
    frame: &mut FrameState,
    made: &[SymbolId],
    locals: &[(usize, Joined)],
    stack: &[Joined],
    cells: &[(VarId, Joined)],
) {
    for (slot, joined) in locals {
        frame.locals[*slot] = merge::variable(t, joined, made);
    }
    frame.stack = stack
        .iter()
        .filter_map(|joined| merge::variable(t, joined, made))
        .collect();
    for (id, joined) in cells {
        if let Some(content) = merge::variable(t, joined, made) {
            t.vars
                .mutate(*id, |var| var.kind = Kind::Cell(CellVar::Full(content)));
        }
    }
}

/// A tensor variable of a symbol.
pub fn tensor(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    t.add(Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }))
}
