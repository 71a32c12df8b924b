//! What a program needs to go backward more than once: see `double_backward.py`.

pub(crate) mod arrivals;
mod run_scope;
mod saved_tensors;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use paddle_sot_backend::CompiledGraph;
use paddle_sot_backend::abi::{self, ScopeTensors};
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::obj;
use paddle_sot_backend::sync::lock;
use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyWeakrefMethods, PyWeakrefReference};
use run_scope::can_be_reused;

use crate::runtime::{RUNTIME, executor_lock, executors};
use crate::versions::{self, Numbers, ResultNumbers, ResultState};

pub use arrivals::{Told, hook};
pub use run_scope::{Backward, Scope};
pub use saved_tensors::{Spare, resume_interrupted};

/// Runs of programs that may go backward, of all threads.
pub(crate) struct Runs {
    /// Those whose nodes are alive, by their numbers.
    alive: Mutex<BTreeMap<usize, Py<PyWeakrefReference>>>,
    /// The number of the next one.
    number: AtomicUsize,
    /// Counts the backward passes through programs.
    passes: AtomicU64,
    /// Walks of autograd under way that hooks have to know of.
    walks: AtomicUsize,
}

impl Runs {
    pub(crate) const fn new() -> Self {
        Self {
            alive: Mutex::new(BTreeMap::new()),
            number: AtomicUsize::new(1),
            passes: AtomicU64::new(1),
            walks: AtomicUsize::new(0),
        }
    }
}

/// All runs of programs that may go backward, latest first.
#[pyfunction]
pub fn runs(py: Python<'_>) -> Vec<Py<PyAny>> {
    let known: Vec<_> = {
        let runs = lock(&RUNTIME.runs.alive);
        runs.values().rev().map(|run| run.clone_ref(py)).collect()
    };
    let alive = |run: Py<PyWeakrefReference>| run.bind(py).upgrade().map(Bound::unbind);
    known.into_iter().filter_map(alive).collect()
}

/// The number of what is made now, among runs.
#[pyfunction]
pub fn next_number() -> usize {
    RUNTIME.runs.number.fetch_add(1, Ordering::Relaxed)
}

/// The number of the next backward pass through programs.
#[pyfunction]
pub fn now() -> u64 {
    RUNTIME.runs.passes.load(Ordering::Relaxed)
}

