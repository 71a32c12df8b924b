//! Classes.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::graph::Arg;
use crate::reason::{Break, BreakId, BreakKind};
use crate::{
    Kwargs, Step, Tracer, arguments, attributes, call, classes, fold, iterate, keys, objects,
};

use crate::variables::answers::{
    Finalizer, Snapshot, described, no_iter, no_len, no_reversed, not_contained, of_value,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Key, VarId, Variable, protocol};

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

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        let Some(method) = attributes::method_of_meta(t, id, "__len__")? else {
            return no_len(t, id);
        };
        let result = call::call(t, method, &[], &[])?;
        match t.const_int(result) {
            Some(len) if len >= 0 => Ok(len),
            _ => t.stop(BreakId::Length, "__len__ that is not a length"),
        }
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        let Some(method) = attributes::method_of_meta(t, id, "__contains__")? else {
            return not_contained(t, id, item);
        };
        let result = call::call(t, method, &[item], &[])?;
        protocol::truth(t, result)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let Some(method) = attributes::method_of_meta(t, id, "__iter__")? else {
            return no_iter(t, id);
        };
        let iterator = call::call(t, method, &[], &[])?;
        match iterate::is_iterator(t, iterator)? {
            true => Ok(iterator),
            false => t.stop(
                BreakKind::RaisesException,
                "__iter__ answers with something that is no iterator",
            ),
        }
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        match attributes::method_of_meta(t, id, "__reversed__")? {
            Some(method) => call::call(t, method, &[], &[]),
            None => no_reversed(t),
        }
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        if let Some(method) = attributes::method_of_meta(t, id, "__getitem__")? {
            return call::call(t, method, &[key], &[]);
        }
        let what = described(t, id);
        t.stop(BreakId::Subscript, format!("subscription of {what}"))
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
