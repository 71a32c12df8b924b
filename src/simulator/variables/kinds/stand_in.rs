//! What stands for an object of C code that a polyfill makes.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::CmpOp;
use crate::call::call;
use crate::reason::{Break, BreakId};
use crate::{Kwargs, Step, Tracer, attributes, comparisons, iterate};

use crate::variables::answers::{Finalizer, Precedence, Snapshot, no_iter, not_an_attribute};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Kind, VarId, Variable};

/// An object of a class of `_graph/polyfills.py`, which is seen as the object of C code that it
/// stands for.
///
/// Iteration, calls, comparisons and attributes without an underscore are those of the class.
/// Everything else breaks the graph, `type()` of it too. It is not rebuilt: where it is needed
/// after all, the interpreter makes what it stands for.
pub struct StandIn(pub VarId);

impl StandIn {
    /// `stand_in(value)` of the polyfills.
    pub(crate) fn make(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
        let ([value], []) = (args, kwargs) else {
            return t.unsupported("stand_in() with these arguments");
        };
        let made = t.add(Kind::StandIn(*value));
        t.only_the_interpreter_makes(*value);
        t.only_the_interpreter_makes(made);
        Ok(made)
    }

    /// `left op right` of two objects that something stands in for; for the right one that is `b`.
    pub(crate) fn compare_objects(
        t: &mut Tracer<'_>,
        op: CmpOp,
        (left, right): (VarId, VarId),
        b: VarId,
    ) -> Step<VarId> {
        let same = match (t.type_of(left), t.type_of(right)) {
            (Some(left), Some(right)) => left.is(&right),
            _ => false,
        };
        if !same {
            return t.stop(BreakId::Comparison, "a comparison of objects of C code");
        }
        let method = attributes::get_special(t, left, op.dunder())?;
        call(t, method, &[b], &[])
    }

    fn has(&self, t: &mut Tracer<'_>, name: &str) -> bool {
        let class = t.type_of(self.0);
        class.is_some_and(|class| attributes::lookup(&class, name).is_some())
    }
}

impl Protocol for StandIn {
    const NAME: &'static str = "StandIn";

    fn children(&self) -> Vec<VarId> {
        vec![self.0]
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

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        match self.has(t, "__next__") {
            true => Ok(id),
            false => no_iter(t, id),
        }
    }

    fn next(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Option<VarId>> {
        iterate::next_of_object(t, self.0)
    }

    fn is_iterator(&self, t: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(self.has(t, "__next__"))
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if !name.starts_with('_') {
            if let Some(found) = attributes::try_get(t, self.0, name)? {
                return Ok(Some(found));
            }
        }
        not_an_attribute(t, id, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        let method = attributes::get_special(t, self.0, "__call__")?;
        call(t, method, args, kwargs)
    }

    fn is_callable(&self, t: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(self.has(t, "__call__"))
    }

    const PRECEDENCE: Precedence = Precedence::Objects;

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        comparisons::stand_in_compare(t, op, a, b).map(Some)
    }
}
