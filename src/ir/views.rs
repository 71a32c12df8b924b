//! Views of tensors that anyone outside of a graph can change: what goes in and what comes out.
//!
//! Eager mode's gradients keep such views, and see what becomes of them. Between the parts of a
//! graph there are tensors of their own, so each part makes its views again, or they are made in
//! eager mode where gradients flow through them.

use pyo3::prelude::*;
use pyo3::types::PyList;

use paddle_sot_ops::{knows, Fact};

use super::{Arg, Statement, StatementIr, SymbolId, TensorMeta};

impl StatementIr {
    /// For each statement that is such a view the symbol that it views; those that take more
    /// tensors than that are none.
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
                (outside(*id) || view.flatten().is_some()) && self.shares(py, statement)
            });
            views.push(viewed);
        }
        views
    }

    /// Whether a statement makes such a view.
    pub(super) fn shares(&self, py: Python<'_>, statement: &Statement) -> bool {
        if statement.copies {
            return false;
        }
        let names = statement.callee.api_names(py);
        let is = |name: &String| match &**name {
            "__getitem__" => !picks(py, &|id| self.meta(id), &statement.args),
            name => knows(name, Fact::CheapView),
        };
        names.iter().any(is)
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

/// Whether `__getitem__` with these arguments picks items out by a list, an array or a tensor: what
/// it makes is a tensor of its own.
pub fn picks<'a>(
    py: Python<'_>,
    meta: &dyn Fn(SymbolId) -> Option<&'a TensorMeta>,
    args: &[Arg],
) -> bool {
    args.get(1).is_some_and(|index| is_list(py, meta, index))
}

fn is_list<'a>(
    py: Python<'_>,
    meta: &dyn Fn(SymbolId) -> Option<&'a TensorMeta>,
    index: &Arg,
) -> bool {
    match index {
        Arg::List(_) => true,
        Arg::Symbol(id) => meta(*id).is_some_and(|meta| !meta.shape.is_empty()),
        Arg::Tuple(items) => items.iter().any(|item| is_list(py, meta, item)),
        Arg::Const(value) => value.bind(py).is_instance_of::<PyList>(),
        _ => false,
    }
}
