//! Python's numbers as a program computes them: those made of open dims where nobody guards those,
//! as in exports, and those that the graph has.
//!
//! A whole number is an `int64`, a float a `float64`, both without dims, and each function here
//! gives the bits that Python gives.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::BUILTINS;
use crate::graph::{Arg, Callee, DType, StatementIr, SymbolId};
use crate::obj::{self, Obj};
use crate::tracker::number::{Number, Type};
use crate::variables::{Kind, NumberVar, VarId};

use crate::simulator::phi::refuse;
use crate::simulator::{
    Step, Tracer, arguments, comparisons, dynamic_scalar, graph_arrays, item, operators, powers,
    shape_rules, tensor_scalar, truth,
};

/// Whether the program computes what Python asks of open dims: nobody guards what is exported.
pub fn computes_dims(t: &Tracer<'_>) -> bool {
    t.options.capture_control_flow && !t.options.varies.guards_outcomes
}

/// Whether this is a number made of open dims that the program computes.
pub fn is_of_dims(t: &mut Tracer<'_>, id: VarId) -> bool {
    computes_dims(t)
        && (matches!(t.kind(id), Kind::Float(NumberVar::Made(..)))
            || matches!(t.kind(id), Kind::Int(_)) && arguments::depends_on_dims(t, id))
}

/// Whether the program computes this number.
pub fn is_of_graph(t: &mut Tracer<'_>, id: VarId) -> bool {
    is_of_dims(t, id) || t.options.capture_control_flow && item::symbol(t, id).is_some()
}

/// A number made of open dims as one of the graph; others as they are.
pub fn lowered(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    if !is_of_dims(t, id) {
        return Ok(id);
    }
    let symbol = if let Kind::Int(_) = t.kind(id) {
        dynamic_scalar::in_graph(t, id)?
    } else {
        item::of_dims(t, id)?
    };
    Ok(symbol.map_or(id, |symbol| item::variable(t, symbol)))
}

