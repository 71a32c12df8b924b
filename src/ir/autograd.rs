//! What eager mode's graph of gradients would look like for a [`StatementIr`].

use paddle_sot_ops::DETACH;

use super::{Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind, TensorMeta};

/// The root of the set that `at` is in.
fn find(sets: &mut [usize], mut at: usize) -> usize {
    while sets[at] != at {
        sets[at] = sets[sets[at]];
        at = sets[at];
    }
    at
}

impl StatementIr {
    /// Has an output leave without its gradient.
    pub(super) fn stop_output(&mut self, at: usize) {
        let output = self.outputs[at];
        let (Some(meta), Some(last)) = (self.meta(output), self.statements.last()) else {
            return;
        };
        let stopped = TensorMeta {
            stop_gradient: true,
            ..meta.clone()
        };
        let loc = last.loc.clone();
        let made = SymbolId(self.symbols.len() as u32);
        self.symbols.push(SymbolKind::Tensor(stopped));
        self.outputs[at] = made;
        self.statements.push(Statement::plain(
            Callee::Method(DETACH.into()),
            vec![Arg::Symbol(output)],
            Arg::Symbol(made),
            loc,
        ));
    }

    /// The positions of outputs that gradients flow from to a call of such a callee.
    pub fn results_behind(&self, wanted: &dyn Fn(&Callee) -> bool) -> Vec<usize> {
        let mut behind = vec![false; self.symbols.len()];
        for statement in &self.statements {
            let mut found = wanted(&statement.callee);
            statement.for_each_argument(&mut |id| found |= behind[id.0 as usize]);
            statement.output.for_each_symbol(&mut |id| {
                behind[id.0 as usize] |= found && self.carries_gradient(id);
            });
        }
        let outputs = self.outputs.iter().enumerate();
        let found = outputs.filter(|(_, id)| behind[id.0 as usize]);
        found.map(|(at, _)| at).collect()
    }

    /// Whether some outputs share no differentiable statement with some others.
    ///
    /// Eager mode can go backward through each of them by itself; a program is one node of autograd
    /// and can go backward once.
    pub fn has_independent_gradients(&self) -> bool {
        if self
            .statements
            .iter()
            .any(|one| matches!(one.callee, Callee::Sir(_)))
        {
            return false;
        }
        let mut producer: Vec<Option<usize>> = vec![None; self.symbols.len()];
        let mut sets: Vec<usize> = (0..self.statements.len()).collect();
        for (number, statement) in self.statements.iter().enumerate() {
            let mut flows = false;
            statement.output.for_each_symbol(&mut |id| {
                if self.has_gradient(id) && producer[id.0 as usize].is_none() {
                    producer[id.0 as usize] = Some(number);
                    flows = true;
                }
            });
            if !flows {
                continue;
            }
            let mut sources = Vec::new();
            statement.for_each_argument(&mut |id| {
                sources.extend(producer[id.0 as usize].filter(|_| self.carries_gradient(id)));
            });
            for source in sources {
                let (a, b) = (find(&mut sets, source), find(&mut sets, number));
                sets[a] = b;
            }
        }
        let roots: Vec<usize> = self
            .outputs
            .iter()
            .filter_map(|id| producer[id.0 as usize])
            .collect();
        let mut found = roots.into_iter().map(|at| find(&mut sets, at));
        let first = found.next();
        found.any(|root| Some(root) != first)
    }
}
