//! Truth values and whole numbers that only the graph knows: Python sees a `bool` or an `int`, the
//! graph a tensor of no dims.

pub mod graph_arrays;
pub(crate) mod known;
pub mod number_functions;
pub mod powers;
pub mod program_numbers;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use smallvec::SmallVec;

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::{Modules, PADDLE};
use crate::graph::{Arg, Callee, DType, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::ops::{ASTYPE, FULL, TO_TENSOR};
use crate::reason::BreakId;
use crate::variables::{Kind, VarId};

use crate::phi::refuse;
use crate::subclasses::refuse_own;
use crate::{Kwargs, Step, Tracer, arguments, dynamic_scalar, item, printing, tensors};

/// Whether the truth of `value` is only known when the graph runs, and branches on it are captured.
pub fn is_captured(t: &mut Tracer<'_>, value: VarId) -> bool {
    let is_of_graph = matches!(t.kind(value), Kind::Tensor(_))
        || item::symbol(t, value).is_some()
        || graph_arrays::is_condition(t, value)
        || program_numbers::is_of_dims(t, value) && !program_numbers::is_assumed(t, value);
    t.options.capture_control_flow && is_of_graph
}

/// `bool(value)` as a 0-d tensor of the graph.
pub fn condition(t: &mut Tracer<'_>, value: VarId) -> Step<SymbolId> {
    let value = graph_arrays::condition(t, value)?;
    refuse_own(t, value, &["__bool__"])?;
    let Some((mut symbol, is_number)) = t.kind(value).form().symbol() else {
        return refuse(t, "the condition is not a tensor");
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return refuse(t, "the condition has no metadata");
    };
    if meta.shape.iter().any(|dim| *dim != 1) {
        return refuse(t, "the condition is not a single element");
    }
    if meta.dtype != DType::Bool {
        symbol = match is_number {
            true => item::cast(t, symbol, DType::Bool)?,
            false => truth_of_tensor(t, symbol, meta.dtype)?,
        };
    }
    if !meta.shape.is_empty() {
        symbol = without_dims(t, symbol)?;
    }
    Ok(symbol)
}

/// Whether somebody has put another `Tensor.__bool__` in its place.
fn is_truth_of_users(t: &mut Tracer<'_>) -> bool {
    tensors::is_users(t, "__bool__")
}

/// What `Tensor.__bool__` answers: Paddle 3.3 asks whether the number is positive.
fn truth_of_tensor(t: &mut Tracer<'_>, symbol: SymbolId, dtype: DType) -> Step<SymbolId> {
    static POSITIVE: PyOnceLock<bool> = PyOnceLock::new();
    let floating = matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
    if !(floating || dtype.is_whole()) || is_truth_of_users(t) {
        return refuse(t, "the truth of such a tensor");
    }
    let py = t.py;
    let positive = POSITIVE.get_or_try_init(py, || -> PyResult<bool> {
        let negative = py.paddle()?.call_method1(TO_TENSOR, (-1.0,))?;
        Ok(!negative.is_truthy()?)
    })?;
    if !positive {
        return item::cast(t, symbol, DType::Bool);
    }
    let zero = PyInt::new(py, 0).into_any();
    method(t, "__gt__", symbol, vec![Arg::Const(Obj::from(zero))])
}

/// `not value`, as Python sees it.
pub fn negation(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let symbol = condition(t, value)?;
    let symbol = method(t, "logical_not", symbol, Vec::new())?;
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// `bool(value)`, as Python sees it.
pub fn truth_value(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let symbol = condition(t, value)?;
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// A tensor of one number, in another form: without dims.
pub(crate) fn without_dims(t: &mut Tracer<'_>, symbol: SymbolId) -> Step<SymbolId> {
    method(t, "reshape", symbol, vec![Arg::List(Vec::new())])
}

/// A method of Paddle's tensors on tensors of the graph.
pub(crate) fn method(
    t: &mut Tracer<'_>,
    name: &str,
    receiver: SymbolId,
    mut rest: Vec<Arg>,
) -> Step<SymbolId> {
    rest.insert(0, Arg::Symbol(receiver));
    t.graph.set_grad_enabled(t.grad.enabled);
    let loc = t.loc();
    let callee = Callee::Method(Arc::from(name));
    match t
        .graph
        .call(t.py, callee, rest, Vec::new(), loc, &mut |_| None)?
        .as_symbol()
    {
        Some(symbol) => Ok(symbol),
        None => refuse(t, format!("{name}() is not a tensor")),
    }
}

/// The dtype (for `paddle.full`) and metadata of a Python number in a graph; `None` when it cannot
/// be one.
pub fn number_meta(t: &Tracer<'_>, value: &Obj) -> Step<Option<(Obj, TensorMeta)>> {
    let value = value.bind(t.py);
    let dtype = if value.is_exact_instance_of::<PyBool>() {
        DType::Bool
    } else if value.is_exact_instance_of::<PyInt>() && value.extract().is_ok_and(item::is_small_int)
    {
        DType::Int64
    } else if is_plain_float(value) {
        DType::Float64
    } else {
        return Ok(None);
    };
    let name = Obj::from(PyString::new(t.py, dtype.as_str()).into_any());
    let meta = TensorMeta {
        shape: SmallVec::new(),
        dtype,
        stop_gradient: true,
    };
    Ok(Some((name, meta)))
}

/// A `float` that is a number, and not the zero that Paddle may take for the other one.
fn is_plain_float(value: &Bound<'_, PyAny>) -> bool {
    let exact = value.cast_exact::<PyFloat>();
    exact.is_ok_and(|value| {
        let value = value.value();
        !value.is_nan() && (value != 0.0 || value.is_sign_positive())
    })
}

/// A constant number as a tensor of the graph.
pub fn number(t: &mut Tracer<'_>, value: &Obj) -> Step<Option<SymbolId>> {
    let Some((dtype, _)) = number_meta(t, value)? else {
        return Ok(None);
    };
    let args = vec![
        Arg::List(Vec::new()),
        Arg::Const(value.clone()),
        Arg::Const(dtype),
    ];
    Ok(function(t, PADDLE, FULL, args)?.as_symbol())
}

/// The operands of an operator (`None`: a comparison). A number next to a tensor takes the tensor's
/// dtype, as Python numbers do.
pub fn as_operands(
    t: &mut Tracer<'_>,
    op: Option<BinOp>,
    a: VarId,
    b: VarId,
) -> Step<(VarId, VarId)> {
    let (a, b) = match op {
        Some(BinOp::TrueDiv) => (dividend(t, a, b)?, dividend(t, b, a)?),
        _ => (a, b),
    };
    if let Kind::Tensor(tensor) = t.kind(a).clone() {
        return Ok((a, number_like(t, op, b, tensor.symbol, false)?));
    }
    if let Kind::Tensor(tensor) = t.kind(b).clone() {
        return Ok((number_like(t, op, a, tensor.symbol, true)?, b));
    }
    Ok((a, b))
}

/// A tensor of whole numbers next to a number of the graph that it is divided by, or divides: eager
/// mode divides floats, and the dtype of the tensor may not hold the number.
fn dividend(t: &mut Tracer<'_>, id: VarId, number: VarId) -> Step<VarId> {
    let Kind::Tensor(tensor) = t.kind(id).clone() else {
        return Ok(id);
    };
    let dtype = t.graph.meta(tensor.symbol).map(|meta| meta.dtype);
    if !dtype.is_some_and(DType::is_whole) || !dynamic_scalar::is_of_graph(t, number) {
        return Ok(id);
    }
    if ["__truediv__", "__rtruediv__"]
        .iter()
        .any(|name| tensors::is_users(t, name))
    {
        return t.stop(
            BreakId::DynamicNumber,
            "a division of the user's next to a number of the graph",
        );
    }
    let symbol = item::cast(t, tensor.symbol, DType::Float32)?;
    arguments::from_arg(t, &Arg::Symbol(symbol), &[])
}

/// Whether eager mode makes a double of a whole number before that gets the dtype of the tensor.
/// `first`: the number is the left operand.
fn goes_through_double(op: Option<BinOp>, first: bool) -> bool {
    match op {
        Some(BinOp::Add | BinOp::Sub | BinOp::Mul) => true,
        Some(BinOp::TrueDiv) => !first,
        _ => false,
    }
}

fn number_like(
    t: &mut Tracer<'_>,
    op: Option<BinOp>,
    id: VarId,
    tensor: SymbolId,
    first: bool,
) -> Step<VarId> {
    if op == Some(BinOp::Pow) && dynamic_scalar::is_of_graph(t, id) {
        return t.stop(
            BreakId::DynamicNumber,
            "a power of or by a number of the graph: a tensor has other digits",
        );
    }
    let dtype = |t: &Tracer<'_>, symbol| t.graph.meta(symbol).map(|meta| meta.dtype);
    // Eager mode makes a dim of its own where it divides by numbers: a tensor of none would stay
    // one.
    let without_dims = t
        .graph
        .meta(tensor)
        .is_some_and(|meta| meta.shape.is_empty());
    let known = dynamic_scalar::in_graph(t, id)?;
    let fed = match (known, dtype(t, tensor)) {
        (None, Some(wanted)) => dynamic_scalar::operand(t, id, wanted, op)?,
        _ => None,
    };
    if op == Some(BinOp::FloorDiv) && without_dims && known.or(fed).is_some() {
        return refuse(t, "a division of a tensor of no dims that rounds down");
    }
    let Some(number) = known else {
        return Ok(fed.map_or(id, |symbol| t.add(Kind::SymNumber(symbol))));
    };
    let number = match goes_through_double(op, first) {
        true => dynamic_scalar::rounded(t, id, number)?,
        false => number,
    };
    let symbol = match (dtype(t, number), dtype(t, tensor)) {
        (Some(DType::Int64 | DType::Float64), Some(wanted)) if wanted != DType::Bool => {
            item::cast(t, number, wanted)?
        }
        (Some(DType::Bool), Some(wanted)) if takes_bool(op, wanted) && !without_dims => {
            item::cast(t, number, wanted)?
        }
        _ => return refuse(t, "a bool and a tensor in one operation"),
    };
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// Whether eager mode takes a bool for 0 or 1 of a tensor's dtype there.
fn takes_bool(op: Option<BinOp>, wanted: DType) -> bool {
    matches!(op, Some(BinOp::Add | BinOp::Sub | BinOp::Mul))
        && matches!(
            wanted,
            DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64
        )
}

/// The dtype and graph argument of a whole number.
fn whole(t: &mut Tracer<'_>, id: VarId) -> Option<Arg> {
    if let Kind::SymNumber(symbol) = *t.kind(id) {
        let meta = t.graph.meta(symbol)?;
        return (meta.dtype == DType::Int64).then_some(Arg::Symbol(symbol));
    }
    let value = t.const_value(id)?;
    let fits = value.is_exact_instance_of::<PyInt>() && value.extract::<i64>().is_ok();
    fits.then(|| Arg::Const(Obj::from(value)))
}

pub(crate) fn on_numbers(
    t: &mut Tracer<'_>,
    a: VarId,
    b: VarId,
    forward: &str,
    reflected: &str,
) -> Step<Option<VarId>> {
    let known = |t: &mut Tracer<'_>, id| matches!(t.kind(id), Kind::SymNumber(_));
    if !known(t, a) && !known(t, b) {
        return Ok(None);
    }
    let [a, b] = program_numbers::next_to_graph(t, [a, b])?;
    let (Some(left), Some(right)) = (whole(t, a), whole(t, b)) else {
        return refuse(t, "arithmetic on a number that is not whole");
    };
    let left = quotient_part(t, forward, left)?;
    let right = quotient_part(t, forward, right)?;
    let symbol = match (left, right) {
        (Arg::Symbol(left), right) => method(t, forward, left, vec![right])?,
        (left, Arg::Symbol(right)) => method(t, reflected, right, vec![left])?,
        _ => return Ok(None),
    };
    Ok(Some(t.add(Kind::SymNumber(symbol))))
}

/// An operand of a number without dims: a division of or by a constant that rounds down would make
/// a dim, as in eager mode.
pub(crate) fn quotient_part(t: &mut Tracer<'_>, name: &str, number: Arg) -> Step<Arg> {
    if let (Arg::Const(value), "__floordiv__") = (&number, name) {
        let symbol = self::number(t, value)?;
        return Ok(symbol.map_or(number, Arg::Symbol));
    }
    Ok(number)
}

/// `a op b` on whole numbers of the graph; `None` when neither is one.
pub fn arithmetic(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let either = [a, b]
        .into_iter()
        .any(|id| matches!(t.kind(id), Kind::SymNumber(_)));
    if !either {
        return Ok(None);
    }
    let (a, b) = program_numbers::both(t, op, a, b)?;
    match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => {}
        // Graphs round as Python does.
        BinOp::FloorDiv | BinOp::Rem => match (t.const_int(b), item::symbol(t, b)) {
            (Some(divisor), _) if divisor != 0 => {}
            (None, Some(divisor)) => program_numbers::check_divisor(t, divisor)?,
            _ => return refuse(t, "a division of a number of the graph by zero"),
        },
        BinOp::Pow => return refuse(t, "such a power of a number of the graph"),
        BinOp::LShift | BinOp::RShift => return program_numbers::shift(t, op, a, b),
        BinOp::And | BinOp::Or | BinOp::Xor => return program_numbers::bitwise(t, op, a, b),
        BinOp::MatMul | BinOp::TrueDiv => {
            return refuse(
                t,
                format!("the operator {} on a number of the graph", op.stem()),
            );
        }
    }
    let (forward, reflected) = (format!("__{}__", op.stem()), format!("__r{}__", op.stem()));
    let made = on_numbers(t, a, b, &forward, &reflected)?;
    // Numbers of the graph are small, and remain so for as many steps as a program takes: no check
    // for those.
    let step = [a, b].into_iter().any(|id| {
        let known = t.const_value(id).map(|value| value.extract::<i64>());
        matches!(known, Some(Ok(step)) if step.unsigned_abs() <= item::STEP)
    });
    let grows = match op {
        BinOp::Add | BinOp::Sub => !step,
        BinOp::Mul => true,
        BinOp::And
        | BinOp::FloorDiv
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Rem
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::TrueDiv
        | BinOp::Xor => false,
    };
    if let (Some(made), true) = (made, grows) {
        item::fits(t, op, a, b)?;
        return Ok(Some(made));
    }
    Ok(made)
}

/// `a op b` on whole numbers of the graph; `None` when neither is one.
pub fn comparison(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if matches!(t.kind(a), Kind::Tensor(_)) || matches!(t.kind(b), Kind::Tensor(_)) {
        return Ok(None);
    }
    let (a, b) = program_numbers::operands(t, a, b)?;
    if let Some(answer) = item::comparison(t, op, a, b)? {
        return Ok(Some(answer));
    }
    on_numbers(t, a, b, op.dunder(), op.reflected().dunder())
}

/// Start, stop and step of `range(*args)`.
fn ends(t: &mut Tracer<'_>, args: &[VarId]) -> Option<[VarId; 3]> {
    match *args {
        [stop] => Some([t.int(0), stop, t.int(1)]),
        [start, stop] => Some([start, stop, t.int(1)]),
        [start, stop, step] => Some([start, stop, step]),
        _ => None,
    }
}

/// `range()` with tensors or open dims among its ends; `None` when there are none, or control flow
/// is not captured.
pub fn range(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let captured = args.iter().any(|arg| {
        let is_dim = matches!(t.kind(*arg), Kind::Int(_)) && arguments::depends_on_dims(t, *arg);
        is_captured(t, *arg) || is_dim && t.options.capture_control_flow
    });
    if !captured || !kwargs.is_empty() {
        return Ok(None);
    }
    let Some([start, stop, step]) = ends(t, args) else {
        return Ok(None);
    };
    let Some(step) = t.const_int(step).filter(|step| *step != 0) else {
        return refuse(t, "range() with such a step");
    };
    let (start, stop) = (index(t, start)?, index(t, stop)?);
    Ok(Some(t.add(Kind::NumberRange(start, stop, step))))
}

/// `number - step` of a constant or a number of the graph; `None` of others.
pub fn less(t: &mut Tracer<'_>, number: VarId, step: i64) -> Step<Option<VarId>> {
    if let Some(known) = t.const_int(number) {
        return Ok(Some(t.int(known - step)));
    }
    let by = t.int(step);
    arithmetic(t, BinOp::Sub, number, by)
}

/// `operator.index(value)` of a constant or a tensor.
pub fn index(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let value = graph_arrays::as_place(t, value)?;
    if let Kind::Int(_) = t.kind(value) {
        return match dynamic_scalar::place(t, value)? {
            Some(symbol) => Ok(t.add(Kind::SymNumber(symbol))),
            None => refuse(t, "range() of a number that differs between calls"),
        };
    }
    let Some(symbol) = t.kind(value).tensor().map(|tensor| tensor.symbol) else {
        return match whole(t, value) {
            Some(_) => Ok(value),
            None => refuse(t, "range() of something that is not a whole number"),
        };
    };
    let Some(meta) = t.graph.meta(symbol).cloned() else {
        return refuse(t, "range() of a tensor without metadata");
    };
    let is_index = matches!(
        meta.dtype,
        DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8
    );
    if !is_index || meta.shape.iter().any(|dim| *dim != 1) {
        return refuse(t, "range() of a tensor that is not one whole number");
    }
    let mut symbol = symbol;
    if meta.dtype != DType::Int64 {
        let name = PyString::new(t.py, "int64").into_any();
        symbol = method(t, ASTYPE, symbol, vec![Arg::Const(Obj::from(name))])?;
    }
    if !meta.shape.is_empty() {
        symbol = without_dims(t, symbol)?;
    }
    Ok(t.add(Kind::SymNumber(symbol)))
}

/// A call of `paddle_sot_rs._graph.control.name`; the answer is None.
pub fn statement(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<VarId> {
    let args = args
        .iter()
        .map(|arg| arguments::to_arg(t, *arg))
        .collect::<Step<Vec<_>>>()?;
    control(t, name, args)?;
    Ok(t.none())
}

/// The same, of what goes into the graph.
pub fn control(t: &mut Tracer<'_>, name: &str, args: Vec<Arg>) -> Step<()> {
    if matches!(name, "check" | "check_place") {
        printing::refuse_check(t)?;
    }
    function(t, "paddle_sot_rs._graph.control", name, args)?;
    Ok(())
}

/// A call of a module's function in the graph.
fn function(t: &mut Tracer<'_>, module: &str, name: &str, args: Vec<Arg>) -> Step<Arg> {
    let function = t.py.module(module)?.getattr(name)?;
    let loc = t.loc();
    let callee = Callee::Api(Obj::from(function));
    Ok(t.graph
        .call(t.py, callee, args, Vec::new(), loc, &mut |_| None)?)
}
