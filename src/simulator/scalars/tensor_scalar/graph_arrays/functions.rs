//! NumPy's functions of numbers, scalars and arrays that the program computes.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::bytecode::BinOp;
use crate::frame::Modules;
use crate::graph::{Arg, DType};
use crate::native;
use crate::obj::{Obj, text_of};
use crate::variables::{Kind, VarId};

use crate::{Kwargs, Step, Tracer, fold, item, operators};

use super::super::ends;
use super::super::program_numbers::{is_of_graph, numbers_class};
use super::{apply, meta, named, of_calls, refuse, sampled, taken, tensor};

/// Functions that take their arguments item by item, and how many those are.
const ELEMENTWISE: &[(&str, usize)] = &[
    ("absolute", 1),
    ("ceil", 1),
    ("exp", 1),
    ("floor", 1),
    ("log", 1),
    ("log10", 1),
    ("log2", 1),
    ("negative", 1),
    ("rint", 1),
    ("sqrt", 1),
    ("square", 1),
    ("trunc", 1),
    ("add", 2),
    ("divide", 2),
    ("floor_divide", 2),
    ("maximum", 2),
    ("minimum", 2),
    ("multiply", 2),
    ("remainder", 2),
    ("subtract", 2),
];

/// Those that give one number for many.
const REDUCTIONS: &str = "amax amin max min prod sum";

/// Those for which NumPy takes floats in an order of its own.
pub(super) const IN_ORDER: &str = "prod sum";

/// Whether a function or a method of this name gives one number for many.
pub(super) fn is_reduction(name: &str) -> bool {
    REDUCTIONS.split_whitespace().any(|known| known == name)
}

/// Whether the program computes one of these, or something in them.
fn is_computed(t: &mut Tracer<'_>, id: VarId, depth: usize) -> bool {
    if let Some(items) = t.kind(id).plain_items().map(<[VarId]>::to_vec) {
        return depth < 4 && items.iter().any(|item| is_computed(t, *item, depth + 1));
    }
    matches!(t.kind(id), Kind::GraphArray(_)) || is_of_graph(t, id)
}

/// `a op b` of a scalar of NumPy that is known; `None` where the other one is no number that the
/// program computes.
pub fn binary_of_known(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    if of_calls::are_numbers(t, &[a, b])? {
        return binary_of_calls(t, op, a, b);
    }
    match t.options.capture_control_flow && (is_of_graph(t, a) || is_of_graph(t, b)) {
        true => binary(t, op, inplace, a, b),
        false => Ok(None),
    }
}

