//! What Python asks scalars and arrays for that the program computes: comparisons, their truth,
//! and the one number in an array.

use pyo3::prelude::*;
use pyo3::types::PyFloat;

use crate::bytecode::CmpOp;
use crate::frame::Modules;
use crate::graph::{Arg, DType, SymbolId};
use crate::obj::Obj;
use crate::ops::{CLONE, DETACH};
use crate::tracker::number::Type;
use crate::variables::{Kind, TensorVar, VarId};

use crate::dynamic_scalar::{always_tensor, is_single_int};
use crate::{Step, Tracer, item, numpy_scalars, tensor_scalar};

use super::super::program_numbers::{self, as_tensor, numbers_class};
use super::{apply, lowered, meta, of_calls, refuse};

/// The largest whole number such that it and all below are doubles.
const EXACT: u64 = 1 << 53;

/// `x.numpy()` of a tensor: an array with the numbers that it has now. `None` where control flow is
/// not captured, or the program has no such arrays.
pub fn of_tensor(t: &mut Tracer<'_>, tensor: VarId) -> Step<Option<VarId>> {
    let Kind::Tensor(TensorVar {
        symbol,
        class: None,
        ..
    }) = *t.kind(tensor)
    else {
        return Ok(None);
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return Ok(None);
    };
    let taken = matches!(
        meta.dtype,
        DType::Bool | DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64
    );
    if !t.options.capture_control_flow || !taken {
        return Ok(None);
    }
    let mut held = symbol;
    if !meta.stop_gradient {
        held = tensor_scalar::method(t, DETACH, held, Vec::new())?;
    }
    let held = tensor_scalar::method(t, CLONE, held, Vec::new())?;
    t.flow.read_arrays.insert(held);
    if meta.shape.is_empty() {
        t.flow.arrays_without_dims.insert(held);
    }
    Ok(Some(t.add(Kind::GraphArray(held))))
}

/// An array of one number as a scalar; others as they are.
pub fn single(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    let Some((symbol, meta)) = meta(t, id) else {
        return Ok(id);
    };
    if meta.shape.is_empty() || meta.shape.iter().any(|dim| *dim != 1) {
        return Ok(id);
    }
    let made = tensor_scalar::without_dims(t, symbol)?;
    if t.flow.read_arrays.contains(&symbol) {
        t.flow.read_arrays.insert(made);
    }
    Ok(t.add(Kind::GraphArray(made)))
}

/// Whether its truth is that of the one number that it has.
pub fn is_condition(t: &mut Tracer<'_>, id: VarId) -> bool {
    // What guards compute they answer.
    of_calls::number(t, id).is_none()
        && meta(t, id).is_some_and(|(_, meta)| meta.shape.iter().all(|dim| *dim == 1))
}

/// A scalar, an array of one number, or a number made of open dims, as the number that its truth is
/// that of; others as they are.
pub fn condition(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    let id = program_numbers::lowered(t, id)?;
    let scalar = single(t, id)?;
    lowered(t, scalar)
}

/// An operand of a comparison.
#[derive(Clone, Copy)]
enum Operand {
    /// Of the graph, by its dtype.
    Array(SymbolId, DType),
    /// A whole number, or a float, of Python's.
    Number(VarId, Type),
    /// The same of a scalar of NumPy that the program does not compute: it keeps its dtype.
    Scalar(VarId, Type),
}

fn operand(t: &mut Tracer<'_>, id: VarId) -> Step<Option<Operand>> {
    if let Some((symbol, meta)) = meta(t, id) {
        return Ok(Some(Operand::Array(symbol, meta.dtype)));
    }
    if let (Kind::Scalar, Some(value)) = (t.kind(id).clone(), t.value(id)) {
        if !of_calls::of_64_bits(&value)? {
            return Ok(None);
        }
        let plain = numpy_scalars::plain(&value)?;
        let id = t.constant(&plain);
        return Ok(numbers_class(t, id).map(|class| Operand::Scalar(id, class)));
    }
    Ok(numbers_class(t, id).map(|class| Operand::Number(id, class)))
}

/// A comparison of scalars, arrays and numbers: one of NumPy's for each number.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if let Some(answer) = of_calls::compare(t, op, a, b)? {
        return Ok(Some(answer));
    }
    if of_calls::is_such(t, a) || of_calls::is_such(t, b) {
        return refuse(t, "a comparison");
    }
    let (Some(a), Some(b)) = (operand(t, a)?, operand(t, b)?) else {
        return refuse(t, "a comparison");
    };
    let whole = |operand| match operand {
        Operand::Array(_, dtype) => dtype.is_whole(),
        Operand::Number(_, class) | Operand::Scalar(_, class) => class == Type::Int,
    };
    let dtype = match whole(a) && whole(b) {
        true => DType::Int64,
        false => DType::Float64,
    };
    let (Some(left), Some(right)) = (compared(t, a, b, dtype)?, compared(t, b, a, dtype)?) else {
        return refuse(t, "such a comparison");
    };
    let equality = matches!(op, CmpOp::Eq | CmpOp::Ne);
    let made = if equality && dtype == DType::Float64 {
        // Paddle takes floats for equal that differ by less than 1e-8.
        let name = if op == CmpOp::Eq { "equals" } else { "differs" };
        apply(t, name, vec![Arg::Symbol(left), Arg::Symbol(right)])?
    } else {
        tensor_scalar::method(t, op.dunder(), left, vec![Arg::Symbol(right)])?
    };
    Ok(Some(t.add(Kind::GraphArray(made))))
}

/// An operand as NumPy compares it with the other one, in a dtype that holds both.
fn compared(
    t: &mut Tracer<'_>,
    operand: Operand,
    other: Operand,
    dtype: DType,
) -> Step<Option<SymbolId>> {
    match operand {
        Operand::Array(_, DType::Bool) => Ok(None),
        Operand::Array(symbol, _) => item::cast(t, symbol, dtype).map(Some),
        Operand::Number(id, class) | Operand::Scalar(id, class) => {
            let takes_other = matches!(operand, Operand::Number(..));
            let narrow = takes_other && matches!(other, Operand::Array(_, DType::Float32));
            let known = t.const_value(id);
            match (class, known) {
                // A number of Python takes the dtype of the others.
                (Type::Float, Some(value)) if narrow => {
                    if !takes_their_dtype(t)? {
                        return Ok(None);
                    }
                    let value: f64 = value.extract()?;
                    let value = PyFloat::new(t.py, f64::from(value as f32)).into_any();
                    let value = t.constant(&value);
                    always_tensor(t, value, dtype)
                }
                (Type::Float, None) if narrow => Ok(None),
                (Type::Int, Some(value)) if dtype == DType::Float64 => {
                    let exact = value.extract().is_ok_and(|value: i64| match narrow {
                        true => is_single_int(value),
                        false => value.unsigned_abs() <= EXACT,
                    });
                    match exact {
                        true => always_tensor(t, id, dtype),
                        false => Ok(None),
                    }
                }
                (Type::Int, None) if dtype == DType::Float64 => Ok(None),
                _ => as_tensor(t, id, dtype),
            }
        }
    }
}

/// Whether a float of Python's is one of few digits beside such a scalar, as since NumPy 2.
fn takes_their_dtype(t: &Tracer<'_>) -> Step<bool> {
    let scalar = t.py.numpy()?.getattr("float32")?.call1((0.1,))?;
    Ok(scalar.eq(Obj::from(PyFloat::new(t.py, 0.1).into_any()).bind(t.py))?)
}
