//! Tuples, and named ones.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::containers::pairs;
use crate::graph::Arg;
use crate::methods::row::MethodRow;
use crate::obj::Obj;
use crate::reason::{Break, BreakId};
use crate::subscript::Picked;
use crate::{Step, Tracer, arguments, attributes, fold, keys, methods, subscript};

use crate::variables::answers::{
    Exports, Finalizer, Form, Precedence, Snapshot, attribute_of_container, class, holds_equal,
    reversed_items,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{IterVar, Key, Kind, VarId, Variable};

/// `tuple`; with a class: a named tuple.
pub struct Tuple<'a>(pub &'a [VarId], pub Option<&'a Obj>);

impl Protocol for Tuple<'_> {
    const NAME: &'static str = "Tuple";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match self.1 {
            Some(named) => class(t, named),
            None => Some(t.py.get_type::<PyTuple>()),
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        match self.1 {
            None => {
                to.values(self.0)?;
                to.code().op("BUILD_TUPLE", self.0.len() as u32)?;
            }
            Some(class) => {
                to.code().begin_call(class)?;
                to.values(self.0)?;
                to.code().call(self.0.len())?;
            }
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Items(self.0.to_vec())
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(!self.0.is_empty())
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        Ok(self.0.len() as i64)
    }

    fn contains(&self, t: &mut Tracer<'_>, _: VarId, item: VarId) -> Step<bool> {
        holds_equal(t, self.0, item)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let state = IterVar::Sequence { over: id, index: 0 };
        Ok(t.add(Kind::Iter(state)))
    }

    fn collect(&self, _: &mut Tracer<'_>, _: VarId) -> Step<Vec<VarId>> {
        Ok(self.0.to_vec())
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        if subscript::is_chosen(t, key) {
            return subscript::get_chosen(t, self.0, key);
        }
        match subscript::picked(t, self.0, key)? {
            Picked::One(item) => Ok(item),
            // All of an exact tuple is that tuple.
            Picked::Many(part) if part == self.0 && self.1.is_none() => Ok(id),
            Picked::Many(items) => Ok(t.add(Kind::Tuple(items, None))),
        }
    }

    fn hash_key(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Key> {
        if self.1.is_some() {
            return t.stop(BreakId::Key, "a key that is not a constant");
        }
        let items = self.0.iter();
        let items = items.map(|item| keys::key_of(t, *item));
        Ok(Key::Tuple(items.collect::<Step<_>>()?))
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if let Some(class) = self.1 {
            return attributes::of_named_tuple(t, id, self.0, class, name);
        }
        attribute_of_container(t, id, name)
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        match self.1.is_some() {
            true => &[methods::TUPLE, methods::NAMED_TUPLE],
            false => &[methods::TUPLE],
        }
    }

    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(Some(Kind::Tuple(Vec::new(), None)))
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        if self.1.is_some() {
            return fold::union(t, id);
        }
        Some(
            PyTuple::new(t.py, fold::to_objects(t, self.0)?)
                .ok()?
                .into_any(),
        )
    }

    fn argument(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Arg> {
        let items = arguments::to_args(t, self.0)?;
        Ok(match self.1 {
            None => Arg::Tuple(items),
            Some(class) => Arg::NamedTuple(class.clone(), items),
        })
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        pairs::sequence_operator(t, op, inplace, a, b)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        pairs::compare_sequences(t, op, a, b)
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        Ok(reversed_items(t, id, self.0))
    }

    fn form(&self) -> Form {
        Form::Tuple(self.0.to_vec(), self.1.cloned())
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Items(self.0.to_vec()))
    }
}
