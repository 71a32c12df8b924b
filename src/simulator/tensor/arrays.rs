//! `paddle.to_tensor` of NumPy arrays from outside, of tensors, and of lists of tensors.
//!
//! An array is an input of the graph: every call makes a tensor of what the array holds then.
//! Nothing has happened before the graph runs, so that is what `to_tensor` would have seen.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::abi;
use crate::frame::Modules;
use crate::graph::{Callee, DType, SymbolId};
use crate::guard::{ArrayGuard, GuardKind, open_dims};
use crate::obj::Obj;
use crate::ops::{ASSIGN, ASTYPE, DETACH, TO_TENSOR};
use crate::paddle::tensor_meta;
use crate::reason::BreakId;
use crate::tracker::{ArrayMaker, Tracker};
use crate::variables::{Kind, TensorVar, VarId};

use crate::tensors::{self, Receiver};
use crate::{Kwargs, Step, Tracer};
use crate::{graph_arrays, numpy_scalars};

/// Most tensors of a list that is stacked.
const LARGEST_LIST: usize = 64;

struct Arguments {
    data: VarId,
    dtype: Option<VarId>,
}

/// `None` where more is asked for than a new tensor without a gradient in the usual place.
fn arguments(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Option<Arguments> {
    let names = ["data", "dtype", "place", "stop_gradient"];
    let mut given: [Option<VarId>; 4] = [None; 4];
    if args.len() > names.len() {
        return None;
    }
    for (at, value) in args.iter().enumerate() {
        given[at] = Some(*value);
    }
    for (name, value) in kwargs {
        let at = names.iter().position(|known| *known == &**name)?;
        given[at] = Some(*value);
    }
    let [data, dtype, place, stop] = given;
    if place.is_some_and(|place| !t.is_none(place)) {
        return None;
    }
    if let Some(stop) = stop {
        if !t
            .const_value(stop)?
            .is(pyo3::types::PyBool::new(t.py, true))
        {
            return None;
        }
    }
    let dtype = dtype.filter(|dtype| !t.is_none(*dtype));
    data.map(|data| Arguments { data, dtype })
}

/// `paddle.to_tensor(...)`; `None` where it is not captured.
pub(crate) fn to_tensor(
    t: &mut Tracer<'_>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(Arguments { data, dtype }) = arguments(t, args, kwargs) else {
        return Ok(None);
    };
    let wanted = match dtype {
        None => None,
        Some(dtype) => match tensors::named_dtype(t, dtype) {
            Some(dtype) => Some(dtype),
            None => return Ok(None),
        },
    };
    t.realize(data);
    if let Kind::Tensor(_) = t.kind(data) {
        return copy(t, data, wanted);
    }
    if let Kind::GraphArray(_) = t.kind(data) {
        return graph_arrays::to_tensor(t, data, wanted);
    }
    match t.kind(data).plain_items().map(<[VarId]>::to_vec) {
        Some(items) => stacked(t, &items, wanted),
        None => array(t, data, ArrayMaker::ToTensor(wanted)),
    }
}

/// Whether `to_tensor` takes arrays of this dtype.
pub(crate) fn is_taken(name: &str) -> bool {
    const KNOWN: [DType; 9] = [
        DType::Bool,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::UInt8,
        DType::Float16,
        DType::Float32,
        DType::Float64,
    ];
    KNOWN.iter().any(|dtype| dtype.as_str() == name)
}

fn array(t: &mut Tracer<'_>, data: VarId, maker: ArrayMaker) -> Step<Option<VarId>> {
    if let Kind::Array(array) = t.kind(data).clone() {
        return of_made(t, array.value.bind(t.py), maker);
    }
    let (Some(source), Some(value)) = (t.source(data), t.value(data)) else {
        return Ok(None);
    };
    if t.options.forward_only || !abi::is_array(t.py, (&value).into()) {
        return Ok(None);
    }
    if t.replays.reads.is_some() {
        return t.stop(
            BreakId::NumPyArray,
            "an array, which may hold something else when its code runs again on the way back",
        );
    }
    let dtype = value.getattr("dtype")?;
    if !is_taken(&dtype.getattr("name")?.extract::<String>()?) {
        return Ok(None);
    }
    let tracker = Arc::new(Tracker::Array(source.clone(), maker));
    let mut known = t.graph.inputs.iter();
    let known = known.find(|input| input.tracker == tracker);
    let symbol = match known.map(|input| input.symbol) {
        Some(symbol) => symbol,
        None => {
            let Ok(tensor) = tensor_of(&value, maker) else {
                return Ok(None);
            };
            let Some(mut meta) = tensor_meta(&tensor) else {
                return Ok(None);
            };
            t.leave_open(&source, &mut meta);
            t.graph
                .tensor_input(t.py, Obj::from(tensor), meta, tracker)?
        }
    };
    // The tensor has the dims of the array.
    let Some(meta) = t.graph.meta(symbol) else {
        return Ok(None);
    };
    let guard = ArrayGuard {
        dtype: Obj::from(dtype),
        dims: open_dims(&meta.shape),
    };
    t.guards.add(&source, GuardKind::Array(guard));
    copied(t, symbol).map(Some)
}

