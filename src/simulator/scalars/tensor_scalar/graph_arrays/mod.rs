//! Scalars and arrays of NumPy that the program computes of open dims: `np.ceil(n / 2)`; and those
//! that are what a tensor holds: `x.numpy()[0] > 0`.
//!
//! Each is a tensor of the same dims and dtype, and nothing writes to it. Which dtype an answer
//! has, NumPy says itself: its function is called on samples of the classes of the arguments.

mod functions;
mod of_calls;
mod questions;

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::bytecode::BinOp;
use crate::frame::Modules;
use crate::graph::{Arg, DType, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::tracker::ArrayMaker;
use crate::tracker::number::Type;
use crate::variables::{IterVar, Kind, TensorVar, VarId};

use crate::variables::protocol;
use crate::{Kwargs, Step, Tracer, arrays, item, numpy_scalars, tensors};

use super::program_numbers::{as_tensor, numbers_class};
pub use functions::{binary, binary_of_known, call, negative};
use functions::{dtype_of, is_reduction, reduction};
pub use of_calls::number;
pub use questions::{compare, condition, is_condition, of_tensor};

/// Methods of scalars and arrays.
const METHODS: &str = "astype item max min prod sum";

/// What a scalar or an array is in the graph.
pub fn meta(t: &mut Tracer<'_>, id: VarId) -> Option<(SymbolId, TensorMeta)> {
    let Kind::GraphArray(symbol) = *t.kind(id) else {
        return None;
    };
    t.graph.meta(symbol).cloned().map(|meta| (symbol, meta))
}

/// A scalar as the number of the graph that `int()`, `float()` or `bool()` of it is; others as they
/// are.
pub fn lowered(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    if let Some(number) = of_calls::number(t, id) {
        return Ok(number);
    }
    let Some((symbol, meta)) = meta(t, id).filter(|(_, meta)| meta.shape.is_empty()) else {
        return Ok(id);
    };
    let dtype = if meta.dtype == DType::Bool {
        DType::Bool
    } else if meta.dtype.is_whole() {
        DType::Int64
    } else {
        DType::Float64
    };
    if meta.dtype == DType::Int64 && t.flow.read_arrays.contains(&symbol) {
        let size = item::cast(t, symbol, DType::Float64)?;
        item::is_small(t, size)?;
    }
    let symbol = item::cast(t, symbol, dtype)?;
    Ok(item::variable(t, symbol))
}

/// A scalar of whole numbers as a number: Paddle and Python take it as a size or a place.
pub fn as_place(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    if let Some(known) = numpy_scalars::size(t, id)? {
        let known = known.bind(t.py).clone();
        return Ok(t.constant(&known));
    }
    match meta(t, id) {
        Some((_, meta)) if matches!(meta.dtype, DType::Int32 | DType::Int64) => lowered(t, id),
        _ => Ok(id),
    }
}

fn refuse<T>(t: &Tracer<'_>, what: &str) -> Step<T> {
    let why = format!("{what} of a scalar or an array of NumPy that the program computes");
    t.stop(BreakId::NumPyArray, why)
}

/// The dtype of this name, where the program computes with it.
fn named(name: &str) -> Option<DType> {
    let taken = [DType::Float32, DType::Float64, DType::Int32, DType::Int64];
    DType::from_name(name).filter(|dtype| taken.contains(dtype))
}

fn taken(dtype: &Bound<'_, PyAny>) -> Option<DType> {
    let name: String = dtype.getattr("name").ok()?.extract().ok()?;
    named(&name)
}

/// An object of the class, the dtype and the number of dims that a value has.
fn sample<'py>(t: &mut Tracer<'py>, id: VarId) -> Step<Option<Bound<'py, PyAny>>> {
    let py = t.py;
    let numpy = py.numpy()?;
    if let Some((symbol, meta)) = meta(t, id) {
        if meta.dtype == DType::Bool || t.flow.read_arrays.contains(&symbol) {
            return Ok(None);
        }
        let dims = PyTuple::new(py, meta.shape.iter().map(|_| 1))?;
        let made = numpy.call_method1("ones", (dims, meta.dtype.as_str()))?;
        return Ok(Some(made.get_item(PyTuple::empty(py))?));
    }
    if let Some(items) = t.kind(id).plain_items().map(<[VarId]>::to_vec) {
        let mut samples = Vec::with_capacity(items.len());
        for item in items {
            match sample(t, item)? {
                Some(sample) => samples.push(sample),
                None => return Ok(None),
            }
        }
        return Ok(Some(PyList::new(py, samples)?.into_any()));
    }
    if let Kind::Array(array) = t.kind(id).clone() {
        return Ok(Some(
            numpy.call_method1("ones_like", (array.value.bind(py),))?,
        ));
    }
    if let (Kind::Scalar, Some(value)) = (t.kind(id).clone(), t.value(id)) {
        return Ok(Some(value.get_type().call1((1,))?));
    }
    Ok(match numbers_class(t, id) {
        Some(Type::Int) => Some(PyInt::new(py, 1).into_any()),
        Some(Type::Float) => Some(PyFloat::new(py, 1.0).into_any()),
        None => None,
    })
}

