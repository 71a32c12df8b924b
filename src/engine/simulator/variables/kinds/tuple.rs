//! Tuples, and named ones.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{builtin, class, Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

/// `tuple`; with a class: a named tuple.
pub struct Tuple<'a>(pub &'a [VarId], pub Option<&'a Obj>);

impl Protocol for Tuple<'_> {
    const NAME: &'static str = "Tuple";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match self.1 {
            Some(named) => class(t, named),
            None => builtin(t, "tuple"),
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Items(self.0.to_vec())
    }
}
