//! The nested graphs of a custom operation.

use std::sync::Arc;

use crate::graph::{BlockOutput, Callee, Region, SymbolId, SymbolKind};
use crate::tracer::function_graph::Cut;

use super::refuse;
use crate::{Step, Tracer, region};

/// A custom operation whose methods were followed.
pub(super) struct Parts {
    /// Its name.
    pub(super) name: Arc<str>,
    /// The tensors that it is given.
    pub(super) inputs: Vec<SymbolId>,
    /// What `forward` returns.
    pub(super) results: Vec<SymbolId>,
    /// What stands for the gradients that arrive.
    pub(super) given: Vec<SymbolId>,
    /// What `backward` returns for each input.
    pub(super) gradients: Vec<Option<SymbolId>>,
    /// How many of the statements are those of `forward`.
    pub(super) split: usize,
}

impl Parts {
    /// Adds the operation to the graph; the answer is its outputs.
    pub(super) fn emit(&self, t: &mut Tracer<'_>, mut cut: Cut) -> Step<Vec<SymbolId>> {
        let backward = Cut {
            statements: cut.statements.split_off(self.split),
            symbols: cut.symbols.clone(),
            inputs: Vec::new(),
            first: cut.first,
            adopted: cut.adopted.clone(),
        };
        // What backward uses before it makes it goes there from forward. A call may return its
        // argument.
        let mut own = [&self.given[..], &self.results].concat();
        let mut saved: Vec<SymbolId> = Vec::new();
        let mut note = |own: &[SymbolId], symbol: SymbolId| {
            let is_tensor = matches!(cut.symbols[symbol.0 as usize], SymbolKind::Tensor(_));
            if is_tensor && !own.contains(&symbol) && !saved.contains(&symbol) {
                saved.push(symbol);
            }
        };
        for statement in &backward.statements {
            if matches!(statement.callee, Callee::Layer(_)) {
                return refuse(t, "backward calls a layer");
            }
            statement.for_each_argument(&mut |symbol| note(&own, symbol));
            statement
                .output
                .for_each_symbol(&mut |symbol| own.push(symbol));
        }
        for symbol in self.gradients.iter().flatten() {
            note(&own, *symbol);
        }
        let outputs: Vec<BlockOutput> = self
            .results
            .iter()
            .chain(&saved)
            .map(|symbol| BlockOutput::Inner(*symbol))
            .collect();
        let mut free = Vec::new();
        cut.free(&outputs, &mut free);
        free.retain(|symbol| !self.inputs.contains(symbol));
        let free = region::with_kinds(t, free);
        let forward = cut.block(
            format!("{}_forward", self.name),
            &self.inputs,
            &free,
            &outputs,
        );
        let leading = [&self.results[..], &saved, &self.given].concat();
        let mut order = Vec::new();
        let mut returned = Vec::new();
        for gradient in &self.gradients {
            order.push(gradient.map(|symbol| {
                returned.push(BlockOutput::Inner(symbol));
                returned.len() - 1
            }));
        }
        let backward = backward.block(format!("{}_backward", self.name), &leading, &[], &returned);
        let region = Region::PyLayer {
            name: self.name.clone(),
            forward: Arc::new(forward),
            backward: Arc::new(backward),
            inputs: self.inputs.len(),
            outputs: self.results.len(),
            gradients: order,
        };
        region::emit(t, region, self.inputs.clone(), &free)
    }
}
