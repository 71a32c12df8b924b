//! Scalars of NumPy: `np.sqrt(width)` in a constructor, `int(np.ceil(x / 2))` in a forward. They
//! are values like Python's numbers, and what is computed with them is computed at translation.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyTuple};

use crate::bytecode::BinOp;
use crate::frame::Modules;
use crate::graph::{Arg, Callee, DType};
use crate::native;
use crate::obj::{Obj, text_of, within};
use crate::ops::FULL_LIKE;
use crate::reason::BreakId;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, TensorVar, VarId};

use crate::{Step, Tracer, arguments, dynamic_scalar, fold, process_state, tensors};

/// Operators of tensors that take a number.
const OPERATORS: &[&str] = &[
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__radd__",
    "__rsub__",
    "__rmul__",
    "__rtruediv__",
    "__rfloordiv__",
    "__rmod__",
    "__rpow__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__eq__",
    "__ne__",
];

/// Those of tensors of whole numbers that keep the dtype next to a tensor of it.
const WHOLE: &[&str] = &[
    "__add__", "__sub__", "__mul__", "__radd__", "__rsub__", "__rmul__",
];

/// Whether the value of one from here is known: what was just computed (a local, the stack of a
/// resumed frame) differs from call to call.
pub fn is_settled(source: Option<&TrackerRef>) -> bool {
    source.is_some_and(|source| !matches!(**source, Tracker::Local { .. }))
}

/// A call of a pure function on numbers. Where NumPy would warn, the interpreter does it.
pub fn compute<'py>(
    t: &mut Tracer<'py>,
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> Step<Bound<'py, PyAny>> {
    let numpy = t.py.numpy()?;
    let errors = PyDict::new(t.py);
    errors.set_item("all", "raise")?;
    let state = numpy.call_method("errstate", (), Some(&errors))?;
    match within(&state, || process_state::call(t, callable, args, kwargs))?? {
        Some(Ok(value)) => Ok(value),
        _ => t.stop(
            BreakId::OperatorArguments,
            "NumPy raises or warns in this computation",
        ),
    }
}

/// `np.sqrt(2)`, `np.prod([2, 3])`, `np.float32(1)`; `None` where an argument is not known.
pub fn call<'py>(
    t: &mut Tracer<'py>,
    callable: VarId,
    object: &Bound<'py, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let name = text_of(object, "__name__");
    t.guard_identity(callable);
    let Some((objects, named)) = fold::arguments(t, args, &[])? else {
        return Ok(None);
    };
    let operands: Vec<_> = objects.iter().collect();
    process_state::check(t, object, &name, &operands)?;
    let value = compute(t, object, &objects, &named)?;
    if !native::is_scalar(&value) {
        return t.stop(
            BreakId::OperatorArguments,
            format!("{name}() that answers with an array"),
        );
    }
    Ok(Some(t.constant(&value)))
}

/// The operand of an operator of a tensor as the Python number that gives the same; `None` where it
/// does not.
pub fn operand(t: &mut Tracer<'_>, tensor: VarId, name: &str, value: VarId) -> Step<Option<VarId>> {
    let Some(scalar) = t.value(value) else {
        return Ok(None);
    };
    let Kind::Tensor(TensorVar { symbol, .. }) = *t.kind(tensor) else {
        return Ok(None);
    };
    let class = scalar.get_type().name()?.to_string();
    let Some(dtype) = t.graph.meta(symbol).map(|meta| meta.dtype) else {
        return Ok(None);
    };
    let floating = matches!(dtype, DType::Float32 | DType::Float64);
    // A float64 is a float; of the others Paddle makes tensors, whose classes decide with those of
    // other tensors.
    let is = |dtype: DType| class == dtype.as_str();
    let next_to_floats = [DType::Float32, DType::Int64, DType::Int32];
    // A tensor of no dims takes no dims with it.
    if dtype == DType::Int64 && is(dtype) && WHOLE.contains(&name) {
        let number = t.constant(&scalar.call_method0("item")?);
        return dynamic_scalar::filled(t, &[], number, dtype).map(Some);
    }
    let same = is(DType::Float64) || floating && next_to_floats.into_iter().any(is);
    if !same || !OPERATORS.contains(&name) {
        return Ok(None);
    }
    let number = scalar.call_method0("item")?;
    let number = t.constant(&number);
    match (class.as_str(), name) {
        // Powers with tensors have digits of their own; a power of a tensor of no dims has one.
        ("float32", "__pow__") => dynamic_scalar::filled(t, &[1], number, dtype).map(Some),
        // Programs scale by numbers, which loses the sign of zeros.
        ("float32", "__mul__" | "__rmul__") => {
            dynamic_scalar::filled(t, &[], number, dtype).map(Some)
        }
        _ => Ok(Some(number)),
    }
}