/// A call of NumPy's function; `None` where the program computes none of its arguments, or not the
/// function.
pub fn call(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let name = text_of(function, "__name__");
    let name = name.as_str();
    if kwargs.is_empty() {
        if let Some(made) = of_calls::scalar(t, function, args)? {
            return Ok(Some(made));
        }
        if let Some(made) = of_calls::of_list(t, function, name, args)? {
            return Ok(Some(made));
        }
    }
    let computed = t.options.capture_control_flow && args.iter().any(|arg| is_computed(t, *arg, 0));
    if !computed && !args.iter().any(|arg| of_calls::is_such(t, *arg)) {
        return match name == "arange" && kwargs.is_empty() {
            true => of_calls::counted(t, function, args),
            false => Ok(None),
        };
    }
    if let (Some(_), []) = (
        ELEMENTWISE.iter().find(|it| **it == (name, args.len())),
        kwargs,
    ) {
        return elementwise(t, function, name, args);
    }
    let dtype = match kwargs {
        [] => None,
        [(key, dtype)] if &**key == "dtype" => match dtype_of(t, *dtype)? {
            Some(dtype) => Some(dtype),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    match (name, args) {
        (_, [value]) if dtype.is_none() && named(name).is_some() => {
            let Some(dtype) = named(name) else {
                return Ok(None);
            };
            let is_number = numbers_class(t, *value).is_some();
            let is_scalar = meta(t, *value).is_some_and(|(_, meta)| meta.shape.is_empty());
            if !is_number && !is_scalar {
                return Ok(None);
            }
            let symbol = tensor(t, *value, dtype)?;
            Ok(symbol.map(|symbol| t.add(Kind::GraphArray(symbol))))
        }
        ("asarray", [value]) if matches!(t.kind(*value), Kind::GraphArray(_)) => {
            let same = meta(t, *value).filter(|(_, meta)| !meta.shape.is_empty());
            // The same object.
            match same.filter(|(_, meta)| dtype.is_none_or(|dtype| dtype == meta.dtype)) {
                Some(_) => Ok(Some(*value)),
                None => array(t, function, *value, dtype),
            }
        }
        ("array" | "asarray", [value]) => array(t, function, *value, dtype),
        ("arange", [_] | [_, _] | [_, _, _]) => arange(t, function, args, dtype),
        ("concatenate", [list]) if dtype.is_none() => concatenate(t, function, *list),
        (_, [value]) if is_reduction(name) && dtype.is_none() => {
            reduction(t, function, name, *value)
        }
        _ => Ok(None),
    }
}

/// The dtype that an argument names.
pub(super) fn dtype_of(t: &mut Tracer<'_>, id: VarId) -> Step<Option<DType>> {
    let is_class = matches!(t.kind(id), Kind::Class);
    let value = match is_class {
        true => fold::to_object(t, id)
            .filter(|class| class.cast().is_ok_and(|class| !native::is_mutable(class))),
        false => t
            .const_value(id)
            .filter(PyAnyMethods::is_instance_of::<PyString>),
    };
    let Some(value) = value else { return Ok(None) };
    let dtype = t.py.numpy()?.getattr("dtype")?.call1((value,));
    Ok(dtype.ok().and_then(|dtype| taken(&dtype)))
}

fn made(t: &mut Tracer<'_>, name: &str, args: Vec<Arg>, dtype: DType) -> Step<Option<VarId>> {
    let symbol = apply(t, name, args)?;
    let symbol = item::cast(t, symbol, dtype)?;
    Ok(Some(t.add(Kind::GraphArray(symbol))))
}

fn elementwise(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    name: &str,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if args.iter().any(|arg| t.kind(*arg).plain_items().is_some()) {
        return Ok(None);
    }
    let Some((dtype, _)) = sampled(t, function, args)? else {
        return Ok(None);
    };
    let of_calls = args.iter().any(|arg| of_calls::is_such(t, *arg));
    // Of floats, they have digits of their own.
    let other_digits = matches!(name, "floor_divide" | "remainder") && !dtype.is_whole();
    if other_digits || of_calls && !of_calls::never_warns(name) {
        return Ok(None);
    }
    let mut given = Vec::with_capacity(args.len());
    for arg in args {
        match tensor(t, *arg, dtype)? {
            Some(symbol) => given.push(Arg::Symbol(symbol)),
            None => return Ok(None),
        }
    }
    let made = made(t, name, given, dtype)?;
    Ok(made.inspect(|made| of_calls::note(t, of_calls, *made)))
}

/// The numbers in lists of lists, in their order.
fn leaves(t: &mut Tracer<'_>, id: VarId, found: &mut Vec<VarId>) {
    match t.kind(id).plain_items().map(<[VarId]>::to_vec) {
        Some(items) => items.into_iter().for_each(|item| leaves(t, item, found)),
        None => found.push(id),
    }
}

/// `np.array(...)` of numbers in lists, and of an array.
fn array(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    value: VarId,
    dtype: Option<DType>,
) -> Step<Option<VarId>> {
    let Some((own, dims)) = sampled(t, function, &[value])? else {
        return Ok(None);
    };
    let dtype = dtype.unwrap_or(own);
    if let Kind::GraphArray(symbol) = *t.kind(value) {
        // An array without dims is no scalar.
        if t.graph
            .meta(symbol)
            .is_none_or(|meta| meta.shape.is_empty())
        {
            return Ok(None);
        }
        let symbol = tensor(t, value, dtype)?;
        return Ok(symbol.map(|symbol| t.add(Kind::GraphArray(symbol))));
    }
    let mut items = Vec::new();
    leaves(t, value, &mut items);
    if dims.is_empty() || dims.iter().product::<i64>() != items.len() as i64 {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let is_array = meta(t, item).is_some_and(|(_, meta)| !meta.shape.is_empty());
        // An item of another class goes through the dtype that all have without `dtype`.
        match tensor(t, item, dtype)? {
            Some(symbol) if !is_array => parts.push(Arg::Symbol(symbol)),
            _ => return Ok(None),
        }
    }
    let mut numbers = Vec::with_capacity(dims.len());
    for dim in dims {
        numbers.push(Arg::Const(Obj::from(PyInt::new(t.py, dim).into_any())));
    }
    made(
        t,
        "array",
        vec![Arg::List(parts), Arg::List(numbers)],
        dtype,
    )
}

/// `np.arange(...)` of whole numbers.
pub(super) fn arange(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
    dtype: Option<DType>,
) -> Step<Option<VarId>> {
    let Some((own, _)) = sampled(t, function, args)? else {
        return Ok(None);
    };
    if own != DType::Int64 {
        return Ok(None);
    }
    let Some([start, stop, step]) = ends(t, args) else {
        return Ok(None);
    };
    let Some(step) = t.const_int(step).filter(|step| *step != 0) else {
        return Ok(None);
    };
    let (Some(start), Some(stop)) = (tensor(t, start, own)?, tensor(t, stop, own)?) else {
        return Ok(None);
    };
    let step = Arg::Const(Obj::from(PyInt::new(t.py, step).into_any()));
    let given = vec![Arg::Symbol(start), Arg::Symbol(stop), step];
    made(t, "arange", given, dtype.unwrap_or(own))
}

/// `np.concatenate([...])` along the only dim.
fn concatenate(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    list: VarId,
) -> Step<Option<VarId>> {
    let Some((dtype, dims)) = sampled(t, function, &[list])? else {
        return Ok(None);
    };
    let items = t.kind(list).plain_items().map(<[VarId]>::to_vec);
    let (Some(items), 1) = (items, dims.len()) else {
        return Ok(None);
    };
    if items.iter().any(|item| of_calls::is_such(t, *item)) {
        return Ok(None);
    }
    let of_array = t.py.numpy()?.getattr("array")?;
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let item = match t.kind(item).plain_items().is_some() {
            true => array(t, &of_array, item, Some(dtype))?,
            false => Some(item),
        };
        let Some(item) = item else { return Ok(None) };
        match tensor(t, item, dtype)? {
            Some(symbol) => parts.push(Arg::Symbol(symbol)),
            None => return Ok(None),
        }
    }
    made(t, "concatenate", vec![Arg::List(parts)], dtype)
}

/// One number of many.
pub(super) fn reduction(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    name: &str,
    value: VarId,
) -> Step<Option<VarId>> {
    if of_calls::is_such(t, value) {
        return Ok(None);
    }
    let Some((dtype, dims)) = sampled(t, function, &[value])? else {
        return Ok(None);
    };
    let of_array = t.py.numpy()?.getattr("array")?;
    let over = match t.kind(value).plain_items().is_some() {
        true => array(t, &of_array, value, Some(dtype))?,
        false => Some(value),
    };
    let (Some(over), true) = (over, dims.is_empty()) else {
        return Ok(None);
    };
    let in_order = IN_ORDER.split_whitespace().any(|known| known == name);
    if !dtype.is_whole() && in_order {
        return Ok(None);
    }
    match tensor(t, over, dtype)? {
        Some(symbol) => made(t, name, vec![Arg::Symbol(symbol)], dtype),
        None => Ok(None),
    }
}

/// The function that an operator is.
fn ufunc(op: BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add => "add",
        BinOp::Sub => "subtract",
        BinOp::Mul => "multiply",
        BinOp::TrueDiv => "divide",
        BinOp::FloorDiv => "floor_divide",
        BinOp::Rem => "remainder",
        BinOp::And
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::Xor => return None,
    })
}