/// Two operands as numbers of the graph where one is made of open dims.
pub fn operands(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<(VarId, VarId)> {
    let numbers = [a, b].map(|id| numbers_class(t, id).is_some());
    if numbers != [true; 2] || !is_of_dims(t, a) && !is_of_dims(t, b) {
        return Ok((a, b));
    }
    Ok((lowered(t, a)?, lowered(t, b)?))
}

/// Two operands as numbers of the graph, where they are made of dims.
pub fn both(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<(VarId, VarId)> {
    let one = |t: &mut Tracer<'_>, id| -> Step<VarId> {
        let symbol = if let Kind::Int(_) = t.kind(id) {
            dynamic_scalar::in_graph(t, id)?
        } else {
            None
        };
        Ok(symbol.map_or(id, |symbol| item::variable(t, symbol)))
    };
    Ok((one(t, a)?, one(t, b)?))
}

/// A number as a tensor of this dtype.
pub fn as_tensor(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<SymbolId>> {
    let id = lowered(t, id)?;
    match item::symbol(t, id) {
        Some(symbol) => item::cast(t, symbol, dtype).map(Some),
        None => dynamic_scalar::always_tensor(t, id, dtype),
    }
}

/// `a << b` and `a >> b` of a whole number and a small constant: a product, and a quotient that is
/// rounded down.
pub fn shift(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if t.const_value(b).is_none() && op == BinOp::LShift && numbers_class(t, b) == Some(Type::Int) {
        let two = t.int(2);
        let factor = powers::of_whole(t, two, b)?;
        return tensor_scalar::arithmetic(t, BinOp::Mul, a, factor);
    }
    let Some(by) = t.const_int(b).filter(|by| (0..=24).contains(by)) else {
        return refuse(t, "such a shift of a number of the graph");
    };
    let factor = t.int(1 << by);
    let op = if op == BinOp::LShift {
        BinOp::Mul
    } else {
        BinOp::FloorDiv
    };
    tensor_scalar::arithmetic(t, op, a, factor)
}

/// `a op b` of numbers made of open dims, where it is no sum, difference or product of those.
pub fn binary(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if !is_of_dims(t, a) && !is_of_dims(t, b) {
        return Ok(None);
    }
    let (a, b) = operands(t, a, b)?;
    match item::arithmetic(t, op, a, b)? {
        Some(made) => Ok(Some(made)),
        None => tensor_scalar::arithmetic(t, op, a, b),
    }
}

/// The graph fails where this number is zero.
pub fn check_divisor(t: &mut Tracer<'_>, symbol: SymbolId) -> Step<()> {
    let zero = t.int(0);
    let zero = t.value(zero).map(Obj::from);
    let zero = zero.into_iter().map(Arg::Const).collect();
    let fits = tensor_scalar::method(t, "__ne__", symbol, zero)?;
    let fits = t.add(Kind::SymNumber(fits));
    tensor_scalar::statement(t, "check", &[fits])?;
    Ok(())
}

/// `a & b`, `a | b`, `a ^ b` of two numbers of one type.
pub fn bitwise(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let dtype = |t: &mut Tracer<'_>, id| {
        let symbol = item::symbol(t, id)?;
        t.graph.meta(symbol).map(|meta| meta.dtype)
    };
    let (left, right) = (dtype(t, a), dtype(t, b));
    let dtype = match (left, right) {
        (Some(DType::Bool), Some(DType::Bool)) => DType::Bool,
        (Some(DType::Int64), _) | (_, Some(DType::Int64)) => DType::Int64,
        _ => return refuse(t, "an operator of bits on such numbers of the graph"),
    };
    let mut symbols = Vec::with_capacity(2);
    for id in [a, b] {
        let symbol = match item::symbol(t, id) {
            Some(symbol) => Some(symbol),
            None if dynamic_scalar::class(t, id) == Some(Type::Int) => {
                dynamic_scalar::always_tensor(t, id, dtype)?
            }
            None => None,
        };
        let same = symbol.and_then(|symbol| t.graph.meta(symbol));
        if same.is_none_or(|meta| meta.dtype != dtype) {
            return refuse(t, "an operator of bits on two kinds of numbers");
        }
        symbols.extend(symbol);
    }
    let [a, b] = symbols[..] else {
        return Ok(None);
    };
    let name = format!("bitwise_{}", op.stem());
    let made = tensor_scalar::method(t, &name, a, vec![Arg::Symbol(b)])?;
    Ok(Some(item::variable(t, made)))
}

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

/// The type of a number; a bool is none here.
pub fn numbers_class(t: &mut Tracer<'_>, id: VarId) -> Option<Type> {
    match item::symbol(t, id) {
        None => dynamic_scalar::class(t, id),
        Some(symbol) => match t.graph.meta(symbol)?.dtype {
            DType::Int64 => Some(Type::Int),
            DType::Float64 => Some(Type::Float),
            DType::Bool
            | DType::UInt8
            | DType::Int8
            | DType::UInt16
            | DType::Int16
            | DType::UInt32
            | DType::Int32
            | DType::UInt64
            | DType::Float32
            | DType::Complex64
            | DType::Complex128
            | DType::Float16
            | DType::BFloat16
            | DType::Float8E4M3
            | DType::Float8E5M2 => None,
        },
    }
}

/// `min()` or `max()` of numbers of one type of which the program computes some; `None` where they
/// are none of these.
pub fn extreme(t: &mut Tracer<'_>, op: CmpOp, items: &[VarId]) -> Step<Option<VarId>> {
    let Some(class) = items.first().and_then(|item| numbers_class(t, *item)) else {
        return Ok(None);
    };
    let alike = items
        .iter()
        .all(|item| numbers_class(t, *item) == Some(class));
    if !alike || items.len() < 2 || !items.iter().any(|item| is_of_graph(t, *item)) {
        return Ok(None);
    }
    let (name, dtype) = match (op, class) {
        (CmpOp::Lt, Type::Int) => ("least", DType::Int64),
        (CmpOp::Lt, Type::Float) => ("least", DType::Float64),
        (_, Type::Int) => ("greatest", DType::Int64),
        (_, Type::Float) => ("greatest", DType::Float64),
    };
    let mut symbols = Vec::with_capacity(items.len());
    for item in items {
        let item = lowered(t, *item)?;
        let symbol = match item::symbol(t, item) {
            Some(symbol) => Some(symbol),
            None => dynamic_scalar::always_tensor(t, item, dtype)?,
        };
        match symbol {
            Some(symbol) => symbols.push(symbol),
            None => return Ok(None),
        }
    }
    let mut best = symbols[0];
    for other in &symbols[1..] {
        let made = apply(t, name, &[best, *other])?;
        match item::symbol(t, made) {
            Some(symbol) => best = symbol,
            None => return Ok(None),
        }
    }
    Ok(Some(item::variable(t, best)))
}

/// Whether what dims of inputs say of this number is assumed of every call.
pub fn is_assumed(t: &mut Tracer<'_>, id: VarId) -> bool {
    t.options.assumes_branches && dynamic_scalar::outcome_now(t, CmpOp::Eq, id, id).is_some()
}

/// What `a op b` answers for the dims of this call, where the user wants that to be assumed: the
/// program checks it.
pub fn assumed(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<bool>> {
    if !t.options.assumes_branches || !is_of_dims(t, a) && !is_of_dims(t, b) {
        return Ok(None);
    }
    let Some(outcome) = dynamic_scalar::outcome_now(t, op, a, b) else {
        return Ok(None);
    };
    let op = match outcome.holds {
        true => op,
        false => op.opposite(),
    };
    let Some(answer) = tensor_scalar::comparison(t, op, a, b)? else {
        return Ok(None);
    };
    let symbol = tensor_scalar::condition(t, answer)?;
    let [left, right] = [&outcome.left, &outcome.right].map(|number| named(t, number));
    let text = format!("{left} {} {right}", op.symbol());
    let text = PyString::new(t.py, &text).into_any();
    let given = vec![Arg::Symbol(symbol), Arg::Const(Obj::from(text))];
    tensor_scalar::control(t, ASSUME, given)?;
    Ok(Some(outcome.holds))
}

/// The number with the user's names of inputs.
fn named(t: &Tracer<'_>, number: &Number) -> Number<String> {
    number.map(&mut |place| {
        let mut inputs = t.graph.inputs.iter();
        let input = inputs.find(|input| shape_rules::place(&input.tracker) == place);
        let name = input.and_then(|input| t.options.names.get(&(input.value.as_ptr() as usize)));
        name.map_or_else(|| place.to_string(), Clone::clone)
    })
}

/// What the program takes for granted, in the order in which it is found; see `assumed`.
pub fn assumptions(py: Python<'_>, sir: &StatementIr) -> Vec<String> {
    let mut found = Vec::new();
    for it in &sir.statements {
        match &it.callee {
            Callee::Sir(region) => {
                for (_, block) in region.blocks() {
                    found.extend(assumptions(py, block));
                }
            }
            Callee::Api(function)
                if obj::is_attr(function.bind(py), "paddle_sot_rs._graph.control", ASSUME) =>
            {
                if let Some(Arg::Const(text)) = it.args.get(1) {
                    found.push(format!("{} ({})", text.bind(py), it.loc));
                }
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => {}
        }
    }
    found
}

const ASSUME: &str = "assume";

/// The product of whole numbers.
pub fn product(t: &mut Tracer<'_>, items: &[VarId]) -> Step<VarId> {
    let mut made = t.int(1);
    for item in items {
        made = operators::binary(t, BinOp::Mul, false, made, *item)?;
    }
    Ok(made)
}

/// Whether items are equal, one by one, to others, of which the program computes some: whether all
/// are, or any is. `None` where one is no number.
pub fn equal_items(t: &mut Tracer<'_>, pairs: &[(VarId, VarId)], all: bool) -> Step<Option<VarId>> {
    let mut computed = false;
    for (a, b) in pairs {
        computed |= is_of_graph(t, *a) || is_of_graph(t, *b);
        if numbers_class(t, *a).is_none() || numbers_class(t, *b).is_none() {
            return Ok(None);
        }
    }
    if !computed {
        return Ok(None);
    }
    let mut made: Option<SymbolId> = None;
    for (a, b) in pairs {
        let answer = comparisons::compare(t, CmpOp::Eq, *a, *b)?;
        let Some(symbol) = item::symbol(t, answer) else {
            match truth::truth(t, answer)? == all {
                true => continue,
                false => return Ok(Some(answer)),
            }
        };
        let name = if all { "logical_and" } else { "logical_or" };
        made = Some(match made {
            None => symbol,
            Some(known) => tensor_scalar::method(t, name, known, vec![Arg::Symbol(symbol)])?,
        });
    }
    Ok(Some(match made {
        Some(symbol) => item::variable(t, symbol),
        None => t.bool(all),
    }))
}

/// A call of `paddle_sot_rs._graph.arithmetic.name`.
pub fn apply(t: &mut Tracer<'_>, name: &str, args: &[SymbolId]) -> Step<VarId> {
    let args = args.iter().map(|arg| Arg::Symbol(*arg)).collect();
    match tensor_scalar::function(t, "paddle_sot_rs._graph.arithmetic", name, args)?.as_symbol() {
        Some(symbol) => Ok(item::variable(t, symbol)),
        None => refuse(t, format!("{name}() is not a number")),
    }
}
