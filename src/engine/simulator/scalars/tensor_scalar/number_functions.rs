//! Python's functions of numbers, as a program computes them.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::bytecode::BinOp;
use crate::frame::BUILTINS;
use crate::graph::{Arg, DType};
use crate::obj::{self, Obj};
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::simulator::phi::refuse;
use crate::simulator::program_numbers::{
    self, applied, apply, is_of_graph, lowered, numbers_class, product,
};
use crate::simulator::{
    Step, Tracer, arguments, dynamic_scalar, graph_arrays, item, powers, tensor_scalar,
};

/// What a number has to be for a function of `_graph/arithmetic.py`.
#[derive(Clone, Copy)]
enum Takes {
    /// A whole number or a float, as a float.
    Float,
    /// As it is.
    Either,
}

/// Python's functions of one number: module, name, and the number that it takes.
const FUNCTIONS: &[(&str, &str, Takes)] = &[
    ("math", "ceil", Takes::Float),
    ("math", "floor", Takes::Float),
    ("math", "trunc", Takes::Float),
    ("math", "sqrt", Takes::Float),
    ("math", "log", Takes::Float),
    ("math", "log2", Takes::Float),
    ("math", "log10", Takes::Float),
    ("math", "exp", Takes::Float),
    ("math", "expm1", Takes::Float),
    ("math", "log1p", Takes::Float),
    ("math", "sin", Takes::Float),
    ("math", "cos", Takes::Float),
    ("math", "tan", Takes::Float),
    ("math", "asin", Takes::Float),
    ("math", "acos", Takes::Float),
    ("math", "atan", Takes::Float),
    ("math", "sinh", Takes::Float),
    ("math", "cosh", Takes::Float),
    ("math", "tanh", Takes::Float),
    ("math", "asinh", Takes::Float),
    ("math", "acosh", Takes::Float),
    ("math", "atanh", Takes::Float),
    ("math", "erf", Takes::Float),
    ("math", "degrees", Takes::Float),
    ("math", "radians", Takes::Float),
    ("math", "fabs", Takes::Float),
    ("math", "isqrt", Takes::Either),
    (BUILTINS, "abs", Takes::Either),
    (BUILTINS, "round", Takes::Float),
];

/// What a pure function of Python answers to a number that the graph has, or makes of open dims;
/// `None` where it has none of these, or the program does not compute the function.
pub fn called(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if let [over] = *args {
        let items = t
            .kind(over)
            .plain_items()
            .map(<[VarId]>::to_vec)
            .unwrap_or_default();
        let computed = |t: &mut Tracer<'_>, item| {
            is_of_graph(t, item)
                || matches!(t.kind(item), Kind::Int(_)) && arguments::depends_on_dims(t, item)
        };
        let computed = items.iter().any(|item| computed(t, *item));
        if computed && obj::is_attr(function, "math", "prod") {
            return product(t, &items).map(Some);
        }
    }
    let mut args = args.to_vec();
    if obj::text_of(function, "__module__") == "math" {
        for arg in &mut args {
            *arg = graph_arrays::lowered(t, *arg)?;
        }
    }
    let is_int = |t: &mut Tracer<'_>, id| matches!(t.kind(id), Kind::Int(_));
    if args.len() == 2 && args.iter().any(|arg| is_int(t, *arg)) {
        if let Some(made) = quotient_and_rest(t, function, args[0], args[1])? {
            return Ok(Some(made));
        }
    }
    if !args.iter().any(|arg| is_of_graph(t, *arg)) {
        return Ok(None);
    }
    if let [a, b] = args[..] {
        return of_two(t, function, a, b);
    }
    let [value] = args[..] else {
        return Ok(None);
    };
    let named = obj::name_of(function);
    for &(module, name, takes) in FUNCTIONS {
        if named.as_deref() != Some(name) || !obj::is_attr(function, module, name) {
            continue;
        }
        let value = lowered(t, value)?;
        let Some(symbol) = item::symbol(t, value) else {
            return Ok(None);
        };
        let dtype = t.graph.meta(symbol).map(|meta| meta.dtype);
        let whole = match dtype {
            Some(DType::Int64) => true,
            Some(DType::Float64) => false,
            _ => return refuse(t, format!("{name}() of a bool of the graph")),
        };
        // The same number.
        if whole && matches!(name, "ceil" | "floor" | "trunc" | "round") {
            return Ok(Some(value));
        }
        if !whole && name == "isqrt" {
            return Ok(None);
        }
        let given = match takes {
            Takes::Float if whole => {
                // Python's double of a larger one may be another.
                let given = item::cast(t, symbol, DType::Float64)?;
                item::is_below(t, given, (1_i64 << 53) as f64)?;
                given
            }
            Takes::Float | Takes::Either => symbol,
        };
        if matches!(name, "ceil" | "floor" | "trunc" | "round") {
            item::is_small(t, given)?;
        }
        return apply(t, name, &[given]).map(Some);
    }
    Ok(None)
}

