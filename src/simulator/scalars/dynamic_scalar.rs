//! Numbers of which only the type is known, because they differ between calls: from outside
//! ([`NumberVar::Given`]), dims of tensors, and what is computed from them.
//!
//! Python never needs their value as long as they are only computed with, handed on, or compared:
//! what a comparison answered is guarded. Next to a tensor they are inputs of the graph.

mod inputs;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFloat, PyInt, PyModule};

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::obj::{self, Obj};
use crate::paddle::tensor_meta;
use crate::reason::BreakId;
use crate::tracker::TrackerRef;
use crate::tracker::number::{Number, Outcome, Type, Value};
use crate::variables::{Kind, NumberVar, VarId};

use crate::operators::UnaryOp;
use crate::shape_rules::{self, Ordered};
use crate::{
    Step, Tracer, arguments, graph_arrays, item, number_functions, powers, program_numbers,
};

use inputs::is_exact_constant;
pub use inputs::{
    always_tensor, as_tensor, check_double, filled, in_graph, is_given, is_of_graph, is_single,
    is_single_int, made_for_calls, operand, place, rounded, scaled, tensor_of,
};

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

/// `a op b` where one of them differs between calls; `None` when neither does, or Python has to
/// compute it.
pub fn binary(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if op == BinOp::Pow {
        if let Some(made) = powers::of(t, a, b)? {
            return Ok(Some(made));
        }
    }
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
        BinOp::And
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::Xor => false,
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

/// Whether the guards can compute a number now, and have to in other calls: no number is less than
/// itself.
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

/// What a pure function answers, where one of its arguments differs between calls; `None` where
/// that is no number, or the guards cannot compute it.
pub fn called(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if let Some(number) = number_functions::called(t, function, args)? {
        return Ok(Some(number));
    }
    let args = &of_scalars(t, function, args);
    let (a, b) = match args[..] {
        [a] => (a, None),
        [a, b] => (a, Some(b)),
        _ => return Ok(None),
    };
    if !args.iter().any(|arg| is_open(t, *arg)) || !is_of_module(function) {
        return Ok(None);
    }
    if !stays_small(t, function, args)? {
        return Ok(None);
    }
    // The hash of NaN is that of the object.
    let hash = t.builtin("hash")?;
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
    of_function(t, function, (a, b))
}

/// Scalars of NumPy that each call makes as the numbers that `int()`, `float()` and functions of
/// `math` take them for.
fn of_scalars(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, args: &[VarId]) -> Vec<VarId> {
    let classes = [t.py.get_type::<PyInt>(), t.py.get_type::<PyFloat>()];
    let takes_numbers = classes.iter().any(|class| function.is(class))
        || obj::text_of(function, "__module__") == "math";
    let number = |arg: &VarId| graph_arrays::number(t, *arg).filter(|_| takes_numbers);
    args.iter().map(|arg| number(arg).unwrap_or(*arg)).collect()
}

/// A function of `paddle_sot_rs._codegen.numbers`.
pub fn helper<'py>(t: &Tracer<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    t.py.own("paddle_sot_rs._codegen.numbers")?.getattr(name)
}

/// What a function of one or two numbers answers, which is pure and takes no time worth speaking
/// of; `None` where that is no number, or the guards cannot compute it.
pub fn of_function(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    (a, b): (VarId, Option<VarId>),
) -> Step<Option<VarId>> {
    let args: Vec<VarId> = [Some(a), b].into_iter().flatten().collect();
    stay_short(t, &args)?;
    let mut values = Vec::with_capacity(args.len());
    for arg in &args {
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

/// Not a method of an object, which is another each time; one of `int` or `float` is none of those.
fn is_of_module(function: &Bound<'_, PyAny>) -> bool {
    let of_module = |function: &Bound<'_, PyCFunction>| {
        let owner = function.getattr("__self__");
        owner.is_ok_and(|owner| owner.is_instance_of::<PyModule>())
    };
    match function.cast_exact::<PyCFunction>() {
        Ok(function) => of_module(function),
        Err(_) => {
            let py = function.py();
            let classes = [py.get_type::<PyInt>(), py.get_type::<PyFloat>()];
            classes.iter().any(|class| function.is(class)) || number_functions::is_method(function)
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

/// What `a op b` answers, under a guard; `None` when no number here differs between calls, or the
/// guard could not compute it.
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

/// Whether two numbers are computed alike of the same dims and numbers from outside.
pub fn is_same(t: &mut Tracer<'_>, a: VarId, b: VarId) -> bool {
    let one = number(t, a, &mut Vec::new());
    one.is_some() && one == number(t, b, &mut Vec::new())
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
pub fn now(t: &Tracer<'_>, number: &Number) -> Option<Value> {
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
