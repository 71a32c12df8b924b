//! Cutting a graph up as it is planned: see `partition.rs` and `outlined_views.rs`.

use std::collections::BTreeSet;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::passthrough_aliases::{HandedOn, May};
use super::{BlockOutput, Callee, Cut, Statement, StatementIr, SymbolId, SymbolKind};

/// A part of a graph, with what its inputs and outputs are called in the whole.
#[derive(Debug)]
pub struct Part {
    /// The part.
    pub sir: StatementIr,
    /// Its statements in the whole, without views that it makes again.
    pub statements: Vec<usize>,
    /// Tensors and layers it takes, in the order of its inputs.
    pub inputs: Vec<SymbolId>,
    /// Its outputs.
    pub outputs: Vec<SymbolId>,
    /// A program would give other gradients.
    pub by_calls: bool,
    /// Inputs to which no gradient of the whole flows: it may use them any number of times.
    pub unfed: Vec<SymbolId>,
    /// Inputs of its graph to which these of its statements give gradients, in the order in which
    /// eager mode adds them.
    pub sums: Vec<(SymbolId, Vec<usize>)>,
    /// What it hands on to the next part, and what that is to the caller: see `chained_uses.rs`.
    pub chained: Vec<(SymbolId, SymbolId)>,
    /// Inputs and outputs of the whole that captured control flow of other parts may have handed on
    /// to this one.
    pub handed_on: Vec<SymbolId>,
    /// Outputs of the whole that may be what this one takes or makes, handed on by captured control
    /// flow of other parts.
    pub handed_to: Vec<SymbolId>,
}

/// All that `may` says of these.
fn united(may: &May, of: impl Iterator<Item = SymbolId>) -> Vec<SymbolId> {
    let found: BTreeSet<&SymbolId> = of.filter_map(|id| may.get(&id)).flatten().collect();
    found.into_iter().copied().collect()
}

/// What goes where.
pub(super) struct Plan<'a> {
    /// For each symbol the statement that makes it.
    pub producer: &'a [Option<usize>],
    /// The part of each statement.
    pub of: &'a [usize],
    /// Those that are parts of their own.
    pub alone: &'a [bool],
    /// Whether a statement is a view that other parts make again.
    pub is_view: &'a dyn Fn(usize) -> bool,
    /// What each statement takes, what its layer reaches included; `None`: nobody says what layers
    /// reach.
    pub taken: Option<&'a [Vec<SymbolId>]>,
}

/// What follows from a plan.
struct Between {
    /// For each part the views of others that it makes again.
    again: Vec<Vec<bool>>,
    /// What parts take from others, in order of use.
    crossing: Vec<SymbolId>,
    /// What captured control flow hands on between them.
    handed_on: HandedOn,
}

/// What it takes, a layer that it calls included.
pub(super) fn for_each_operand(statement: &Statement, f: &mut impl FnMut(SymbolId)) {
    statement.for_each_argument(f);
    if let Callee::Layer(layer) = statement.callee {
        f(layer);
    }
}

impl StatementIr {
    /// For each symbol the statement that makes it. Others may answer with it too.
    pub(super) fn producers(&self) -> Vec<Option<usize>> {
        let mut producer = vec![None; self.symbols.len()];
        for (number, statement) in self.statements.iter().enumerate() {
            statement.output.for_each_symbol(&mut |id| {
                if !self.inputs.contains(&id) {
                    producer[id.0 as usize].get_or_insert(number);
                }
            });
        }
        producer
    }

    /// Calls `f` with each statement that makes something that this one takes.
    pub(super) fn for_each_source(
        &self,
        producer: &[Option<usize>],
        number: usize,
        f: &mut impl FnMut(usize),
    ) {
        let statement = &self.statements[number];
        for_each_operand(statement, &mut |id| {
            if let Some(from) = producer[id.0 as usize].filter(|from| *from < number) {
                f(from);
            }
        });
    }

    /// The parts as they are planned; `None` where one of them is nothing.
    pub(super) fn cut_up(&self, py: Python<'_>, plan: &Plan<'_>) -> Option<Vec<Part>> {
        let parts = plan.of.iter().copied().max()? + 1;
        let again: Vec<_> = (0..parts)
            .map(|number| self.made_again(plan, number))
            .collect();
        let between = Between {
            crossing: self.crossing(plan, &again),
            again,
            handed_on: self.handed_on(py),
        };
        let part = |number| self.part(plan, &between, number);
        (0..parts).map(part).collect()
    }

