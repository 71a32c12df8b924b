//! Classes.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::graph::Arg;
use crate::reason::Break;
use crate::simulator::{
    Kwargs, Step, Tracer, arguments, attributes, call, classes, fold, keys, objects,
};

use crate::simulator::variables::answers::{Finalizer, Snapshot, of_value};
use crate::simulator::variables::protocol::Protocol;
use crate::simulator::variables::rebuild::{Rebuild, not_made};
use crate::simulator::variables::{Key, VarId, Variable};

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

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        classes::truth(t, id)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::of_class(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_class(t, id, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        match call::call_known(t, id, args, kwargs)? {
            Some(result) => Ok(result),
            None => objects::instantiate(t, id, args, kwargs),
        }
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        classes::guard_meta_of(t, id);
        t.value(id).filter(fold::has_plain_metaclass)
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        arguments::of_value(t, id)
    }
}
