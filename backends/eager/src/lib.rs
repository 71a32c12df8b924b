//! The backend named `eager`: runs a StatementIR call by call with the real functions.
//!
//! It is the debugging tool, and what graphs run with that are too small to compile. Metadata
//! comes from the trace of the default backend.

use std::sync::Arc;

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::{
    Arg, Callee, Region, Statement, StatementIr, SymbolId, SymbolKind,
};
use paddle_sot_backend::ops::{CONTIGUOUS, VIEW};
use paddle_sot_backend::{
    BackendError, BackendRegistration, CompileRequest, CompiledGraph, GraphBackend,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PySlice, PyString, PyTuple};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// The backend named `eager`.
#[derive(Clone, Default)]
pub struct EagerBackend;

impl GraphBackend for EagerBackend {
    fn name(&self) -> &str {
        "eager"
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        match options.keys().iter().next() {
            None => Ok(()),
            Some(name) => Err(PyValueError::new_err(format!(
                "options: the eager backend has no option {name}"
            ))),
        }
    }

    fn takes_graphs_apart(&self) -> bool {
        true
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        Ok(Box::new(EagerGraph::new(
            py,
            &request.sir,
            request.grad_enabled,
        )?))
    }
}

inventory::submit! {
    BackendRegistration { name: "eager", make: || Box::new(EagerBackend) }
}

/// Makes sure that the linker keeps this crate's registration.
pub fn link() {}

struct EagerGraph {
    sir: Arc<StatementIr>,
    /// By statement.
    ready: Vec<Ready>,
    /// Whether gradients are on where it is called.
    grad_enabled: bool,
}

/// What is known of a statement before it runs.
struct Ready {
    /// Whether its function takes no tensors for the numbers that the graph makes.
    wants_numbers: bool,
    /// In the order of `Region::blocks`.
    blocks: Vec<Arc<EagerGraph>>,
    /// The tensors that nothing behind it reads: they are let go.
    ended: Vec<SymbolId>,
}

/// By statement, the tensors that are read there for the last time, or never.
fn ended(sir: &StatementIr) -> Vec<Vec<SymbolId>> {
    let mut needed: FxHashSet<SymbolId> = sir.outputs.iter().copied().collect();
    let mut found: Vec<Vec<SymbolId>> = Vec::with_capacity(sir.statements.len());
    for statement in sir.statements.iter().rev() {
        let mut last = Vec::new();
        let mut look = |symbol| {
            if needed.insert(symbol) {
                last.push(symbol);
            }
        };
        statement.for_each_argument(&mut look);
        statement.output.for_each_symbol(&mut look);
        found.push(last);
    }
    found.reverse();
    found
}

impl Ready {
    fn new(
        py: Python<'_>,
        (statement, ended): (&Statement, Vec<SymbolId>),
        wants: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mut blocks = Vec::new();
        let wants_numbers = match &statement.callee {
            Callee::Api(function) => wants.call1((function.bind(py),))?.extract()?,
            Callee::Method(name) => wants.call1((&**name,))?.extract()?,
            Callee::Attribute(_) | Callee::Layer(_) => false,
            Callee::Sir(region) => {
                for (_, block) in region.blocks() {
                    blocks.push(Arc::new(EagerGraph::new(py, block, true)?));
                }
                false
            }
        };
        Ok(Self {
            wants_numbers,
            blocks,
            ended,
        })
    }
}

type Values<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// Those of a call.
type Args<'py> = SmallVec<[Bound<'py, PyAny>; 6]>;

/// Calls a function: without a tuple where there are few arguments.
fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (args, kwargs) {
        ([a], None) => function.call1((a,)),
        ([a, b], None) => function.call1((a, b)),
        ([a, b, c], None) => function.call1((a, b, c)),
        ([a, b, c, d], None) => function.call1((a, b, c, d)),
        _ => function.call(PyTuple::new(function.py(), args)?, kwargs),
    }
}

/// Calls a method of the first argument.
fn call_method<'py>(
    args: &[Bound<'py, PyAny>],
    name: Bound<'py, PyString>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (args, kwargs) {
        ([receiver], None) => receiver.call_method0(name),
        ([receiver, a], None) => receiver.call_method1(name, (a,)),
        ([receiver, a, b], None) => receiver.call_method1(name, (a, b)),
        ([receiver, a, b, c], None) => receiver.call_method1(name, (a, b, c)),
        _ => call(&args[0].getattr(name)?, &args[1..], kwargs),
    }
}

