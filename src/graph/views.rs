//! Views of tensors that anyone outside of a graph can change: what goes in and what comes out.
//!
//! Eager mode's gradients keep such views, and see what becomes of them. Between the parts of a graph there are tensors of
//! their own, so each part makes its views again, or they are made in eager mode where gradients flow through them.

use pyo3::prelude::*;

use super::{Statement, StatementIr, SymbolId};

/// Operations whose results share the storage of their argument, where they can, and that cost next to nothing.
pub const CHEAP_VIEWS: &[&str] = &[
    "__getitem__",
    "reshape",
    "view",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "transpose",
    "t",
    "T",
    "mT",
    "matrix_transpose",
    "permute",
    "moveaxis",
    "swapaxes",
    "swapdims",
    "slice",
    "unbind",
    "diagonal",
    "detach",
];

impl StatementIr {
    /// For each statement that is such a view the symbol that it views; those that take more tensors than that are none.
    pub(super) fn views(
        &self,
        py: Python<'_>,
        producer: &[Option<usize>],
    ) -> Vec<Option<SymbolId>> {
        let outside = |id: SymbolId| self.inputs.contains(&id) || self.outputs.contains(&id);
        let mut views: Vec<Option<SymbolId>> = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            let viewed = only_operand(statement).filter(|id| {
                let view = producer[id.0 as usize].map(|from| views.get(from).copied().flatten());
                (outside(*id) || view.flatten().is_some()) && shares(py, statement)
            });
            views.push(viewed);
        }
        views
    }
}

pub(super) fn only_operand(statement: &Statement) -> Option<SymbolId> {
    let (mut first, mut others) = (None, false);
    statement.for_each_argument(&mut |id| {
        others |= first.is_some_and(|known| known != id);
        first = Some(id);
    });
    first.filter(|_| !others)
}

pub(super) fn shares(py: Python<'_>, statement: &Statement) -> bool {
    let names = statement.callee.api_names(py);
    names.iter().any(|name| CHEAP_VIEWS.contains(&&**name))
}
