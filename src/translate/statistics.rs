//! Running statistics of graphs that fail: the function then runs as it is, from the beginning, and must find them as they
//! were. A graph writes them while it runs.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use smallvec::smallvec;

use crate::graph::{Callee, GraphInput, StatementIr, SymbolId, SymbolKind};

/// Not run yet: it may fail because of its shapes.
const NEW: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// Parts of names of what fails because of the numbers it is given: labels and positions out of range.
const CHECKED: &[&str] = &[
    "loss",
    "entropy",
    "embedding",
    "gather",
    "scatter",
    "index",
    "one_hot",
    "take",
    "getitem",
    "put_along",
    "bincount",
    "repeat",
    "histogram",
    "multinomial",
    "nonzero",
    "masked",
];

/// What a graph may write, as far as it may fail afterwards.
#[derive(Debug)]
pub struct Statistics {
    /// Positions among the inputs of the graph.
    written: Vec<usize>,
    /// Whether a run may fail after one that did not.
    may_fail: bool,
    state: AtomicU8,
}

/// Tensors, and what was in them.
pub(super) struct Kept(Vec<(Py<PyAny>, Py<PyAny>)>);

impl Statistics {
    /// Those of a graph with these tensors as inputs.
    pub(super) fn of(py: Python<'_>, sir: &StatementIr, inputs: &[&GraphInput]) -> PyResult<Self> {
        let mut given: Vec<SymbolId> = Vec::new();
        let mut held: Vec<usize> = Vec::new();
        let mut may_fail = sir.symbols.iter().any(|kind| match kind {
            SymbolKind::Tensor(meta) => meta.shape.iter().any(|dim| *dim < 0),
            SymbolKind::Layer(_) => false,
        });
        for it in &sir.statements {
            let layer = match &it.callee {
                Callee::Layer(symbol) => match sir.kind(*symbol) {
                    SymbolKind::Layer(layer) => Some(layer),
                    SymbolKind::Tensor(_) => None,
                },
                _ => None,
            };
            // A layer by its class.
            let names = match layer {
                Some(layer) => {
                    let name = layer.bind(py).get_type().name()?.to_string();
                    smallvec![name.to_lowercase()]
                }
                None => it.callee.api_names(py),
            };
            may_fail |= names
                .iter()
                .any(|name| CHECKED.iter().any(|part| name.contains(part)));
            if let Some(layer) = layer {
                for which in ["parameters", "buffers"] {
                    for tensor in layer.bind(py).call_method0(which)?.try_iter()? {
                        held.push(tensor?.as_ptr() as usize);
                    }
                }
            } else if names.iter().any(|name| name.contains("batch_norm")) {
                it.for_each_argument(&mut |symbol| given.push(symbol));
            }
        }
        let is_written = |input: &&GraphInput| {
            let stops =
                matches!(sir.kind(input.symbol), SymbolKind::Tensor(meta) if meta.stop_gradient);
            let address = input.value.bind(py).as_ptr() as usize;
            // Recurrent layers hold a state for dropout that has no storage.
            let has_storage = || copy(input.value.bind(py)).is_ok();
            stops && (given.contains(&input.symbol) || held.contains(&address)) && has_storage()
        };
        let written: Vec<usize> = (0..inputs.len())
            .filter(|at| is_written(&inputs[*at]))
            .collect();
        let state = if written.is_empty() { NEVER } else { NEW };
        Ok(Self {
            written,
            may_fail,
            state: AtomicU8::new(state),
        })
    }

    /// Whether a run may write something and fail.
    pub(super) fn are_kept(&self) -> bool {
        self.state.load(Ordering::Relaxed) != NEVER
    }

    /// What to go back to.
    pub(super) fn before(&self, inputs: &[Bound<'_, PyAny>]) -> Kept {
        let mut kept = Vec::with_capacity(self.written.len());
        for tensor in self.written.iter().filter_map(|at| inputs.get(*at)) {
            if let Ok(copy) = copy(tensor) {
                kept.push((tensor.clone().unbind(), copy.unbind()));
            }
        }
        Kept(kept)
    }

    /// Learns from a run that succeeded.
    pub(super) fn ran(&self, py: Python<'_>, kept: &Kept) -> PyResult<()> {
        if self.state.load(Ordering::Relaxed) != NEW {
            return Ok(());
        }
        let found = match self.may_fail && kept.has_changed(py)? {
            true => ALWAYS,
            false => NEVER,
        };
        self.state.store(found, Ordering::Relaxed);
        Ok(())
    }
}

fn copy<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    tensor.call_method0(pyo3::intern!(tensor.py(), "clone"))
}

impl Kept {
    fn has_changed(&self, py: Python<'_>) -> PyResult<bool> {
        let bytes = |tensor: &Py<PyAny>| -> PyResult<Vec<u8>> {
            let array = tensor.bind(py).call_method0("numpy")?;
            array.call_method0("tobytes")?.extract()
        };
        for (tensor, copy) in &self.0 {
            if bytes(tensor)? != bytes(copy)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes back.
    pub(super) fn restore(self, py: Python<'_>) -> PyResult<()> {
        for (tensor, copy) in self.0 {
            tensor.call_method1(py, "copy_", (copy, true))?;
        }
        Ok(())
    }
}
