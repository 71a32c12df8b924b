//! Views of tensors that anyone outside of a graph can change: what goes in and what comes out, and
//! what is made in eager mode of those.
//!
//! Eager mode's gradients keep such views, and see what becomes of them. Between the parts of a
//! graph there are tensors of their own, so each part makes its views again, or they are made in
//! eager mode where gradients flow through them.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PySlice};

use paddle_sot_ops::{Fact, knows};

use super::{Arg, DType, Statement, StatementIr, SymbolId, TensorMeta};

impl StatementIr {
    /// For each statement that is such a view the symbol that it views; those that take more
    /// tensors than that are none.
    pub(super) fn views(
        &self,
        py: Python<'_>,
        producer: &[Option<usize>],
    ) -> Vec<Option<SymbolId>> {
        let is_alone =
            |id: SymbolId| producer[id.0 as usize].is_some_and(|from| self.statements[from].alone);
        let outside =
            |id: SymbolId| self.inputs.contains(&id) || self.outputs.contains(&id) || is_alone(id);
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

/// Whether `__getitem__` with these arguments picks items out by a list, an array, a range, a bool
/// or a tensor: what it makes is a tensor of its own.
pub fn picks<'a>(
    py: Python<'_>,
    meta: &dyn Fn(SymbolId) -> Option<&'a TensorMeta>,
    args: &[Arg],
) -> bool {
    match args.get(1) {
        Some(Arg::Tuple(items)) => !items.iter().all(|item| is_basic(py, meta, item)),
        Some(index) => !is_basic(py, meta, index),
        None => false,
    }
}

/// Whether it is a place, a slice, `...` or `None`. Tuples in a tuple are lists.
fn is_basic<'a>(
    py: Python<'_>,
    meta: &dyn Fn(SymbolId) -> Option<&'a TensorMeta>,
    index: &Arg,
) -> bool {
    match index {
        Arg::List(_) | Arg::Tuple(_) => false,
        Arg::Symbol(id) => {
            meta(*id).is_none_or(|meta| meta.shape.is_empty() && meta.dtype != DType::Bool)
        }
        Arg::Const(value) => is_basic_constant(value.bind(py)),
        Arg::Dict(_) | Arg::Slice(_) | Arg::NamedTuple(..) => true,
    }
}

/// A bool is a mask of no dims.
fn is_basic_constant(value: &Bound<'_, PyAny>) -> bool {
    let is_whole = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    is_whole
        || value.is_none()
        || value.is(value.py().Ellipsis())
        || value.is_instance_of::<PySlice>()
        || is_whole_of_numpy(value).unwrap_or(false)
}

fn is_whole_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(dtype) = value.getattr_opt("dtype")? else {
        return Ok(false);
    };
    let kind: String = dtype.getattr("kind")?.extract()?;
    let rank: usize = value.getattr("ndim")?.extract()?;
    Ok(matches!(&*kind, "i" | "u") && rank == 0)
}