    fn part(&self, plan: &Plan<'_>, between: &Between, number: usize) -> Option<Part> {
        let Plan {
            producer,
            of,
            alone,
            taken,
            ..
        } = plan;
        let Between {
            again,
            crossing,
            handed_on,
        } = between;
        let is_in = |at: usize| of[at] == number || again[number][at];
        let statements: Vec<Statement> = (self.statements.iter().enumerate())
            .filter(|(at, _)| is_in(*at))
            .map(|(_, statement)| statement.clone())
            .collect();
        let is_made = |id: SymbolId| producer[id.0 as usize].is_some_and(&is_in);
        let mut used = Vec::new();
        let mut use_once = |id: SymbolId| {
            if !is_made(id) && !used.contains(&id) {
                used.push(id);
            }
        };
        if let Some(taken) = taken {
            let own = (0..of.len()).filter(|at| is_in(*at));
            own.flat_map(|at| &taken[at]).copied().for_each(use_once);
        } else {
            for statement in &statements {
                for_each_operand(statement, &mut use_once);
            }
            let reaches = |it: &Statement| matches!(it.callee, Callee::Layer(_) | Callee::Sir(_));
            if statements.iter().any(reaches) {
                self.inputs.iter().copied().for_each(use_once);
            }
        }
        // Layers first, then tensors. Their gradients leave a part in this order: aliases of one
        // tensor are numbered in that of eager mode (`ordered_sums.rs`).
        let place = |id: &SymbolId| taken.map_or(id.0, |_| 0);
        used.sort_by_key(|id| (matches!(self.kind(*id), SymbolKind::Tensor(_)), place(id)));
        let mut outputs: Vec<SymbolId> = Vec::new();
        let is_own = |id: &SymbolId| producer[id.0 as usize].is_some_and(|from| of[from] == number);
        let mut note = |id: SymbolId| {
            if is_own(&id) && !outputs.contains(&id) {
                outputs.push(id);
            }
        };
        self.outputs
            .iter()
            .chain(crossing)
            .copied()
            .for_each(&mut note);
        if outputs.is_empty() {
            return None;
        }
        let cut: Cut = Cut {
            statements,
            symbols: self.symbols.clone(),
            inputs: Vec::new(),
            // All are called what they are called in the whole.
            first: u32::MAX,
            adopted: FxHashMap::default(),
        };
        let results: Vec<BlockOutput> = outputs.iter().map(|id| BlockOutput::Outer(*id)).collect();
        let name = format!("{}_{number}", self.name);
        let made = (0..self.symbols.len() as u32).map(SymbolId).filter(is_own);
        let handed_to = united(&handed_on.to, used.iter().copied().chain(made));
        let handed_to = handed_to.into_iter().filter(|id| !is_own(id));
        Some(Part {
            handed_on: united(&handed_on.from, used.iter().copied()),
            handed_to: handed_to.collect(),
            sir: cut.block(name, &used, &[], &results),
            statements: (0..of.len()).filter(|at| of[*at] == number).collect(),
            inputs: used,
            outputs,
            sums: Vec::new(),
            chained: Vec::new(),
            unfed: Vec::new(),
            by_calls: alone.iter().zip(*of).any(|(it, at)| *it && *at == number),
        })
    }

    /// What parts take from others, in order of use.
    fn crossing(&self, plan: &Plan<'_>, again: &[Vec<bool>]) -> Vec<SymbolId> {
        let of = plan.of;
        let mut crossing = Vec::new();
        let mut is_known = vec![false; self.symbols.len()];
        for (at, statement) in self.statements.iter().enumerate() {
            let parts = (0..again.len()).filter(|part| of[at] == *part || again[*part][at]);
            for part in parts {
                for_each_operand(statement, &mut |id| {
                    let from = plan.producer[id.0 as usize];
                    let is_taken = from.is_some_and(|from| of[from] != part && !again[part][from]);
                    if is_taken && !std::mem::replace(&mut is_known[id.0 as usize], true) {
                        crossing.push(id);
                    }
                });
            }
        }
        crossing
    }

    /// The views of other parts that this one makes again.
    fn made_again(&self, plan: &Plan<'_>, number: usize) -> Vec<bool> {
        let of = plan.of;
        let mut again = vec![false; of.len()];
        for at in (0..of.len()).rev() {
            if of[at] == number || again[at] {
                self.for_each_source(plan.producer, at, &mut |from| {
                    again[from] |= (plan.is_view)(from) && of[from] != number;
                });
            }
        }
        again
    }
}
