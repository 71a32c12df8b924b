//! `int(x)`, `float(x)`, `bool(x)` and `x.item()` of tensors of one number: with captured control
//! flow, what they answer is a number of the graph.
//!
//! A whole number is an `int64`, a float a `float64`: every dtype here fits. Where a Python number
//! would be none of these (`int(nan)`, `int(1e30)`), the graph fails, and the interpreter runs the
//! function.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::{Arg, DType, SymbolId};
use crate::obj::Obj;
use crate::ops::{ASTYPE, CLONE, DETACH};
use crate::reason::BreakId;
use crate::tracker::number::Type;
use crate::variables::{Kind, NumberVar, TensorVar, VarId, protocol};

use crate::{
    Step, Tracer, dynamic_scalar, graph_arrays, grown_lists, program_numbers, shape_rules,
    tensor_scalar, tensors,
};

/// What a tensor is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// `int(x)`
    Int,
    /// `float(x)`
    Float,
    /// `x.item()`
    Item,
}

/// A number that the graph makes, by its dtype: an `int` or `bool`, or a `float`.
pub fn variable(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    match t.graph.meta(symbol).map(|meta| meta.dtype) {
        Some(DType::Float64) => t.add(Kind::Float(NumberVar::Graph(symbol))),
        _ => t.add(Kind::SymNumber(symbol)),
    }
}

/// The symbol of a number that the graph made.
pub fn symbol(t: &mut Tracer<'_>, id: VarId) -> Option<SymbolId> {
    t.kind(id).graph_number()
}

/// Whether this is a `float` that the graph made.
pub fn is_float(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Float(NumberVar::Graph(_)))
}

/// An item of `paddle.shape()` as the dim that it is.
fn item_of_shape(t: &mut Tracer<'_>, symbol: SymbolId, to: To) -> Option<VarId> {
    let (tensor, at) = shape_rules::item_of_shape(t, symbol)?;
    let dunder = match to {
        To::Item => "item",
        To::Int | To::Float => "__int__",
    };
    if tensors::is_users(t, dunder) {
        return None;
    }
    let dim = *t.graph.meta(tensor)?.shape.get(at)?;
    Some(tensors::dim(t, (tensor, at), dim))
}

/// A tensor or a number of the graph as another number; `None` where it is none of both, or has no
/// such number.
pub fn of(t: &mut Tracer<'_>, value: VarId, to: To) -> Step<Option<VarId>> {
    if let (Kind::Tensor(tensor), true) = (t.kind(value), to != To::Float) {
        let symbol = tensor.symbol;
        if let Some(dim) = item_of_shape(t, symbol, to) {
            return Ok(Some(dim));
        }
    }
    if !t.options.capture_control_flow {
        return Ok(None);
    }
    // A whole number made of dims is one already.
    if to != To::Float && matches!(t.kind(value), Kind::Int(_)) {
        return Ok(None);
    }
    let value = program_numbers::lowered(t, value)?;
    let value = graph_arrays::lowered(t, value)?;
    let (mut symbol, is_tensor) = if let Kind::Tensor(TensorVar {
        symbol,
        class: None,
        ..
    }) = t.kind(value).clone()
    {
        (symbol, true)
    } else {
        match self::symbol(t, value) {
            Some(symbol) => (symbol, false),
            None => return Ok(None),
        }
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return Ok(None);
    };
    if meta.shape.iter().any(|dim| *dim != 1) {
        return Ok(None);
    }
    let whole = meta.dtype.is_whole() || meta.dtype == DType::Bool;
    let floating = matches!(meta.dtype, DType::Float32 | DType::Float64);
    if !whole && !floating {
        return Ok(None);
    }
    // NumPy makes numbers of arrays without dims only.
    if is_tensor && to != To::Item && !meta.shape.is_empty() {
        return Ok(None);
    }
    if is_tensor {
        let dunder = match to {
            To::Int => "__int__",
            To::Float => "__float__",
            To::Item => "item",
        };
        if tensors::is_users(t, dunder) {
            return Ok(None);
        }
        if floating && !meta.stop_gradient {
            symbol = tensor_scalar::method(t, DETACH, symbol, Vec::new())?;
        }
        if !meta.shape.is_empty() {
            symbol = tensor_scalar::without_dims(t, symbol)?;
        }
    }
    let to = match to {
        To::Item if meta.dtype == DType::Bool => DType::Bool,
        To::Item if whole => DType::Int64,
        To::Item | To::Float => DType::Float64,
        To::Int => DType::Int64,
    };
    if to == DType::Int64 && (floating || is_tensor && meta.dtype == DType::Int64) {
        let size = cast(t, symbol, DType::Float64)?;
        is_small(t, size)?;
        if floating {
            symbol = size;
        }
    }
    symbol = cast(t, symbol, to)?;
    // A number does not change when its tensor does.
    if is_tensor && to == meta.dtype {
        symbol = tensor_scalar::method(t, CLONE, symbol, Vec::new())?;
    }
    Ok(Some(variable(t, symbol)))
}

