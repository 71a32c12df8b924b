//! What answers of kinds have in common.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::call::describe;
use crate::frame::Modules;
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::{Step, Tracer, attributes, comparisons, namespaces, sets};

use super::{DictVar, IterVar, Kind, VarId, Variable};

/// What the changes that the program made to something that exists are replayed from.
pub enum Snapshot {
    /// The helper that sets its contents, and a new variable of them.
    Contents(&'static str, Kind),
    /// The helper that takes so many items off its end and sets its contents then.
    Popped(&'static str, usize, Kind),
    /// The helper that sets what it holds, and that.
    Value(&'static str, VarId),
    /// So many items are taken off an iterator.
    Taken(usize),
    /// Nothing but the attributes that were written.
    Attributes,
    /// They cannot be replayed.
    Never,
}

/// What may run code of the user's where the last reference to a value goes away.
pub enum Finalizer {
    /// Nothing.
    Nothing,
    /// The ends of what it holds, where the frame made it.
    Items(Vec<VarId>),
    /// The `__del__` of its class, of which nothing is guarded yet.
    OfUnknown,
    /// The `__del__` of its class, and the end of what a new instance holds.
    OfInstance(Option<VarId>),
}

/// Which operand of two answers first: the later one here, of two alike the left one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// Numbers, and what is folded.
    Others,
    /// Instances of classes of the user's.
    Objects,
    /// Lists, tuples, dicts and texts.
    Containers,
    /// Arrays of NumPy.
    Arrays,
    /// Tensors.
    Tensors,
}

/// What a value is to captured control flow, and to what returns it without byte code.
pub enum Form {
    /// A tensor; its class, where it is no plain one.
    Tensor(SymbolId, Option<Obj>),
    /// A Python number that the graph computes.
    Number(SymbolId),
    /// A constant.
    Const,
    /// `list`
    List(Vec<VarId>),
    /// `tuple`, with the class of a named one.
    Tuple(Vec<VarId>, Option<Obj>),
    /// `dict` or a kind of it.
    Dict(DictVar),
    /// What can neither be chosen nor be made without byte code.
    Other,
}

impl Form {
    /// The tensor or the number of the graph, and whether it is a number.
    pub fn symbol(&self) -> Option<(SymbolId, bool)> {
        if let Self::Tensor(symbol, _) = self {
            Some((*symbol, false))
        } else if let Self::Number(symbol) = self {
            Some((*symbol, true))
        } else {
            None
        }
    }
}

/// What an exported program has of a value that the function returns.
pub enum Exports {
    /// An output.
    Output(SymbolId),
    /// Nothing: the value is the same in each call.
    Nothing,
    /// The outputs of what it holds.
    Items(Vec<VarId>),
}

/// A readable name, for messages.
pub(super) fn described(t: &mut Tracer<'_>, id: VarId) -> String {
    let var = t.vars.get(id).clone();
    describe(t, id, &var.kind)
}

/// Stops where nothing is known of the truth of a value.
pub(super) fn no_truth<T>(t: &mut Tracer<'_>, id: VarId) -> Step<T> {
    let what = described(t, id);
    t.stop(BreakId::Truth, format!("the truth of {what}"))
}

/// The same of its length.
pub(super) fn no_len<T>(t: &mut Tracer<'_>, id: VarId) -> Step<T> {
    let what = described(t, id);
    t.stop(BreakId::Length, format!("len() of {what}"))
}

/// The same of its items.
pub(super) fn no_iter<T>(t: &mut Tracer<'_>, id: VarId) -> Step<T> {
    let what = described(t, id);
    t.stop(BreakId::Iteration, format!("iteration over {what}"))
}

/// Stops at a call of what is not known to be callable.
pub(super) fn no_call<T>(t: &mut Tracer<'_>, id: VarId) -> Step<T> {
    let what = described(t, id);
    t.stop(BreakKind::UnsupportedCall, format!("call of {what}"))
}

/// Stops at `reversed()` of what has no last item that is known.
pub(super) fn no_reversed<T>(t: &Tracer<'_>) -> Step<T> {
    t.stop(
        BreakKind::UnsupportedCall,
        "reversed() with these arguments",
    )
}

/// Stops where an attribute is set that is not simulated.
pub(super) fn no_assignment<T>(t: &Tracer<'_>, name: &str) -> Step<T> {
    t.stop(
        BreakId::Assignment,
        format!("assignment to attribute {name} of this kind of object"),
    )
}

/// `reversed(items)` of a list or a tuple.
pub(super) fn reversed_items(t: &mut Tracer<'_>, over: VarId, items: &[VarId]) -> VarId {
    let left = items.len();
    t.add(Kind::Iter(IterVar::Reversed { over, left }))
}

/// `item in items`, by identity and then equality.
pub(super) fn holds_equal(t: &mut Tracer<'_>, items: &[VarId], item: VarId) -> Step<bool> {
    for candidate in items {
        if comparisons::equal_values(t, *candidate, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the class of a value says of an attribute; `None` where it says nothing.
pub(super) fn of_class(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
    match attributes::of_builtin(t, id, name)? {
        Some(found) => Ok(Some(found)),
        None => attributes::own_class_of(t, id, name),
    }
}

/// `value.name` of what has the attributes of its class alone.
pub(super) fn attribute(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
    match of_class(t, id, name)? {
        Some(found) => Ok(Some(found)),
        None => not_an_attribute(t, id, name),
    }
}

/// The same of a container, which is known to have no others.
pub(super) fn attribute_of_container(
    t: &mut Tracer<'_>,
    id: VarId,
    name: &str,
) -> Step<Option<VarId>> {
    if let Some(found) = attributes::of_builtin(t, id, name)? {
        return Ok(Some(found));
    }
    if attributes::has_none(t, id, name) {
        return Ok(None);
    }
    match attributes::own_class_of(t, id, name)? {
        Some(class) => Ok(Some(class)),
        None => not_an_attribute(t, id, name),
    }
}

/// `item in value` of what does not say itself what is in it.
pub(super) fn not_contained(t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
    if let Some(found) = namespaces::try_get(t, id, item)? {
        return Ok(found.is_some());
    }
    if let Some(answer) = sets::contains(t, id, item)? {
        return Ok(answer);
    }
    let what = described(t, id);
    t.unsupported(format!("in on {what}"))
}

/// Stops at an attribute that is not simulated.
pub(super) fn not_an_attribute<T>(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<T> {
    let what = described(t, id);
    t.stop(
        BreakKind::UnsupportedAttribute,
        format!("attribute {name} of {what}"),
    )
}

/// A class of `builtins`.
pub(super) fn builtin<'py>(t: &Tracer<'py>, name: &str) -> Option<Bound<'py, PyType>> {
    t.py.builtin(name).ok()?.cast_into::<PyType>().ok()
}

/// A class that is held.
pub(super) fn class<'py>(t: &Tracer<'py>, class: &Obj) -> Option<Bound<'py, PyType>> {
    class.bind(t.py).cast::<PyType>().ok().cloned()
}

/// The class of the real object.
pub(super) fn of_value<'py>(t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
    var.value.as_ref().map(|value| value.bind(t.py).get_type())
}
