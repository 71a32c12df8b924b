//! Lists.

mod rows;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::containers::pairs;
use crate::graph::Arg;
use crate::methods::row::MethodRow;
use crate::reason::Break;
use crate::subscript::Picked;
use crate::{Step, Tracer, arguments, fold, methods, subscript};

use crate::variables::answers::{
    Exports, Finalizer, Form, Precedence, Snapshot, attribute_of_container, class, holds_equal,
    reversed_items,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{IterVar, Kind, VarId, Variable};

pub use rows::RowsVar;

/// `list`
pub struct List<'a>(pub &'a [VarId]);

impl Protocol for List<'_> {
    const NAME: &'static str = "List";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        match &var.class {
            Some(of) => class(t, of),
            None => Some(t.py.get_type::<PyList>()),
        }
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("set_list", Kind::List(self.0.to_vec()))
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        let class = to.tracer().vars.get(id).class.clone();
        if let Some(class) = &class {
            to.code().begin_call(class)?;
        }
        to.values(self.0)?;
        to.code().op("BUILD_LIST", self.0.len() as u32)?;
        if class.is_some() {
            to.code().call(1)?;
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
            Picked::Many(items) => {
                let slice = t.add(Kind::List(items));
                Ok(t.inherit_class(slice, id))
            }
        }
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        if let Kind::Slice([_, _, step]) = t.kind(key).clone() {
            return subscript::set_slice(t, id, self.0, key, step, value);
        }
        // What is not set stays the object that it is, in a list that others have.
        let changed = match t.source(id) {
            None => subscript::set_chosen(t, self.0, key, value)?,
            Some(_) => None,
        };
        if let Some(changed) = changed {
            for item in self.0 {
                t.release(id, *item)?;
            }
            t.vars.mutate(id, |var| var.kind = Kind::List(changed));
            return Ok(());
        }
        let index = subscript::position(t, self.0.len(), key)?;
        t.release(id, self.0[index])?;
        t.vars.mutate(id, |var| {
            if let Kind::List(items) = &mut var.kind {
                items[index] = value;
            }
        });
        Ok(())
    }

    fn del_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<()> {
        let gone = if let Kind::Slice(_) = t.kind(key) {
            subscript::slice_indices(t, key, self.0.len())?
        } else {
            vec![subscript::position(t, self.0.len(), key)?]
        };
        for at in &gone {
            t.release(id, self.0[*at])?;
        }
        let kept = self
            .0
            .iter()
            .enumerate()
            .filter(|(at, _)| !gone.contains(at))
            .map(|(_, item)| *item)
            .collect();
        t.vars.mutate(id, |var| var.kind = Kind::List(kept));
        Ok(())
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attribute_of_container(t, id, name)
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        &[methods::LIST]
    }

    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(Some(Kind::List(Vec::new())))
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        let items = PyList::new(t.py, fold::to_objects(t, self.0)?).ok()?;
        match t.vars.get(id).class.clone() {
            Some(class) => class.bind(t.py).call1((items,)).ok(),
            None => Some(items.into_any()),
        }
    }

    fn argument(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Arg> {
        Ok(Arg::List(arguments::to_args(t, self.0)?))
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
        Form::List(self.0.to_vec())
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Items(self.0.to_vec()))
    }
}

/// What was appended to a list that nothing has looked into.
pub struct Appended<'a>(pub &'a [VarId]);

impl Protocol for Appended<'_> {
    const NAME: &'static str = "Appended";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("extend_list", Kind::List(self.0.to_vec()))
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