/// `x.item(at)` and `x.item(row, column)` of places that are known; `None` of others, and where
/// there is no such item.
pub fn at(t: &mut Tracer<'_>, tensor: VarId, places: &[VarId]) -> Step<Option<VarId>> {
    let dims = tensors::meta_of(t, tensor).map(|meta| meta.shape);
    let Some(dims) = dims.filter(|_| t.options.capture_control_flow && !places.is_empty()) else {
        return Ok(None);
    };
    let mut at = Vec::with_capacity(dims.len());
    for place in places {
        match t
            .const_value(*place)
            .filter(|it| it.is_exact_instance_of::<PyInt>())
        {
            Some(place) => at.push(place.extract::<i64>().unwrap_or(-1)),
            None => return Ok(None),
        }
    }
    // Of all items in a row.
    if let [mut left] = at[..] {
        at.clear();
        for dim in dims.iter().rev() {
            at.insert(0, left.checked_rem(*dim).unwrap_or(-1));
            left = left.checked_div(*dim).unwrap_or(-1);
        }
        if left != 0 {
            return Ok(None);
        }
    }
    let fits =
        at.len() == dims.len() && at.iter().zip(&dims).all(|(at, dim)| (0..*dim).contains(at));
    if !fits || tensors::is_users(t, "__getitem__") {
        return Ok(None);
    }
    let key = at.into_iter().map(|at| t.int(at)).collect();
    let key = t.add(Kind::Tuple(key, None));
    let item = protocol::get_item(t, tensor, key)?;
    of(t, item, To::Item)
}

/// Whole numbers of the graph are smaller when they become such: sums and products of them are
/// checked, steps are not.
const SMALL: i64 = 1 << 62;

/// The largest constant that is added without a check: to get from small numbers to those that wrap
/// around takes more such steps than a program makes.
pub const STEP: u64 = 1 << 24;

/// Whether a constant may be a number of the graph.
pub fn is_small_int(value: i64) -> bool {
    value.unsigned_abs() < SMALL as u64
}

/// The graph fails where this `float64` is no number, or one that is not small enough to compute
/// with as `int64`.
pub(crate) fn is_small(t: &mut Tracer<'_>, symbol: SymbolId) -> Step<()> {
    is_below(t, symbol, SMALL as f64)
}

/// The graph fails where the size of this `float64` is not below a limit.
pub(crate) fn is_below(t: &mut Tracer<'_>, symbol: SymbolId, limit: f64) -> Step<()> {
    let size = tensor_scalar::method(t, "abs", symbol, Vec::new())?;
    let limit = PyFloat::new(t.py, limit).into_any();
    let limit = t.constant(&limit);
    let Some(limit) = dynamic_scalar::always_tensor(t, limit, DType::Float64)? else {
        return t.stop(BreakId::DynamicNumber, "a bound that is no tensor");
    };
    let fits = tensor_scalar::method(t, "__lt__", size, vec![Arg::Symbol(limit)])?;
    let fits = t.add(Kind::SymNumber(fits));
    tensor_scalar::statement(t, "check", &[fits])?;
    Ok(())
}