/// The dtype and the dims of what a function answers to such arguments.
fn sampled(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<(DType, Vec<i64>)>> {
    let mut samples = Vec::with_capacity(args.len());
    for arg in args {
        match sample(t, *arg)? {
            Some(sample) => samples.push(sample),
            None => return Ok(None),
        }
    }
    let Ok(answer) = function.call1(PyTuple::new(t.py, samples)?) else {
        return Ok(None);
    };
    let dtype = taken(&answer.getattr("dtype")?);
    let dims: Vec<i64> = answer.getattr("shape")?.extract()?;
    Ok(dtype.map(|dtype| (dtype, dims)))
}

/// A number, scalar or array as a tensor of this dtype, as NumPy casts it.
fn tensor(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<SymbolId>> {
    let mut number = id;
    if let (Kind::Scalar, Some(value)) = (t.kind(id).clone(), t.value(id)) {
        number = t.constant(&numpy_scalars::plain(&value)?);
    }
    let symbol = if let Kind::GraphArray(symbol) = *t.kind(id) {
        symbol
    } else if let Kind::Array(array) = t.kind(id).clone() {
        match arrays::held(t, array.value.bind(t.py), ArrayMaker::ToTensor(None))? {
            Some(symbol) => symbol,
            None => return Ok(None),
        }
    } else {
        let exact = match numbers_class(t, number) {
            Some(Type::Int) if dtype.is_whole() => DType::Int64,
            // By way of the double that Python makes of it.
            Some(_) => DType::Float64,
            None => return Ok(None),
        };
        match as_tensor(t, number, exact)? {
            Some(symbol) => symbol,
            None => return Ok(None),
        }
    };
    let given = t.graph.meta(symbol).map(|meta| meta.dtype);
    if dtype.is_whole() && !given.is_some_and(DType::is_whole) {
        let name = PyString::new(t.py, dtype.as_str()).into_any();
        let args = vec![Arg::Symbol(symbol), Arg::Const(Obj::from(name))];
        return apply(t, "whole", args).map(Some);
    }
    item::cast(t, symbol, dtype).map(Some)
}

/// A call of `paddle_sot_rs._graph.arrays.name`.
fn apply(t: &mut Tracer<'_>, name: &str, args: Vec<Arg>) -> Step<SymbolId> {
    match super::function(t, "paddle_sot_rs._graph.arrays", name, args)?.as_symbol() {
        Some(symbol) => Ok(symbol),
        None => refuse(t, name),
    }
}

/// A plain tensor of the same numbers.
pub fn as_plain_tensor(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    t.add(Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }))
}

