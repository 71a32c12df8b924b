//! `functools.partial`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::reason::Break;
use crate::{Kwargs, Step, Tracer, call};

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, call_with_names};
use crate::variables::{VarId, Variable};

/// `functools.partial`
pub struct Partial<'a> {
    /// The callable.
    pub function: VarId,
    /// Positional arguments.
    pub args: &'a [VarId],
    /// Keyword arguments.
    pub kwargs: &'a [(Arc<str>, VarId)],
}

impl Protocol for Partial<'_> {
    const NAME: &'static str = "Partial";

    fn children(&self) -> Vec<VarId> {
        let named = self.kwargs.iter().map(|(_, value)| *value);
        let given = self.args.iter().copied().chain(named);
        [self.function].into_iter().chain(given).collect()
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
        call_with_names(to, "make_partial", self.args, self.kwargs, |to| {
            to.value(self.function)
        })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        t.tail = tail;
        let parts = (self.function, self.args.to_vec(), self.kwargs.to_vec());
        call::call_partial(t, parts, args, kwargs)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }
}