/// The graph fails where the sum or product of two whole numbers is none that it can compute with:
/// Python has larger ones.
pub fn fits(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<()> {
    let (Some(a), Some(b)) = (as_double(t, a)?, as_double(t, b)?) else {
        return t.stop(
            BreakId::DynamicNumber,
            "arithmetic on numbers of the graph that are not whole",
        );
    };
    let about = tensor_scalar::method(t, &format!("__{}__", op.stem()), a, vec![Arg::Symbol(b)])?;
    is_small(t, about)
}

/// The tensor in this dtype.
pub fn cast(t: &mut Tracer<'_>, symbol: SymbolId, dtype: DType) -> Step<SymbolId> {
    if t.graph.meta(symbol).is_some_and(|meta| meta.dtype == dtype) {
        return Ok(symbol);
    }
    let name = PyString::new(t.py, dtype.as_str()).into_any();
    tensor_scalar::method(t, ASTYPE, symbol, vec![Arg::Const(Obj::from(name))])
}

/// Any number as the `float64` that Python computes with next to a `float`.
pub(crate) fn as_double(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    if let Some(symbol) = dynamic_scalar::in_graph(t, id)? {
        let dtype = t.graph.meta(symbol).map(|meta| meta.dtype);
        return match dtype {
            Some(DType::Int64 | DType::Float64) => cast(t, symbol, DType::Float64).map(Some),
            _ => Ok(None),
        };
    }
    match dynamic_scalar::class(t, id) {
        Some(_) => dynamic_scalar::always_tensor(t, id, DType::Float64),
        None => Ok(None),
    }
}

/// A number that Python computes of dims, as the `float64` that the graph computes; `None` where it
/// does not.
pub fn of_dims(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    let Kind::Float(NumberVar::Made(op, a, b)) = *t.kind(id) else {
        return match dynamic_scalar::is_of_graph(t, id) {
            true => as_double(t, id),
            false => Ok(None),
        };
    };
    let (Some(a), Some(b)) = (as_double(t, a)?, as_double(t, b)?) else {
        return Ok(None);
    };
    let name = format!("__{}__", op.stem());
    tensor_scalar::method(t, &name, a, vec![Arg::Symbol(b)]).map(Some)
}

/// The largest whole number such that it and all below are doubles.
const EXACT: i64 = 1 << 53;

/// Whether `a op b` of numbers, of which one is a number of the graph, is a `float`.
fn makes_float(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> bool {
    if is_float(t, a) || is_float(t, b) {
        return true;
    }
    let mut whole =
        |id| matches!(t.kind(id), Kind::SymNumber(_)) || program_numbers::is_of_dims(t, id);
    if !whole(a) && !whole(b) {
        return false;
    }
    op == BinOp::TrueDiv
        || [a, b]
            .map(|id| dynamic_scalar::class(t, id))
            .contains(&Some(Type::Float))
}

/// A divisor as a double; the graph fails where it is zero.
fn divisor(t: &mut Tracer<'_>, id: VarId, symbol: SymbolId) -> Step<()> {
    if t.const_value(id).is_some() {
        return Ok(());
    }
    program_numbers::check_divisor(t, symbol)
}

/// `a op b` where one of them is a number of the graph and the result is a `float`; `None` when it
/// is none, or Python raises.
pub fn arithmetic(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if !makes_float(t, op, a, b) {
        return Ok(None);
    }
    let total = match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => true,
        BinOp::TrueDiv => match t.const_value(b) {
            Some(value) => value.extract().is_ok_and(|divisor: f64| divisor != 0.0),
            None => true,
        },
        BinOp::And
        | BinOp::FloorDiv
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Rem
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::Xor => false,
    };
    if !total {
        return Ok(None);
    }
    // Python divides whole numbers as they are.
    let whole = op == BinOp::TrueDiv && !is_float(t, a) && !is_float(t, b);
    for id in [a, b] {
        let known = t.const_value(id).map(|value| value.extract::<i64>());
        if matches!(known, Some(Ok(value)) if whole && value.unsigned_abs() > EXACT as u64) {
            return Ok(None);
        }
    }
    let (Some(left), Some(right)) = (as_double(t, a)?, as_double(t, b)?) else {
        return Ok(None);
    };
    for (id, symbol) in [(a, left), (b, right)] {
        if whole && matches!(t.kind(id), Kind::SymNumber(_)) {
            is_below(t, symbol, EXACT as f64)?;
        }
    }
    if op == BinOp::TrueDiv {
        divisor(t, b, right)?;
    }
    let (a, b) = (left, right);
    let name = format!("__{}__", op.stem());
    let made = tensor_scalar::method(t, &name, a, vec![Arg::Symbol(b)])?;
    Ok(Some(variable(t, made)))
}

/// `a op b` where one of them is a `float` of the graph.
pub fn comparison(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if !is_float(t, a) && !is_float(t, b) {
        return Ok(None);
    }
    for id in [a, b] {
        // Python compares whole numbers as they are.
        let exact = match t.const_value(id).map(|value| value.extract::<i64>()) {
            Some(Ok(value)) => value.unsigned_abs() <= 1 << 53,
            _ => dynamic_scalar::class(t, id) == Some(Type::Float),
        };
        if !exact {
            return Ok(None);
        }
    }
    let (Some(a), Some(b)) = (as_double(t, a)?, as_double(t, b)?) else {
        return Ok(None);
    };
    if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
        let made = tensor_scalar::method(t, op.dunder(), a, vec![Arg::Symbol(b)])?;
        return Ok(Some(t.add(Kind::SymNumber(made))));
    }
    // Paddle takes floats for equal that differ by less than 1e-8.
    let name = if op == CmpOp::Eq { "equals" } else { "differs" };
    program_numbers::apply(t, name, &[a, b]).map(Some)
}

/// `int()`, `float()` and `bool()` of a tensor or a number of the graph.
pub fn of_builtin(t: &mut Tracer<'_>, name: &str, value: VarId) -> Step<Option<VarId>> {
    match name {
        "int" => of(t, value, To::Int),
        "float" => of(t, value, To::Float),
        "bool" => {
            let value = grown_lists::asked(t, value)?;
            if !tensor_scalar::is_captured(t, value) {
                return Ok(None);
            }
            tensor_scalar::truth_value(t, value).map(Some)
        }
        _ => Ok(None),
    }
}
