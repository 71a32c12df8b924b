//! Callables of C or of Paddle, and modules.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::graph::Arg;
use crate::reason::{Break, BreakKind};
use crate::{Kwargs, Step, Tracer, arguments, attributes, call, keys, looks_at_frames};

use crate::variables::answers::{Finalizer, Snapshot, attribute, described, of_value};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Key, VarId, Variable};

/// A callable of C or of Paddle, guarded by identity.
pub struct Callable;

impl Protocol for Callable {
    const NAME: &'static str = "Callable";

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

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::identity(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if name == "__name__" || name == "__doc__" || name == "__qualname__" {
            let Some(value) = t.value(id) else {
                return Ok(None);
            };
            // Others of C code cannot be named anew.
            return match value.getattr_opt("__dict__")? {
                Some(_) => t.unsupported(format!("{name} of what can be named anew")),
                None => Ok(Some(t.constant(&value.getattr(name)?))),
            };
        }
        attribute(t, id, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        if let Some(result) = call::call_known(t, id, args, kwargs)? {
            return Ok(result);
        }
        let what = described(t, id);
        let value = t.value(id);
        if value.is_some_and(|value| looks_at_frames(&value, args.is_empty())) {
            let message = format!("{what}() looks at the frame that calls it");
            return t.stop(BreakKind::Construct, message);
        }
        t.stop(BreakKind::UnsupportedCall, format!("call of {what}"))
    }

    fn is_callable(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        Ok(t.value(id).is_some_and(|value| value.is_callable()))
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        arguments::of_value(t, id)
    }
}

/// A module.
pub struct Module;

impl Protocol for Module {
    const NAME: &'static str = "Module";

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

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::identity(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_module(t, id, name)
    }

    fn is_callable(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        Ok(t.value(id).is_some_and(|value| value.is_callable()))
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        arguments::of_value(t, id)
    }

    fn set_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str, value: VarId) -> Step<()> {
        attributes::set_on_module(t, id, name, value)
    }
}