/// Whether any program may still go backward.
pub fn waits_for_backward(py: Python<'_>) -> PyResult<bool> {
    for run in runs(py) {
        if run.bind(py).cast::<Run>()?.get().waits(py)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the runs of one program share with it.
pub struct Shared {
    /// Scopes of earlier runs, of all graphs that run this program; one is used again once nothing
    /// waits for its backward.
    pub scopes: Arc<Mutex<VecDeque<Scope>>>,
    /// Variables that the backward part takes from the forward part.
    pub names: Vec<String>,
    /// Variables that hold what a run gives.
    pub results: Vec<String>,
    /// Whether all that the backward needs of a run is in those variables.
    pub saves: bool,
    /// Where runs wait elsewhere.
    pub spare: Arc<Spare>,
    /// Inputs whose numbers the backward part reads.
    pub read: Vec<usize>,
    /// Those that control flow is computed again from or hands on, and whether every change of them
    /// matters.
    pub computed_from: Vec<(usize, bool)>,
    /// The same graph, call by call.
    pub replay: Box<dyn CompiledGraph>,
    /// Whether it draws random numbers: other ones when it runs again.
    pub is_random: bool,
    /// See `garbage::is_small`.
    pub is_small: bool,
    /// See `garbage::backward_threshold`.
    pub threshold: f64,
}

/// What is known of the outputs that the backward of a run reads, or should read, from when it ran.
struct Kept {
    /// Positions, and the outputs in their versions.
    versions: Vec<(usize, ResultState)>,
    /// Those that control flow is computed again from, or has handed on.
    numbers: Vec<ResultNumbers>,
}

/// One run of a program that trains. It lives as long as the autograd node of the program.
#[pyclass(frozen, weakref)]
pub struct Run {
    shared: Arc<Shared>,
    scope: Py<PyAny>,
    inputs: Py<PyList>,
    /// The in-place versions of the inputs that its backward reads, when it ran.
    versions: Vec<u32>,
    /// What the numbers were of those that control flow is computed again from.
    numbers: Vec<Numbers>,
    /// The same of those that its backward reads, where it has copied them.
    copied: Vec<(usize, Numbers)>,
    outputs: OnceLock<Kept>,
    /// The outputs that train, where the caller still has them, and their in-place versions.
    results: Vec<(usize, Py<PyWeakrefReference>, u32)>,
    number: usize,
    /// What it has saved for its backward, where that is not in its scope.
    saved: Mutex<Option<ScopeTensors>>,
    /// The same as passes under way have noted it, the innermost last.
    noted: Mutex<Vec<ScopeTensors>>,
    /// The node, by its address.
    node: Option<usize>,
    /// Whether a hook behind all others brings it back into its scope.
    has_last_hook: AtomicBool,
    /// Whether the scope was taken from the others, because its node may go backward again.
    kept: AtomicBool,
    /// That of the scope.
    backward: Arc<Backward>,
    /// The thread that its last backward began in, and which pass that was.
    last: (AtomicUsize, AtomicU64),
    /// Outputs that a gradient has arrived at in this pass, among those that gradients can flow
    /// through: one bit each.
    arrived: AtomicU64,
    /// The output that the backward reads that from, and for how many outputs.
    signal: Option<(Py<PyAny>, usize)>,
    /// The state of the random generators in front of the run, where it draws.
    random_state: Option<Py<PyAny>>,
    /// The outputs, computed call by call: the nodes of eager mode live as long as that of the
    /// program, and higher gradients look at results that only they hold.
    replayed: OnceLock<Vec<Py<PyAny>>>,
}

impl Run {
    /// Whether it may go backward. When that is over the scope may be a later run's.
    fn waits(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.kept.load(Ordering::Relaxed)
            || self.waits_elsewhere()
            || (self.has_scope() && !can_be_reused(py, &self.scope)?))
    }

    /// Whether its backward has freed what it needed.
    fn is_freed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.kept.load(Ordering::Relaxed)
            || (self.has_scope() && can_be_reused(py, &self.scope)?))
    }

    /// Whether its scope was used for no later run.
    fn has_scope(&self) -> bool {
        self.backward.user.load(Ordering::Relaxed) == self.number
    }

    /// Notes whether a gradient has arrived at an output; autograd asks for one after the other.
    fn note(&self, number: usize, has_arrived: bool) {
        let bit = 1_u64.checked_shl(number as u32).unwrap_or(0);
        match has_arrived {
            true => self.arrived.fetch_or(bit, Ordering::Relaxed),
            false => self.arrived.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Tells the backward of the program at which outputs gradients have arrived.
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let Some((signal, outputs)) = &self.signal else {
            return Ok(());
        };
        let bits = self.arrived.load(Ordering::Relaxed);
        let bits: Vec<bool> = (0..*outputs).map(|at| bits >> at & 1 == 1).collect();
        let bits = py.numpy()?.call_method1("array", (bits,))?;
        signal.bind(py).call_method1("set_value", (bits,))?;
        Ok(())
    }

    /// Remembers what the outputs are that its backward reads.
    pub fn keep(&self, versions: Vec<(usize, ResultState)>, numbers: Vec<ResultNumbers>) {
        // There is one call for each run.
        self.outputs.get_or_init(|| Kept { versions, numbers });
    }

    /// Refuses what was changed in place since it ran: the numbers that the gradient needs are
    /// gone.
    fn check_versions(&self, py: Python<'_>) -> PyResult<()> {
        let inputs = self.inputs.bind(py);
        for (&at, &version) in self.shared.read.iter().zip(&self.versions) {
            versions::check(&inputs.get_item(at)?, version)?;
        }
        for (&(at, _), numbers) in self.shared.computed_from.iter().zip(&self.numbers) {
            numbers.check(&inputs.get_item(at)?, versions::COMPUTED_AGAIN)?;
        }
        for (at, numbers) in &self.copied {
            numbers.check(&inputs.get_item(*at)?, versions::COPIED)?;
        }
        let Some(kept) = self.outputs.get() else {
            return Ok(());
        };
        kept.versions
            .iter()
            .try_for_each(|(_, output)| output.check(py))?;
        kept.numbers.iter().try_for_each(|output| output.check(py))
    }

    /// The backward of the program is about to run.
    fn goes_backward(&self, py: Python<'_>) -> PyResult<()> {
        if self.has_scope() {
            self.backward.has_begun.store(true, Ordering::Relaxed);
        }
        self.check_versions(py)
            .or_else(|refused| versions::refuse(py, refused))?;
        let thread = executor_lock::this_thread();
        let pass = RUNTIME.runs.passes.fetch_add(1, Ordering::Relaxed);
        self.last.0.store(thread, Ordering::Relaxed);
        self.last.1.store(pass, Ordering::Relaxed);
        self.backward.thread.store(thread, Ordering::Relaxed);
        let makes = || self.backward.made.load(Ordering::Relaxed) != executors::epoch();
        // The thread that it ran in may run something in its scope at this moment.
        let ran_in = self.backward.ran_in.load(Ordering::Relaxed);
        let alone = self.waits_elsewhere() && ran_in != thread;
        if alone {
            self.shared.spare.note_threads();
        }
        executor_lock::go_backward(py, makes() || alone);
        if makes() {
            // All of them may have gone while this thread waited.
            executor_lock::go_backward(py, true);
        }
        if alone && !executor_lock::is_alone() {
            let message = "a translated function goes backward in another thread than it ran in, while that runs programs";
            return versions::refuse(py, PyRuntimeError::new_err(message));
        }
        self.return_to_scope(py)?;
        let now = executors::epoch();
        if self.backward.made.swap(now, Ordering::Relaxed) == now {
            return Ok(());
        }
        if self.backward.forward_made.load(Ordering::Relaxed) != now {
            self.backward.is_spoiled.store(true, Ordering::Relaxed);
            executors::keep_address(self.scope.clone_ref(py));
        }
        executors::restore_flag(py)?;
        executors::set_flag(py, self.shared.is_small, self.shared.threshold)
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn number(&self) -> usize {
        self.number
    }

    fn names(&self) -> Vec<String> {
        self.shared.names.clone()
    }

    /// Where what it has saved is.
    fn scope(&self, py: Python<'_>) -> Py<PyAny> {
        let elsewhere = lock(&self.saved).as_ref().map(|it| it.scope(py));
        elsewhere.unwrap_or_else(|| self.scope.clone_ref(py))
    }

    fn inputs(&self, py: Python<'_>) -> Py<PyList> {
        self.inputs.clone_ref(py)
    }

    /// Whether it may go backward in this thread, for the first time or because it was given back
    /// what its backward freed. `moment`: when the pass that asks began.
    fn may_be_held(&self, py: Python<'_>, moment: u64) -> PyResult<bool> {
        Ok(!self.is_elsewhere(moment) && self.waits(py)?)
    }

    /// Whether another thread goes backward through it, or has done so from `moment` on.
    fn is_elsewhere(&self, moment: u64) -> bool {
        let (thread, pass) = &self.last;
        let thread = thread.load(Ordering::Relaxed);
        let is_another = thread != 0 && thread != executor_lock::this_thread();
        is_another
            && (pass.load(Ordering::Relaxed) >= moment || executor_lock::is_another_at_work(thread))
    }

    /// Notes what it has saved, until `release`. False: that cannot be moved.
    fn note_saved(&self, py: Python<'_>) -> PyResult<bool> {
        self.note_tensors(py)
    }

    /// From now on nothing else runs in its scope.
    fn hold(&self) {
        self.backward.held.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of that, and of the pass that began at `moment`: gives the program back what its
    /// backward freed.
    fn release(
        &self,
        py: Python<'_>,
        tensors: Option<&Bound<'_, PyDict>>,
        moment: u64,
    ) -> PyResult<()> {
        self.backward.held.fetch_sub(1, Ordering::Relaxed);
        let noted = lock(&self.noted).pop();
        if let Some(noted) = noted {
            match !self.is_elsewhere(moment) && !self.waits(py)? {
                true => self.wait_with(noted),
                false => self.give_away(py, noted),
            }
            return Ok(());
        }
        let Some(tensors) = tensors else {
            return Ok(());
        };
        if self.is_elsewhere(moment) || !self.is_freed(py)? {
            return Ok(());
        }
        if !self.kept.swap(true, Ordering::Relaxed) {
            self.shared.drop_scopes(|known| known.scope.is(&self.scope));
        }
        let again = py.module("paddle_sot_rs._paddle.gradients.double_backward")?;
        again.call_method1("put_back", (&self.scope, tensors))?;
        Ok(())
    }

    /// Positions and tensors of those of the outputs that nobody has changed in place, as far as
    /// versions count that.
    fn results(&self, py: Python<'_>) -> PyResult<Vec<(usize, Py<PyAny>)>> {
        let mut found = Vec::new();
        for (at, result, version) in &self.results {
            if let Some(result) = result.bind(py).upgrade() {
                if abi::inplace_version(&result)? == *version {
                    found.push((*at, result.unbind()));
                }
            }
        }
        let kept = self.outputs.get().map_or(&[][..], |kept| &kept.versions);
        found.extend(kept.iter().map(|(at, version)| (*at, version.tensor(py))));
        Ok(found)
    }

    /// The state of the random generators in front of the run, None where it does not draw.
    fn random_state(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.random_state.as_ref().map(|state| state.clone_ref(py))
    }

    /// The outputs, computed call by call: once for all gradients of gradients that are asked for.
    fn replay(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let copies = |answers: &Vec<Py<PyAny>>| answers.iter().map(|it| it.clone_ref(py)).collect();
        if let Some(answers) = self.replayed.get() {
            return Ok(copies(answers));
        }
        let inputs: Vec<Bound<'_, PyAny>> = self.inputs.bind(py).iter().collect();
        let answers = self.shared.replay.call(py, &inputs)?.into_vec();
        // What is computed from them from now on reads the answers, in eager mode the results.
        for (at, version) in self.outputs.get().map_or(&[][..], |kept| &kept.versions) {
            let result = version.tensor(py).into_bound(py);
            versions::watch(
                py,
                vec![result],
                (true, versions::DIFFERENTIATED),
                &answers[*at..=*at],
            )?;
        }
        Ok(copies(self.replayed.get_or_init(|| answers)))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if executors::is_lent() {
            Python::attach(|py| obj::aside(py, || restore_flag(py)));
        }
        // A new node may have taken the address already, with a new run.
        let known = lock(&RUNTIME.runs.alive).remove(&self.number);
        drop(known);
        self.forget_saved();
        if self.kept.load(Ordering::Relaxed) {
            Python::attach(|py| obj::aside(py, || self.clear(py)));
        }
    }
}

fn restore_flag(py: Python<'_>) {
    if let Err(err) = executors::restore_flag(py) {
        report(py, "a flag of Paddle's is not put back", &err);
    }
}

/// What a destructor could not do. At the end of the process, when modules are gone, nothing has to
/// be done.
fn report(py: Python<'_>, what: &str, err: &PyErr) {
    if !err.is_instance_of::<PyImportError>(py) {
        log::warn!(target: "paddle_sot_rs.backend", "{what}: {err}");
    }
}

impl Run {
    /// Gives its scope to a later run.
    fn clear(&self, py: Python<'_>) {
        let cleared = py
            .module("paddle_sot_rs._paddle.gradients.double_backward")
            .and_then(|again| again.call_method1("clear", (&self.scope, &self.shared.names)));
        if let Err(err) = cleared {
            report(py, "a scope cannot be used again", &err);
            return;
        }
        let Ok(mut scope) = Scope::new(py, self.scope.clone_ref(py)) else {
            return;
        };
        scope.backward = Arc::clone(&self.backward);
        self.shared.give_back(scope);
    }
}
