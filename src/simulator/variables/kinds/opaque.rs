//! Real objects that nothing is known of.

use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyType};

use crate::bytecode::CmpOp;
use crate::frame::BUILTINS;
use crate::native;
use crate::obj::module_and_name;
use crate::reason::Break;
use crate::{Kwargs, Step, Tracer, attributes, call, comparisons, iterate, made_arrays, sets};

use crate::variables::answers::{
    Finalizer, Snapshot, no_call, no_iter, no_len, no_truth, not_an_attribute, of_class, of_value,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Kind, SetVar, VarId, Variable};

/// One that nobody looked at.
pub struct Lazy;

impl Protocol for Lazy {
    const NAME: &'static str = "Lazy";

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
        Finalizer::OfUnknown
    }
}

/// One that can be passed along, not operated on.
pub struct Opaque;

impl Protocol for Opaque {
    const NAME: &'static str = "Opaque";

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
        Finalizer::OfUnknown
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        // A traceback that nobody has made yet.
        if t.raised_at(id).is_some() || is_always_true(t, id) {
            return Ok(true);
        }
        if let Some(filled) = sets::truth(t, id)? {
            return Ok(filled);
        }
        no_truth(t, id)
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        if let Some(len) = sets::len(t, id)? {
            return Ok(len as i64);
        }
        no_len(t, id)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        if is_native_iterator(t, id) {
            t.guard_class(id);
            return Ok(id);
        }
        if let Some(items) = sets::elements(t, id)? {
            return Ok(iterate::over_fixed(t, id, items));
        }
        no_iter(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if let Some(found) = of_class(t, id, name)? {
            return Ok(Some(found));
        }
        if attributes::has_native_method(t, id, name) {
            // Its call breaks the graph, once.
            return Ok(Some(attributes::bound_builtin(t, id, name)));
        }
        not_an_attribute(t, id, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        if call::is_translated(t, id) {
            return call::call_translated(t, id, args, kwargs, tail);
        }
        no_call(t, id)
    }

    fn is_iterator(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        t.guard_class(id);
        let value = t.value(id);
        Ok(value.is_some_and(|value| value.cast::<PyIterator>().is_ok()))
    }

    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(Some(Kind::Set(SetVar::default())))
    }

    fn is_callable(&self, t: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        t.unsupported("callable() of an opaque object")
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        // The dtype of an array is one.
        made_arrays::operator(t, comparisons::name(op), &[a, b])
    }
}

/// Whether its class, one of C code, which is guarded, says nothing about the truth of its
/// instances.
fn is_always_true(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.type_of(value).is_some_and(|class| {
        let own = |name: &str| attributes::lookup(&class, name).is_some();
        !own("__bool__") && !own("__len__")
    })
}

/// Iterators of the interpreter: `iter()` of one is the iterator itself.
const ITERATORS: &[&str] = &[
    "generator",
    "list_iterator",
    "list_reverseiterator",
    "tuple_iterator",
    "range_iterator",
    "dict_keyiterator",
    "dict_valueiterator",
    "dict_itemiterator",
    "set_iterator",
    "str_ascii_iterator",
    "str_iterator",
    "enumerate",
    "zip",
    "map",
    "filter",
    "reversed",
];

fn is_native_iterator(t: &Tracer<'_>, value: VarId) -> bool {
    t.value(value).is_some_and(|value| {
        if native::is_known_iterator(&value) {
            return true;
        }
        let (module, name) = module_and_name(value.get_type().as_any());
        module == BUILTINS && ITERATORS.contains(&&*name)
    })
}
