//! `stop_gradient` of what leaves get from a program.
//!
//! `run_program` makes gradients without a description for autograd, and such a tensor says
//! `stop_gradient=True`. Those of eager mode's operators say False: code that computes with
//! `p.grad` takes its result to be differentiable, or not. A hook on each leaf describes them.

use std::sync::{LazyLock, Mutex};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyWeakrefReference};
use rustc_hash::FxHashMap;

/// The leaves that have the hook, by address.
static HOOKED: LazyLock<Mutex<Hooked>> = LazyLock::new(Mutex::default);

static HOOK: PyOnceLock<Py<PyCFunction>> = PyOnceLock::new();

/// Dead leaves are looked for when there are twice as many as last time, and this many.
const FEW: usize = 64;

#[derive(Default)]
struct Hooked {
    leaves: FxHashMap<usize, Py<PyWeakrefReference>>,
    alive: usize,
}

impl Hooked {
    fn has(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let known = self.leaves.get(&(tensor.as_ptr() as usize));
        known.is_some_and(|weak| is_alive(tensor.py(), weak))
    }

    /// The answer is to be dropped when nothing is locked: weak references have destructors.
    fn add(
        &mut self,
        tensor: &Bound<'_, PyAny>,
        weak: Bound<'_, PyWeakrefReference>,
    ) -> Vec<Py<PyWeakrefReference>> {
        let py = tensor.py();
        let key = tensor.as_ptr() as usize;
        let mut gone: Vec<_> = self.leaves.insert(key, weak.unbind()).into_iter().collect();
        if self.leaves.len() > 2 * self.alive + FEW {
            let leaves = std::mem::take(&mut self.leaves).into_iter();
            let (alive, dead): (FxHashMap<_, _>, FxHashMap<_, _>) =
                leaves.partition(|(_, weak)| is_alive(py, weak));
            gone.extend(dead.into_values());
            self.alive = alive.len();
            self.leaves = alive;
        }
        gone
    }
}

/// Addresses are used again, but not while there is an object that the reference leads to.
fn is_alive(py: Python<'_>, weak: &Py<PyWeakrefReference>) -> bool {
    weak.bind(py).upgrade().is_some()
}

/// Called with what a leaf gets; the answer takes its place.
#[pyfunction]
fn with_description(gradient: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if !gradient.is_none() {
        gradient.setattr(pyo3::intern!(gradient.py(), "stop_gradient"), false)?;
    }
    Ok(gradient)
}

/// Sees to it that a leaf's gradients say what they say in eager mode. What is no leaf has no
/// hook: its gradient is seen by nobody but hooks and who retains it.
pub fn describe(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    if HOOKED.lock().is_ok_and(|hooked| hooked.has(tensor)) {
        return Ok(());
    }
    let says = |name| tensor.getattr(name)?.is_truthy();
    if says(pyo3::intern!(py, "stop_gradient"))? || !says(pyo3::intern!(py, "is_leaf"))? {
        return Ok(());
    }
    let hook = HOOK.get_or_try_init(py, || {
        pyo3::wrap_pyfunction!(with_description, py).map(Bound::unbind)
    })?;
    tensor.call_method1(pyo3::intern!(py, "_register_grad_hook"), (hook,))?;
    let weak = PyWeakrefReference::new(tensor)?;
    let gone = HOOKED.lock().map(|mut hooked| hooked.add(tensor, weak));
    drop(gone);
    Ok(())
}
