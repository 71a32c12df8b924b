//! Which tensors from outside of a graph the results of captured control flow may be: eager mode
//! hands on the very tensor that a way leaves as it was, or a view of it, and its gradients see
//! what becomes of that.

use std::collections::BTreeSet;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::views::only_operand;
use super::{Callee, Region, StatementIr, SymbolId};

/// For each symbol what it may be, or be a view of.
pub(super) type May = FxHashMap<SymbolId, BTreeSet<SymbolId>>;

fn unite(may: &mut May, id: SymbolId, found: Option<BTreeSet<SymbolId>>) {
    if let Some(found) = found.filter(|found| !found.is_empty()) {
        may.entry(id).or_default().extend(found);
    }
}

/// What is known of the symbols of one graph.
#[derive(Default)]
struct Known {
    every: May,
    /// By control flow alone.
    handed_on: May,
}

/// What captured control flow hands on between the parts of a graph.
#[derive(Default)]
pub(super) struct HandedOn {
    /// For each symbol that it may have handed on: the inputs and outputs of the graph that it may
    /// be.
    pub from: May,
    /// For each symbol the outputs that may be it, or share its storage.
    pub to: May,
}

impl StatementIr {
    pub(super) fn handed_on(&self, py: Python<'_>) -> HandedOn {
        let mut found = HandedOn::default();
        if !self.has_control_flow() {
            return found;
        }
        let mut known = Known::default();
        let all = (0..self.symbols.len()).map(|number| SymbolId(number as u32));
        known.every.extend(all.map(|id| (id, BTreeSet::from([id]))));
        self.follow(py, &mut known);
        for (id, may) in &known.handed_on {
            let outside = may.iter().copied();
            let outside =
                outside.filter(|id| self.inputs.contains(id) || self.outputs.contains(id));
            unite(&mut found.from, *id, Some(outside.collect()));
        }
        for output in &self.outputs {
            let Some(sources) = known.handed_on.get(output) else {
                continue;
            };
            for (id, may) in &known.every {
                // What is computed from the output, or views it, sees what becomes of it.
                if !may.contains(output) && !may.is_disjoint(sources) {
                    unite(&mut found.to, *id, Some(BTreeSet::from([*output])));
                }
            }
        }
        found
    }

    fn follow(&self, py: Python<'_>, known: &mut Known) {
        for statement in &self.statements {
            let mut results = Vec::new();
            statement.output.for_each_symbol(&mut |id| results.push(id));
            let mut arguments = Vec::new();
            statement.for_each_argument(&mut |id| arguments.push(id));
            if let Callee::Sir(region) = &statement.callee {
                for (id, found) in results.iter().zip(handed_by(py, region, &arguments, known)) {
                    unite(&mut known.every, *id, Some(found.clone()));
                    unite(&mut known.handed_on, *id, Some(found));
                }
            } else if let Some(viewed) =
                only_operand(statement).filter(|_| self.shares(py, statement))
            {
                for id in results {
                    for may in [&mut known.every, &mut known.handed_on] {
                        let found = may.get(&viewed).cloned();
                        unite(may, id, found);
                    }
                }
            }
        }
    }
}

/// For each result of a region what it may be.
fn handed_by(
    py: Python<'_>,
    region: &Region,
    arguments: &[SymbolId],
    known: &Known,
) -> Vec<BTreeSet<SymbolId>> {
    let may = |id: &SymbolId| known.every.get(id).cloned().unwrap_or_default();
    let given: Vec<_> = arguments.iter().skip(1).map(may).collect();
    match region {
        Region::If { then, otherwise } => {
            let ways = [then, otherwise].map(|block| block_hands_on(py, block, &given));
            let [then, otherwise] = ways;
            let both = then.into_iter().zip(otherwise);
            both.map(|(one, other)| &one | &other).collect()
        }
        Region::While { body, carried, .. } => {
            let mut given = given;
            // What a variable becomes in one round it is in the next.
            for _ in 0..=*carried {
                let next = block_hands_on(py, body, &given);
                for (now, next) in given.iter_mut().zip(next.into_iter().skip(1)) {
                    now.extend(next);
                }
            }
            given.truncate(*carried);
            given
        }
        // Their results are new tensors.
        Region::Recompute { .. } | Region::PyLayer { .. } => Vec::new(),
    }
}

/// For each output of a block what it may be.
fn block_hands_on(
    py: Python<'_>,
    block: &StatementIr,
    given: &[BTreeSet<SymbolId>],
) -> Vec<BTreeSet<SymbolId>> {
    let mut known = Known::default();
    for (id, found) in block.inputs.iter().zip(given) {
        unite(&mut known.every, *id, Some(found.clone()));
    }
    block.follow(py, &mut known);
    let may = |id: &SymbolId| known.every.get(id).cloned().unwrap_or_default();
    block.outputs.iter().map(may).collect()
}
