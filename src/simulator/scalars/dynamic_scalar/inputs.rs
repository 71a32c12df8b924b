//! Numbers that differ between calls as tensors of the graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::Modules;
use crate::graph::{Callee, DType, PYTHON_NUMBER, SymbolId};
use crate::obj::Obj;
use crate::ops::FULL;
use crate::paddle::tensor_meta;
use crate::reason::BreakId;
use crate::tracker::Tracker;
use crate::tracker::number::{Type, Value};
use crate::variables::{Kind, NumberVar, VarId};

use crate::{Step, Tracer, arguments, item, tensors};

use super::{class, compare, is_open, may_be_large, now, number};

/// An open number next to a tensor of this dtype, as one of the graph: `None` where a Python number
/// does not simply take the dtype of the tensor, or the operator (`None`: a comparison) does not
/// treat both alike.
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

/// Stops at a whole number that differs between calls and that a double may not hold: eager mode
/// makes one of it, and rounds twice where the tensor has floats.
pub fn check_double(t: &mut Tracer<'_>, id: VarId) -> Step<()> {
    if class(t, id) == Some(Type::Int) && !is_double(t, id)? {
        return t.stop(
            BreakId::DynamicNumber,
            "a whole number with more digits than a double, next to a tensor",
        );
    }
    Ok(())
}

/// A whole number of the graph as the double that eager mode makes of it, where that may be another
/// number.
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

pub(super) fn is_exact_constant(t: &mut Tracer<'_>, id: VarId) -> bool {
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

/// Whether a number that is known has digits that a program would lose: it keeps those next to
/// tensors as floats.
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
    let full = Obj::from(t.py.paddle()?.getattr(FULL)?);
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

/// A whole number of dims as one of the graph, or as one that each call makes.
pub fn place(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    match in_graph(t, id)? {
        Some(symbol) => Ok(Some(symbol)),
        None => made_for_calls(t, id),
    }
}

/// A whole number that a function of Python makes of dims (`math.ceil(n / 2)`), as an input that
/// each call makes; `None` where it is none of these.
pub fn made_for_calls(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    let made = t.options.varies.guards_outcomes && matches!(t.kind(id), Kind::Int(_));
    match made && is_made_of_dims(t, id) {
        true => fed(t, id, DType::Int64),
        false => Ok(None),
    }
}

/// Whether all that is open in a number are dims.
fn is_made_of_dims(t: &Tracer<'_>, id: VarId) -> bool {
    let (Kind::Int(number) | Kind::Float(number)) = *t.vars.kind(id) else {
        return matches!(t.vars.kind(id), Kind::Const);
    };
    match number {
        NumberVar::Dim(..) => true,
        NumberVar::Given | NumberVar::Graph(_) => false,
        NumberVar::Made(_, a, b) => is_made_of_dims(t, a) && is_made_of_dims(t, b),
        NumberVar::Called(_, a, b) => {
            is_made_of_dims(t, a) && b.is_none_or(|b| is_made_of_dims(t, b))
        }
    }
}

/// The product of a tensor of floats and a number that the graph does not know. It is Paddle's
/// `scale`, as with numbers that are known: a product of two tensors has other zeros, and rounds
/// the number first.
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
    let scale = Obj::from(t.py.paddle()?.getattr("scale")?);
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
    tensor.setattr("name", PYTHON_NUMBER)?;
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
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let full = FUNCTION
        .get_or_try_init(py, || py.paddle()?.getattr(FULL).map(Bound::unbind))?
        .bind(py);
    let shape: [i64; 0] = [];
    let dtype = PyString::intern(py, dtype.as_str());
    match value {
        Value::Int(value) => full.call1((shape, value, dtype)),
        Value::Float(value) => full.call1((shape, value, dtype)),
    }
}
