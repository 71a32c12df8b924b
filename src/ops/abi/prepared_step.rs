//! Steps of optimizers that were prepared: what they update stays what it is while nobody changes
//! the optimizer.
//!
//! Which parameters have a gradient, and the gradients themselves, are asked in each step; so is
//! the metadata of all, which kernels that update all at once rely on.

use std::sync::{LazyLock, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyList, PyTuple, PyWeakrefReference};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use paddle_sot_cpython::sync::lock;

use super::optimizer_updates::{metadata, size_of};
use super::plain_optimizer;
use super::storage::{gradient_object, is_all_zero};
use super::tensor::stops_gradient;
use super::unchanged_objects::Unchanged;

/// A tensor that a step takes, with its metadata.
struct Taken {
    tensor: Py<PyAny>,
    dtype: i32,
    dims: SmallVec<[i64; 4]>,
}

impl Taken {
    fn of(tensor: &Bound<'_, PyAny>) -> Option<Self> {
        let (dtype, dims) = metadata(tensor)?;
        let tensor = tensor.clone().unbind();
        Some(Self {
            tensor,
            dtype,
            dims,
        })
    }

    /// Whether another tensor has this metadata.
    fn is_like(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let found = metadata(tensor);
        found.is_some_and(|(dtype, dims)| dtype == self.dtype && dims == self.dims)
    }

    fn is_so(&self, py: Python<'_>) -> bool {
        self.is_like(self.tensor.bind(py))
    }
}

/// A parameter of the optimizer.
enum Parameter {
    /// It is updated.
    Updated(Taken),
    /// It has no gradient, or takes none.
    Left(Py<PyAny>),
}

/// What a step of one optimizer does.
struct Prepared {
    /// What says that the optimizer is what it was.
    unchanged: Unchanged,
    parameters: Vec<Parameter>,
    states: Vec<Taken>,
    run: Py<PyAny>,
    /// What a program of the step is made by: see [`StepInputs`].
    recipe: Py<PyAny>,
    /// What the parameters that are updated keep zeros in, since gradients were cleared last.
    zeros: Vec<usize>,
    /// Takes this from the table when the optimizer goes.
    watch: Py<PyWeakrefReference>,
}

static PREPARED: LazyLock<Mutex<FxHashMap<usize, Prepared>>> = LazyLock::new(Mutex::default);

impl Prepared {
    /// Whether all is as it was: so it is to `updates`, which is given what is updated with the
    /// gradients that there are now, and nothing else has any.
    fn is_so<'py>(
        &self,
        py: Python<'py>,
        mut updates: impl FnMut(&Taken, Option<Bound<'py, PyAny>>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        if !self.unchanged.is_so(py) || !self.states.iter().all(|it| it.is_so(py)) {
            return Ok(false);
        }
        for parameter in &self.parameters {
            let is_so = match parameter {
                Parameter::Updated(taken) => {
                    let gradient = gradient(taken.tensor.bind(py))?;
                    taken.is_so(py) && updates(taken, gradient)?
                }
                Parameter::Left(parameter) => gradient(parameter.bind(py))?.is_none(),
            };
            if !is_so {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The gradients that there are now; `None` where something is not as it was.
    fn gradients<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let gradients = PyList::empty(py);
        let is_so = self.is_so(py, |taken, gradient| match gradient {
            Some(gradient) if taken.is_like(&gradient) => {
                gradients.append(gradient)?;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        Ok(is_so.then_some(gradients))
    }
}

/// The gradient of a parameter that takes one.
fn gradient<'py>(parameter: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = parameter.py();
    if stops_gradient(py, parameter.as_ptr()) != Some(false) {
        return Ok(None);
    }
    let gradient = parameter.call_method0(intern!(py, "_grad_ivar"))?;
    Ok((!gradient.is_none()).then_some(gradient))
}

/// What gradients there may be where a program does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// None.
    Nothing,
    /// What was left when they were cleared, which the next backward replaces.
    Zeros,
    /// Any: they are cleared.
    Cleared,
}

/// What a program takes that updates the parameters of an optimizer.
pub struct StepInputs<'py> {
    /// What it computes with, in `_graph/step_recipes.py`; equal ones make the same program.
    pub recipe: Bound<'py, PyAny>,
    /// What is updated.
    pub parameters: Vec<Bound<'py, PyAny>>,
    /// States, all of one kind after all of another.
    pub states: Vec<Bound<'py, PyAny>>,
}

impl Prepared {
    /// See [`step_inputs`].
    fn inputs<'py>(&self, py: Python<'py>, before: Before) -> PyResult<Option<StepInputs<'py>>> {
        let mut kept = self.zeros.iter();
        let mut parameters = Vec::new();
        let is_so = !self.recipe.is_none(py)
            && self.is_so(py, |taken, gradient| {
                parameters.push(taken.tensor.bind(py).clone());
                Ok(match (before, gradient) {
                    (Before::Cleared, _) | (Before::Nothing, None) => true,
                    (Before::Zeros, None) | (Before::Nothing, Some(_)) => false,
                    (Before::Zeros, Some(gradient)) => {
                        let kept = kept.next().copied();
                        taken.is_like(&gradient) && taken.has_zeros(&gradient, kept)
                    }
                })
            })?;
        if !is_so {
            return Ok(None);
        }
        let states = self.states.iter().map(|it| it.tensor.bind(py).clone());
        Ok(Some(StepInputs {
            recipe: self.recipe.bind(py).clone(),
            parameters,
            states: states.collect(),
        }))
    }

    fn updated(&self) -> impl Iterator<Item = &Taken> {
        let parameters = self.parameters.iter();
        parameters.filter_map(|parameter| match parameter {
            Parameter::Updated(taken) => Some(taken),
            Parameter::Left(_) => None,
        })
    }
}

