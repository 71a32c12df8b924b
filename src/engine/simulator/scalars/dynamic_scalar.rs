//! Numbers of which only the type is known, because they differ between calls: from outside ([`NumberVar::Given`]),
//! dims of tensors, and what is computed from them.
//!
//! Python never needs their value as long as they are only computed with, handed on, or compared: what a comparison
//! answered is guarded. Next to a tensor they are inputs of the graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyFloat, PyInt, PyModule, PyString};

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::Modules;
use crate::graph::{Callee, DType, SymbolId};
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::paddle::tensor_meta;
use crate::reason::BreakId;
use crate::tracker::number::{Number, Outcome, Type, Value};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, NumberVar, VarId};

use crate::simulator::operators::UnaryOp;
use crate::simulator::shape_rules::{self, Ordered};
use crate::simulator::{arguments, item, program_numbers, tensors, Step, Tracer};

/// The type of an operand.
pub fn class(t: &mut Tracer<'_>, id: VarId) -> Option<Type> {
    if let Kind::Int(_) = t.kind(id) {
        Some(Type::Int)
    } else if let Kind::Float(_) = t.kind(id) {
        Some(Type::Float)
    } else if let Kind::Const = t.kind(id) {
        Type::of(&t.value(id)?)
    } else {
        None
    }
}

/// Whether only the type of this number is known.
pub fn is_open(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Int(_) | Kind::Float(_))
}

/// `a op b` where one of them differs between calls; `None` when neither does, or Python has to compute it.
pub fn binary(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if let Some(made) = item::arithmetic(t, op, a, b)? {
        return Ok(Some(made));
    }
    if !is_open(t, a) && !is_open(t, b) {
        return Ok(None);
    }
    if item::is_float(t, a) || item::is_float(t, b) {
        return t.stop(
            BreakId::DynamicNumber,
            format!("the operator {} on a number of the graph", op.stem()),
        );
    }
    let (Some(left), Some(right)) = (class(t, a), class(t, b)) else {
        return Ok(None);
    };
    let whole = left == Type::Int && right == Type::Int;
    let can = match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => true,
        // A positive divisor: no exception, and graphs round as Python does.
        BinOp::FloorDiv | BinOp::Rem => whole && divides(t, CmpOp::Gt, b)?,
        BinOp::TrueDiv => divides(t, CmpOp::Ne, b)?,
        _ => false,
    };
    if !can {
        return program_numbers::binary(t, op, a, b);
    }
    stay_short(t, &[a, b])?;
    let number = NumberVar::Made(op, a, b);
    if whole && op != BinOp::TrueDiv {
        return Ok(Some(t.add(Kind::Int(number))));
    }
    let made = t.add(Kind::Float(number));
    // Python raises where a whole number is too large for a float.
    if (may_be_large(t, a) || may_be_large(t, b)) && !is_computed(t, made)? {
        return Ok(None);
    }
    Ok(Some(made))
}

/// Whether this may be a whole number that is no double.
fn may_be_large(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Int(_) = t.kind(id) {
        is_given(t, id) || arguments::has_large_part(t, id)
    } else if let Kind::Const = t.kind(id) {
        class(t, id) == Some(Type::Int) && !is_exact_constant(t, id)
    } else {
        matches!(t.kind(id), Kind::SymNumber(_))
    }
}

/// Whether guards find what a number is made of, wherever it can be computed.
pub fn is_known_to_guards(t: &mut Tracer<'_>, id: VarId) -> bool {
    t.options.varies.guards_outcomes && number(t, id, &mut Vec::new()).is_some()
}

/// Whether the guards can compute a number now, and have to in other calls: no number is less than itself.
pub fn is_computed(t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
    Ok(compare(t, CmpOp::Lt, id, id)?.is_some())
}

/// Stops where a number is made of too many others: guards compute each anew wherever it is used.
fn stay_short(t: &mut Tracer<'_>, args: &[VarId]) -> Step<()> {
    const MOST: usize = 256;
    let mut open = args.to_vec();
    let mut count = 0;
    while let Some(id) = open.pop() {
        count += 1;
        if count > MOST {
            return t.stop(
                BreakId::DynamicNumber,
                "a number that is computed from too many others",
            );
        }
        if let Kind::Int(number) | Kind::Float(number) = *t.kind(id) {
            match number {
                NumberVar::Made(_, a, b) => open.extend([a, b]),
                NumberVar::Called(_, a, b) => open.extend(std::iter::once(a).chain(b)),
                NumberVar::Given | NumberVar::Dim(..) | NumberVar::Graph(_) => {}
            }
        }
    }
    Ok(())
}

