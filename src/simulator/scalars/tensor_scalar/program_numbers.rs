//! Python's numbers as a program computes them: those made of open dims where nobody guards those,
//! as in exports, and those that the graph has.
//!
//! A whole number is an `int64`, a float a `float64`, both without dims, and each function here
//! gives the bits that Python gives.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::bytecode::{BinOp, CmpOp};

use crate::graph::{Arg, Callee, DType, StatementIr, SymbolId, TensorMeta};
use crate::obj::{self, Obj};
use crate::tracker::number::{Number, Type};
use crate::variables::{Kind, NumberVar, VarId};

use crate::phi::refuse;
use crate::{
    Step, Tracer, arguments, comparisons, dynamic_scalar, item, operators, powers, shape_rules,
    tensor_scalar, truth,
};

/// Whether the program computes what Python asks of open dims: nobody guards what is exported.
pub fn computes_dims(t: &Tracer<'_>) -> bool {
    t.options.capture_control_flow && !t.options.varies.guards_outcomes
}

/// Whether this is a number made of open dims that the program computes: in exports, and in calls
/// where only the program knows the dims.
pub fn is_of_dims(t: &mut Tracer<'_>, id: VarId) -> bool {
    let is_made = t.options.capture_control_flow
        && (matches!(t.kind(id), Kind::Float(NumberVar::Made(..)))
            || matches!(t.kind(id), Kind::Int(_)) && arguments::depends_on_dims(t, id));
    is_made && (computes_dims(t) || !dynamic_scalar::is_known_to_guards(t, id))
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

/// Two operands as numbers of the graph, where they are made of dims. A bool is a whole number, but
/// to operators of bits.
pub fn both(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<(VarId, VarId)> {
    let of_bits = matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
    let one = |t: &mut Tracer<'_>, id| -> Step<VarId> {
        let symbol = if let Kind::Int(_) = t.kind(id) {
            dynamic_scalar::in_graph(t, id)?
        } else {
            let is_bool = |meta: &TensorMeta| meta.dtype == DType::Bool;
            match item::symbol(t, id) {
                Some(symbol) if !of_bits && t.graph.meta(symbol).is_some_and(is_bool) => {
                    Some(item::cast(t, symbol, DType::Int64)?)
                }
                _ => None,
            }
        };
        Ok(symbol.map_or(id, |symbol| item::variable(t, symbol)))
    };
    Ok((one(t, a)?, one(t, b)?))
}

/// Whole numbers made of dims that guards know, as the graph has them next to one of its own;
/// others as they are.
pub fn next_to_graph(t: &mut Tracer<'_>, ids: [VarId; 2]) -> Step<[VarId; 2]> {
    let mut made = ids;
    for id in &mut made {
        if let Kind::Int(_) = t.kind(*id) {
            let symbol = dynamic_scalar::place(t, *id)?;
            *id = symbol.map_or(*id, |symbol| t.add(Kind::SymNumber(symbol)));
        }
    }
    Ok(made)
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

/// How two sequences of whole numbers are ordered, of which the program computes some; `None` where
/// they are none of these.
pub fn ordered_items(
    t: &mut Tracer<'_>,
    op: CmpOp,
    x: &[VarId],
    y: &[VarId],
) -> Step<Option<VarId>> {
    let mut computed = false;
    for item in x.iter().chain(y) {
        computed |= is_of_graph(t, *item);
        if numbers_class(t, *item) != Some(Type::Int) {
            return Ok(None);
        }
    }
    let strict = match op {
        CmpOp::Lt | CmpOp::Le => CmpOp::Lt,
        CmpOp::Gt | CmpOp::Ge => CmpOp::Gt,
        CmpOp::Eq | CmpOp::Ne => return Ok(None),
    };
    if !computed {
        return Ok(None);
    }
    // Behind the last pair their lengths decide.
    let mut found = t.bool(op.holds(x.len(), y.len()));
    let pairs: Vec<_> = x.iter().copied().zip(y.iter().copied()).collect();
    for (a, b) in pairs.into_iter().rev() {
        let before = comparisons::compare(t, strict, a, b)?;
        let equal = comparisons::compare(t, CmpOp::Eq, a, b)?;
        let mut symbols = Vec::with_capacity(3);
        for answer in [before, equal, found] {
            symbols.push(match item::symbol(t, answer) {
                Some(symbol) => symbol,
                None => {
                    let known = truth::truth(t, answer)?;
                    constant_bool(t, known)?
                }
            });
        }
        let [before, equal, rest] = symbols[..] else {
            return Ok(None);
        };
        let tie = tensor_scalar::method(t, "logical_and", equal, vec![Arg::Symbol(rest)])?;
        let made = tensor_scalar::method(t, "logical_or", before, vec![Arg::Symbol(tie)])?;
        found = item::variable(t, made);
    }
    Ok(Some(found))
}

/// `a if condition else b` of whole numbers.
pub fn chosen(t: &mut Tracer<'_>, condition: SymbolId, a: VarId, b: VarId) -> Step<VarId> {
    let mut symbols = vec![condition];
    for number in [a, b] {
        match as_tensor(t, number, DType::Int64)? {
            Some(symbol) => symbols.push(symbol),
            None => return refuse(t, "a choice between such numbers"),
        }
    }
    apply(t, "chosen", &symbols)
}

fn constant_bool(t: &mut Tracer<'_>, value: bool) -> Step<SymbolId> {
    let value = t.bool(value);
    let made = dynamic_scalar::filled(t, &[], value, DType::Bool)?;
    match t.kind(made).tensor().map(|tensor| tensor.symbol) {
        Some(symbol) => Ok(symbol),
        None => refuse(t, "a bool that is not a tensor"),
    }
}

/// A call of `paddle_sot_rs._graph.arithmetic.name`.
pub fn apply(t: &mut Tracer<'_>, name: &str, args: &[SymbolId]) -> Step<VarId> {
    let args = args.iter().map(|arg| Arg::Symbol(*arg)).collect();
    applied(t, name, args)
}

/// The same with what is known among its arguments.
pub fn applied(t: &mut Tracer<'_>, name: &str, args: Vec<Arg>) -> Step<VarId> {
    match tensor_scalar::function(t, "paddle_sot_rs._graph.arithmetic", name, args)?.as_symbol() {
        Some(symbol) => Ok(item::variable(t, symbol)),
        None => refuse(t, format!("{name}() is not a number")),
    }
}
