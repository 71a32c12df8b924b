//! [`Steady`]: what a program takes that depends on its weights alone. It is made once, and again
//! when a weight differs.
//!
//! Nothing of Paddle's tells of every change (optimizers and shared memory do not), so that the
//! bytes themselves are compared, by a hash of 64 bits: many of them while the program runs, in
//! another thread. Where they differ then, its results are dropped and it runs once more.

use std::hash::Hasher;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, available_parallelism};

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::paddle::Paddle;
use paddle_sot_backend::sync::lock;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyTuple};
use twox_hash::XxHash3_64;

use crate::onednn;
use crate::runtime::{RUNTIME, executor_lock};

/// So much of each weight is compared before any run: most changes are found by that.
const BEGINNING: usize = 64;

/// Fewer bytes are compared before the run: a thread costs as long as this many.
const FEW: usize = 256 << 10;

/// So many bytes may be kept of weights in the layouts of all shapes that a program has met.
const MOST_BYTES: usize = 1 << 30;

/// How many shapes may be kept, however large or small the weights are. Threads that run at once
/// have executors of their own, with a copy each.
const SHAPES: RangeInclusive<usize> = 16..=64;

/// `Steady` in `_onednn/steady.py`.
#[derive(FromPyObject)]
pub struct Recipe {
    /// Positions of weights among the inputs of the program, with their sizes in bytes.
    watched: Vec<(usize, usize)>,
    /// Positions of inputs with open dims. Runs keep something for each of their shapes.
    open: Vec<usize>,
    /// Whether the weights are never looked at again.
    frozen: bool,
    /// Whether a run that is dropped leaves nothing behind.
    may_run_twice: bool,
    /// Takes the weights, and answers with the tensors that go in behind the inputs.
    make: Py<PyAny>,
    /// Lets go of what runs keep of the weights.
    forget: Py<PyAny>,
    /// What each run begins with, in its turn.
    enter: Py<PyAny>,
    /// Whether the program has blocks. Which of them run is not known before: any run may be the
    /// first one of a block, and runs alone.
    has_blocks: bool,
    /// Takes the scope of an executor that was made.
    made: Py<PyAny>,
}

/// Tensors that go into a program.
struct Made {
    /// The hash of the weights that they were made of, and that of their beginnings.
    hash: u64,
    beginnings: u64,
    /// How many were made before, of any program.
    generation: u64,
    /// In how many runs an executor has met other shapes since.
    first_runs: usize,
    tensors: Vec<Py<PyAny>>,
}

/// What an executor has run with, and has caches of.
#[derive(Default)]
pub struct Ready {
    /// See `Steady::generation`.
    generation: Option<u64>,
    /// By `Look::shapes`.
    shapes: Vec<u64>,
}

/// What goes into a program behind its inputs, and the weights that it is of.
pub struct Steady {
    recipe: Recipe,
    kept: Arc<Kept>,
}

/// What is let go of with the first weight: a layer may be gone long before the graph of it.
#[derive(Default)]
struct Kept {
    made: Mutex<Option<Made>>,
    /// The storage of the weights that were seen last, by its address.
    seen: Mutex<Vec<(usize, Py<PyAny>)>>,
    /// A weak reference that says when it goes.
    watch: Mutex<Option<Py<PyAny>>>,
}

impl Kept {
    fn let_go(&self) {
        let made = lock(&self.made).take();
        let seen = std::mem::take(&mut *lock(&self.seen));
        // Outside of the locks: tensors that go may run anything.
        drop((made, seen));
    }
}

/// Bytes of a weight.
struct Bytes(usize, usize);

/// Of so many bytes of each.
fn hash(all: &[Bytes], most: usize) -> u64 {
    let mut hasher = XxHash3_64::new();
    for Bytes(address, size) in all {
        let size = most.min(*size);
        // SAFETY: a contiguous tensor on a CPU has so many bytes there, by its shape and dtype,
        // which a guard has compared. `Look` keeps its storage. Who writes there meanwhile does so
        // while a program computes with it.
        hasher.write(unsafe { std::slice::from_raw_parts(*address as *const u8, size) });
    }
    hasher.finish()
}

/// A look at the weights, which may still be going on.
#[derive(Default)]
pub struct Look {
    /// What a run may go by until then.
    pub hash: u64,
    beginnings: u64,
    /// The hash of the shapes with open dims.
    shapes: u64,
    pending: Option<JoinHandle<u64>>,
    /// The storage that is looked at.
    _kept: Vec<Py<PyAny>>,
}