/// What a pure function answers, where one of its arguments differs between calls; `None` where that is no number, or
/// the guards cannot compute it.
pub fn called(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if let Some(number) = program_numbers::called(t, function, args)? {
        return Ok(Some(number));
    }
    let (a, b) = match args {
        [a] => (*a, None),
        [a, b] => (*a, Some(*b)),
        _ => return Ok(None),
    };
    if !args.iter().any(|arg| is_open(t, *arg)) || !is_of_module(function) {
        return Ok(None);
    }
    if !stays_small(t, function, args)? {
        return Ok(None);
    }
    // The hash of NaN is that of the object.
    let hash = t.original("builtins", "hash")?;
    if function.is(&hash)
        && args
            .iter()
            .any(|arg| matches!(t.kind(*arg), Kind::Float(_)))
    {
        return t.stop(
            BreakId::DynamicNumber,
            "the hash of a float that differs between calls",
        );
    }
    stay_short(t, args)?;
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        let number = number(t, *arg, &mut Vec::new());
        values.extend(number.and_then(|number| now(t, &number)));
    }
    if values.len() < args.len() {
        return Ok(None);
    }
    let Some(value) = Value::call(t.py, &Obj::from(function), &values) else {
        return Ok(None);
    };
    let var = NumberVar::Called(t.constant(function), a, b);
    let made = t.add(match value.kind() {
        Type::Int => Kind::Int(var),
        Type::Float => Kind::Float(var),
    });
    // What is guarded is its type, too.
    Ok(is_computed(t, made)?.then_some(made))
}

/// Whether computing this takes no time worth speaking of, now and under a guard.
fn stays_small(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, args: &[VarId]) -> Step<bool> {
    if args.iter().any(|arg| class(t, *arg) != Some(Type::Int)) {
        return Ok(true);
    }
    let name: String = function.getattr("__name__")?.extract()?;
    let grows_with = match &*name {
        "pow" | "ipow" | "lshift" | "ilshift" => args.last(),
        "factorial" | "comb" | "perm" => args.first(),
        _ => None,
    };
    let Some(grows_with) = grows_with else {
        return Ok(true);
    };
    let limit = t.int(64);
    Ok(match t.const_int(*grows_with) {
        Some(known) => known < 64,
        None => compare(t, CmpOp::Lt, *grows_with, limit)? == Some(true),
    })
}

/// Not a method, which has an object of its own.
fn is_of_module(function: &Bound<'_, PyAny>) -> bool {
    let of_module = |function: &Bound<'_, PyCFunction>| {
        let owner = function.getattr("__self__");
        owner.is_ok_and(|owner| owner.is_instance_of::<PyModule>())
    };
    match function.cast_exact::<PyCFunction>() {
        Ok(function) => of_module(function),
        Err(_) => {
            let py = function.py();
            function.is(py.get_type::<PyInt>()) || function.is(py.get_type::<PyFloat>())
        }
    }
}

/// `-a` and `+a` of one that differs between calls.
pub fn unary(t: &mut Tracer<'_>, op: UnaryOp, a: VarId) -> Step<Option<VarId>> {
    match op {
        _ if !is_open(t, a) => Ok(None),
        UnaryOp::Positive => Ok(Some(a)),
        // The negative of a zero is the other one, too.
        UnaryOp::Negative => {
            // A product with -1 has the sign of NaN that this one has.
            let is_float = matches!(t.kind(a), Kind::Float(_));
            if is_float && compare(t, CmpOp::Eq, a, a)? == Some(false) {
                return Ok(None);
            }
            let minus_one = t.int(-1);
            binary(t, BinOp::Mul, a, minus_one)
        }
        UnaryOp::Invert => Ok(None),
    }
}

/// Whether a divisor compares with zero like this, now and under a guard.
fn divides(t: &mut Tracer<'_>, op: CmpOp, divisor: VarId) -> Step<bool> {
    let known = t.const_value(divisor);
    if let Some(known) = known {
        let value: f64 = known.extract().unwrap_or(f64::NAN);
        return Ok(Value::Float(value).compare(op, Value::Int(0)) == Some(true));
    }
    let zero = t.int(0);
    Ok(compare(t, op, divisor, zero)? == Some(true))
}