impl Taken {
    /// Whether a gradient of this parameter, which the caller holds, is what `kept` says, nobody
    /// else has it, and it is zero.
    fn has_zeros(&self, gradient: &Bound<'_, PyAny>, kept: Option<usize>) -> bool {
        let py = gradient.py();
        let found = gradient_object(py, self.tensor.as_ptr());
        let is_own = found.is_some_and(|(at, owners)| Some(at) == kept && owners == 2);
        let each = size_of(self.dtype);
        is_own && each.is_some_and(|each| is_all_zero(py, gradient.as_ptr(), &self.dims, each))
    }
}

/// What a program takes that computes the gradients of parameters of an optimizer and updates them
/// behind that, where nobody could tell: all parameters have the gradients that it says. `None`
/// otherwise.
///
/// # Errors
/// What Paddle raises.
pub fn step_inputs<'py>(
    optimizer: &Bound<'py, PyAny>,
    before: Before,
) -> PyResult<Option<StepInputs<'py>>> {
    let py = optimizer.py();
    with_prepared(optimizer, |prepared| prepared.inputs(py, before)).unwrap_or(Ok(None))
}

/// Whether no tensor of these lies in a gradient that a parameter of an optimizer has, as far as
/// its step was prepared.
///
/// # Errors
/// What Paddle raises.
pub fn are_apart_from_gradients<'py>(
    optimizer: &Bound<'py, PyAny>,
    tensors: &[Bound<'py, PyAny>],
) -> PyResult<bool> {
    let list = optimizer.getattr(intern!(optimizer.py(), "_parameter_list"))?;
    let mut gradients = Vec::new();
    for parameter in list.try_iter()? {
        let mut all = vec![parameter?];
        if let Ok(group) = all[0].cast::<PyDict>() {
            let params = group.get_item(intern!(optimizer.py(), "params"))?;
            let params = params.map(|params| params.try_iter()).transpose()?;
            all = params.into_iter().flatten().collect::<PyResult<_>>()?;
        }
        for parameter in &all {
            let gradient = parameter.call_method0(intern!(optimizer.py(), "_grad_ivar"))?;
            gradients.extend((!gradient.is_none()).then_some(gradient));
        }
    }
    Ok(super::storage::are_updated_apart(
        gradients.iter(),
        tensors.iter(),
    ))
}

/// Asks what is kept of an optimizer, if something is.
fn with_prepared<T>(
    optimizer: &Bound<'_, PyAny>,
    ask: impl FnOnce(&mut Prepared) -> T,
) -> Option<T> {
    let address = optimizer.as_ptr() as usize;
    // Taken out: what is asked runs Paddle's code.
    let mut prepared = lock(&PREPARED).remove(&address)?;
    let answer = ask(&mut prepared);
    let before = lock(&PREPARED).insert(address, prepared);
    drop(before);
    Some(answer)
}