/// Whether an operator of a scalar leaves the answer to the tensor on its right.
pub fn defer_to_tensors(py: Python<'_>) -> PyResult<bool> {
    let tensor = py.paddle()?.getattr("Tensor")?;
    let asked = tensor.getattr_opt("__array_ufunc__")?;
    Ok(asked.is_some_and(|answer| answer.is_none()))
}

/// A bool next to a tensor of floats as the tensor that eager mode makes of it. Programs scale by
/// it, which loses the sign of zeros.
pub fn of_bool(
    t: &mut Tracer<'_>,
    (tensor, dtype): (VarId, DType),
    name: &str,
    value: VarId,
) -> Step<Option<VarId>> {
    const SCALES: [&str; 5] = ["__mul__", "__rmul__", "__sub__", "__rsub__", "__truediv__"];
    let given = t.const_value(value);
    let given = given.filter(PyAnyMethods::is_exact_instance_of::<PyBool>);
    let (Some(given), true) = (given, dtype.is_floating() && SCALES.contains(&name)) else {
        return Ok(None);
    };
    let function = Obj::from(t.py.paddle()?.getattr(FULL_LIKE)?);
    let number: f64 = if given.is_truthy()? { 1.0 } else { 0.0 };
    let number = t.constant(PyFloat::new(t.py, number).as_any());
    let args = [tensor, number];
    tensors::capture(t, Callee::Api(function), None, &args, &[], &mut |_| None).map(Some)
}

/// Whether this takes nothing away. Paddle adds `-number`, and `-0.0` may become `0.0` in a
/// program: not the same for numbers that are `-0.0`.
pub fn subtracts_nothing(t: &mut Tracer<'_>, dtype: DType, name: &str, number: VarId) -> bool {
    if name != "__sub__" || !dtype.is_floating() {
        return false;
    }
    let Some(value) = t.const_value(number) else {
        return false;
    };
    let plain = value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>();
    // `x - -0.0` adds `0.0`, and so changes the sign of `-0.0`.
    plain
        && value
            .extract::<f64>()
            .is_ok_and(|number| number == 0.0 && number.is_sign_positive())
}