impl EagerGraph {
    fn new(py: Python<'_>, sir: &Arc<StatementIr>, grad_enabled: bool) -> PyResult<Self> {
        let wants = py
            .module("paddle_sot_rs._paddle.open_sizes")?
            .getattr("wants_numbers")?;
        let statements = sir.statements.iter().zip(ended(sir));
        let ready = statements.map(|statement| Ready::new(py, statement, &wants));
        Ok(Self {
            ready: ready.collect::<PyResult<_>>()?,
            sir: Arc::clone(sir),
            grad_enabled,
        })
    }

    fn object<'py>(
        &self,
        py: Python<'py>,
        values: &Values<'py>,
        arg: &Arg,
    ) -> PyResult<Bound<'py, PyAny>> {
        let many = |items: &[Arg]| {
            items
                .iter()
                .map(|item| self.object(py, values, item))
                .collect::<PyResult<Vec<_>>>()
        };
        Ok(match arg {
            Arg::Symbol(symbol) => match self.sir.kind(*symbol) {
                SymbolKind::Layer(layer) => layer.bind(py),
                SymbolKind::Tensor(_) => values[symbol.0 as usize].clone().ok_or_else(|| {
                    PyRuntimeError::new_err(format!("symbol {symbol} has no value"))
                })?,
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
                    dict.set_item(key.bind(py), self.object(py, values, item)?)?;
                }
                dict.into_any()
            }
            Arg::Slice(parts) => {
                let parts = many(&parts[..])?;
                py.get_type::<PySlice>()
                    .call1((&parts[0], &parts[1], &parts[2]))?
            }
        })
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        values: &Values<'py>,
        (at, statement): (usize, &Statement),
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut args = statement
            .args
            .iter()
            .map(|arg| self.object(py, values, arg))
            .collect::<PyResult<Args<'_>>>()?;
        let mut kwargs = None;
        for (name, value) in &statement.kwargs {
            let kwargs = kwargs.get_or_insert_with(|| PyDict::new(py));
            kwargs.set_item(&**name, self.object(py, values, value)?)?;
        }
        let mut kwargs = kwargs;
        if self.ready[at].wants_numbers {
            let numbers = py
                .module("paddle_sot_rs._paddle.open_sizes")?
                .getattr("as_numbers")?;
            let (given, named): (Vec<Bound<'py, PyAny>>, _) = numbers
                .call1((PyTuple::new(py, args)?, kwargs))?
                .extract()?;
            (args, kwargs) = (given.into(), named);
        }
        let kwargs = kwargs.as_ref();
        match &statement.callee {
            Callee::Api(function) => call(function.bind(py), &args, kwargs),
            Callee::Method(name) => {
                if &**name == VIEW {
                    // A program knows nothing of `contiguous()`, so it is no statement; where eager
                    // mode refuses, no graph has this one.
                    args[0].call_method0(PyString::intern(py, CONTIGUOUS))?;
                }
                call_method(&args, PyString::intern(py, name), kwargs)
            }
            Callee::Attribute(name) => args[0].getattr(&**name),
            Callee::Layer(_) => call_method(&args, intern!(py, "forward").clone(), kwargs),
            Callee::Sir(region) => run_region(py, region, &self.ready[at].blocks, args.into_vec()),
        }
    }

    /// `stopped`: whether it has switched gradients off.
    fn run_all<'py>(
        &self,
        py: Python<'py>,
        values: &mut Values<'py>,
        stopped: &mut bool,
    ) -> PyResult<()> {
        for (at, statement) in self.sir.statements.iter().enumerate() {
            let stops = self.grad_enabled && !statement.grad_enabled;
            if stops != *stopped {
                abi::set_grad_enabled(py, !stops)?;
                *stopped = stops;
            }
            let result = self.run(py, values, (at, statement))?;
            define(values, &statement.output, &result)?;
            for symbol in &self.ready[at].ended {
                values[symbol.0 as usize] = None;
            }
        }
        Ok(())
    }
}

