//! What steps of optimizers are told of parameters, for `_graph/optimizers.py`.

use paddle_sot_ops::abi::{self, Updates};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySet, PyString, PyTuple};

/// Parameters with gradients, the gradients, states, factors of the rate and regularizers; or why
/// Paddle's own step has to run.
#[pyfunction]
pub fn optimizer_updates<'py>(
    parameters: &Bound<'py, PyList>,
    created: Option<&Bound<'py, PySet>>,
    tables: &Bound<'py, PyTuple>,
    shaped: usize,
    assumed: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = parameters.py();
    Ok(
        match abi::optimizer_updates(parameters, created, tables, shaped, assumed)? {
            Ok(Updates {
                parameters,
                gradients,
                states,
                rates,
                regularizers,
            }) => {
                let states = PyTuple::new(py, states)?;
                let all = (parameters, gradients, states, rates, regularizers);
                all.into_pyobject(py)?.into_any()
            }
            Err(reason) => PyString::new(py, reason).into_any(),
        },
    )
}

/// Whether the tensors of some lists surely have no memory in common.
#[pyfunction]
#[pyo3(signature = (*lists))]
pub fn are_in_any_order(lists: Vec<Bound<'_, PyList>>) -> bool {
    abi::are_in_any_order(&lists)
}

/// Keeps what runs a step of an optimizer: see `abi::prepare_step`.
#[pyfunction]
pub fn prepare_step(
    optimizer: &Bound<'_, PyAny>,
    all: Vec<Bound<'_, PyAny>>,
    updated: Vec<Bound<'_, PyAny>>,
    states: Vec<Bound<'_, PyAny>>,
    run: &Bound<'_, PyAny>,
    recipe: &Bound<'_, PyAny>,
) -> PyResult<()> {
    abi::prepare_step(optimizer, &all, &updated, &states, (run, recipe))
}

/// What runs a step of an optimizer, and the gradients that there are now; `None` where it has to
/// be prepared.
#[pyfunction]
pub fn prepared_step<'py>(
    optimizer: &Bound<'py, PyAny>,
) -> PyResult<Option<abi::PreparedRun<'py>>> {
    abi::prepared_step(optimizer)
}

/// `Optimizer.clear_grad`, of an optimizer that holds nothing of the user's.
#[pyfunction]
pub fn clear_gradients(optimizer: &Bound<'_, PyAny>, to_zero: bool) -> PyResult<()> {
    abi::clear_gradients(optimizer, to_zero)
}

/// The gradients of an optimizer's parameters were cleared by Paddle's own code, and are zeros.
#[pyfunction]
pub fn note_cleared(optimizer: &Bound<'_, PyAny>) {
    abi::note_cleared(optimizer);
}

/// Does nothing, whatever it is given: what is called where a program has done that.
#[pyfunction]
#[pyo3(signature = (*_args))]
pub fn nothing(_args: &Bound<'_, PyTuple>) {}
