//! [`PaddleTrace`]: metadata inference by building the program.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paddle_sot::backend::{
    BackendError, CallResult, Captured, ComparedDims, ComparedWith, InferredOutput, TraceSession,
    ValueHandle,
};
use paddle_sot::bytecode::CmpOp;
use paddle_sot::frame::Modules;
use paddle_sot::graph::{
    Arg, Arrivals, Callee, DType, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use paddle_sot::obj::{Obj, text_of};
use paddle_sot::reason::SourceLoc;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};

use crate::bridge;
use crate::ordered_sums;

/// A program under construction, and the value of every symbol.
pub struct PaddleTrace {
    /// A `Trace` of `trace.py`.
    pub trace: Py<PyAny>,
    /// Values by symbol; `None` for layers and for symbols that were rolled back.
    pub values: Vec<Option<Py<PyAny>>>,
    inputs: Vec<(SymbolId, Obj)>,
    pending: Vec<Py<PyAny>>,
    value_type: Py<PyAny>,
    black_listed: Py<PyAny>,
    grad_enabled: bool,
    /// See [`TraceSession::take_compared`].
    compared: Vec<ComparedDims>,
    /// The tensors that the last call was given.
    given: Vec<SymbolId>,
    /// How many operations there are: counting them takes Paddle a list of all.
    size: AtomicUsize,
}

/// The operations are to be counted again.
const UNKNOWN: usize = usize::MAX;

impl PaddleTrace {
    /// An empty program. `inspect(callee, operations, result)` looks at each call.
    pub fn new(py: Python<'_>, inspect: Option<&Bound<'_, PyAny>>) -> Result<Self, BackendError> {
        let class = bridge::module(py, "trace")?.getattr("Trace")?;
        Ok(Self {
            trace: class.call1((inspect,))?.unbind(),
            values: Vec::new(),
            inputs: Vec::new(),
            pending: Vec::new(),
            black_listed: bridge::module(py, "call_rewrites")?
                .getattr("BlackListed")?
                .unbind(),
            value_type: bridge::module(py, "value_patches")?
                .getattr("Value")?
                .unbind(),
            grad_enabled: true,
            compared: Vec::new(),
            given: Vec::new(),
            size: AtomicUsize::new(UNKNOWN),
        })
    }

    fn set(&mut self, symbol: SymbolId, value: Py<PyAny>) {
        let index = symbol.0 as usize;
        while self.values.len() <= index {
            self.values.push(None);
        }
        self.values[index] = Some(value);
    }

