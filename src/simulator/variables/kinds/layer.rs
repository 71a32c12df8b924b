//! Layers.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::call::call;
use crate::obj::Obj;
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId};
use crate::subscript::Picked;
use crate::{
    Kwargs, Step, Tracer, attributes, comparisons, iterate, keys, layers, operators, subscript,
};

use super::object;
use crate::variables::answers::{Finalizer, Precedence, Snapshot, class};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Key, Kind, ObjectVar, VarId, Variable};

/// A `paddle.nn.Layer` instance.
pub struct Layer<'a>(pub &'a ObjectVar);

impl Protocol for Layer<'_> {
    const NAME: &'static str = "Layer";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        self.0.held()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        class(t, &self.0.class)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Attributes
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        object::truth(t, id)
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        object::len(t, id)
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        object::contains(t, id, item)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        object::iter(t, id)
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        object::reversed(t, id, &self.0.class)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        object::get_item(t, id, key)
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        object::call_special(t, id, "__setitem__", &[key, value])
    }

    fn del_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<()> {
        object::call_special(t, id, "__delitem__", &[key])
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::of_instance(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_instance(t, id, self.0, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        layers::call(t, id, args, kwargs, tail)
    }

    fn is_iterator(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        iterate::has_next(t, id, self.0)
    }

    fn is_unchanged(&self, t: &mut Tracer<'_>, id: VarId, _: &[Key]) -> bool {
        !layers::is_given_others(t, id)
    }

    fn emptied(&self, t: &Tracer<'_>) -> Step<Option<Kind>> {
        iterate::no_parts(t).map(Some)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        let method = attributes::get_special(t, id, operators::unary_names(op).0)?;
        call(t, method, &[], &[])
    }

    const PRECEDENCE: Precedence = Precedence::Objects;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        operators::object_binary(t, op, inplace, a, b).map(Some)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        comparisons::object_compare(t, op, a, b).map(Some)
    }

    fn set_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str, value: VarId) -> Step<()> {
        attributes::set_on_instance(t, id, self.0, name, value)
    }
}

/// A list of layers that the frame made.
pub struct Layers<'a> {
    /// Its class.
    pub class: &'a Obj,
    /// What is in it.
    pub items: &'a [VarId],
}

impl Protocol for Layers<'_> {
    const NAME: &'static str = "Layers";

    fn children(&self) -> Vec<VarId> {
        self.items.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        class(t, self.class)
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
        Ok(!self.items.is_empty())
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        Ok(self.items.len() as i64)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        Ok(iterate::over_fixed(t, id, self.items.to_vec()))
    }

    fn get_item(&self, t: &mut Tracer<'_>, _: VarId, key: VarId) -> Step<VarId> {
        let index = t.const_value(key);
        if index.is_some_and(|index| index.is_instance_of::<PyBool>()) {
            // The layers of a list are under the texts of their numbers.
            return t.stop(BreakId::Subscript, "an index that is a bool");
        }
        match subscript::picked(t, self.items, key)? {
            Picked::One(item) => Ok(item),
            Picked::Many(items) => Ok(layers::made(t, self.class.clone(), items)),
        }
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        layers::call_made(t, self.class, self.items, args, kwargs)
    }

    fn emptied(&self, t: &Tracer<'_>) -> Step<Option<Kind>> {
        iterate::no_parts(t).map(Some)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }
}