/// The gradients of an optimizer's parameters were cleared.
pub fn note_cleared(optimizer: &Bound<'_, PyAny>) {
    let py = optimizer.py();
    with_prepared(optimizer, |prepared| {
        let kept = |taken: &Taken| gradient_object(py, taken.tensor.as_ptr());
        let zeros = prepared
            .updated()
            .map(|taken| kept(taken).map(|(at, _)| at));
        let zeros: Option<Vec<usize>> = zeros.collect();
        prepared.zeros = zeros.unwrap_or_default();
    });
}

/// What runs a step, and the gradients that it takes.
pub type PreparedRun<'py> = (Bound<'py, PyAny>, Bound<'py, PyList>);

/// What runs a step of this optimizer, with the gradients that there are now. `None` where it has
/// to be prepared.
///
/// # Errors
/// What Paddle raises.
pub fn prepared_step<'py>(optimizer: &Bound<'py, PyAny>) -> PyResult<Option<PreparedRun<'py>>> {
    let (py, address) = (optimizer.py(), optimizer.as_ptr() as usize);
    // Taken out: what is asked runs Paddle's code.
    let Some(prepared) = lock(&PREPARED).remove(&address) else {
        return Ok(None);
    };
    let Some(gradients) = prepared.gradients(py)? else {
        return Ok(None);
    };
    let run = prepared.run.bind(py).clone();
    let before = lock(&PREPARED).insert(address, prepared);
    drop(before);
    Ok(Some((run, gradients)))
}

/// Keeps what runs a step of an optimizer, and the recipe of a program that does (or `None`): of
/// `all` its parameters some are `updated`, with their `states`. Nothing is kept of one that is not
/// plain.
///
/// # Errors
/// What Paddle raises.
pub fn prepare_step(
    optimizer: &Bound<'_, PyAny>,
    all: &[Bound<'_, PyAny>],
    updated: &[Bound<'_, PyAny>],
    states: &[Bound<'_, PyAny>],
    (run, recipe): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
) -> PyResult<()> {
    let Some(unchanged) = plain_optimizer::unchanged(optimizer) else {
        return Ok(());
    };
    let mut updated = updated.iter().peekable();
    let mut parameters = Vec::with_capacity(all.len());
    for parameter in all {
        match updated.next_if(|next| next.is(parameter)) {
            None => parameters.push(Parameter::Left(parameter.clone().unbind())),
            Some(_) => match Taken::of(parameter) {
                Some(taken) => parameters.push(Parameter::Updated(taken)),
                None => return Ok(()),
            },
        }
    }
    let states: Option<Vec<Taken>> = states.iter().map(Taken::of).collect();
    let (None, Some(states)) = (updated.next(), states) else {
        return Ok(());
    };
    let address = optimizer.as_ptr() as usize;
    let before = lock(&PREPARED).insert(
        address,
        Prepared {
            unchanged,
            parameters,
            states,
            run: run.clone().unbind(),
            recipe: recipe.clone().unbind(),
            zeros: Vec::new(),
            watch: watch(optimizer)?.unbind(),
        },
    );
    // Outside of the lock: tensors that go may run anything.
    drop(before);
    Ok(())
}

/// A weak reference that lets go of what is kept for an optimizer when that goes.
fn watch<'py>(optimizer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyWeakrefReference>> {
    let gone = GONE.get_or_try_init(optimizer.py(), || {
        let gone = |given: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let watch = given.get_item(0)?;
            let mut all = lock(&PREPARED);
            let its = all.iter().find(|(_, it)| it.watch.is(&watch));
            let gone = its.map(|(at, _)| *at).and_then(|at| all.remove(&at));
            // Outside of the lock: tensors that go may run anything.
            drop(all);
            drop(gone);
            Ok::<_, PyErr>(())
        };
        PyCFunction::new_closure(optimizer.py(), None, None, gone).map(Bound::unbind)
    })?;
    PyWeakrefReference::new_with(optimizer, gone)
}

/// What is called when an optimizer goes.
static GONE: PyOnceLock<Py<PyCFunction>> = PyOnceLock::new();

/// Whether this is called when an optimizer goes, and tells nobody.
pub(super) fn is_own_callback(callback: &Bound<'_, PyAny>) -> bool {
    let own = GONE.get(callback.py());
    own.is_some_and(|own| own.is(callback))
}