    /// The value of a symbol.
    pub fn value<'py>(
        &self,
        py: Python<'py>,
        symbol: SymbolId,
    ) -> Result<Bound<'py, PyAny>, BackendError> {
        let value = self.values.get(symbol.0 as usize).and_then(Option::as_ref);
        value
            .map(|value| value.bind(py).clone())
            .ok_or(BackendError::DeadSymbol(symbol.0))
    }

    fn object<'py>(
        &self,
        py: Python<'py>,
        sir: &StatementIr,
        arg: &Arg,
    ) -> Result<Bound<'py, PyAny>, BackendError> {
        let many = |items: &[Arg]| {
            items
                .iter()
                .map(|item| self.object(py, sir, item))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(match arg {
            Arg::Symbol(symbol) => match sir.kind(*symbol) {
                SymbolKind::Tensor(_) => self.value(py, *symbol)?,
                SymbolKind::Layer(layer) => layer.bind(py),
            },
            Arg::Const(value) => value.bind(py).clone(),
            Arg::List(items) => PyList::new(py, many(items)?)?.into_any(),
            Arg::Tuple(items) => PyTuple::new(py, many(items)?)?.into_any(),
            Arg::NamedTuple(class, items) => {
                class.bind(py).call1(PyTuple::new(py, many(items)?)?)?
            }
            Arg::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, item) in items {
                    dict.set_item(key.bind(py), self.object(py, sir, item)?)?;
                }
                dict.into_any()
            }
            Arg::Slice(parts) => {
                let parts = many(&parts[..])?;
                py.get_type::<pyo3::types::PySlice>()
                    .call1((&parts[0], &parts[1], &parts[2]))?
            }
        })
    }

    fn inferred(
        &mut self,
        py: Python<'_>,
        result: &Bound<'_, PyAny>,
        args: &[(SymbolId, String)],
    ) -> Result<InferredOutput, BackendError> {
        if result.is_instance(self.value_type.bind(py))? {
            let address = result
                .getattr(pyo3::intern!(py, "id"))
                .and_then(|id| id.extract::<String>())
                .unwrap_or_default();
            if let Some((symbol, _)) = args
                .iter()
                .find(|(_, id)| *id == address && !address.is_empty())
            {
                return Ok(InferredOutput::Existing(*symbol));
            }
            let meta = value_meta(result)?;
            let known = self.pending.iter().position(|known| known.is(result));
            let at = known.unwrap_or_else(|| {
                self.pending.push(result.clone().unbind());
                self.pending.len() - 1
            });
            return Ok(InferredOutput::Tensor(meta, ValueHandle(at)));
        }
        let many = |this: &mut Self, items: Vec<Bound<'_, PyAny>>| {
            items
                .iter()
                .map(|item| this.inferred(py, item, args))
                .collect::<Result<Vec<_>, _>>()
        };
        if let Ok(list) = result.cast_exact::<PyList>() {
            return Ok(InferredOutput::List(many(self, list.iter().collect())?));
        }
        if let Ok(tuple) = result.cast_exact::<PyTuple>() {
            return Ok(InferredOutput::Tuple(many(self, tuple.iter().collect())?));
        }
        if let (Ok(tuple), true) = (result.cast::<PyTuple>(), result.hasattr("_fields")?) {
            let class = Obj::from(result.get_type());
            return Ok(InferredOutput::NamedTuple(
                class,
                many(self, tuple.iter().collect())?,
            ));
        }
        if let Ok(dict) = result.cast_exact::<PyDict>() {
            let mut items = Vec::new();
            for (key, value) in dict.iter() {
                items.push((Obj::from(key), self.inferred(py, &value, args)?));
            }
            return Ok(InferredOutput::Dict(items));
        }
        let plain = result.is_none()
            || ["bool", "int", "float", "str"]
                .contains(&result.get_type().name()?.to_string().as_str());
        if plain {
            return Ok(InferredOutput::Const(Obj::from(result)));
        }
        Err(BackendError::Refused(format!(
            "the call returns a {}",
            result.get_type().name()?
        )))
    }
}

fn value_meta(value: &Bound<'_, PyAny>) -> Result<TensorMeta, BackendError> {
    let py = value.py();
    let mut shape: Vec<i64> = value.getattr(pyo3::intern!(py, "shape"))?.extract()?;
    // Some rules compute with the -1 of an open dim.
    shape.iter_mut().for_each(|dim| *dim = (*dim).max(-1));
    let named = value.getattr(pyo3::intern!(py, "dtype"))?;
    let dtype = paddle_sot::paddle::dtype_of(&named)
        .ok_or_else(|| BackendError::Refused(format!("a result of dtype {named}")))?;
    let stops = value.getattr(pyo3::intern!(py, "stop_gradient"))?;
    let stop_gradient = stops.is_truthy()?;
    Ok(TensorMeta {
        shape: shape.into(),
        dtype,
        stop_gradient,
    })
}

fn all_given<'a>(
    args: &'a [Arg],
    kwargs: &'a [(Arc<str>, Arg)],
) -> impl Iterator<Item = &'a Arg> + 'a {
    args.iter().chain(kwargs.iter().map(|(_, arg)| arg))
}