/// One as the other operand of an operator (`None`: a comparison) of a tensor; others as they are.
pub fn operand(t: &mut Tracer<'_>, op: Option<BinOp>, tensor: VarId, id: VarId) -> Step<VarId> {
    let Some((symbol, meta)) = meta(t, id) else {
        return Ok(id);
    };
    if t.flow.arrays_without_dims.contains(&symbol) {
        return refuse(t, "an operator with a tensor");
    }
    let wanted = tensors::meta_of(t, tensor).map(|meta| meta.dtype);
    let (Some(wanted), true) = (wanted, numpy_scalars::defer_to_tensors(t.py)?) else {
        return refuse(t, "an operator with a tensor");
    };
    if !meta.shape.is_empty() {
        // Paddle makes a tensor of it.
        let plain = as_plain_tensor(t, symbol);
        return arrays::assigned(t, plain);
    }
    let floating = matches!(wanted, DType::Float32 | DType::Float64);
    match (meta.dtype, op) {
        // It is a `float`.
        (DType::Float64, _) => lowered(t, id),
        // Eager mode makes tensors of the others, which are cast to the dtype of floats.
        (DType::Float32, Some(BinOp::Mul)) if floating => {
            let symbol = item::cast(t, symbol, wanted)?;
            Ok(as_plain_tensor(t, symbol))
        }
        (DType::Float32, Some(BinOp::Add | BinOp::Sub | BinOp::TrueDiv)) if floating => {
            lowered(t, id)
        }
        (DType::Int32 | DType::Int64, op) if floating && op != Some(BinOp::Pow) => lowered(t, id),
        // Whole numbers take the dtype of the tensor.
        (DType::Int32 | DType::Int64, Some(BinOp::Add | BinOp::Sub | BinOp::Mul))
            if matches!(wanted, DType::Int32 | DType::Int64) =>
        {
            let symbol = item::cast(t, symbol, wanted)?;
            Ok(as_plain_tensor(t, symbol))
        }
        _ => refuse(t, "such an operator with a tensor"),
    }
}

/// `paddle.to_tensor(value)` of one: a tensor of its own.
pub fn to_tensor(t: &mut Tracer<'_>, id: VarId, wanted: Option<DType>) -> Step<Option<VarId>> {
    let Some((symbol, meta)) = meta(t, id) else {
        return Ok(None);
    };
    let symbol = match wanted.filter(|wanted| *wanted != meta.dtype) {
        Some(wanted @ (DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64)) => {
            match tensor(t, id, wanted)? {
                Some(symbol) => symbol,
                None => return Ok(None),
            }
        }
        Some(_) => return Ok(None),
        None => symbol,
    };
    let plain = as_plain_tensor(t, symbol);
    arrays::assigned(t, plain).map(Some)
}

/// An array of whole numbers as the index that Paddle makes of it, a scalar as a place.
pub fn index(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    match meta(t, id) {
        Some((symbol, meta)) if meta.shape.len() == 1 && meta.dtype == DType::Int64 => {
            let plain = as_plain_tensor(t, symbol);
            arrays::assigned(t, plain)
        }
        _ => as_place(t, id),
    }
}

/// `len(value)` where that is known.
pub fn len(t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
    match meta(t, id).and_then(|(_, meta)| meta.shape.first().copied()) {
        Some(len) if len >= 0 => Ok(len),
        _ => refuse(t, "the length"),
    }
}

/// `iter(value)` where the number of items is known.
pub fn iterate(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    const MOST_ITEMS: i64 = 64;
    let len = len(t, id)?;
    if len > MOST_ITEMS {
        return refuse(t, "the items");
    }
    let mut items = Vec::new();
    for at in 0..len {
        let at = t.int(at);
        items.push(get_item(t, id, at)?);
    }
    let over = t.add(Kind::Tuple(items, None));
    let iterator = t.add(Kind::Iter(IterVar::Sequence { over, index: 0 }));
    // It is of another class than that of a tuple.
    t.only_the_interpreter_makes(iterator);
    Ok(iterator)
}

