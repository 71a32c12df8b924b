//! Parts of a graph: where a result that leaves it is computed from another one that does.
//!
//! In eager mode what is put on the first one from outside (a hook, `retain_grads()`) sees the gradient that comes
//! through the second one. A program is one node of autograd, so there must be one for each side of that tensor.

use pyo3::prelude::*;

use super::{Arg, BlockOutput, Callee, Cut, Statement, StatementIr, SymbolId, SymbolKind};

/// A part of a graph, with what its inputs and outputs are called in the whole.
#[derive(Debug)]
pub struct Part {
    /// The part.
    pub sir: StatementIr,
    /// Tensors and layers it takes, in the order of its inputs.
    pub inputs: Vec<SymbolId>,
    /// Its outputs.
    pub outputs: Vec<SymbolId>,
}

fn for_each_argument(statement: &Statement, f: &mut impl FnMut(SymbolId)) {
    statement.args.iter().for_each(|arg| arg.for_each_symbol(f));
    for (_, arg) in &statement.kwargs {
        arg.for_each_symbol(f);
    }
    if let Callee::Layer(layer) = statement.callee {
        f(layer);
    }
}

/// What a statement may do besides computing its results.
enum Does {
    Nothing,
    /// It stays behind others that do something too: random numbers, running statistics, text.
    InOrder,
    /// It changes a tensor.
    Writes,
}

fn does(py: Python<'_>, statement: &Statement) -> Does {
    let names = statement.callee.api_names(py);
    if names
        .iter()
        .any(|name| name.ends_with('_') && !name.ends_with("__"))
    {
        return Does::Writes;
    }
    let is_region = matches!(statement.callee, Callee::Layer(_) | Callee::Sir(_));
    let speaks = matches!(statement.output, Arg::Const(_));
    match is_region || speaks || statement.callee.draws(py) {
        true => Does::InOrder,
        false => Does::Nothing,
    }
}

impl StatementIr {
    /// The parts of the graph, in order; `None` where it is one, or cannot be taken apart.
    pub fn parts(&self, py: Python<'_>) -> Option<Vec<Part>> {
        let producer = self.producers();
        let levels = self.levels(py, &producer)?;
        let last = levels.iter().copied().max().filter(|last| *last > 0)?;
        (0..=last)
            .map(|level| self.part(&producer, &levels, level))
            .collect()
    }

    /// For each symbol the statement that makes it. Others may answer with it too.
    fn producers(&self) -> Vec<Option<usize>> {
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

    /// For each statement the part it belongs to.
    fn levels(&self, py: Python<'_>, producer: &[Option<usize>]) -> Option<Vec<usize>> {
        let has_gradient = |id: SymbolId| self.meta(id).is_some_and(|meta| !meta.stop_gradient);
        let mut levels: Vec<usize> = Vec::with_capacity(self.statements.len());
        let mut moves = Vec::with_capacity(self.statements.len());
        let mut in_order = 0;
        for (number, statement) in self.statements.iter().enumerate() {
            let (mut flows, mut leaves) = (false, false);
            statement.output.for_each_symbol(&mut |id| {
                flows |= has_gradient(id);
                leaves |= self.outputs.contains(&id);
            });
            let mut level = 0;
            for_each_argument(statement, &mut |id| {
                if let Some(from) = producer[id.0 as usize].filter(|from| *from < number) {
                    let apart = flows && has_gradient(id) && self.outputs.contains(&id);
                    level = level.max(levels[from] + usize::from(apart));
                }
            });
            moves.push(match does(py, statement) {
                Does::Nothing => !leaves,
                Does::InOrder => {
                    level = level.max(in_order);
                    in_order = level;
                    false
                }
                Does::Writes => return None,
            });
            levels.push(level);
        }
        if self
            .outputs
            .iter()
            .any(|id| producer[id.0 as usize].is_none())
        {
            return None;
        }
        // What only a later part uses belongs there: fewer tensors go from one to the other.
        let mut wanted: Vec<Option<usize>> = vec![None; self.statements.len()];
        for (number, statement) in self.statements.iter().enumerate().rev() {
            if let (true, Some(first)) = (moves[number], wanted[number]) {
                levels[number] = levels[number].max(first);
            }
            let level = levels[number];
            for_each_argument(statement, &mut |id| {
                if let Some(from) = producer[id.0 as usize].filter(|from| *from < number) {
                    wanted[from] = Some(wanted[from].map_or(level, |known| known.min(level)));
                }
            });
        }
        Some(levels)
    }

    fn part(&self, producer: &[Option<usize>], levels: &[usize], level: usize) -> Option<Part> {
        let of = |level: usize| {
            let all = self.statements.iter().zip(levels);
            all.filter(move |(_, at)| **at == level)
        };
        let statements: Vec<Statement> =
            of(level).map(|(statement, _)| statement.clone()).collect();
        let is_made =
            |id: SymbolId| producer[id.0 as usize].is_some_and(|from| levels[from] == level);
        let mut used = Vec::new();
        let mut use_once = |id: SymbolId| {
            if !is_made(id) && !used.contains(&id) {
                used.push(id);
            }
        };
        for statement in &statements {
            for_each_argument(statement, &mut use_once);
        }
        let reaches = |it: &Statement| matches!(it.callee, Callee::Layer(_) | Callee::Sir(_));
        if statements.iter().any(reaches) {
            // Nobody says which parameters a layer reaches by itself.
            self.inputs.iter().copied().for_each(use_once);
        }
        // Layers first, then tensors.
        used.sort_by_key(|id| matches!(self.kind(*id), SymbolKind::Tensor(_)));
        let mut outputs: Vec<SymbolId> = Vec::new();
        let mut note = |id: SymbolId| {
            if is_made(id) && !outputs.contains(&id) {
                outputs.push(id);
            }
        };
        self.outputs.iter().copied().for_each(&mut note);
        for later in level + 1..=levels.iter().copied().max()? {
            of(later).for_each(|(statement, _)| for_each_argument(statement, &mut note));
        }
        if outputs.is_empty() {
            return None;
        }
        let cut = Cut {
            statements,
            symbols: self.symbols.clone(),
            inputs: Vec::new(),
            // All are called what they are called in the whole.
            first: u32::MAX,
            adopted: rustc_hash::FxHashMap::default(),
        };
        let results: Vec<BlockOutput> = outputs.iter().map(|id| BlockOutput::Outer(*id)).collect();
        let name = format!("{}_{level}", self.name);
        Some(Part {
            sir: cut.block(name, &used, &[], &results),
            inputs: used,
            outputs,
        })
    }
}
