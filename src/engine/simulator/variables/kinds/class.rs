//! Classes.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{of_value, Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

/// A class.
pub struct Class;

impl Protocol for Class {
    const NAME: &'static str = "Class";

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