/// Programs keep numbers in single precision, and do arithmetic of a bool or half tensor and a number
/// that eager mode refuses or does in another type.
fn number_differs(
    py: Python<'_>,
    name: &str,
    sir: &StatementIr,
    args: &[Arg],
    kwargs: &[(Arc<str>, Arg)],
) -> bool {
    let given = || all_given(args, kwargs);
    let dtypes = || {
        given().filter_map(|arg| match arg {
            Arg::Symbol(symbol) => sir.meta(*symbol).map(|meta| meta.dtype.as_str()),
            _ => None,
        })
    };
    let wide = |dtype: &str| matches!(dtype, "float64" | "complex64" | "complex128");
    given().enumerate().any(|(at, arg)| {
        let Arg::Const(value) = arg else {
            return false;
        };
        let value = value.bind(py);
        if value.is_exact_instance_of::<PyBool>() {
            return args.len() == 2
                && dtypes().any(|dtype| matches!(dtype, "bool" | "float16" | "bfloat16"));
        }
        if value.is_exact_instance_of::<PyFloat>() {
            let value: f64 = value.extract().unwrap_or(f64::NAN);
            // Of those with a name, few are taken as tensors: `trace.py` looks for them.
            let rounds = f64::from(value as f32) != value && !value.is_nan();
            // Eager mode raises where the dtype does not hold the number; the float of a program is infinite.
            if name == "full_like" && value.is_finite() && value.abs() > f64::from(f32::MAX) {
                return true;
            }
            return rounds && at < args.len() && dtypes().any(wide);
        }
        if !value.is_exact_instance_of::<PyInt>() {
            return false;
        }
        // A program makes a double of it before it makes a float.
        let rounded_twice = value
            .extract::<i64>()
            .is_ok_and(|value| value as f64 as f32 != value as f32);
        if COMPARISONS.contains(&name) {
            return rounded_twice && dtypes().any(|dtype| !wide(dtype) && dtype.contains("float"));
        }
        let exact = |round: fn(i64) -> i128| {
            let value = value.extract::<i64>();
            value.is_ok_and(|value| round(value) == i128::from(value))
        };
        if matches!(name, "full" | "linspace") {
            return !exact(|value| (value as f64) as i128)
                || !is_small_int(value) && given().any(|arg| is_short_dtype(py, arg));
        }
        let short = |dtype| SHORT.contains(&dtype);
        if !name.starts_with("__") && !is_small_int(value) && dtypes().any(short) {
            return true;
        }
        !exact(|value| (value as f32) as i128)
            && dtypes().any(|dtype| wide(dtype) || dtype.contains("int") || rounded_twice)
    })
}

/// Whether a number is one of 32 bits, or the next one: functions of Paddle make whole numbers of doubles or floats in a
/// program, and those do not wrap around.
fn is_small_int(value: &Bound<'_, PyAny>) -> bool {
    const MOST: i64 = 1 << 31;
    let value = value.extract::<i64>();
    value.is_ok_and(|value| (-MOST..=MOST).contains(&value))
}

/// Dtypes of whole numbers of less than 64 bits.
const SHORT: &[&str] = &["uint8", "int8", "int16", "int32"];

/// Whether an argument is one of those, however that is written.
fn is_short_dtype(py: Python<'_>, arg: &Arg) -> bool {
    let Arg::Const(value) = arg else {
        return false;
    };
    let name = value.bind(py).str().map(|name| name.to_string());
    name.is_ok_and(|name| SHORT.iter().any(|dtype| name.contains(dtype)))
}

/// Methods that make a tensor of the other type first.
const COMPARISONS: &[&str] = &["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"];