/// Runs nested graphs the way Python would have.
fn run_region<'py>(
    py: Python<'py>,
    region: &Region,
    blocks: &[Arc<EagerGraph>],
    args: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let outputs = match (region, blocks) {
        (Region::If { .. }, [then, otherwise]) => {
            let holds = args[0].is_truthy()?;
            let block = if holds { then } else { otherwise };
            block.call(py, &args[1..])?
        }
        (Region::While { carried, .. }, [body]) => {
            let mut condition = args[0].clone();
            let mut values: Vec<Bound<'py, PyAny>> = args[1..].to_vec();
            while condition.is_truthy()? {
                let mut next = body.call(py, &values)?.into_iter();
                condition = next.next().map_or_else(
                    || Err(PyRuntimeError::new_err("a loop without a condition")),
                    |next| Ok(next.into_bound(py)),
                )?;
                for (value, next) in values.iter_mut().zip(next) {
                    *value = next.into_bound(py);
                }
            }
            values.truncate(*carried);
            values.into_iter().map(Bound::unbind).collect()
        }
        (Region::Recompute { given, .. }, [body]) => {
            let run = py
                .module("paddle_sot_rs._graph.recompute")?
                .getattr("run_again")?;
            let places = given.clone();
            return run.call1((function(py, body)?, places, PyList::new(py, args)?));
        }
        (
            Region::PyLayer {
                inputs,
                outputs,
                gradients,
                ..
            },
            [forward, backward],
        ) => {
            let run = py
                .module("paddle_sot_rs._graph.control")?
                .getattr("run_operation")?;
            let (given, free) = args.split_at(*inputs);
            let operation = (function(py, forward)?, function(py, backward)?);
            return run.call1((
                operation,
                *outputs,
                gradients.clone(),
                backward.sir.statements.iter().all(|it| it.grad_enabled),
                PyList::new(py, given)?,
                PyList::new(py, free)?,
            ));
        }
        _ => return Err(PyRuntimeError::new_err("a region without its blocks")),
    };
    Ok(PyTuple::new(py, outputs)?.into_any())
}

/// A block as a function of a list of tensors.
fn function<'py>(py: Python<'py>, block: &Arc<EagerGraph>) -> PyResult<Bound<'py, PyCFunction>> {
    let block = Arc::clone(block);
    PyCFunction::new_closure(py, None, None, move |args, _| -> PyResult<Py<PyList>> {
        let inputs: Vec<Bound<'_, PyAny>> = args.get_item(0)?.extract()?;
        let outputs = block.call(args.py(), &inputs)?;
        Ok(PyList::new(args.py(), outputs)?.unbind())
    })
}

fn define<'py>(values: &mut Values<'py>, shape: &Arg, result: &Bound<'py, PyAny>) -> PyResult<()> {
    match shape {
        Arg::Symbol(symbol) => values[symbol.0 as usize] = Some(result.clone()),
        Arg::List(items) | Arg::Tuple(items) | Arg::NamedTuple(_, items) => {
            for (at, item) in items.iter().enumerate() {
                define(values, item, &result.get_item(at)?)?;
            }
        }
        Arg::Dict(items) => {
            for (key, item) in items {
                define(values, item, &result.get_item(key.bind(result.py()))?)?;
            }
        }
        Arg::Const(_) | Arg::Slice(_) => {}
    }
    Ok(())
}

impl CompiledGraph for EagerGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let mut values: Values<'_> = vec![None; self.sir.symbols.len()];
        for (symbol, input) in self.sir.tensor_inputs().zip(inputs) {
            values[symbol.0 as usize] = Some(input.clone());
        }
        let mut stopped = false;
        let done = self.run_all(py, &mut values, &mut stopped);
        if stopped {
            abi::set_grad_enabled(py, true)?;
        }
        done?;
        let missing = || PyRuntimeError::new_err("an output of the graph has no value");
        self.sir
            .outputs
            .iter()
            .map(|symbol| {
                values[symbol.0 as usize]
                    .clone()
                    .map(Bound::unbind)
                    .ok_or_else(missing)
            })
            .collect()
    }

    fn program_text(&self, _py: Python<'_>) -> PyResult<String> {
        Ok(self.sir.to_string())
    }

    fn backend_name(&self) -> &str {
        "eager"
    }

    fn traverse(&self, _visit: &mut dyn FnMut(&Py<PyAny>)) {}
}