/// What `a op b` answers, under a guard; `None` when no number here differs between calls, or the guard could not
/// compute it.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<bool>> {
    if !t.options.varies.guards_outcomes || !is_open(t, a) && !is_open(t, b) {
        return Ok(None);
    }
    let mut ordered = Vec::new();
    let (Some(left), Some(right)) = (number(t, a, &mut ordered), number(t, b, &mut ordered)) else {
        return Ok(None);
    };
    let mut outcomes = Vec::new();
    for (small, large) in ordered {
        match outcome(t, CmpOp::Le, small, large) {
            Some(outcome) if outcome.holds => outcomes.push(outcome),
            _ => return Ok(None),
        }
    }
    let Some(asked) = outcome(t, op, left, right) else {
        return Ok(None);
    };
    let holds = asked.holds;
    outcomes.push(asked);
    for outcome in outcomes {
        // Numbers without a place do not differ.
        if let Some(place) = outcome.left.place().or(outcome.right.place()).cloned() {
            t.guards.add(&place, GuardKind::Outcome(Arc::new(outcome)));
        }
    }
    Ok(Some(holds))
}

/// What `a op b` answers in this call, where dims of inputs say it.
pub fn outcome_now(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Option<Outcome> {
    let mut ordered = Vec::new();
    let (left, right) = (number(t, a, &mut ordered)?, number(t, b, &mut ordered)?);
    let holds = |(small, large)| Some(outcome(t, CmpOp::Le, small, large)?.holds);
    let fits = ordered.into_iter().all(|pair| holds(pair) == Some(true));
    outcome(t, op, left, right).filter(|_| fits)
}

fn outcome(t: &Tracer<'_>, op: CmpOp, left: Number, right: Number) -> Option<Outcome> {
    let holds = now(t, &left)?.compare(op, now(t, &right)?)?;
    Some(Outcome {
        op,
        left,
        right,
        holds,
    })
}

/// How the guard program computes a variable, and what has to hold for that.
fn number(t: &mut Tracer<'_>, id: VarId, ordered: &mut Vec<Ordered>) -> Option<Number> {
    if let Kind::Const = t.kind(id) {
        let value = t.value(id)?;
        return Some(match Value::of(&value)? {
            Value::Int(value) => Number::Int(value),
            Value::Float(value) => Number::Float(value.to_bits()),
        });
    }
    let (Kind::Int(open) | Kind::Float(open)) = *t.kind(id) else {
        return None;
    };
    match open {
        NumberVar::Given => t.source(id).map(Number::Given),
        NumberVar::Graph(_) => None,
        NumberVar::Dim(symbol, dim) => {
            let (dim, more) = shape_rules::dim(t, symbol, dim)?;
            ordered.extend(more);
            Some(dim)
        }
        NumberVar::Made(op, a, b) => {
            let (a, b) = (number(t, a, ordered)?, number(t, b, ordered)?);
            Some(Number::Made(op, Arc::new(a), Arc::new(b)))
        }
        NumberVar::Called(function, a, b) => {
            let mut args = Vec::new();
            for arg in [Some(a), b].into_iter().flatten() {
                args.push(number(t, arg, ordered)?);
            }
            let function = Obj::from(t.value(function)?);
            Some(Number::Called(function, class(t, id)?, args.into()))
        }
    }
}

/// What the number is in this call.
fn now(t: &Tracer<'_>, number: &Number) -> Option<Value> {
    number.value(t.py, &mut |place: &TrackerRef, dim| match dim {
        None => Value::of(t.options.varies.numbers.get(place)?.bind(t.py)),
        Some(dim) => {
            let mut inputs = t.graph.inputs.iter();
            let input = inputs.find(|input| shape_rules::place(&input.tracker) == place)?;
            let meta = tensor_meta(input.value.bind(t.py))?;
            meta.shape.get(dim).copied().map(Value::Int)
        }
    })
}

/// An open number next to a tensor of this dtype, as one of the graph: `None` where a Python number does not
/// simply take the dtype of the tensor, or the operator (`None`: a comparison) does not treat both alike.
pub fn operand(
    t: &mut Tracer<'_>,
    id: VarId,
    dtype: DType,
    op: Option<BinOp>,
) -> Step<Option<SymbolId>> {
    let open = is_open(t, id);
    if !open && !rounds(t, id, dtype) {
        return Ok(None);
    }
    let floating = matches!(dtype, DType::Float32 | DType::Float64);
    let whole = dtype == DType::Int64 && class(t, id) == Some(Type::Int);
    let fits = match op {
        None | Some(BinOp::Add | BinOp::Sub) => floating || whole,
        Some(BinOp::Mul) => whole,
        Some(BinOp::TrueDiv | BinOp::FloorDiv | BinOp::Rem) => floating,
        _ => false,
    };
    if !fits {
        return Ok(None);
    }
    // Where a quotient is rounded down, eager mode does not make a double of it first.
    let twice =
        dtype == DType::Float32 && matches!(op, Some(BinOp::Add | BinOp::Sub | BinOp::TrueDiv));
    if twice || whole && op.is_some() {
        check_double(t, id)?;
    }
    as_tensor(t, id, dtype)
}

/// Stops at a whole number that differs between calls and that a double may not hold: eager mode makes one of it, and
/// rounds twice where the tensor has floats.
pub fn check_double(t: &mut Tracer<'_>, id: VarId) -> Step<()> {
    if class(t, id) == Some(Type::Int) && !is_double(t, id)? {
        return t.stop(
            BreakId::DynamicNumber,
            "a whole number with more digits than a double, next to a tensor",
        );
    }
    Ok(())
}

/// A whole number of the graph as the double that eager mode makes of it, where that may be another number.
pub fn rounded(t: &mut Tracer<'_>, id: VarId, symbol: SymbolId) -> Step<SymbolId> {
    let whole = t
        .graph
        .meta(symbol)
        .is_some_and(|meta| meta.dtype == DType::Int64);
    match whole && may_be_large(t, id) {
        true => item::cast(t, symbol, DType::Float64),
        false => Ok(symbol),
    }
}

/// Whether a whole number is surely one that a double holds: eager mode makes one of it.
fn is_double(t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
    if t.const_value(id).is_some() {
        return Ok(is_exact_constant(t, id));
    }
    if !is_given(t, id) {
        return Ok(true);
    }
    let (least, most) = (t.int(-EXACT), t.int(EXACT));
    Ok(compare(t, CmpOp::Ge, id, least)? == Some(true)
        && compare(t, CmpOp::Le, id, most)? == Some(true))
}

/// The largest whole number such that it and all below are doubles.
const EXACT: i64 = 1 << 53;

fn is_exact_constant(t: &mut Tracer<'_>, id: VarId) -> bool {
    let value = t.const_value(id).and_then(|value| value.extract().ok());
    value.is_some_and(|value| (-EXACT..=EXACT).contains(&value))
}

/// Whether only the type of this number is known, and the graph does not make it of dims.
pub fn is_given(t: &mut Tracer<'_>, id: VarId) -> bool {
    is_open(t, id) && !(matches!(t.kind(id), Kind::Int(_)) && arguments::depends_on_dims(t, id))
}

/// A number that differs between calls, or that a program would round, as a tensor of no dims.
pub fn as_tensor(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<SymbolId>> {
    match is_given(t, id) || rounds(t, id, dtype) {
        true => always_tensor(t, id, dtype),
        false => Ok(None),
    }
}

/// Any number as a tensor of no dims.
pub fn always_tensor(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<SymbolId>> {
    match is_open(t, id) {
        true => fed(t, id, dtype),
        false => constant(t, id, dtype).map(Some),
    }
}

/// Whether a number that is known has digits that a program would lose: it keeps those next to tensors as floats.
fn rounds(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> bool {
    let class = class(t, id);
    let Some(value) = t.const_value(id) else {
        return false;
    };
    match (class, dtype) {
        (Some(Type::Float), DType::Float64) => !is_single(value.extract().unwrap_or(f64::NAN)),
        (Some(Type::Int), DType::Int64 | DType::Float64) => {
            value.extract().is_ok_and(|value| !is_single_int(value))
        }
        _ => false,
    }
}

/// Whether a float of half the digits is the same number, or NaN too.
pub fn is_single(value: f64) -> bool {
    f64::from(value as f32) == value || value.is_nan()
}

/// Whether a float of half the digits holds this number.
pub fn is_single_int(value: i64) -> bool {
    (value as f32) as i128 == i128::from(value)
}

/// A tensor of these dims that has the digits of a number that is known.
pub fn filled(t: &mut Tracer<'_>, dims: &[i64], id: VarId, dtype: DType) -> Step<VarId> {
    let full = Obj::from(t.py.module("paddle")?.getattr("full")?);
    let dims = dims.iter().map(|dim| t.int(*dim)).collect();
    let args = [t.add(Kind::List(dims)), id, t.str(dtype.as_str())];
    tensors::capture(t, Callee::Api(full), None, &args, &[], &mut |_| None)
}

/// A number that is known, as a tensor of no dims: that keeps its digits.
fn constant(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<SymbolId> {
    let made = filled(t, &[], id, dtype)?;
    if let Kind::Tensor(tensor) = t.kind(made) {
        Ok(tensor.symbol)
    } else {
        t.stop(BreakId::DynamicNumber, "a number that is not a tensor")
    }
}

/// Whether the graph has this number, or makes it of dims.
pub fn is_of_graph(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Int(_) = t.kind(id) {
        return arguments::depends_on_dims(t, id);
    }
    matches!(t.kind(id), Kind::SymNumber(_))
}

/// A number that the graph has, or makes of dims.
pub fn in_graph(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    if let Kind::SymNumber(symbol) = *t.kind(id) {
        return Ok(Some(symbol));
    }
    let Kind::Int(number) = *t.kind(id) else {
        return Ok(None);
    };
    match arguments::depends_on_dims(t, id) {
        true => arguments::number_statement(t, number).map(Some),
        false => Ok(None),
    }
}

/// The product of a tensor of floats and a number that the graph does not know. It is Paddle's `scale`, as with
/// numbers that are known: a product of two tensors has other zeros, and rounds the number first.
pub fn scaled(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let (tensor, number_id) = if let Kind::Tensor(_) = t.kind(a) {
        (a, b)
    } else {
        (b, a)
    };
    let dtype = tensors::meta_of(t, tensor).map(|meta| meta.dtype);
    let floating = dtype.is_some_and(DType::is_floating);
    let replaced = ["__mul__", "__rmul__"]
        .iter()
        .any(|name| tensors::is_users(t, name));
    if !floating || replaced {
        return Ok(None);
    }
    let known = in_graph(t, number_id)?;
    let symbol = match (known, t.kind(number_id).clone()) {
        (Some(symbol), _) => Some(rounded(t, number_id, symbol)?),
        // Eager mode makes a double of it.
        (None, Kind::Int(_) | Kind::Float(_)) => fed(t, number_id, DType::Float64)?,
        _ if dtype == Some(DType::Float64) && rounds(t, number_id, DType::Float64) => {
            Some(constant(t, number_id, DType::Float64)?)
        }
        _ => None,
    };
    let Some(symbol) = symbol else {
        return Ok(None);
    };
    let known = t.graph.meta(symbol).map(|meta| meta.dtype);
    if !matches!(known, Some(DType::Int64 | DType::Float64)) {
        return Ok(None);
    }
    let scale = Obj::from(t.py.module("paddle")?.getattr("scale")?);
    let factor = t.add(Kind::SymNumber(symbol));
    let args = [tensor, factor];
    tensors::capture(t, Callee::Api(scale), None, &args, &[], &mut |_| None).map(Some)
}

/// The input of the graph that a number becomes; made anew for each call.
fn fed(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<SymbolId>> {
    if let Kind::Float(NumberVar::Graph(symbol)) = *t.kind(id) {
        return item::cast(t, symbol, dtype).map(Some);
    }
    // What is exported has nobody who makes inputs of it.
    if !t.options.varies.guards_outcomes {
        return match item::of_dims(t, id)? {
            Some(symbol) => item::cast(t, symbol, dtype).map(Some),
            None => t.stop(
                BreakId::DynamicNumber,
                "a number made of open dims that a program does not compute",
            ),
        };
    }
    let mut ordered = Vec::new();
    let Some(number) = number(t, id, &mut ordered).filter(|_| ordered.is_empty()) else {
        return Ok(None);
    };
    let Some(value) = now(t, &number) else {
        return Ok(None);
    };
    let tracker = Arc::new(Tracker::Number(Arc::new(number), dtype));
    let mut inputs = t.graph.inputs.iter();
    if let Some(known) = inputs.find(|input| input.tracker == tracker) {
        return Ok(Some(known.symbol));
    }
    let tensor = tensor_of(t.py, value, dtype)?;
    let Some(meta) = tensor_meta(&tensor) else {
        return Ok(None);
    };
    let tensor = Obj::from(tensor);
    Ok(Some(t.graph.tensor_input(t.py, tensor, meta, tracker)?))
}

/// A tensor of no dims.
///
/// # Errors
/// When Paddle cannot make it.
pub fn tensor_of<'py>(py: Python<'py>, value: Value, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
    static FULL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let full = FULL
        .get_or_try_init(py, || {
            py.module("paddle")?.getattr("full").map(Bound::unbind)
        })?
        .bind(py);
    let shape: [i64; 0] = [];
    let dtype = PyString::intern(py, dtype.as_str());
    match value {
        Value::Int(value) => full.call1((shape, value, dtype)),
        Value::Float(value) => full.call1((shape, value, dtype)),
    }
}