/// Stops where eager mode makes a tensor of a Python number next to this one, and a program does
/// not: that has half the digits, or does not hold the number, or there is no kernel for it.
pub fn refuse(t: &mut Tracer<'_>, dtype: DType, name: &str, number: VarId) -> Step<()> {
    const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
    const ARITHMETIC: [BinOp; 7] = [
        BinOp::Add,
        BinOp::Sub,
        BinOp::Mul,
        BinOp::TrueDiv,
        BinOp::FloorDiv,
        BinOp::Rem,
        BinOp::Pow,
    ];
    let is_arithmetic = |stem: &str| ARITHMETIC.into_iter().any(|op| op.stem() == stem);
    let stem = name.trim_matches('_');
    let compares = COMPARISONS.contains(&stem);
    let stem = match stem.strip_prefix('r') {
        Some(stem) if is_arithmetic(stem) => stem,
        _ => stem,
    };
    if !compares && !is_arithmetic(stem) {
        return Ok(());
    }
    let Some(value) = t.const_value(number) else {
        return Ok(());
    };
    // Paddle multiplies by `1 / number`: see `arguments::is_negative_zero`.
    let is_infinite = |number: &Bound<'_, PyFloat>| number.value() == f64::NEG_INFINITY;
    if name == "__truediv__" && value.cast().is_ok_and(is_infinite) {
        return t.stop(BreakId::OperatorArguments, arguments::NEGATIVE_ZERO);
    }
    let bits = match dtype {
        DType::UInt8 | DType::Int8 => 7,
        DType::Int16 => 15,
        DType::Int32 => 31,
        DType::Bool
        | DType::UInt16
        | DType::UInt32
        | DType::UInt64
        | DType::Int64
        | DType::Float32
        | DType::Float64
        | DType::Complex64
        | DType::Complex128
        | DType::Float16
        | DType::BFloat16
        | DType::Float8E4M3
        | DType::Float8E5M2 => 63,
    };
    let is_complex = dtype.is_complex();
    let wide = dtype == DType::Float64 || is_complex;
    // What programs do instead loses the sign of zeros.
    let subtracts = name == "__sub__" && value.extract::<f64>().is_ok_and(|value| value == 0.0);
    let refused = if is_complex && subtracts {
        true
    } else if value.is_exact_instance_of::<PyBool>() {
        !compares && (bits < 31 || is_complex)
    } else if let Ok(number) = value.cast::<PyComplex>() {
        let sums = matches!(stem, "add" | "sub");
        !compares && (!wide || sums && !is_single(number))
    } else if dtype == DType::Bool && value.is_instance_of::<PyInt>() {
        // A program scales by it, with the digits of a float.
        !compares && !value.extract().is_ok_and(dynamic_scalar::is_single_int)
    } else if bits < 63 && value.is_instance_of::<PyInt>() {
        let held = value.extract::<i64>();
        !held.is_ok_and(|value| (-(1 << bits)..1 << bits).contains(&value))
    } else {
        false
    };
    match refused {
        true => t.stop(
            BreakId::OperatorArguments,
            format!("such a number next to a tensor of {}", dtype.as_str()),
        ),
        false => Ok(()),
    }
}

/// Whether programs keep all digits of a complex number: they have two floats for it.
pub fn is_single(number: &Bound<'_, PyComplex>) -> bool {
    dynamic_scalar::is_single(number.real()) && dynamic_scalar::is_single(number.imag())
}

/// A size or place that is one, in a list of those: `x.reshape([2, np.prod(shape)])`.
///
/// Paddle takes it there as it takes Python's number, whose dtype it has. Others, and those that
/// are arguments by themselves, may say which dtype the result has.
pub fn size(t: &mut Tracer<'_>, item: VarId) -> Step<Option<Obj>> {
    if !matches!(t.kind(item), Kind::Scalar) {
        return Ok(None);
    }
    let class = t.py.numpy()?.getattr("int64")?;
    match t.value(item).filter(|value| value.get_type().is(&class)) {
        // Where a program is built, Paddle takes Python's numbers only.
        Some(value) => Ok(Some(Obj::from(value.call_method0("item")?))),
        None => Ok(None),
    }
}

/// The number of Python's that `scalar.item()` answers.
///
/// # Errors
/// Where NumPy raises.
pub fn plain<'py>(scalar: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    scalar.call_method0("item")
}

/// The argument of an operator of Paddle that one is. A `float64` is a `float`.
pub fn argument(t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
    let is_float = |value: &Bound<'_, PyAny>| value.is_instance_of::<PyFloat>();
    match t.value(id).filter(is_float) {
        Some(value) => {
            let number = PyFloat::new(t.py, value.extract()?).into_any();
            let number = t.constant(&number);
            arguments::of_value(t, number)
        }
        None => arguments::refuse(t, id),
    }
}

/// Guards and keeps the value of one.
pub fn settle(t: &mut Tracer<'_>, id: VarId, value: &Bound<'_, PyAny>) {
    t.guard(id, crate::guard::GuardKind::ConstEq(Obj::from(value)));
    t.vars.update(id, |var| var.kind = Kind::Scalar);
}