/// Where static inference gives another dtype or shape than eager (found by probing): refused, so
/// that eager's answer wins.
fn differs_from_eager(
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
    let first = given().find_map(|arg| match arg {
        Arg::Symbol(symbol) => sir.meta(*symbol),
        _ => None,
    });
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
        "svd" | "svd_lowrank" | "pca_lowrank" => first.is_some_and(|meta| meta.dtype.is_complex()),
        "equal_all" | "matrix_rank" | "lstsq" | "slogdet" | "svdvals" | "stft" | "istft" => true,
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

impl PaddleTrace {
    /// The open dims that the call which was just traced has compared, of its arguments `known`.
    fn compared_dims(
        &self,
        py: Python<'_>,
        known: &[(SymbolId, String)],
    ) -> PyResult<Vec<ComparedDims>> {
        let asked = self.trace.bind(py).getattr(pyo3::intern!(py, "asked"))?;
        let asked: Vec<(String, usize, String, String, i64, bool)> = asked.extract()?;
        let symbol = |id: &str| Some(known.iter().find(|(_, known)| known == id)?.0);
        let compared =
            |(id, at, op, other, there, holds): &(String, usize, String, String, i64, bool)| {
                let right = match other.as_str() {
                    NUMBER => ComparedWith::Number(*there),
                    other => ComparedWith::Dim(symbol(other)?, usize::try_from(*there).ok()?),
                };
                Some(ComparedDims::Known {
                    left: (symbol(id)?, *at),
                    op: CmpOp::from_dunder(op)?,
                    right,
                    holds: *holds,
                })
            };
        let found = asked
            .iter()
            .map(|it| compared(it).unwrap_or(ComparedDims::Unknown));
        Ok(found.collect())
    }
}

/// See `value_patches.py`.
const NUMBER: &str = "number";

impl TraceSession for PaddleTrace {
    fn add_input(
        &mut self,
        py: Python<'_>,
        symbol: SymbolId,
        tensor: &Obj,
        meta: &TensorMeta,
    ) -> Result<(), BackendError> {
        self.size.store(UNKNOWN, Ordering::Relaxed);
        let value = self
            .trace
            .bind(py)
            .call_method1("input", (tensor.bind(py), meta.shape.to_vec()))?;
        self.set(symbol, value.unbind());
        self.inputs.push((symbol, tensor.clone()));
        Ok(())
    }

    fn placeholder(
        &mut self,
        py: Python<'_>,
        meta: &TensorMeta,
    ) -> Result<ValueHandle, BackendError> {
        self.size.store(UNKNOWN, Ordering::Relaxed);
        let given = (meta.shape.to_vec(), meta.dtype.as_str(), meta.stop_gradient);
        let value = self.trace.bind(py).call_method1("placeholder", given)?;
        self.pending.clear();
        self.pending.push(value.unbind());
        Ok(ValueHandle(0))
    }

    fn set_stop_gradient(
        &mut self,
        py: Python<'_>,
        symbol: SymbolId,
        stops: bool,
    ) -> Result<(), BackendError> {
        let value = self.value(py, symbol)?;
        value.setattr(pyo3::intern!(py, "stop_gradient"), stops)?;
        Ok(())
    }

    fn set_grad_enabled(&mut self, enabled: bool) {
        self.grad_enabled = enabled;
    }

    fn call(
        &mut self,
        py: Python<'_>,
        sir: &StatementIr,
        callee: &Callee,
        args: &[Arg],
        kwargs: &[(Arc<str>, Arg)],
        _loc: &SourceLoc,
    ) -> Result<CallResult, BackendError> {
        self.size.store(UNKNOWN, Ordering::Relaxed);
        let objects = args
            .iter()
            .map(|arg| self.object(py, sir, arg))
            .collect::<Result<Vec<_>, _>>()?;
        let named = PyDict::new(py);
        for (name, value) in kwargs {
            named.set_item(&**name, self.object(py, sir, value)?)?;
        }
        let (function, rest, is_layer) = match callee {
            Callee::Api(function) => {
                let function = function.bind(py).clone();
                let name = text_of(&function, "__name__");
                if differs_from_eager(py, &name, sir, args, kwargs) {
                    return Err(BackendError::Refused(format!(
                        "{name}() has another result in static mode"
                    )));
                }
                (function, &objects[..], false)
            }
            Callee::Method(name) => {
                if differs_from_eager(py, name, sir, args, kwargs) {
                    return Err(BackendError::Refused(format!(
                        "{name}() has another result in static mode"
                    )));
                }
                (
                    pyo3::types::PyString::intern(py, name).into_any(),
                    &objects[..],
                    false,
                )
            }
            Callee::Attribute(name) => {
                let getattr = py.module("builtins")?.getattr("getattr")?;
                let name = pyo3::types::PyString::new(py, name).into_any();
                let getter = py.module("functools")?.getattr("partial")?.call1((
                    getattr,
                    &objects[0],
                    name,
                ))?;
                (getter, &[][..], false)
            }
            Callee::Layer(_) => (objects[0].getattr("forward")?, &objects[1..], true),
            Callee::Sir(region) => (
                crate::region::runner(py, region, self.grad_enabled)?,
                &objects[..],
                false,
            ),
        };
        let given = (
            function,
            PyTuple::new(py, rest)?,
            named,
            is_layer,
            self.grad_enabled,
        );
        let answer = self.trace.bind(py).call_method1("call", given);
        let answer = answer.map_err(|err| match err.matches(py, self.black_listed.bind(py)) {
            Ok(true) => BackendError::BlackListed(err.value(py).to_string()),
            _ => err.into(),
        })?;
        type Made<'py> = (Bound<'py, PyAny>, Bound<'py, PyList>, bool, bool, bool);
        let (result, fresh, copies, draws, computes_dims): Made<'_> = answer.extract()?;
        self.pending.clear();
        let mut known = Vec::new();
        for arg in all_given(args, kwargs) {
            arg.for_each_symbol(&mut |symbol| {
                if let Ok(id) = self.value(py, symbol).and_then(|value| {
                    Ok(value
                        .getattr(pyo3::intern!(py, "id"))?
                        .extract::<String>()?)
                }) {
                    known.push((symbol, id));
                }
            });
        }
        self.compared = self.compared_dims(py, &known)?;
        self.given = known.iter().map(|(symbol, _)| *symbol).collect();
        let output = self.inferred(py, &result, &known)?;
        let mut captured = Vec::with_capacity(fresh.len());
        for tensor in fresh.iter() {
            let meta = paddle_sot::paddle::tensor_meta(&tensor).ok_or_else(|| {
                BackendError::Refused("the layer holds a tensor of an unsupported kind".into())
            })?;
            captured.push(Captured {
                value: Obj::from(tensor),
                meta,
            });
        }
        Ok(CallResult {
            output,
            captured,
            copies,
            draws,
            computes_dims,
        })
    }

    fn take_compared(&mut self) -> Vec<ComparedDims> {
        std::mem::take(&mut self.compared)
    }

    fn updated(&self, py: Python<'_>) -> Result<Vec<SymbolId>, BackendError> {
        let updated = self.trace.bind(py).getattr(pyo3::intern!(py, "updated"))?;
        let mut found = Vec::new();
        for id in updated.extract::<Vec<String>>()? {
            let is_it = |symbol: &SymbolId| {
                let value = self.value(py, *symbol).ok();
                let known = value
                    .and_then(|value| value.getattr(pyo3::intern!(py, "id")).ok()?.extract().ok());
                known.is_some_and(|known: String| known == id)
            };
            // What it has captured is among the last.
            let inputs = self.inputs.iter().rev().map(|(symbol, _)| *symbol);
            found.extend(self.given.iter().copied().chain(inputs).find(is_it));
        }
        Ok(found)
    }

    fn made(&self, py: Python<'_>, symbol: SymbolId) -> PyResult<Option<Py<PyAny>>> {
        let Ok(value) = self.value(py, symbol) else {
            return Ok(None);
        };
        let made = self.trace.bind(py).call_method1("made", (value,))?;
        Ok((!made.is_none()).then(|| made.unbind()))
    }

    fn is_used_once(&self, py: Python<'_>, symbol: SymbolId) -> PyResult<bool> {
        let Ok(value) = self.value(py, symbol) else {
            return Ok(false);
        };
        for ask in ["use_empty", "has_one_use"] {
            if value.call_method0(ask)?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn arrivals(&self, py: Python<'_>, sir: &StatementIr) -> PyResult<Option<Arrivals>> {
        ordered_sums::arrivals(py, self, sir)
    }

    fn is_gone_through(&self, py: Python<'_>, symbol: SymbolId) -> PyResult<bool> {
        let Ok(value) = self.value(py, symbol) else {
            return Ok(false);
        };
        let gone_through = self.trace.bind(py).getattr("gone_through")?;
        gone_through.contains(value.getattr("id")?)
    }

    fn bind_captured(&mut self, symbol: SymbolId, tensor: &Obj) -> Result<(), BackendError> {
        self.size.store(UNKNOWN, Ordering::Relaxed);
        Python::attach(|py| {
            let value = self
                .trace
                .bind(py)
                .call_method1("cast", (tensor.bind(py),))?;
            self.set(symbol, value.unbind());
            self.inputs.push((symbol, tensor.clone()));
            Ok(())
        })
    }

    fn bind_output(&mut self, symbol: SymbolId, value: ValueHandle) -> Result<(), BackendError> {
        let value = self
            .pending
            .get(value.0)
            .ok_or(BackendError::DeadSymbol(symbol.0))?;
        let value = Python::attach(|py| value.clone_ref(py));
        self.set(symbol, value);
        Ok(())
    }

    fn mark(&self) -> usize {
        let known = self.size.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let size = Python::attach(|py| {
            self.trace
                .bind(py)
                .call_method0("size")
                .and_then(|size| size.extract())
                .unwrap_or(0)
        });
        self.size.store(size, Ordering::Relaxed);
        size
    }

    fn operations(&self, statements: usize) -> usize {
        let counted: PyResult<usize> = Python::attach(|py| {
            let trace = self.trace.bind(py);
            trace.call_method0("operations")?.extract()
        });
        counted.unwrap_or(statements)
    }

    fn eager_cost(&self, py: Python<'_>, sir: &StatementIr) -> usize {
        let called = sir.statements.iter().filter_map(|it| match &it.callee {
            Callee::Api(function) => Some((function.bind(py).clone(), false)),
            Callee::Layer(layer) => match sir.kind(*layer) {
                SymbolKind::Layer(layer) => {
                    let class = layer.bind(py).get_type();
                    Some((class.getattr("forward").ok()?, true))
                }
                SymbolKind::Tensor(_) => None,
            },
            _ => None,
        });
        let called: Vec<_> = called.collect();
        let counted: PyResult<usize> = (|| {
            let trace = self.trace.bind(py);
            trace.call_method1("eager_cost", (called,))?.extract()
        })();
        counted.unwrap_or_else(|_| self.operations(sir.statements.len()))
    }

    fn rollback(&mut self, py: Python<'_>, mark: usize, first_dead: SymbolId) {
        self.size.store(UNKNOWN, Ordering::Relaxed);
        // Values of removed operations must be gone before the operations are.
        self.values.truncate(first_dead.0 as usize);
        self.pending.clear();
        let dead: Vec<Obj> = self
            .inputs
            .iter()
            .filter(|(symbol, _)| *symbol >= first_dead)
            .map(|(_, tensor)| tensor.clone())
            .collect();
        self.inputs.retain(|(symbol, _)| *symbol < first_dead);
        let trace = self.trace.bind(py);
        let undo = || -> PyResult<()> {
            let dead = PyList::new(py, dead.iter().map(|tensor| tensor.bind(py)))?;
            trace.call_method1("forget", (dead,))?;
            trace.call_method1("rollback", (mark,))?;
            Ok(())
        };
        if let Err(err) = undo() {
            log::error!(target: "paddle_sot_rs.backend", "roll-back of a program failed: {err}");
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