/// `pow(a, b)` and `math.pow(a, b)`.
fn of_two(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    let classes = [a, b].map(|id| numbers_class(t, id));
    if obj::is_attr(function, BUILTINS, "pow") {
        return powers::of(t, a, b);
    }
    if obj::is_attr(function, "math", "pow") && !classes.contains(&None) {
        return powers::of_floats(t, a, b);
    }
    for name in ["gcd", "lcm"] {
        if obj::is_attr(function, "math", name) && classes == [Some(Type::Int); 2] {
            return of_whole(t, name, [a, b]);
        }
    }
    if obj::is_attr(function, BUILTINS, "round") {
        return rounded(t, a, b);
    }
    quotient_and_rest(t, function, a, b)
}

/// `divmod(a, b)` of whole numbers.
fn quotient_and_rest(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    let classes = [a, b].map(|id| numbers_class(t, id));
    if classes != [Some(Type::Int); 2] || !obj::is_attr(function, BUILTINS, "divmod") {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(2);
    for op in [BinOp::FloorDiv, BinOp::Rem] {
        let part = match dynamic_scalar::binary(t, op, a, b)? {
            Some(part) => Some(part),
            None => tensor_scalar::arithmetic(t, op, a, b)?,
        };
        let Some(part) = part else { return Ok(None) };
        parts.push(part);
    }
    Ok(Some(t.add(Kind::Tuple(parts, None))))
}

/// A function of whole numbers.
fn of_whole(t: &mut Tracer<'_>, name: &str, args: [VarId; 2]) -> Step<Option<VarId>> {
    let mut symbols = Vec::with_capacity(2);
    for arg in args {
        match program_numbers::as_tensor(t, arg, DType::Int64)? {
            Some(symbol) => symbols.push(symbol),
            None => return Ok(None),
        }
    }
    apply(t, name, &symbols).map(Some)
}

/// `round(number, digits)` with digits that are known.
fn rounded(t: &mut Tracer<'_>, number: VarId, digits: VarId) -> Step<Option<VarId>> {
    /// Powers of ten up to this one are doubles.
    const MOST: i64 = 22;
    let (class, digits) = (numbers_class(t, number), t.const_int(digits));
    let (name, digits, dtype) = match (class, digits) {
        (Some(Type::Int), Some(0..)) => return Ok(Some(number)),
        (Some(Type::Int), Some(digits @ -18..0)) => ("round_whole", -digits, DType::Int64),
        (Some(Type::Float), Some(digits @ 0..=MOST)) => ("round_to", digits, DType::Float64),
        _ => return Ok(None),
    };
    let Some(symbol) = program_numbers::as_tensor(t, number, dtype)? else {
        return Ok(None);
    };
    let digits = Arg::Const(Obj::from(PyInt::new(t.py, digits).into_any()));
    applied(t, name, vec![Arg::Symbol(symbol), digits]).map(Some)
}
