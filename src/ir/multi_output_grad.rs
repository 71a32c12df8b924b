//! Calls with several results of which gradients may arrive at some only.
//!
//! In a program such a call is one part: it goes backward with zeros for the others, and what
//! somebody puts on one of its results (a hook, `retain_grads()`, `paddle.grad`) does not see what
//! comes through another one that is computed from it. In eager mode a call may be many operations
//! (a layer with the weights of its attention, the cell of an LSTM), of which those that no
//! gradient comes to do nothing. So these run as in eager mode, by themselves.

use pyo3::prelude::*;

use paddle_sot_ops::{Fact, knows};

use super::{Callee, Statement, StatementIr, SymbolId, SymbolKind};

impl StatementIr {
    /// Whether a call has to run by itself. `from` says for each symbol which results of the graph
    /// gradients come from.
    pub(super) fn has_results_apart(
        &self,
        py: Python<'_>,
        statement: &Statement,
        from: &[u64],
    ) -> bool {
        let comes_from = |id: &SymbolId| from[id.0 as usize];
        let mut found: Vec<SymbolId> = Vec::new();
        statement.output.for_each_symbol(&mut |id| {
            if self.has_gradient(id) && comes_from(&id) != 0 && !found.contains(&id) {
                found.push(id);
            }
        });
        if found.len() < 2 {
            return false;
        }
        let leaves = found.iter().any(|id| self.outputs.contains(id));
        let differs = found
            .iter()
            .any(|id| comes_from(id) != comes_from(&found[0]));
        match &statement.callee {
            // Captured control flow says at which of its results gradients arrived.
            Callee::Sir(_) => false,
            Callee::Layer(symbol) => (leaves || differs) && !self.is_one_kernel(py, *symbol),
            callee @ (Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_)) => {
                let names = callee.api_names(py);
                let is_among = |fact: Fact| names.iter().any(|name| knows(name, fact));
                !is_among(Fact::AllOrNothing) && (leaves || differs && !is_among(Fact::OneKernel))
            }
        }
    }

    /// Whether a layer is a recurrent one that is a single kernel, whose gradient has zeros for
    /// what did not arrive.
    fn is_one_kernel(&self, py: Python<'_>, layer: SymbolId) -> bool {
        let SymbolKind::Layer(layer) = self.kind(layer) else {
            return false;
        };
        let asked = layer.bind(py).getattr("could_use_cudnn");
        asked.is_ok_and(|answer| answer.is_truthy().unwrap_or(false))
    }
}