/// `a op b` of numbers that each call makes.
fn binary_of_calls(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let made = match ufunc(op) {
        Some(name) => {
            let function = t.py.numpy()?.getattr(name)?;
            of_calls::scalar(t, &function, &[a, b])?
        }
        None => None,
    };
    match made {
        Some(made) => Ok(Some(made)),
        None => refuse(t, "such an operator"),
    }
}

/// `a op b` of which one is such a value, and none a tensor.
pub fn binary(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    if [a, b].iter().any(|id| operators::is_object(t.kind(*id))) {
        return Ok(None);
    }
    let Some(name) = ufunc(op) else {
        return refuse(t, "such an operator");
    };
    let has_dims = meta(t, a).is_none_or(|(_, meta)| !meta.shape.is_empty());
    if inplace && has_dims && matches!(t.kind(a), Kind::GraphArray(_) | Kind::Array(_)) {
        return refuse(t, "an operator in place");
    }
    if of_calls::are_numbers(t, &[a, b])? {
        return binary_of_calls(t, op, a, b);
    }
    let function = t.py.numpy()?.getattr(name)?;
    match elementwise(t, &function, name, &[a, b])? {
        Some(made) => Ok(Some(made)),
        None => refuse(t, "such an operator"),
    }
}

/// `-a`
pub fn negative(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    let function = t.py.numpy()?.getattr("negative")?;
    if let Some(made) = of_calls::scalar(t, &function, &[id])? {
        return Ok(made);
    }
    match elementwise(t, &function, "negative", &[id])? {
        Some(made) => Ok(made),
        None => refuse(t, "the negative"),
    }
}
