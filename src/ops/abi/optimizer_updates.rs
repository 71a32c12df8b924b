//! What a step of an optimizer updates: parameters with gradients, and their states.
//!
//! Kernels that update all parameters at once look at less than those of one: here all is checked
//! that they rely on, class, dtype and dims.

use std::ops::Range;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};
use smallvec::SmallVec;

use super::plain_optimizer::{attributes, is_parameter};
use super::tensor::{dtype_and_dims, reads_natively, stops_gradient};
use super::{prepared_step, storage};
use crate::meta::DType;

/// Sizes of the dtypes that are updated.
const DTYPES: &[(DType, usize)] = &[(DType::Float32, 4), (DType::Float64, 8)];

/// Parameters that a step updates, and what it takes for them, each list in their order.
pub struct Updates<'py> {
    /// Those with a gradient.
    pub parameters: Bound<'py, PyList>,
    /// Their gradients.
    pub gradients: Bound<'py, PyList>,
    /// States, a list for each table.
    pub states: Vec<Bound<'py, PyList>>,
    /// Factors of the learning rate, where one is not 1.
    pub rates: Option<Bound<'py, PyList>>,
    /// Regularizers of their own, where one has any.
    pub regularizers: Option<Bound<'py, PyList>>,
}

/// What a step updates, or why it is not known. The first `shaped` of the `tables`, by the names of
/// parameters, hold states of a parameter's dims, the others of one number. Of the parameters in
/// `assumed` it is taken that they have gradients like themselves, and others none.
///
/// # Errors
/// What Paddle raises where a tensor is read.
pub fn updates<'py>(
    parameters: &Bound<'py, PyList>,
    created: Option<&Bound<'py, PySet>>,
    tables: &Bound<'py, PyTuple>,
    shaped: usize,
    assumed: Option<&Bound<'py, PyList>>,
) -> PyResult<Result<Updates<'py>, &'static str>> {
    let py = parameters.py();
    if !reads_natively(py) {
        return Ok(Err("its tensors cannot be read natively"));
    }
    let mut rates = Vec::new();
    let mut regularizers = Vec::new();
    let found = Updates {
        parameters: PyList::empty(py),
        gradients: PyList::empty(py),
        states: tables.iter().map(|_| PyList::empty(py)).collect(),
        rates: None,
        regularizers: None,
    };
    for parameter in parameters {
        if !is_parameter(&parameter)? {
            return Ok(Err("a parameter is of another class"));
        }
        if stops_gradient(py, parameter.as_ptr()) != Some(false) {
            continue;
        }
        let gradient = match assumed {
            None => parameter.call_method0(intern!(py, "_grad_ivar"))?,
            Some(all) if all.iter().any(|it| it.is(&parameter)) => parameter.clone(),
            Some(_) => continue,
        };
        if gradient.is_none() {
            continue;
        }
        let Some(Own { rate, regularizer }) = own(&parameter)? else {
            return Ok(Err("a parameter has settings of its own"));
        };
        let metadata = metadata(&parameter);
        let is_usual = |(dtype, _): &(i32, _)| size_of(*dtype).is_some();
        if !metadata.as_ref().is_some_and(is_usual) || metadata != self::metadata(&gradient) {
            return Ok(Err(
                "a parameter or its gradient is sparse or of another dtype",
            ));
        }
        let name = parameter.getattr(intern!(py, "name"))?;
        if let Some(created) = created {
            if !created.contains(&name)? {
                return Ok(Err("states are made"));
            }
        }
        for (at, (table, states)) in tables.iter().zip(&found.states).enumerate() {
            let Some(state) = state(&table, &name)? else {
                return Ok(Err("states are made"));
            };
            let fits = match (self::metadata(&state), &metadata) {
                (Some(own), Some(wanted)) if at < shaped => own == *wanted,
                (Some((dtype, dims)), Some((wanted, _))) => {
                    dtype == *wanted && dims.iter().product::<i64>() == 1
                }
                _ => false,
            };
            if !fits {
                return Ok(Err("a state is of other dims or of another dtype"));
            }
            states.append(state)?;
        }
        found.parameters.append(&parameter)?;
        found.gradients.append(gradient)?;
        rates.push(rate);
        regularizers.push(regularizer);
    }
    let is_one = |rate: &Bound<'_, PyAny>| rate.extract::<f64>().is_ok_and(|rate| rate == 1.0);
    let any = |listed: bool, values: Vec<Bound<'py, PyAny>>| -> PyResult<_> {
        listed.then(|| PyList::new(py, values)).transpose()
    };
    Ok(Ok(Updates {
        rates: any(!rates.iter().all(is_one), rates)?,
        regularizers: any(!regularizers.iter().all(|it| it.is_none()), regularizers)?,
        ..found
    }))
}

