//! Scalars of NumPy that each call makes of open dims and other numbers that differ between calls,
//! by NumPy's own function, and arrays that the program counts up to such numbers.
//!
//! Guards compute the scalars as well, so that what Python asks of them is answered. Where NumPy
//! would warn there is no such number: the guard fails, and the call is translated by itself.

use pyo3::prelude::*;

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::Modules;
use crate::graph::{DType, SymbolId};
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::{Step, Tracer, dynamic_scalar, item, numpy_scalars, operators};

use super::{functions, sampled};

/// What the program computes as NumPy does, to the last bit, and of what NumPy never warns.
const NEVER_WARN: &str =
    "absolute add ceil floor maximum minimum multiply negative square subtract trunc";

/// Whether NumPy never warns of such a function, nor has digits of its own.
pub(super) fn never_warns(name: &str) -> bool {
    NEVER_WARN.split_whitespace().any(|known| known == name)
}

/// The number of Python's that a scalar is; `None` of others.
pub fn number(t: &Tracer<'_>, id: VarId) -> Option<VarId> {
    let Kind::GraphArray(symbol) = *t.vars.kind(id) else {
        return None;
    };
    let mut known = t.flow.scalars_of_calls.iter().rev();
    known
        .find(|(of, _)| *of == symbol)
        .map(|(_, number)| *number)
}

/// Whether calls make this scalar, or it is an array of such numbers.
pub(super) fn is_such(t: &Tracer<'_>, id: VarId) -> bool {
    let Kind::GraphArray(symbol) = *t.vars.kind(id) else {
        return false;
    };
    t.flow.arrays_of_calls.contains(&symbol) || number(t, id).is_some()
}

/// Notes an array that is made of such ones.
pub(super) fn note(t: &mut Tracer<'_>, is_such: bool, made: VarId) {
    if let (true, Kind::GraphArray(symbol)) = (is_such, t.kind(made).clone()) {
        t.flow.arrays_of_calls.insert(symbol);
    }
}

/// Whether a scalar has what a number of Python's has.
pub(super) fn of_64_bits(scalar: &Bound<'_, PyAny>) -> PyResult<bool> {
    let dtype: String = scalar.getattr("dtype")?.getattr("name")?.extract()?;
    Ok([DType::Int64, DType::Float64]
        .iter()
        .any(|known| known.as_str() == dtype))
}

/// A number of Python's, or a scalar of 64 bits as one.
fn as_number(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    if let Some(number) = number(t, id) {
        return Ok(Some(number));
    }
    if let (Kind::Scalar, Some(value)) = (t.kind(id).clone(), t.value(id)) {
        return match of_64_bits(&value)? {
            true => Ok(Some(t.constant(&numpy_scalars::plain(&value)?))),
            false => Ok(None),
        };
    }
    let plain = dynamic_scalar::class(t, id).is_some() && !item::is_float(t, id);
    Ok(plain.then_some(id))
}

/// Numbers of which some differ between calls, where guards say what they are.
fn numbers(t: &mut Tracer<'_>, args: &[VarId]) -> Step<Option<Vec<VarId>>> {
    let mut found = Vec::with_capacity(args.len());
    for arg in args {
        match as_number(t, *arg)? {
            Some(number) => found.push(number),
            None => return Ok(None),
        }
    }
    let differs = found
        .iter()
        .any(|number| dynamic_scalar::is_open(t, *number));
    Ok((differs && t.options.varies.guards_outcomes).then_some(found))
}

/// Whether both are numbers, and one differs between calls.
pub(super) fn are_numbers(t: &mut Tracer<'_>, args: &[VarId]) -> Step<bool> {
    Ok(numbers(t, args)?.is_some())
}

/// What a function of NumPy, or a class of its scalars, answers to one or two such numbers; `None`
/// of others.
pub(super) fn scalar(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let numpy = t.py.numpy()?;
    let is_function = function.is_instance(&numpy.getattr("ufunc")?)?
        || function.is(&numpy.getattr(DType::Float64.as_str())?)
        || function.is(&numpy.getattr(DType::Int64.as_str())?);
    if !is_function || args.is_empty() || args.len() > 2 {
        return Ok(None);
    }
    let Some(numbers) = numbers(t, args)? else {
        return Ok(None);
    };
    let Some((dtype @ (DType::Int64 | DType::Float64), dims)) = sampled(t, function, args)? else {
        return Ok(None);
    };
    let plain = dynamic_scalar::helper(t, "plain")?.call1((function,))?;
    let given = (numbers[0], numbers.get(1).copied());
    let made = match dims.is_empty() {
        true => dynamic_scalar::of_function(t, &plain, given)?,
        false => None,
    };
    let Some(made) = made else {
        return Ok(None);
    };
    let whole = dynamic_scalar::class(t, made) == Some(Type::Int);
    if whole != dtype.is_whole() {
        return Ok(None);
    }
    scalar_of(t, made, dtype)
}

/// A number as a scalar that each call makes.
fn scalar_of(t: &mut Tracer<'_>, number: VarId, dtype: DType) -> Step<Option<VarId>> {
    let symbol = dynamic_scalar::always_tensor(t, number, dtype)?;
    Ok(symbol.map(|symbol: SymbolId| {
        t.flow.scalars_of_calls.push((symbol, number));
        t.add(Kind::GraphArray(symbol))
    }))
}

/// `np.prod(x.shape)` and sums of such whole numbers; `None` of others.
pub(super) fn of_list(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    name: &str,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let mut known = functions::IN_ORDER
        .split_whitespace()
        .zip([BinOp::Mul, BinOp::Add]);
    let (Some((_, op)), [list]) = (known.find(|(known, _)| *known == name), args) else {
        return Ok(None);
    };
    let items = t.kind(*list).plain_items().map(<[VarId]>::to_vec);
    let Some(items) = numbers(t, &items.unwrap_or_default())? else {
        return Ok(None);
    };
    let is_whole = |item: &VarId| dynamic_scalar::class(t, *item) == Some(Type::Int);
    if !items.iter().all(is_whole) || sampled(t, function, args)? != Some((DType::Int64, vec![])) {
        return Ok(None);
    }
    let mut made = items[0];
    for item in &items[1..] {
        made = operators::binary(t, op, false, made, *item)?;
    }
    // A product of more than 64 bits is another number to NumPy.
    match dynamic_scalar::is_open(t, made) && dynamic_scalar::is_computed(t, made)? {
        true => scalar_of(t, made, DType::Int64),
        false => Ok(None),
    }
}

/// `np.arange()` of such numbers; `None` of others.
pub(super) fn counted(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if numbers(t, args)?.is_none() {
        return Ok(None);
    }
    let made = functions::arange(t, function, args, None)?;
    Ok(made.inspect(|made| note(t, true, *made)))
}

/// What a comparison of such a scalar answers, under a guard; `None` of others.
pub(super) fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let Some(numbers) = numbers(t, &[a, b])? else {
        return Ok(None);
    };
    let Some(holds) = dynamic_scalar::compare(t, op, numbers[0], numbers[1])? else {
        return Ok(None);
    };
    let answer = t.py.numpy()?.getattr("bool_")?.call1((holds,))?;
    Ok(Some(t.constant(&answer)))
}
