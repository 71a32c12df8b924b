//! Calls whose results static inference knows otherwise than eager mode has them: they are refused.

use std::sync::Arc;

use paddle_sot_backend::graph::{Arg, DType, StatementIr};
use paddle_sot_backend::ops::{FULL, Fact, knows};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

pub(super) fn all_given<'a>(
    args: &'a [Arg],
    kwargs: &'a [(Arc<str>, Arg)],
) -> impl Iterator<Item = &'a Arg> + 'a {
    args.iter().chain(kwargs.iter().map(|(_, arg)| arg))
}

/// Programs keep numbers in single precision, and do arithmetic of a bool or half tensor and a
/// number that eager mode refuses or does in another type.
fn number_differs(
    py: Python<'_>,
    name: &str,
    sir: &StatementIr,
    args: &[Arg],
    kwargs: &[(Arc<str>, Arg)],
) -> bool {
    let given = || all_given(args, kwargs);
    let dtypes = || {
        let tensors = given().filter_map(Arg::as_symbol);
        tensors.filter_map(|symbol| Some(sir.meta(symbol)?.dtype))
    };
    let wide = |dtype: DType| dtype == DType::Float64 || dtype.is_complex();
    given().enumerate().any(|(at, arg)| {
        let Arg::Const(value) = arg else {
            return false;
        };
        let value = value.bind(py);
        if value.is_exact_instance_of::<PyBool>() {
            // One with a name says how: `keepdim`, `transpose_y`.
            return at < args.len()
                && args.len() == 2
                && dtypes()
                    .any(|dtype| matches!(dtype, DType::Bool | DType::Float16 | DType::BFloat16));
        }
        if value.is_exact_instance_of::<PyFloat>() {
            let value: f64 = value.extract().unwrap_or(f64::NAN);
            // Of those with a name, few are taken as tensors: `trace.py` looks for them.
            let rounds = f64::from(value as f32) != value && !value.is_nan();
            // Eager mode raises where the dtype does not hold the number; the float of a program is
            // infinite.
            if name == "full_like" && value.is_finite() && value.abs() > f64::from(f32::MAX) {
                return true;
            }
            return rounds
                && at < args.len()
                && dtypes().any(wide)
                && !knows(name, Fact::KeepsDoubles);
        }
        if !value.is_exact_instance_of::<PyInt>() {
            return false;
        }
        // A program makes a double of it before it makes a float.
        let rounded_twice = value
            .extract::<i64>()
            .is_ok_and(|value| value as f64 as f32 != value as f32);
        if COMPARISONS.contains(&name) {
            return rounded_twice
                && dtypes().any(|dtype| !wide(dtype) && dtype.as_str().contains("float"));
        }
        let exact = |round: fn(i64) -> i128| {
            let value = value.extract::<i64>();
            value.is_ok_and(|value| round(value) == i128::from(value))
        };
        if matches!(name, FULL | "linspace") {
            return !exact(|value| (value as f64) as i128)
                || !is_small_int(value) && given().any(|arg| is_short_dtype(py, arg));
        }
        let short = |dtype| SHORT.contains(&dtype);
        if !name.starts_with("__") && !is_small_int(value) && dtypes().any(short) {
            return true;
        }
        !exact(|value| (value as f32) as i128)
            && dtypes().any(|dtype| wide(dtype) || dtype.as_str().contains("int") || rounded_twice)
    })
}

/// Whether a number is one of 32 bits, or the next one: functions of Paddle make whole numbers of
/// doubles or floats in a program, and those do not wrap around.
fn is_small_int(value: &Bound<'_, PyAny>) -> bool {
    const MOST: i64 = 1 << 31;
    let value = value.extract::<i64>();
    value.is_ok_and(|value| (-MOST..=MOST).contains(&value))
}

/// Dtypes of whole numbers of less than 64 bits.
const SHORT: [DType; 4] = [DType::UInt8, DType::Int8, DType::Int16, DType::Int32];

/// Whether an argument is one of those, however that is written.
fn is_short_dtype(py: Python<'_>, arg: &Arg) -> bool {
    let Arg::Const(value) = arg else {
        return false;
    };
    let name = value.bind(py).str().map(|name| name.to_string());
    name.is_ok_and(|name| SHORT.iter().any(|dtype| name.contains(dtype.as_str())))
}

/// Methods that make a tensor of the other type first.
const COMPARISONS: &[&str] = &["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"];

/// Where static inference gives another dtype or shape than eager (found by probing): refused, so
/// that eager's answer wins.
pub(super) fn differs_from_eager(
    py: Python<'_>,
    name: &str,
    sir: &StatementIr,
    args: &[Arg],
    kwargs: &[(Arc<str>, Arg)],
) -> bool {
    if number_differs(py, name, sir, args, kwargs) {
        return true;
    }
    let given = || all_given(args, kwargs);
    let mut tensors = given().filter_map(Arg::as_symbol);
    let first = tensors.find_map(|symbol| sir.meta(symbol));
    let integral = first.is_some_and(|meta| !meta.dtype.is_differentiable());
    let is_other = |dtype: DType| first.is_some_and(|meta| meta.dtype != dtype);
    let single = |arg: &Arg| {
        matches!(arg, Arg::Symbol(symbol)
            if sir.meta(*symbol).is_some_and(|meta| meta.shape.iter().all(|dim| *dim == 1)))
    };
    match name {
        "inner" => given().any(single),
        "exp" | "expm1" | "log" | "log2" | "log10" | "log1p" => integral,
        // The program says another dtype than the result has.
        "all" | "any" => is_other(DType::Bool),
        "reduce_as" => integral && is_other(DType::Int64),
        "unique" | "overlap_add" => is_other(DType::Float32),
        "svd" | "svdvals" | "svd_lowrank" | "pca_lowrank" => {
            first.is_some_and(|meta| meta.dtype.is_complex())
        }
        // Eager mode makes single precision of both first.
        "__pow__" | "__rpow__" | "pow" => {
            let fraction = |arg: &Arg| matches!(arg, Arg::Const(it) if it.bind(py).is_instance_of::<PyFloat>());
            integral && given().any(fraction)
        }
        // Eager mode looks at the numbers.
        "gammainc" | "gammaincc" | "gaussian_nll_loss" | "multi_label_margin_loss" => true,
        // Asks for as many classes as the -1 of an open dim says.
        "dice_loss" => first.is_some_and(|meta| meta.shape.last() == Some(&-1)),
        // Without rows, no gradient goes through the first, and the other raises.
        "vander" | "npair_loss" => first.is_some_and(|meta| meta.shape.iter().any(|dim| *dim < 1)),
        // Odd arguments of these abort the process.
        "count_nonzero" | "nansum" | "nanmean" | "box_coder" => true,
        _ => false,
    }
}
