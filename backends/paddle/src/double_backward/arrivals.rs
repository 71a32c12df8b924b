//! Hooks on the outputs of a run: autograd tells there which gradients arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::paddle::Paddle;
use paddle_sot_backend::sync::lock;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyWeakrefMethods, PyWeakrefReference};

use crate::runtime::RUNTIME;
use crate::versions::Numbers;

use super::{Backward, Run, Shared};

/// Counts walks: `change` is 1 or -1.
#[pyfunction]
pub fn watch(change: isize) {
    if change > 0 {
        RUNTIME.runs.walks.fetch_add(1, Ordering::Relaxed);
    } else {
        RUNTIME.runs.walks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What autograd calls with the gradient of one output, before the backward of the program.
#[pyclass(frozen)]
pub struct Hook {
    run: Py<Run>,
    /// The output among all outputs, and among those that gradients flow through.
    at: (usize, usize),
    /// Where the gates of the program note which outputs a gradient arrived at.
    arrived: Option<Py<PyList>>,
    /// Whether autograd asks for no other gradient after it.
    is_last: bool,
}

#[pymethods]
impl Hook {
    fn __call__(&self, py: Python<'_>, gradient: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (at, number) = self.at;
        let run = self.run.get();
        let is_watched = RUNTIME.runs.walks.load(Ordering::Relaxed) > 0;
        match run.waits_elsewhere() && !is_watched {
            true if self.is_last => go_backward_last(py, &self.run)?,
            true => {}
            false => run.goes_backward(py)?,
        }
        let again = is_watched
            .then(|| py.module("paddle_sot_rs._paddle.gradients.double_backward"))
            .transpose()?;
        let takes_zeros = match &again {
            Some(again) => again.call_method0("gets_zeros")?.is_truthy()?,
            None => false,
        };
        run.note(number, !gradient.is_none() && !takes_zeros);
        if self.is_last {
            run.tell(py)?;
        }
        if let Some(arrived) = &self.arrived {
            py.module("paddle_sot_rs._paddle.gradients.grad_masks")?
                .call_method1("note", (arrived, number, !gradient.is_none()))?;
        }
        let Some(again) = again else {
            return Ok(py.None());
        };
        Ok(again
            .call_method1("arrived", (&self.run, at, gradient))?
            .unbind())
    }
}

/// What autograd calls behind all other hooks of a run that waits elsewhere.
#[pyclass(frozen)]
struct LastHook {
    run: Py<Run>,
}

#[pymethods]
impl LastHook {
    fn __call__(&self, py: Python<'_>, _gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        let run = self.run.get();
        match run.waits_elsewhere() {
            true => run.goes_backward(py),
            false => Ok(()),
        }
    }
}

/// Lets a run go backward behind the hooks that users have put on its results: what they let go of
/// may empty its scope. A walk that hooks know of has noted what is in it, and runs copies of
/// nodes, which later hooks are not among.
fn go_backward_last(py: Python<'_>, run: &Py<Run>) -> PyResult<()> {
    let this = run.get();
    if this.has_last_hook.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // Changed in place, or detached, it has another node.
    let results = this.results.iter();
    let mut results = results.filter_map(|(_, weak, _)| weak.bind(py).upgrade());
    let has_node =
        |result: &Bound<'_, PyAny>| this.node.is_some() && abi::node_of(result) == this.node;
    let Some(result) = results.find(has_node) else {
        this.has_last_hook.store(false, Ordering::Relaxed);
        return this.goes_backward(py);
    };
    let hook = Py::new(
        py,
        LastHook {
            run: run.clone_ref(py),
        },
    )?;
    result.call_method1(pyo3::intern!(py, "_register_grad_hook"), (hook,))?;
    Ok(())
}

/// Who is told where gradients arrive in a run.
pub struct Told<'a, 'py> {
    /// The outputs to watch, with their numbers among the ones that gradients can flow through.
    pub training: &'a [(usize, usize)],
    /// The output that the backward reads it from, and how many outputs gradients can flow through.
    pub signal: Option<(Bound<'py, PyAny>, usize)>,
    /// What the gates of the program note it in.
    pub gates: Option<&'a Bound<'py, PyList>>,
    /// The state of the random generators in front of the run, where it draws.
    pub random_state: Option<Py<PyAny>>,
}

/// Puts hooks on the outputs of a run. The answer is the run.
pub fn hook(
    py: Python<'_>,
    shared: &Arc<Shared>,
    (scope, backward): (Py<PyAny>, Arc<Backward>),
    inputs: &[Bound<'_, PyAny>],
    outputs: &[Bound<'_, PyAny>],
    told: &Told<'_, '_>,
) -> PyResult<Py<Run>> {
    let number = RUNTIME.runs.number.fetch_add(1, Ordering::Relaxed);
    let version = |at: &usize| abi::inplace_version(&inputs[*at]);
    let versions = shared.read.iter().map(version).collect::<PyResult<_>>()?;
    let numbers = shared.computed_from.iter();
    let numbers = numbers.map(|(at, ever)| Numbers::of(&inputs[*at], *ever));
    let numbers = numbers.collect::<PyResult<_>>()?;
    let copied = copied(py, shared, inputs)?;
    let result = |(_, at): &(usize, usize)| {
        let output = &outputs[*at];
        let weak = PyWeakrefReference::new(output)?.unbind();
        Ok((*at, weak, abi::inplace_version(output)?))
    };
    let results = told.training.iter().map(result);
    let results = results.collect::<PyResult<_>>()?;
    let run = Py::new(
        py,
        Run {
            shared: Arc::clone(shared),
            scope,
            inputs: PyList::new(py, inputs)?.unbind(),
            versions,
            numbers,
            copied,
            outputs: OnceLock::new(),
            results,
            number,
            saved: Mutex::new(None),
            noted: Mutex::default(),
            node: (told.training.first())
                .filter(|_| shared.saves)
                .and_then(|(_, at)| abi::node_of(&outputs[*at])),
            has_last_hook: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            backward,
            last: Default::default(),
            arrived: AtomicU64::new(0),
            signal: told
                .signal
                .as_ref()
                .map(|(signal, outputs)| (signal.clone().unbind(), *outputs)),
            random_state: told.random_state.as_ref().map(|state| state.clone_ref(py)),
            replayed: OnceLock::new(),
        },
    )?;
    run.get().backward.user.store(number, Ordering::Relaxed);
    let weak = PyWeakrefReference::new(run.bind(py))?.unbind();
    let known = lock(&RUNTIME.runs.alive).insert(number, weak);
    drop(known);
    for &(number, at) in told.training {
        let hook = Hook {
            run: run.clone_ref(py),
            at: (at, number),
            arrived: told.gates.map(|list| list.clone().unbind()),
            is_last: told.training.last() == Some(&(number, at)),
        };
        let output = &outputs[at];
        output.call_method1(
            pyo3::intern!(py, "_register_grad_hook"),
            (Py::new(py, hook)?,),
        )?;
    }
    Ok(run)
}

/// The numbers of those inputs that the backward reads and whose strides have gaps or another
/// order: a program takes copies of them, which see nothing of what becomes of them. Parameters
/// have none.
fn copied(
    py: Python<'_>,
    shared: &Shared,
    inputs: &[Bound<'_, PyAny>],
) -> PyResult<Vec<(usize, Numbers)>> {
    let class = Paddle::get(py)?.tensor.bind(py);
    let mut copied = Vec::new();
    for &at in &shared.read {
        let input = &inputs[at];
        if input.get_type().is(class) && !abi::lies_contiguous(input)? {
            copied.push((at, Numbers::of(input, false)?));
        }
    }
    Ok(copied)
}
