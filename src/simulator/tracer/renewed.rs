//! [`Renewed`]: what parameters are behind steps of their optimizers that are part of the graph.

use crate::graph::SymbolId;

/// Parameters, and the symbols that they have become, in order.
#[derive(Debug, Default)]
pub struct Renewed(Vec<(SymbolId, SymbolId)>);

impl Renewed {
    /// From here on a parameter is another symbol.
    pub(crate) fn push(&mut self, before: SymbolId, after: SymbolId) {
        self.0.push((before, after));
    }

    /// What a tensor is by now.
    pub(crate) fn current(&self, symbol: SymbolId) -> SymbolId {
        self.0
            .iter()
            .fold(symbol, |now, (before, after)| match now == *before {
                true => *after,
                false => now,
            })
    }

    /// Forgets those from this symbol on.
    pub(super) fn rollback(&mut self, first: SymbolId) {
        self.0.retain(|(_, after)| after.0 < first.0);
    }
}
