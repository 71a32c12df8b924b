//! Nested graphs as Python data: `_paddle.region` runs them inside of `cond`, `while_loop` and
//! `static_pylayer`.

use paddle_sot_backend::BackendError;
use paddle_sot_backend::graph::{Arg, Callee, Region, StatementIr, SymbolId, SymbolKind};
use paddle_sot_backend_pylayer::operation;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::bridge;

/// A callable that appends a region to the current program: it takes the statement's arguments.
pub fn runner<'py>(
    py: Python<'py>,
    region: &Region,
    grad_enabled: bool,
) -> Result<Bound<'py, PyAny>, BackendError> {
    let module = bridge::module(py, "region")?;
    Ok(match region {
        Region::If { then, otherwise } => module.getattr("If")?.call1((
            block(&module, then, grad_enabled)?,
            block(&module, otherwise, grad_enabled)?,
        ))?,
        Region::While {
            body,
            carried,
            differentiable,
        } => {
            let body = block(&module, body, grad_enabled)?;
            let given = (body, *carried, *differentiable);
            module.getattr("While")?.call1(given)?
        }
        Region::Recompute { body, given } => {
            let body = block(&module, body, grad_enabled)?;
            module.getattr("Recompute")?.call1((body, given.clone()))?
        }
        Region::PyLayer {
            forward,
            backward,
            inputs,
            outputs,
            gradients,
            ..
        } => {
            let blocks = (
                block(&module, forward, true)?,
                block(&module, backward, true)?,
            );
            operation(py, blocks, *inputs, *outputs, gradients)?
        }
    })
}

fn block<'py>(
    module: &Bound<'py, PyAny>,
    sir: &StatementIr,
    grad_enabled: bool,
) -> Result<Bound<'py, PyAny>, BackendError> {
    let py = module.py();
    let refs = (0..sir.symbols.len())
        .map(|at| match sir.kind(SymbolId(at as u32)) {
            SymbolKind::Tensor(meta) => {
                let given = (at, meta.stop_gradient, meta.shape.to_vec());
                Ok(module.getattr("Ref")?.call1(given)?)
            }
            SymbolKind::Layer(layer) => Ok(layer.bind(py)),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let steps = PyList::empty(py);
    for statement in &sir.statements {
        let args = many(py, module, &refs, &statement.args)?;
        let kwargs = PyDict::new(py);
        for (name, value) in &statement.kwargs {
            kwargs.set_item(&**name, tree(py, module, &refs, value)?)?;
        }
        let output = tree(py, module, &refs, &statement.output)?;
        let (kind, target) = match &statement.callee {
            Callee::Api(function) => ("api", function.bind(py).clone()),
            Callee::Method(name) => ("method", pyo3::types::PyString::new(py, name).into_any()),
            Callee::Attribute(name) => {
                ("attribute", pyo3::types::PyString::new(py, name).into_any())
            }
            Callee::Layer(symbol) => ("layer", refs[symbol.0 as usize].clone()),
            Callee::Sir(region) => ("api", runner(py, region, grad_enabled)?),
        };
        steps.append((kind, target, PyList::new(py, args)?, kwargs, output))?;
    }
    let named = |symbols: &[SymbolId]| -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, symbols.iter().map(|symbol| &refs[symbol.0 as usize]))
    };
    let given = (named(&sir.inputs)?, named(&sir.outputs)?, steps);
    Ok(module.getattr("Block")?.call1(given)?)
}

fn many<'py>(
    py: Python<'py>,
    module: &Bound<'py, PyAny>,
    refs: &[Bound<'py, PyAny>],
    items: &[Arg],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    items
        .iter()
        .map(|item| tree(py, module, refs, item))
        .collect()
}

fn tree<'py>(
    py: Python<'py>,
    module: &Bound<'py, PyAny>,
    refs: &[Bound<'py, PyAny>],
    arg: &Arg,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match arg {
        Arg::Symbol(symbol) => refs[symbol.0 as usize].clone(),
        Arg::Const(value) => module.getattr("Constant")?.call1((value.bind(py),))?,
        Arg::List(items) => PyList::new(py, many(py, module, refs, items)?)?.into_any(),
        Arg::Tuple(items) => PyTuple::new(py, many(py, module, refs, items)?)?.into_any(),
        Arg::NamedTuple(class, items) => {
            let items = PyTuple::new(py, many(py, module, refs, items)?)?;
            module.getattr("Made")?.call1((class.bind(py), items))?
        }
        Arg::Dict(items) => {
            let dict = PyDict::new(py);
            for (key, item) in items {
                dict.set_item(key.bind(py), tree(py, module, refs, item)?)?;
            }
            dict.into_any()
        }
        Arg::Slice(parts) => {
            let parts = many(py, module, refs, &parts[..])?;
            py.get_type::<pyo3::types::PySlice>()
                .call1((&parts[0], &parts[1], &parts[2]))?
        }
    })
}
