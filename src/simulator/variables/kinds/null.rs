//! What only the interpreter's stack holds.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::Tracer;
use crate::obj::Obj;
use crate::reason::Break;

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{VarId, Variable};

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

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
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

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        let hold = Obj::from(self.function.bind(to.tracer().py).getattr("hold")?);
        to.code().begin_call(&hold)?;
        to.values(self.args)?;
        to.code().op("BUILD_TUPLE", self.args.len() as u32)?;
        to.code().call(1)?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
