//! What every kind of variables answers.
//!
//! One file a kind in `kinds/`: what the kind holds, and its answers. An answer that [`Protocol`]
//! requires cannot be forgotten. The others are breaks where a kind says nothing.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::Arg;
use crate::methods::row::{self, MethodRow};
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId, BreakKind};
use crate::{
    Kwargs, Step, Tracer, arguments, attributes, fold, given_iterators, iterate, namespaces,
    operators,
};

use super::answers::{
    attribute, described, no_assignment, no_call, no_iter, no_len, no_reversed, no_truth,
    not_contained,
};
use super::{Exports, Finalizer, Form, Key, Kind, Precedence, Rebuild, Snapshot, VarId, Variable};

pub use super::ask::*;

/// What a kind of variables answers.
pub trait Protocol {
    /// What messages call it.
    const NAME: &'static str;

    /// The variables that it holds.
    fn children(&self) -> Vec<VarId>;

    /// What `type()` of it answers, where that is known. `var` is the variable.
    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>>;

    /// Whether what it holds or names may be another thing later.
    fn may_change(&self) -> bool;

    /// What changes to one that exists are replayed from.
    fn snapshot(&self) -> Snapshot;

    /// Pushes it, made anew, as the value of `id`; whether it was kept already.
    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break>;

    /// What may run where its last reference goes away.
    fn finalizer(&self) -> Finalizer;

    /// `bool(value)`
    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        no_truth(t, id)
    }

    /// `len(value)`
    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        no_len(t, id)
    }

    /// `item in value`
    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        not_contained(t, id, item)
    }

    /// `iter(value)`
    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        no_iter(t, id)
    }

    /// All items of an iterable.
    fn collect(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Vec<VarId>> {
        iterate::collect_steps(t, id)
    }

    /// `value[key]`
    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        if let Some(value) = namespaces::get_item(t, id, key)? {
            return Ok(value);
        }
        let what = described(t, id);
        t.stop(BreakId::Subscript, format!("subscription of {what}"))
    }

    /// `value[key] = item`
    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, _: VarId, _: VarId) -> Step<()> {
        let what = described(t, id);
        t.stop(
            BreakId::ItemAssignment,
            format!("item assignment to {what}"),
        )
    }

    /// `del value[key]`
    fn del_item(&self, t: &mut Tracer<'_>, _: VarId, _: VarId) -> Step<()> {
        t.stop(BreakId::ItemAssignment, "deletion of an item")
    }

    /// The key that it is in dicts and sets. Where its hash or equality is user code it stops.
    fn hash_key(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Key> {
        t.stop(BreakId::Key, "a key that is not a constant")
    }

    /// `next(value)`; `None` at the end.
    fn next(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Option<VarId>> {
        given_iterators::refuse(t)
    }

    /// Whether all its attributes are known, so that the program raises where one is missing.
    const RAISES_ATTRIBUTE_ERROR: bool = false;

    /// `value.name`; `None` when there is no such attribute.
    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attribute(t, id, name)
    }

    /// `value.name = item`
    fn set_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str, _: VarId) -> Step<()> {
        no_assignment(t, name)
    }

    /// `del value.name`
    fn del_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str) -> Step<()> {
        t.stop(BreakId::Assignment, format!("deletion of attribute {name}"))
    }

    /// `value(*args, **kwargs)`. `tail`: see `Tracer::tail`.
    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        _: &[VarId],
        _: &Kwargs,
        _tail: bool,
    ) -> Step<VarId> {
        no_call(t, id)
    }

    /// The tables of its methods.
    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        &[]
    }

    /// Whether it has a simulated method of this name.
    fn has_method(&self, _: &mut Tracer<'_>, _: VarId, name: &str) -> Step<bool> {
        Ok(row::find(self.method_rows(), name).is_some())
    }

    /// `value.name(*args, **kwargs)`, where that is no operation and in no row.
    fn method(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        name: &str,
        _: &[VarId],
        _: &Kwargs,
    ) -> Step<VarId> {
        t.stop(BreakId::UnsupportedCall, format!("method {name}"))
    }

    /// Whether this is an iterator: the interpreter checks what an `__iter__` answers with.
    fn is_iterator(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(false)
    }

    /// Whether it holds what it held when an iterator was made from it, with these keys where it is
    /// a set. What changes a set from outside breaks the graph.
    fn is_unchanged(&self, _: &mut Tracer<'_>, _: VarId, _: &[Key]) -> bool {
        true
    }

    /// What an iterator over it goes over once it has come to its end, and has let go of it.
    /// `None`: of that, which never changes.
    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(None)
    }

    /// `callable(value)`
    fn is_callable(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        // Context managers among them may be decorators, too.
        match t.type_of(id) {
            Some(class) => Ok(attributes::lookup(&class, "__call__").is_some()),
            None => t.unsupported("callable() of this value"),
        }
    }

    /// `+value`, `-value`, `~value`
    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        operators::unary_of_number(t, op, id)
    }

    /// Whether it answers before the other operand of an operator or a comparison.
    const PRECEDENCE: Precedence = Precedence::Others;

    /// `a op b`, or `a op= b`, of which it is one; `None` where it has no answer.
    fn binary(
        &self,
        _: &mut Tracer<'_>,
        _: BinOp,
        _inplace: bool,
        _: (VarId, VarId),
    ) -> Step<Option<VarId>> {
        Ok(None)
    }

    /// A comparison, of which it is one side; `None` where it has no answer.
    fn compare(&self, _: &mut Tracer<'_>, _: CmpOp, _: (VarId, VarId)) -> Step<Option<VarId>> {
        Ok(None)
    }

    /// `reversed(value)`
    fn reversed(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        no_reversed(t)
    }

    /// What it is to captured control flow, and to what returns it without byte code.
    fn form(&self) -> Form {
        Form::Other
    }

    /// What an exported program has of it.
    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Err(Break::new(
            BreakKind::UnsupportedOperation,
            "the function returns something that is no tensor, number or container of them",
        ))
    }

    /// An object that is equal to it, where that can be made now.
    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        fold::union(t, id)
    }

    /// The argument of a statement of the graph that it is.
    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        arguments::refuse(t, id)
    }
}
