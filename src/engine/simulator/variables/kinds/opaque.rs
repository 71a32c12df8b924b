//! Real objects that nothing is known of.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::reason::Break;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{
    not_made, of_value, Finalizer, Protocol, Rebuild, Snapshot,
};
use crate::simulator::variables::{VarId, Variable};

/// One that nobody looked at.
pub struct Lazy;

impl Protocol for Lazy {
    const NAME: &'static str = "Lazy";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
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
        Finalizer::OfUnknown
    }
}

/// One that can be passed along, not operated on.
pub struct Opaque;

impl Protocol for Opaque {
    const NAME: &'static str = "Opaque";

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
        Finalizer::OfUnknown
    }
}
