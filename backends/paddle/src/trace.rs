//! [`PaddleTrace`]: metadata inference by building the program.

mod eager_differences;
mod inferred;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use eager_differences::{all_given, differs_from_eager};
use paddle_sot_backend::bytecode::SourceLoc;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::{
    Arg, Arrivals, Callee, StatementIr, SymbolId, SymbolKind, TensorMeta,
};
use paddle_sot_backend::obj::{Obj, text_of};
use paddle_sot_backend::{
    BackendError, CallResult, Captured, ComparedDims, TraceSession, ValueHandle,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::bridge;
use crate::leaves;
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
        // Before any static mode, and not when the module is loaded: MKL keeps the kernels of its
        // first call.
        bridge::module(py, "value_patches")?.call_method0("eager_mode_divides")?;
        let class = bridge::module(py, "trace")?.getattr("Trace")?;
        Ok(Self {
            trace: class.call1((inspect,))?.unbind(),
            values: Vec::new(),
            inputs: Vec::new(),
            pending: Vec::new(),
            black_listed: bridge::module(py, "calls.argument_checks")?
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
}

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
                let getattr = py.builtins()?.getattr("getattr")?;
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
            let meta = paddle_sot_backend::paddle::tensor_meta(&tensor).ok_or_else(|| {
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
        ordered_sums::arrivals(py, self, sir, false)
    }

    fn sums(&self, py: Python<'_>, sir: &StatementIr) -> PyResult<Option<Arrivals>> {
        ordered_sums::arrivals(py, self, sir, true)
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
            Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => None,
        });
        let called: Vec<_> = called.collect();
        let counted: PyResult<usize> = (|| {
            let trace = self.trace.bind(py);
            trace.call_method1("eager_cost", (called,))?.extract()
        })();
        counted.unwrap_or_else(|_| self.operations(sir.statements.len()))
    }

    fn let_go(&mut self, py: Python<'_>, trains: bool) -> PyResult<()> {
        for (_, tensor) in std::mem::take(&mut self.inputs) {
            if trains {
                // In front of the hooks of the user that come behind the first call.
                leaves::describe(tensor.bind(py).as_any())?;
            }
        }
        self.pending.clear();
        self.given.clear();
        self.trace.bind(py).call_method0("let_go")?;
        Ok(())
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
