//! What only the interpreter's stack holds.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

/// The interpreter's NULL.
pub struct Null;

impl Protocol for Null {
    const NAME: &'static str = "Null";

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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

/// What goes on in a callee that broke the graph.
pub struct Continuation<'a> {
    /// Its resume function.
    pub function: &'a Obj,
    /// The arguments of that.
    pub args: &'a [VarId],
}

impl Protocol for Continuation<'_> {
    const NAME: &'static str = "Continuation";

    fn children(&self) -> Vec<VarId> {
        self.args.to_vec()
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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
