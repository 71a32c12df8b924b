//! A tensor or `None`, which captured control flow decides.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::Tracer;
use crate::graph::SymbolId;
use crate::reason::{Break, BreakKind};

use crate::variables::answers::{Exports, Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

/// A tensor where a number of the graph holds, and `None` where not.
///
/// All that can be done with one is to ask whether it is `None`: behind that it is one of both.
#[derive(Clone, Copy, Debug)]
pub struct MaybeVar {
    /// Whether it is the tensor: a bool of no dims.
    pub holds: SymbolId,
    /// The tensor; where there is none, zeros that nobody sees.
    pub tensor: VarId,
}

impl Protocol for MaybeVar {
    const NAME: &'static str = "Maybe";

    fn children(&self) -> Vec<VarId> {
        vec![self.tensor]
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.call_helper("tensor_or_none", 2, |to| {
            to.symbol(self.holds)?;
            to.value(self.tensor)
        })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Err(Break::new(
            BreakKind::UnsupportedOperation,
            "the function returns a tensor or None, and a program has so many results in each call: return a tensor \
             on either way",
        ))
    }
}
