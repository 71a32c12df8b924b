//! Which tensors that leave a graph share storage, and how that is seen to.
//!
//! What a program hands out has storage of its own. So such views are made anew, in eager mode,
//! behind it. But where other results are computed from one of them, their gradients flow through
//! it in eager mode: what is put on it from outside (a hook, `paddle.grad`) has to see them. Those
//! are made by calls between the programs of a graph instead.

use indexmap::IndexSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::SymbolId;
use crate::variables::{Kind, TensorVar, VarId, View};

use crate::Tracer;
use crate::alias_analysis::root;

/// What is known of the tensors that leave.
#[derive(Default)]
pub struct Shared {
    /// Tensors of which views leave that share their storage with something else that does, or that
    /// exists.
    roots: FxHashSet<VarId>,
    /// Views that the graph makes by calls.
    by_calls: FxHashMap<VarId, SymbolId>,
}

impl Shared {
    /// Learns what leaves; whether something of it is new.
    pub fn learn(&mut self, t: &Tracer<'_>, leaving: &IndexSet<VarId>) -> bool {
        let known = (self.roots.len(), self.by_calls.len());
        self.roots.extend(shared_roots(t, leaving));
        if t.grad.at_entry && !self.roots.is_empty() && t.backend.takes_graphs_apart() {
            self.find_passed_through(t, leaving);
        }
        known != (self.roots.len(), self.by_calls.len())
    }

    /// Whether a tensor that leaves is a view that is made anew.
    pub fn is_made_anew(&self, t: &Tracer<'_>, id: VarId) -> bool {
        !self.by_calls.contains_key(&id) && self.roots.contains(&root(&t.vars, id))
    }

    /// What the graph makes by calls.
    pub fn by_calls(&self) -> FxHashSet<SymbolId> {
        self.by_calls.values().copied().collect()
    }

    /// Finds the views among `leaving` that gradients of others flow through, or through what else
    /// their calls make, with what they are views of.
    fn find_passed_through(&mut self, t: &Tracer<'_>, leaving: &IndexSet<VarId>) {
        let used = Used::of(t);
        loop {
            let known = self.by_calls.len();
            for id in leaving {
                let is_among = list(t, *id).is_some_and(|of| {
                    let is_in = |id: &VarId| list(t, *id) == Some(of);
                    used.passed_lists.contains(&of) || self.by_calls.keys().any(is_in)
                });
                if self.is_made_anew(t, *id) && (is_among || used.flows_through(t, *id)) {
                    self.add_chain(t, &used, *id);
                }
            }
            if self.by_calls.len() == known {
                return;
            }
        }
    }

    /// Adds a view and the views that it is of, where statements make them all.
    fn add_chain(&mut self, t: &Tracer<'_>, used: &Used, id: VarId) {
        let mut chain = Vec::new();
        let mut next = id;
        while let Some((symbol, view)) = view(t, next) {
            if symbol == view.base_symbol || !used.made.contains(&symbol) {
                return;
            }
            chain.push((next, symbol));
            next = view.base;
        }
        self.by_calls.extend(chain);
    }
}

fn view<'a>(t: &'a Tracer<'_>, id: VarId) -> Option<(SymbolId, &'a View)> {
    if let Kind::Tensor(TensorVar {
        symbol,
        view: Some(view),
        ..
    }) = t.vars.kind(id)
    {
        Some((*symbol, view))
    } else {
        None
    }
}

/// The list that a view is an item of.
fn list(t: &Tracer<'_>, id: VarId) -> Option<VarId> {
    Some(view(t, id)?.1.item?.0)
}

/// What the statements of the graph use.
struct Used {
    /// What they make.
    made: FxHashSet<SymbolId>,
    /// What carries a gradient and they compute something from that is no view, or a view that such
    /// is computed from.
    passed: FxHashSet<SymbolId>,
    /// Lists of views with one of those in them.
    passed_lists: FxHashSet<VarId>,
}

impl Used {
    fn of(t: &Tracer<'_>) -> Self {
        let ids = || (0..t.vars.len() as u32).map(VarId);
        let views: FxHashSet<SymbolId> = ids().filter_map(|id| Some(view(t, id)?.0)).collect();
        let sir = &t.graph.sir;
        let (mut made, mut passed) = (FxHashSet::default(), FxHashSet::default());
        for statement in sir.statements.iter().rev() {
            let mut flows = false;
            statement.output.for_each_symbol(&mut |id| {
                made.insert(id);
                flows |= sir.has_gradient(id) && (!views.contains(&id) || passed.contains(&id));
            });
            if flows {
                statement.for_each_argument(&mut |id| {
                    if sir.has_gradient(id) {
                        passed.insert(id);
                    }
                });
            }
        }
        let is_passed = |id: &VarId| view(t, *id).is_some_and(|(it, _)| passed.contains(&it));
        let passed_lists = ids().filter(is_passed).filter_map(|id| list(t, id));
        Self {
            passed_lists: passed_lists.collect(),
            made,
            passed,
        }
    }

    fn flows_through(&self, t: &Tracer<'_>, id: VarId) -> bool {
        let symbol = view(t, id).map(|(symbol, _)| symbol);
        symbol
            .is_some_and(|symbol| t.graph.sir.has_gradient(symbol) && self.passed.contains(&symbol))
    }
}

/// The roots of those of `leaving` that share storage with each other, or with a tensor that
/// exists.
fn shared_roots(t: &Tracer<'_>, leaving: &IndexSet<VarId>) -> Vec<VarId> {
    let mut groups: FxHashMap<VarId, usize> = FxHashMap::default();
    for &id in leaving {
        let root = root(&t.vars, id);
        let outside = |id: VarId| {
            let Kind::Tensor(tensor) = t.vars.kind(id) else {
                return false;
            };
            t.vars.get(id).source.is_some() || t.graph.is_input(tensor.symbol)
        };
        let count = groups.entry(root).or_default();
        *count += 1;
        if id != root && outside(root) {
            *count += 1;
        }
    }
    groups
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(root, _)| root)
        .collect()
}