/// A tensor of its own for every call of `to_tensor`.
fn copied(t: &mut Tracer<'_>, symbol: SymbolId) -> Step<VarId> {
    let given = t.add(Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }));
    assigned(t, given)
}

/// The tensor of an array that the function made: its numbers are those of every call.
fn of_made<'py>(
    t: &mut Tracer<'py>,
    array: &Bound<'py, PyAny>,
    maker: ArrayMaker,
) -> Step<Option<VarId>> {
    match held(t, array, maker)? {
        Some(symbol) => copied(t, symbol).map(Some),
        None => Ok(None),
    }
}

/// The same, where nothing writes to it.
pub(crate) fn held<'py>(
    t: &mut Tracer<'py>,
    array: &Bound<'py, PyAny>,
    maker: ArrayMaker,
) -> Step<Option<SymbolId>> {
    let Ok(tensor) = tensor_of(array, maker) else {
        return Ok(None);
    };
    let Some(meta) = tensor_meta(&tensor) else {
        return Ok(None);
    };
    let tensor = Obj::from(tensor);
    let tracker = Arc::new(Tracker::Const(tensor.clone()));
    Ok(Some(t.graph.tensor_input(t.py, tensor, meta, tracker)?))
}

/// An operand of an operator with a tensor: of an array that the function made and that has dims,
/// Paddle makes a tensor. Others stay.
pub(crate) fn operand(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    let Kind::Array(array) = t.kind(id).clone() else {
        return Ok(id);
    };
    let value = array.value.bind(t.py);
    if value.getattr("ndim")?.extract::<usize>()? == 0 || !numpy_scalars::defer_to_tensors(t.py)? {
        return Ok(id);
    }
    let made = of_made(t, value, ArrayMaker::ToTensor(None))?;
    Ok(made.unwrap_or(id))
}

/// An index of a tensor: the same for whole numbers, also in a tuple.
pub(crate) fn index(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    if let Kind::Array(array) = t.kind(id).clone() {
        let dtype = array.value.bind(t.py).getattr("dtype")?;
        let name: String = dtype.getattr("name")?.extract()?;
        return match matches!(DType::from_name(&name), Some(DType::Int32 | DType::Int64)) {
            true => operand(t, id),
            false => Ok(id),
        };
    }
    if let Kind::GraphArray(_) | Kind::Scalar = t.kind(id) {
        return graph_arrays::index(t, id);
    }
    if let Kind::Slice(parts) = *t.kind(id) {
        let mut made = parts;
        for part in &mut made {
            *part = graph_arrays::as_place(t, *part)?;
        }
        return Ok(match made == parts {
            true => id,
            false => t.add(Kind::Slice(made)),
        });
    }
    let Kind::Tuple(items, None) = t.kind(id).clone() else {
        return Ok(id);
    };
    let made = items.iter().map(|item| {
        if let Kind::Array(_) | Kind::GraphArray(_) | Kind::Scalar | Kind::Slice(_) = t.kind(*item)
        {
            index(t, *item)
        } else {
            Ok(*item)
        }
    });
    let made = made.collect::<Step<Vec<_>>>()?;
    match made == items {
        true => Ok(id),
        false => Ok(t.add(Kind::Tuple(made, None))),
    }
}

/// `paddle.assign(array)`; `None` where it is not captured.
pub(crate) fn assign(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let data = match (args, kwargs) {
        ([data], []) => *data,
        ([], [(name, data)]) if &**name == "x" => *data,
        _ => return Ok(None),
    };
    t.realize(data);
    if let Kind::Tensor(_) = t.kind(data) {
        Ok(None)
    } else {
        array(t, data, ArrayMaker::Assign)
    }
}

