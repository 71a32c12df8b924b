//! Constants, and scalars of NumPy.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{of_value, Finalizer, Protocol, Snapshot};
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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
