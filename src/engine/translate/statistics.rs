//! Running statistics of graphs that fail: the function then runs as it is, from the beginning, and
//! must find them as they were. A graph writes them while it runs.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;

use crate::graph::{Arg, Callee, Statement, StatementIr, SymbolKind};
use crate::obj;
use crate::ops::{Fact, facts, knows, said};
use crate::paddle::Paddle;
use crate::simulator::function_graph::GraphInput;

/// Not run yet: it may fail because of its shapes.
const NEW: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// Whether a call may fail although calls of its kind did not, whose tensors had the same dims and
/// dtypes.
pub(super) fn may_fail(py: Python<'_>, sir: &StatementIr, it: &Statement) -> bool {
    if has_open_dims(sir, it) {
        return true;
    }
    let layer = match &it.callee {
        Callee::Layer(symbol) => match sir.kind(*symbol) {
            SymbolKind::Layer(layer) => Some(layer),
            SymbolKind::Tensor(_) => None,
        },
        Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => None,
    };
    if let Some(layer) = layer {
        let class = layer.bind(py).get_type();
        let is_paddles = obj::text_of(&class, "__module__").starts_with("paddle.nn.");
        let name = obj::name_of(&class);
        return !is_paddles || !name.is_some_and(|name| knows(&name, Fact::LayerNeverFails));
    }
    let names = it.callee.api_names(py);
    let names = names.iter().map(|name| name.trim_matches('_'));
    !names.into_iter().any(|name| never_fails(name, it))
}

/// Whether dims of what it takes or makes may be others in the next call.
fn has_open_dims(sir: &StatementIr, it: &Statement) -> bool {
    let mut found = false;
    let mut look = |symbol| {
        let meta = sir.meta(symbol);
        found |= meta.is_some_and(|meta| meta.shape.iter().any(|dim| *dim < 0));
    };
    let named = it.kwargs.iter().map(|(_, arg)| arg);
    for arg in it.args.iter().chain(named).chain([&it.output]) {
        arg.for_each_symbol(&mut look);
    }
    found
}

/// Whether a call of the operator of this name never fails, given what it is.
fn never_fails(name: &str, it: &Statement) -> bool {
    let is_given = |arg: &Arg| arg.first_symbol().is_some();
    let named = || it.kwargs.iter().map(|(_, arg)| arg);
    let are_given_from = |at: usize| it.args.iter().skip(at).chain(named()).any(is_given);
    let facts = facts(name);
    // An axis or a size that is a tensor may be out of range.
    let whole = match said!(facts, Fact::WholeFrom(at) => *at) {
        Some(at) => are_given_from(at),
        None => {
            let is_list = |arg: &&Arg| matches!(arg, Arg::List(_) | Arg::Tuple(_));
            facts.contains(&Fact::WholeInLists)
                && it.args.iter().chain(named()).filter(is_list).any(is_given)
        }
    };
    facts.contains(&Fact::NeverFails) && !whole
        || facts.contains(&Fact::NeverFailsAlone) && !are_given_from(1)
        || facts.contains(&Fact::NeverFailsOfConstants) && !are_given_from(0)
}

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
    pub(super) fn of(py: Python<'_>, sir: &StatementIr, inputs: &[&GraphInput]) -> Self {
        let can_fail = sir.statements.iter().any(|it| may_fail(py, sir, it));
        let is_written = |input: &&GraphInput| {
            let mut statements = sir.statements.iter();
            statements.any(|it| it.updates.contains(&input.symbol))
        };
        let written: Vec<usize> = (0..inputs.len())
            .filter(|at| is_written(&inputs[*at]))
            .collect();
        let state = if written.is_empty() { NEVER } else { NEW };
        Self {
            written,
            may_fail: can_fail,
            state: AtomicU8::new(state),
        }
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
    pub(super) fn ran(&self) {
        if self.state.load(Ordering::Relaxed) == NEW {
            let found = if self.may_fail { ALWAYS } else { NEVER };
            self.state.store(found, Ordering::Relaxed);
        }
    }
}

fn copy<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Paddle::original(tensor, pyo3::intern!(tensor.py(), "clone"))
}

impl Kept {
    /// Goes back.
    pub(super) fn restore(self, py: Python<'_>) -> PyResult<()> {
        for (tensor, copy) in self.0 {
            tensor.call_method1(py, "copy_", (copy, true))?;
        }
        Ok(())
    }
}