/// The tensor that is made of an array.
///
/// # Errors
/// When Paddle cannot make it.
pub fn tensor_of<'py>(array: &Bound<'py, PyAny>, maker: ArrayMaker) -> PyResult<Bound<'py, PyAny>> {
    let paddle = array.py().paddle()?;
    match maker {
        ArrayMaker::ToTensor(None) => paddle.call_method1(TO_TENSOR, (array,)),
        ArrayMaker::ToTensor(Some(dtype)) => {
            paddle.call_method1(TO_TENSOR, (array, dtype.as_str()))
        }
        ArrayMaker::Assign => paddle.call_method1(ASSIGN, (array,)),
    }
}

/// What `to_tensor` does with a tensor or number, and with a list of such.
pub(crate) const NEW_TENSOR: &str = "new_tensor";
pub(crate) const NEW_STACK: &str = "new_stack";

/// One of these functions.
pub(crate) fn made_by(t: &Tracer<'_>, name: &str) -> PyResult<Obj> {
    let home = t.py.module("paddle_sot_rs._graph.control")?;
    Ok(Obj::from(home.getattr(name)?))
}

/// A tensor of its own.
pub(crate) fn assigned(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let assign = Callee::Api(made_by(t, NEW_TENSOR)?);
    tensors::capture(t, assign, None, &[tensor], &[], &mut |_| None)
}

/// A copy without a gradient.
fn copy(t: &mut Tracer<'_>, tensor: VarId, wanted: Option<DType>) -> Step<Option<VarId>> {
    if !is_here(t)? || !warned(t)? {
        return Ok(None);
    }
    let plain = detached(t, tensor)?;
    let dtype = tensors::meta_of(t, tensor).map(|meta| meta.dtype);
    match wanted {
        Some(wanted) if dtype != Some(wanted) => {
            let name = pyo3::types::PyString::intern(t.py, wanted.as_str()).into_any();
            let args = [t.constant(&name)];
            let cast = Callee::Method(Arc::from(ASTYPE));
            let receiver = Some(Receiver::Tensor(plain));
            tensors::capture(t, cast, receiver, &args, &[], &mut |_| None).map(Some)
        }
        _ => assigned(t, plain).map(Some),
    }
}

/// The same tensor, without its gradient.
pub(crate) fn detached(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let callee = Callee::Method(Arc::from(DETACH));
    let receiver = Some(Receiver::Tensor(tensor));
    tensors::capture(t, callee, receiver, &[], &[], &mut |_| None)
}

/// A list of tensors: eager mode goes through arrays of the same dtype.
fn stacked(t: &mut Tracer<'_>, items: &[VarId], wanted: Option<DType>) -> Step<Option<VarId>> {
    if items.is_empty() || items.len() > LARGEST_LIST || !is_here(t)? {
        return Ok(None);
    }
    let mut first = None;
    for item in items {
        t.realize(*item);
        let Kind::Tensor(TensorVar { class: None, .. }) = t.kind(*item) else {
            return Ok(None);
        };
        let Some(meta) = tensors::meta_of(t, *item) else {
            return Ok(None);
        };
        let same = (meta.dtype, meta.shape.clone());
        let known = first.get_or_insert_with(|| same.clone());
        if *known != same || !is_taken(meta.dtype.as_str()) || meta.shape.contains(&-1) {
            return Ok(None);
        }
        if wanted.is_some_and(|wanted| wanted != meta.dtype) {
            return Ok(None);
        }
    }
    let mut plain = Vec::with_capacity(items.len());
    for item in items {
        plain.push(detached(t, *item)?);
    }
    let plain = t.add(Kind::List(plain));
    let stack = Callee::Api(made_by(t, NEW_STACK)?);
    tensors::capture(t, stack, None, &[plain], &[], &mut |_| None).map(Some)
}

/// Whether tensors are made where the others are: `to_tensor` moves them.
fn is_here(t: &Tracer<'_>) -> PyResult<bool> {
    let framework = t.py.module("paddle.base.framework")?;
    let place = framework.call_method0("_current_expected_place")?;
    abi::is_cpu_place(&place)
}

/// Paddle warns about copies of tensors once in a process: now, unless that would raise.
fn warned(t: &Tracer<'_>) -> PyResult<bool> {
    let creation = t.py.module("paddle.tensor.creation")?;
    let is_done = || match creation.getattr_opt("_warned_in_tensor")? {
        Some(done) => done.is_truthy(),
        None => Ok(false),
    };
    if is_done()? {
        return Ok(true);
    }
    let paddle = t.py.paddle()?;
    let empty: [i64; 0] = [];
    let zero = paddle.call_method1("zeros", (empty,))?;
    Ok(paddle.call_method1(TO_TENSOR, (zero,)).is_ok() && is_done()?)
}
