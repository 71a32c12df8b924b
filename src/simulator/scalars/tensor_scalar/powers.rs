//! `a ** b`, `pow()` and `math.pow()` of numbers that a program computes: with Python's type and
//! bits.
//!
//! Where Python raises, makes a complex number, or a whole one that no `int64` is, the program
//! fails.

use pyo3::prelude::*;

use crate::bytecode::BinOp;
use crate::graph::{DType, SymbolId};
use crate::reason::BreakId;
use crate::tracker::number::Type;
use crate::variables::VarId;

use crate::phi::refuse;
use crate::program_numbers::{apply, is_of_graph, lowered, numbers_class};
use crate::{Step, Tracer, item, tensor_scalar};

/// The largest constant that a whole number is multiplied for: only 0, 1 and -1 have such powers.
const MOST: i64 = 1024;

/// `a ** b` where the program computes one of them; `None` where it computes none, or one is no
/// number.
pub fn of(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if !is_of_graph(t, a) && !is_of_graph(t, b) {
        return Ok(None);
    }
    let (Some(base), Some(exponent)) = (numbers_class(t, a), numbers_class(t, b)) else {
        return Ok(None);
    };
    if base != Type::Int || exponent != Type::Int {
        return of_floats(t, a, b);
    }
    match t.const_value(b).map(|value| value.extract::<i64>()) {
        Some(Ok(times)) if times < 0 => of_floats(t, a, b),
        Some(Ok(times)) if times <= MOST => repeated(t, a, times),
        Some(_) => refuse(t, "such a power of a number of the graph"),
        None => of_whole(t, a, b).map(Some),
    }
}

/// `a ** times` as products of squares: each of them is checked.
fn repeated(t: &mut Tracer<'_>, a: VarId, times: i64) -> Step<Option<VarId>> {
    let mut square = lowered(t, a)?;
    let (mut made, mut left) = (None, times);
    while left > 0 {
        if left % 2 == 1 {
            made = match made {
                None => Some(square),
                Some(known) => tensor_scalar::arithmetic(t, BinOp::Mul, known, square)?,
            };
        }
        left /= 2;
        if left > 0 {
            match tensor_scalar::arithmetic(t, BinOp::Mul, square, square)? {
                Some(product) => square = product,
                None => return Ok(None),
            }
        }
    }
    // Zero to zero is one, too.
    Ok(Some(made.unwrap_or_else(|| t.int(1))))
}

/// `a ** b` of whole numbers, which is one while `b` is not negative.
pub fn of_whole(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<VarId> {
    let name = match t.const_int(a) {
        // Doubles have these to the last.
        Some(2) => "power_of_two",
        _ => "whole_power",
    };
    let (a, b) = (double(t, a)?, double(t, b)?);
    apply(t, name, &[a, b])
}

/// `float(a) ** float(b)`.
pub fn of_floats(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let (a, b) = (double(t, a)?, double(t, b)?);
    apply(t, "power", &[a, b]).map(Some)
}

fn double(t: &mut Tracer<'_>, id: VarId) -> Step<SymbolId> {
    let id = lowered(t, id)?;
    match item::as_double(t, id)? {
        Some(symbol) => item::cast(t, symbol, DType::Float64),
        None => t.stop(
            BreakId::DynamicNumber,
            "a power of a number that a program does not compute",
        ),
    }
}