/// `value[key]` by whole numbers and slices.
pub fn get_item(t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
    let Kind::GraphArray(symbol) = *t.kind(id) else {
        return refuse(t, "an item");
    };
    let has_dims = t
        .graph
        .meta(symbol)
        .is_some_and(|meta| !meta.shape.is_empty());
    let key = arrays::index(t, key)?;
    let is_slice = matches!(t.kind(key), Kind::Slice(_));
    let of_calls = of_calls::is_such(t, id);
    if !has_dims || !is_slice && (of_calls || numbers_class(t, key) != Some(Type::Int)) {
        return refuse(t, "such an item");
    }
    let plain = as_plain_tensor(t, symbol);
    let item = protocol::get_item(t, plain, key)?;
    let Some(made) = t.kind(item).tensor().map(|tensor| tensor.symbol) else {
        return refuse(t, "such an item");
    };
    let item = t.add(Kind::GraphArray(made));
    of_calls::note(t, of_calls, item);
    if t.flow.read_arrays.contains(&symbol) {
        t.flow.read_arrays.insert(made);
        // An array that shares its numbers with the other one.
        if t.graph.meta(made).is_none_or(|meta| !meta.shape.is_empty()) {
            t.only_the_interpreter_makes(item);
        }
    }
    Ok(item)
}

/// Whether one has a method or an attribute that is simulated.
pub fn has_method(name: &str) -> bool {
    METHODS.split_whitespace().any(|known| known == name)
}

/// `value.name` of what is known of the dims and the dtype.
pub fn attribute(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
    let Some((symbol, meta)) = meta(t, id) else {
        return Ok(None);
    };
    match name {
        "dtype" => {
            let dtype = t.py.numpy()?.getattr("dtype")?;
            let dtype = dtype.call1((meta.dtype.as_str(),))?;
            Ok(Some(t.constant(&dtype)))
        }
        "ndim" => Ok(Some(t.int(meta.shape.len() as i64))),
        "shape" => {
            let dims = meta.shape.iter().enumerate();
            let dims = dims.map(|(at, dim)| tensors::dim(t, (symbol, at), *dim));
            let dims = dims.collect();
            Ok(Some(t.add(Kind::Tuple(dims, None))))
        }
        "size" if meta.shape.len() == 1 => Ok(Some(tensors::dim(t, (symbol, 0), meta.shape[0]))),
        _ => Ok(None),
    }
}

/// `value.name(...)`
pub fn method(
    t: &mut Tracer<'_>,
    id: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let answer = match (name, args, kwargs) {
        ("astype", [dtype], []) => match dtype_of(t, *dtype)? {
            Some(dtype) => cast(t, id, dtype)?,
            None => None,
        },
        (_, [], []) if is_reduction(name) => {
            let function = t.py.numpy()?.getattr(name)?;
            reduction(t, &function, name, id)?
        }
        // `item()`
        (_, [], []) => {
            let scalar = questions::single(t, id)?;
            Some(lowered(t, scalar)?).filter(|number| *number != scalar)
        }
        _ => None,
    };
    match answer {
        Some(answer) => Ok(answer),
        None => refuse(t, &format!("{name}()")),
    }
}

/// `value.astype(dtype)`
fn cast(t: &mut Tracer<'_>, id: VarId, dtype: DType) -> Step<Option<VarId>> {
    let Some((given, _)) = meta(t, id).filter(|(_, meta)| meta.dtype != DType::Bool) else {
        return Ok(None);
    };
    let of_calls = of_calls::is_such(t, id);
    let to_whole = dtype.is_whole() && !t.graph.meta(given).is_some_and(|it| it.dtype.is_whole());
    if of_calls && to_whole {
        return Ok(None);
    }
    let symbol = tensor(t, id, dtype)?;
    if let (Some(symbol), true) = (symbol, t.flow.read_arrays.contains(&given)) {
        t.flow.read_arrays.insert(symbol);
    }
    let made = symbol.map(|symbol| t.add(Kind::GraphArray(symbol)));
    Ok(made.inspect(|made| of_calls::note(t, of_calls, *made)))
}

/// The class of one.
pub fn class<'py>(t: &Tracer<'py>, symbol: SymbolId) -> Option<Bound<'py, PyAny>> {
    let meta = t.graph.meta(symbol)?;
    let is_scalar = meta.shape.is_empty() && !t.flow.arrays_without_dims.contains(&symbol);
    let name = match (is_scalar, meta.dtype) {
        (true, DType::Bool) => "bool_",
        (true, dtype) => dtype.as_str(),
        (false, _) => "ndarray",
    };
    t.py.numpy().ok()?.getattr(name).ok()
}
