//! Python's functions of numbers, as a program computes them.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::bytecode::BinOp;
use crate::frame::BUILTINS;
use crate::graph::{Arg, DType, SymbolId};
use crate::obj::{self, Obj};
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::phi::refuse;
use crate::program_numbers::{self, applied, apply, is_of_graph, lowered, numbers_class, product};
use crate::{Step, Tracer, arguments, dynamic_scalar, graph_arrays, item, powers, tensor_scalar};

/// What a number has to be for a function of `_graph/arithmetic.py`.
#[derive(Clone, Copy)]
enum Takes {
    /// A whole number or a float, as a float.
    Float,
    /// As it is.
    Either,
    /// A whole number.
    Whole,
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
    ("math", "isfinite", Takes::Float),
    ("math", "isinf", Takes::Float),
    ("math", "isnan", Takes::Float),
    ("math", "isqrt", Takes::Whole),
    ("math", "factorial", Takes::Whole),
    (BUILTINS, "abs", Takes::Either),
    (BUILTINS, "round", Takes::Float),
];

/// Methods of one number without arguments.
const METHODS: &[(Type, &str)] = &[
    (Type::Int, "bit_length"),
    (Type::Int, "bit_count"),
    (Type::Float, "is_integer"),
];

/// Functions of floats: name, and how many at least and at most.
const OF_FLOATS: &[(&str, usize, usize)] = &[
    ("atan2", 2, 2),
    ("copysign", 2, 2),
    ("fmod", 2, 2),
    ("hypot", 1, 16),
];

/// How many ways there are to choose.
const CHOICES: &str = "comb perm";

/// The largest constant that a program counts up to: `math.comb(n, 3)`.
const MOST: i64 = 64;

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
    if let Some(made) = of_floats(t, function, &args)? {
        return Ok(Some(made));
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
        let given = match takes {
            Takes::Float if whole => exact_double(t, symbol)?,
            Takes::Whole if !whole => return Ok(None),
            Takes::Float | Takes::Either | Takes::Whole => symbol,
        };
        if matches!(name, "ceil" | "floor" | "trunc" | "round") {
            item::is_small(t, given)?;
        }
        return apply(t, name, &[given]).map(Some);
    }
    let class = numbers_class(t, value);
    for &(of, name) in METHODS {
        let method = method_of(t.py, of, name);
        if class == Some(of) && method.is_some_and(|method| method.is(function)) {
            let dtype = match of {
                Type::Int => DType::Int64,
                Type::Float => DType::Float64,
            };
            let symbol = program_numbers::as_tensor(t, value, dtype)?;
            return symbol.map(|symbol| apply(t, name, &[symbol])).transpose();
        }
    }
    Ok(None)
}

/// A whole number as a double; the graph fails where Python's may be another.
fn exact_double(t: &mut Tracer<'_>, symbol: SymbolId) -> Step<SymbolId> {
    let given = item::cast(t, symbol, DType::Float64)?;
    item::is_below(t, given, (1_i64 << 53) as f64)?;
    Ok(given)
}

/// The method of `int` or `float` that numbers of this type have.
pub fn method_of<'py>(py: Python<'py>, of: Type, name: &str) -> Option<Bound<'py, PyAny>> {
    let class = match of {
        Type::Int => py.get_type::<PyInt>(),
        Type::Float => py.get_type::<PyFloat>(),
    };
    let method = class.getattr(name).ok()?;
    // A method of the class itself (`int.from_bytes`) is bound already.
    (!name.starts_with("__") && obj::is_builtin_method(&method)).then_some(method)
}

/// Whether this is such a method.
pub fn is_method(function: &Bound<'_, PyAny>) -> bool {
    let name = obj::text_of(function, "__name__");
    [Type::Int, Type::Float]
        .into_iter()
        .any(|of| method_of(function.py(), of, &name).is_some_and(|method| method.is(function)))
}

/// One of [`OF_FLOATS`].
fn of_floats(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let row = OF_FLOATS.iter().find(|(name, least, most)| {
        (*least..=*most).contains(&args.len()) && obj::is_attr(function, "math", name)
    });
    let Some((name, ..)) = row else {
        return Ok(None);
    };
    let mut symbols = Vec::with_capacity(args.len());
    for arg in args {
        let Some(class) = numbers_class(t, *arg) else {
            return Ok(None);
        };
        let known = t.const_value(*arg).is_some();
        let symbol = match class {
            Type::Int if !known => {
                let symbol = program_numbers::as_tensor(t, *arg, DType::Int64)?;
                symbol.map(|symbol| exact_double(t, symbol)).transpose()?
            }
            Type::Int | Type::Float => program_numbers::as_tensor(t, *arg, DType::Float64)?,
        };
        match symbol {
            Some(symbol) => symbols.push(symbol),
            None => return Ok(None),
        }
    }
    apply(t, name, &symbols).map(Some)
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
    for name in CHOICES.split_whitespace() {
        if obj::is_attr(function, "math", name) {
            return of_choices(t, name, a, b);
        }
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

/// `math.comb(n, k)` and `math.perm(n, k)` where one of them is known, and small.
fn of_choices(t: &mut Tracer<'_>, name: &str, n: VarId, k: VarId) -> Step<Option<VarId>> {
    if [n, k].map(|id| numbers_class(t, id)) != [Some(Type::Int); 2] {
        return Ok(None);
    }
    let (name, given, known) = match (t.const_int(n), t.const_int(k)) {
        (None, Some(known @ 0..=MOST)) => (name, n, known),
        (Some(known @ 0..=MOST), None) if name == "comb" => ("comb_of", k, known),
        _ => return Ok(None),
    };
    let Some(symbol) = program_numbers::as_tensor(t, given, DType::Int64)? else {
        return Ok(None);
    };
    let known = Arg::Const(Obj::from(PyInt::new(t.py, known).into_any()));
    applied(t, name, vec![Arg::Symbol(symbol), known]).map(Some)
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
