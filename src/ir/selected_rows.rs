//! Calls whose gradient is selected rows in eager mode: the rows of a table that were looked up,
//! and no others.
//!
//! A program gives dense gradients: as large as the table, and other ones to whoever looks
//! (`lazy_mode` of optimizers moves the rows that are there). So these calls are no part of one.

use pyo3::prelude::*;

use paddle_sot_cpython::obj::Obj;

use paddle_sot_ops::{Fact, knows};

use super::{Arg, Callee, LayerRef, Statement, SymbolId, SymbolKind};

/// Where layers keep what they pass as that.
const ATTRIBUTES: &[&str] = &["_sparse", "_is_sparse"];

impl Statement {
    /// Whether its gradient may be selected rows, while gradients are on. `symbols` are those of
    /// its graph.
    pub fn may_select_rows(&self, py: Python<'_>, symbols: &[SymbolKind]) -> bool {
        let kind = |id: SymbolId| &symbols[id.0 as usize];
        let mut flows = false;
        self.output.for_each_symbol(&mut |id| {
            flows |= matches!(kind(id), SymbolKind::Tensor(meta) if !meta.stop_gradient);
        });
        if !self.grad_enabled || !flows {
            return false;
        }
        match &self.callee {
            Callee::Layer(symbol) => match kind(*symbol) {
                SymbolKind::Layer(layer) => has_sparse_part(py, layer).unwrap_or(true),
                SymbolKind::Tensor(_) => false,
            },
            // Regions that gradients go through are refused where they hold one.
            Callee::Sir(_) => false,
            callee @ (Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_)) => {
                let names = callee.api_names(py);
                let named = self.kwargs.iter().map(|(_, arg)| arg);
                names.iter().any(|name| knows(name, Fact::SelectsRows))
                    && self.args.iter().chain(named).any(|arg| is_true(py, arg))
            }
        }
    }
}

fn is_true(py: Python<'_>, arg: &Arg) -> bool {
    let is = |value: &Obj| value.bind(py).extract::<bool>().unwrap_or(false);
    matches!(arg, Arg::Const(value) if is(value))
}

fn has_sparse_part(py: Python<'_>, layer: &LayerRef) -> PyResult<bool> {
    let parts = layer.bind(py).call_method1("sublayers", (true,))?;
    for part in parts.try_iter()? {
        let part = part?;
        for name in ATTRIBUTES {
            if let Some(asked) = part.getattr_opt(*name)? {
                if asked.is_truthy()? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