impl Look {
    /// What the next run goes by, where this one went by other weights.
    pub fn differs(&mut self, py: Python<'_>) -> Option<Self> {
        let pending = self.pending.take()?;
        let hash = py.detach(|| pending.join()).unwrap_or(!self.hash);
        (hash != self.hash).then(|| Self {
            hash,
            beginnings: self.beginnings,
            shapes: self.shapes,
            pending: None,
            _kept: std::mem::take(&mut self._kept),
        })
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        // It reads what is kept here.
        if let Some(pending) = self.pending.take() {
            drop(pending.join());
        }
    }
}

fn has_several_cores() -> bool {
    available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

impl Steady {
    pub fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            kept: Arc::default(),
        }
    }

    /// Begins to look at the weights.
    ///
    /// # Errors
    /// When Paddle does not tell where a tensor lies.
    pub fn look(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> PyResult<Look> {
        let shapes = self.shapes(inputs)?;
        if self.recipe.frozen {
            let mut look = Look::default();
            look.shapes = shapes;
            return Ok(look);
        }
        let kept = self.storage(py, inputs)?;
        let sizes = self.recipe.watched.iter().map(|(_, size)| *size);
        let all: Vec<Bytes> = kept
            .iter()
            .zip(sizes)
            .filter(|((address, _), _)| *address != 0)
            .map(|((address, _), size)| Bytes(*address, size))
            .collect();
        let kept = kept.into_iter().map(|(_, tensor)| tensor).collect();
        let beginnings = hash(&all, BEGINNING);
        let total: usize = all.iter().map(|Bytes(_, size)| size).sum();
        let may_wait = self.recipe.may_run_twice && total > FEW && has_several_cores();
        let is_same = |made: &&Made| may_wait && made.beginnings == beginnings;
        let expected = lock(&self.kept.made)
            .as_ref()
            .filter(is_same)
            .map(|made| made.hash);
        let all = Arc::new(all);
        let pending = expected.and_then(|expected| {
            let all = Arc::clone(&all);
            let thread = std::thread::Builder::new().name("paddle-sot-weights".into());
            let thread = thread.spawn(move || hash(&all, usize::MAX)).ok()?;
            Some((expected, thread))
        });
        let (hash, pending) = match pending {
            Some((expected, thread)) => (expected, Some(thread)),
            None => (py.detach(|| hash(&all, usize::MAX)), None),
        };
        Ok(Look {
            hash,
            beginnings,
            shapes,
            pending,
            _kept: kept,
        })
    }

    fn shapes(&self, inputs: &[Bound<'_, PyAny>]) -> PyResult<u64> {
        let mut hasher = XxHash3_64::new();
        for &at in &self.recipe.open {
            let shape = inputs[at].getattr(pyo3::intern!(inputs[at].py(), "shape"))?;
            let shape: Vec<i64> = shape.extract()?;
            hasher.write_usize(shape.len());
            shape.iter().for_each(|dim| hasher.write_i64(*dim));
        }
        Ok(hasher.finish())
    }

    /// Where the weights lie, each with a tensor that keeps its storage alive.
    fn storage(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<Vec<(usize, Py<PyAny>)>> {
        let before = std::mem::take(&mut *lock(&self.kept.seen));
        let mut found = Vec::with_capacity(self.recipe.watched.len());
        for (number, &(at, _)) in self.recipe.watched.iter().enumerate() {
            let mut weight = inputs[at].clone();
            let is_plain = Paddle::original(&weight, pyo3::intern!(py, "is_contiguous"))?;
            if !is_plain.is_truthy()? {
                weight = Paddle::original(&weight, pyo3::intern!(py, "contiguous"))?;
            }
            let address: usize =
                Paddle::original(&weight, pyo3::intern!(py, "data_ptr"))?.extract()?;
            found.push(match before.get(number) {
                Some((known, keeper)) if *known == address => (address, keeper.clone_ref(py)),
                _ => {
                    let keeper = abi::detached(&weight)?;
                    (address, keeper.unbind())
                }
            });
        }
        let copies = found
            .iter()
            .map(|(address, it)| (*address, it.clone_ref(py)));
        let others = std::mem::replace(&mut *lock(&self.kept.seen), copies.collect());
        drop((before, others));
        Ok(found)
    }

    /// Which of all that was ever made is there, if it was made of these weights. The first run of
    /// an executor with each, and with each shape, writes into caches that Paddle reads without a
    /// lock.
    fn generation(&self, hash: u64) -> Option<u64> {
        let made = lock(&self.kept.made);
        let made = made.as_ref().filter(|made| made.hash == hash)?;
        Some(made.generation)
    }

    /// Whether an executor that has run with these may run beside others.
    pub fn is_ready(&self, look: &Look, ready: &Ready) -> bool {
        ready.generation.is_some()
            && self.generation(look.hash) == ready.generation
            && ready.shapes.contains(&look.shapes)
    }

    /// Whether such an executor may do so whatever its run meets.
    pub fn may_run_beside(&self, look: &Look, ready: &Ready) -> bool {
        !self.recipe.has_blocks && self.is_ready(look, ready)
    }

    /// The first run of an executor has ended.
    ///
    /// # Errors
    /// When Paddle cannot be imported.
    pub fn note_executor(&self, py: Python<'_>, scope: &Py<PyAny>) -> PyResult<()> {
        if self.recipe.has_blocks {
            self.recipe.made.bind(py).call1((scope,))?;
        }
        Ok(())
    }

    /// Whether caches for one more shape would be too many.
    fn is_full(&self) -> bool {
        if self.recipe.open.is_empty() {
            return false;
        }
        let bytes: usize = self.recipe.watched.iter().map(|(_, size)| size).sum();
        let most = (MOST_BYTES / bytes.max(1)).clamp(*SHAPES.start(), *SHAPES.end());
        let made = lock(&self.kept.made);
        made.as_ref().is_some_and(|made| made.first_runs >= most)
    }

    /// The tensors of these weights, for a run that has its turn: where they have to be made, no
    /// other program runs meanwhile. They are made again, and all caches freed, where there are
    /// too many of those.
    ///
    /// # Errors
    /// Those of what makes them.
    pub fn tensors<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
        look: &Look,
        ready: &mut Ready,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let is_ready = self.is_ready(look, ready);
        let made = self.made(py, look.hash);
        let tensors = match made.filter(|_| is_ready || !self.is_full()) {
            Some(tensors) => tensors,
            None => self.make(py, inputs, look)?,
        };
        if !is_ready {
            self.note(look, ready);
        }
        self.recipe.enter.bind(py).call0()?;
        Ok(tensors)
    }

    /// An executor runs for the first time with these weights and shapes.
    fn note(&self, look: &Look, ready: &mut Ready) {
        let mut made = lock(&self.kept.made);
        let Some(made) = made.as_mut() else {
            return;
        };
        if ready.generation != Some(made.generation) {
            ready.generation = Some(made.generation);
            ready.shapes.clear();
        }
        ready.shapes.push(look.shapes);
        made.first_runs += 1;
    }

    fn made<'py>(&self, py: Python<'py>, hash: u64) -> Option<Vec<Bound<'py, PyAny>>> {
        let made = lock(&self.kept.made);
        let made = made.as_ref().filter(|made| made.hash == hash)?;
        Some(made.tensors.iter().map(|it| it.bind(py).clone()).collect())
    }

    fn make<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
        look: &Look,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let weights = self.recipe.watched.iter().map(|(at, _)| &inputs[*at]);
        let weights = PyList::new(py, weights)?;
        let make = || self.recipe.make.bind(py).call1((&weights,))?.extract();
        let tensors: Vec<Bound<'py, PyAny>> = onednn::without(py, make)?;
        let kept = Made {
            hash: look.hash,
            beginnings: look.beginnings,
            generation: RUNTIME.steady.fetch_add(1, Ordering::Relaxed),
            first_runs: 0,
            tensors: tensors.iter().map(|it| it.clone().unbind()).collect(),
        };
        let before = lock(&self.kept.made).replace(kept);
        // Outside of the lock: tensors that go may run anything.
        drop(before);
        if let (Some(first), false) = (weights.iter().next(), self.recipe.frozen) {
            self.watch(&first)?;
        }
        Ok(tensors)
    }

    /// Lets go of everything with this weight.
    fn watch(&self, weight: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = weight.py();
        let kept = Arc::downgrade(&self.kept);
        let forget = self.recipe.forget.clone_ref(py);
        let gone = move |given: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let Some(kept) = kept.upgrade() else {
                return Ok(());
            };
            // With another weight in its place the program may run at this moment: the next one
            // that is made lets go of this one's.
            if let Some(_turn) = executor_lock::try_exclusive() {
                kept.let_go();
                forget.bind(given.py()).call0()?;
            }
            Ok::<_, PyErr>(())
        };
        let gone = PyCFunction::new_closure(py, None, None, gone)?;
        let watch = py
            .module("weakref")?
            .getattr("ref")?
            .call1((weight, gone))?;
        let before = lock(&self.kept.watch).replace(watch.unbind());
        drop(before);
        Ok(())
    }

    pub fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.recipe.make);
        visit(&self.recipe.forget);
        visit(&self.recipe.enter);
        visit(&self.recipe.made);
    }
}