/// What a parameter has of its own that a step asks for.
struct Own<'py> {
    rate: Bound<'py, PyAny>,
    regularizer: Bound<'py, PyAny>,
}

/// `None` where it has something else too.
fn own<'py>(parameter: &Bound<'py, PyAny>) -> PyResult<Option<Own<'py>>> {
    let py = parameter.py();
    let Some(held) = attributes(parameter) else {
        return Ok(None);
    };
    for name in [intern!(py, "main_grad"), intern!(py, "_need_shard_auto")] {
        if held.contains(name)? {
            return Ok(None);
        }
    }
    let settings = held.get_item(intern!(py, "optimize_attr"))?;
    let rate = match settings.map(|it| it.cast_into_exact::<PyDict>()) {
        Some(Ok(settings)) => settings.get_item(intern!(py, "learning_rate"))?,
        _ => None,
    };
    let regularizer = held.get_item(intern!(py, "regularizer"))?;
    Ok(match (rate, regularizer) {
        (Some(rate), Some(regularizer)) => Some(Own { rate, regularizer }),
        _ => None,
    })
}

/// `Optimizer.clear_grad` of an optimizer that is plain: it clears the gradients of all parameters
/// that take one.
///
/// # Errors
/// What Paddle raises.
pub fn clear_gradients<'py>(optimizer: &Bound<'py, PyAny>, to_zero: bool) -> PyResult<()> {
    let py = optimizer.py();
    let list = optimizer.getattr(intern!(py, "_parameter_list"))?;
    let mut parameters = Vec::new();
    let mut add = |list: Bound<'py, PyAny>| -> PyResult<()> {
        for parameter in list.try_iter()? {
            let parameter = parameter?;
            let stops = match stops_gradient(py, parameter.as_ptr()) {
                Some(stops) => stops,
                None => parameter
                    .getattr(intern!(py, "stop_gradient"))?
                    .is_truthy()?,
            };
            if !stops {
                parameters.push(parameter);
            }
        }
        Ok(())
    };
    let in_groups = !list.is_none() && list.get_item(0)?.is_instance_of::<PyDict>();
    if in_groups {
        for group in optimizer
            .getattr(intern!(py, "_param_groups"))?
            .try_iter()?
        {
            add(group?.get_item(intern!(py, "params"))?)?;
        }
    } else {
        add(list)?;
    }
    for parameter in parameters {
        parameter.call_method1(intern!(py, "clear_gradient"), (to_zero,))?;
    }
    prepared_step::note_cleared(optimizer);
    Ok(())
}

/// The state of a parameter in a table.
fn state<'py>(
    table: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (Ok(table), true) = (
        table.cast::<PyDict>(),
        name.is_exact_instance_of::<PyString>(),
    ) else {
        return Ok(None);
    };
    let state = table.get_item(name)?;
    Ok(match state {
        Some(state) if is_parameter(&state)? => Some(state),
        _ => None,
    })
}

/// Whether tensors of these lists surely have no memory in common, so that they may be updated in
/// any order.
pub fn are_in_any_order(lists: &[Bound<'_, PyList>]) -> bool {
    let memory = |tensor: Bound<'_, PyAny>| {
        let (py, object) = (tensor.py(), tensor.as_ptr());
        let (dtype, dims) = dtype_and_dims(py, object)?;
        storage::numbers(py, object, &dims, size_of(dtype)?)
    };
    let tensors = lists.iter().flat_map(|list| list.iter());
    let places: Option<Vec<Range<usize>>> = tensors.map(memory).collect();
    let Some(mut places) = places else {
        return false;
    };
    places.sort_unstable_by_key(|place| place.start);
    places
        .windows(2)
        .all(|pair| matches!(pair, [one, other] if one.end <= other.start))
}

/// The bytes of a number of a dtype that is updated.
pub(super) fn size_of(dtype: i32) -> Option<usize> {
    let mut known = DTYPES.iter();
    let found = known.find(|(known, _)| *known as i32 == dtype);
    found.map(|(_, size)| *size)
}

/// Dtype and dims of a dense tensor with memory.
pub(super) fn metadata(tensor: &Bound<'_, PyAny>) -> Option<(i32, SmallVec<[i64; 4]>)> {
    let (py, object) = (tensor.py(), tensor.as_ptr());
    let found = dtype_and_dims(py, object)?;
    storage::has_memory(py, object).then_some(found)
}
