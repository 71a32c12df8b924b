//! Constants, and scalars of NumPy.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::reason::Break;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{
    not_made, of_value, Finalizer, Protocol, Rebuild, Snapshot,
};
use crate::simulator::variables::{VarId, Variable};

/// An immutable constant: [`Kind::Const`](super::Kind::Const).
pub struct Const;

impl Protocol for Const {
    const NAME: &'static str = "Const";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        of_value(t, var)
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

/// A scalar of NumPy.
pub struct Scalar;

impl Protocol for Scalar {
    const NAME: &'static str = "Scalar";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        of_value(t, var)
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
