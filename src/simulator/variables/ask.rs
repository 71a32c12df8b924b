//! Operations on a value of any kind: they ask the kind that it is.
//!
//! [`ask`] alone names all kinds, so that a new one does not compile before it has answers.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::Arg;
use crate::methods::row::MethodRow;
use crate::operators::UnaryOp;
use crate::reason::Break;
use crate::{Kwargs, Step, Tracer};

use super::{
    Exports, Finalizer, Form, Key, Kind, Precedence, Protocol, Rebuild, Snapshot, VarId, Variable,
};

/// Asks what is known of a kind. Nothing else names all kinds.
macro_rules! ask {
    ($kind:expr, $known:ident => $answer:expr) => {{
        use $crate::variables::kinds::*;
        match $kind {
            Kind::Null => ask!(@ Null, $known, $answer),
            Kind::Lazy => ask!(@ Lazy, $known, $answer),
            Kind::Const => ask!(@ Const, $known, $answer),
            Kind::Scalar => ask!(@ Scalar, $known, $answer),
            Kind::Array($known) => $answer,
            Kind::GraphArray(symbol) => ask!(@ GraphArray(*symbol), $known, $answer),
            Kind::Tensor($known) => $answer,
            Kind::SymNumber(symbol) => ask!(@ SymNumber(*symbol), $known, $answer),
            Kind::Maybe($known) => $answer,
            Kind::Int(number) => ask!(@ Int(*number), $known, $answer),
            Kind::Float(number) => ask!(@ Float(*number), $known, $answer),
            Kind::Text(parts) => ask!(@ Text(parts), $known, $answer),
            Kind::List(items) => ask!(@ List(items), $known, $answer),
            Kind::Appended(items) => ask!(@ Appended(items), $known, $answer),
            Kind::Rows($known) => $answer,
            Kind::Tuple(items, class) => ask!(@ Tuple(items, class.as_ref()), $known, $answer),
            Kind::Dict($known) => $answer,
            Kind::Continuation { function, args } => {
                ask!(@ Continuation { function, args }, $known, $answer)
            }
            Kind::DictView(dict, which) => ask!(@ DictView(*dict, *which), $known, $answer),
            Kind::Set($known) => $answer,
            Kind::Slice(parts) => ask!(@ Slice(*parts), $known, $answer),
            Kind::Range(start, stop, step) => ask!(@ Range(*start, *stop, *step), $known, $answer),
            Kind::NumberRange(start, stop, step) => {
                ask!(@ NumberRange(*start, *stop, *step), $known, $answer)
            }
            Kind::Iter($known) => $answer,
            Kind::Cell($known) => $answer,
            Kind::Function($known) => $answer,
            Kind::Method { receiver, function } => {
                ask!(@ Method { receiver: *receiver, function: *function }, $known, $answer)
            }
            Kind::BoundBuiltin { receiver, name } => {
                ask!(@ BoundBuiltin { receiver: *receiver, name }, $known, $answer)
            }
            Kind::Callable => ask!(@ Callable, $known, $answer),
            Kind::Class => ask!(@ Class, $known, $answer),
            Kind::Module => ask!(@ Module, $known, $answer),
            Kind::Layer(object) => ask!(@ Layer(object), $known, $answer),
            Kind::Layers { class, items } => ask!(@ Layers { class, items }, $known, $answer),
            Kind::Object($known) => $answer,
            Kind::Super { class, receiver } => {
                ask!(@ Super { class, receiver: *receiver }, $known, $answer)
            }
            Kind::Partial { function, args, kwargs } => {
                ask!(@ Partial { function: *function, args, kwargs }, $known, $answer)
            }
            Kind::StandIn(object) => ask!(@ StandIn(*object), $known, $answer),
            Kind::Context($known) => $answer,
            Kind::ContextMethod { context, exit } => {
                ask!(@ ContextMethod { context: *context, exit: *exit }, $known, $answer)
            }
            Kind::Opaque => ask!(@ Opaque, $known, $answer),
        }
    }};
    (@ $it:expr, $known:ident, $answer:expr) => {{
        let $known = &$it;
        $answer
    }};
}

/// Whether all attributes of a kind are known.
fn raises_attribute_error<K: Protocol>(_: &K) -> bool {
    K::RAISES_ATTRIBUTE_ERROR
}

/// Which operand answers first.
fn precedence<K: Protocol>(_: &K) -> Precedence {
    K::PRECEDENCE
}

/// The name of a kind.
fn name<K: Protocol>(_: &K) -> &'static str {
    K::NAME
}

impl Kind {
    /// What messages call it.
    pub fn name(&self) -> &'static str {
        ask!(self, known => name(known))
    }

    /// Whether all its attributes are known, so that the program raises where one is missing.
    pub fn raises_attribute_error(&self) -> bool {
        ask!(self, known => raises_attribute_error(known))
    }

    /// The variables that it holds.
    pub fn children(&self) -> Vec<VarId> {
        ask!(self, known => known.children())
    }

    /// Whether what it holds or names may be another thing later.
    pub fn may_change(&self) -> bool {
        ask!(self, known => known.may_change())
    }

    /// What changes to one that exists are replayed from.
    pub fn snapshot(&self) -> Snapshot {
        ask!(self, known => known.snapshot())
    }

    /// What it is to captured control flow, and to what returns it without byte code.
    pub fn form(&self) -> Form {
        ask!(self, known => known.form())
    }

    /// What may run where its last reference goes away.
    pub fn finalizer(&self) -> Finalizer {
        ask!(self, known => known.finalizer())
    }
}

/// `bool(value)`
pub fn truth(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    ask!(&t.looked_at(value).kind, known => known.truth(t, value))
}

/// `len(value)`
pub fn len(t: &mut Tracer<'_>, value: VarId) -> Step<i64> {
    ask!(&t.looked_at(value).kind, known => known.len(t, value))
}

/// `item in container`
pub fn contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<bool> {
    ask!(&t.looked_at(container).kind, known => known.contains(t, container, item))
}

/// `iter(value)`
pub fn iter(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    ask!(&t.looked_at(value).kind, known => known.iter(t, value))
}

/// All items of an iterable.
pub fn collect(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    ask!(&t.looked_at(value).kind, known => known.collect(t, value))
}

/// `container[key]`
pub fn get_item(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<VarId> {
    ask!(&t.looked_at(container).kind, known => known.get_item(t, container, key))
}

/// `container[key] = value`
pub fn set_item(t: &mut Tracer<'_>, container: VarId, key: VarId, value: VarId) -> Step<()> {
    ask!(&t.looked_at(container).kind, known => known.set_item(t, container, key, value))
}

/// `del container[key]`
pub fn del_item(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<()> {
    ask!(&t.looked_at(container).kind, known => known.del_item(t, container, key))
}

/// The key that a variable is in dicts and sets. Keys whose hash or equality is user code stop.
pub fn hash_key(t: &mut Tracer<'_>, value: VarId) -> Step<Key> {
    ask!(&t.looked_at(value).kind, known => known.hash_key(t, value))
}

/// `next(iterator)`; `None` at the end.
pub fn next(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<VarId>> {
    ask!(&t.looked_at(iterator).kind, known => known.next(t, iterator))
}

/// `value.name`, once what is read is noted; `None` when there is no such attribute.
pub fn get_attr(t: &mut Tracer<'_>, value: VarId, name: &str) -> Step<Option<VarId>> {
    ask!(&t.looked_at(value).kind, known => known.get_attr(t, value, name))
}

/// `value.name = item`
pub fn set_attr(t: &mut Tracer<'_>, value: VarId, name: &str, item: VarId) -> Step<()> {
    ask!(&t.looked_at(value).kind, known => known.set_attr(t, value, name, item))
}

/// `del value.name`
pub fn del_attr(t: &mut Tracer<'_>, value: VarId, name: &str) -> Step<()> {
    ask!(&t.looked_at(value).kind, known => known.del_attr(t, value, name))
}

/// `callee(*args, **kwargs)`. `tail`: see [`Tracer::tail`]; the calls that do nothing with the
/// result hand it on.
pub fn call(
    t: &mut Tracer<'_>,
    callee: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
    tail: bool,
) -> Step<VarId> {
    ask!(&t.looked_at(callee).kind, known => known.call(t, callee, args, kwargs, tail))
}

/// Whether a value has a simulated method of this name.
pub fn has_method(t: &mut Tracer<'_>, receiver: VarId, name: &str) -> Step<bool> {
    ask!(&t.looked_at(receiver).kind, known => known.has_method(t, receiver, name))
}

/// The tables of its methods.
pub fn method_rows(t: &mut Tracer<'_>, receiver: VarId) -> &'static [&'static [MethodRow]] {
    ask!(&t.looked_at(receiver).kind, known => known.method_rows())
}

/// `receiver.name(*args, **kwargs)`, where that is no operation and in no row.
pub fn method(
    t: &mut Tracer<'_>,
    receiver: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    ask!(&t.looked_at(receiver).kind, known => known.method(t, receiver, name, args, kwargs))
}

/// Whether this is an iterator: the interpreter checks what an `__iter__` answers with, and nothing
/// afterwards.
pub fn is_iterator(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    ask!(&t.looked_at(value).kind, known => known.is_iterator(t, value))
}

/// Whether what an iterator was made from holds what it held then.
pub fn is_unchanged(t: &mut Tracer<'_>, over: VarId, keys: &[Key]) -> bool {
    ask!(&t.looked_at(over).kind, known => known.is_unchanged(t, over, keys))
}

/// What an iterator that came to its end goes over.
pub fn emptied(t: &mut Tracer<'_>, over: VarId) -> Step<Option<VarId>> {
    let kind = ask!(&t.looked_at(over).kind, known => known.emptied(t))?;
    Ok(kind.map(|kind| t.add(kind)))
}

/// `callable(value)`
pub fn is_callable(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    ask!(&t.looked_at(value).kind, known => known.is_callable(t, value))
}

/// `+x`, `-x`, `~x`
pub fn unary(t: &mut Tracer<'_>, op: UnaryOp, value: VarId) -> Step<VarId> {
    ask!(&t.looked_at(value).kind, known => known.unary(t, value, op))
}

/// The two operands, the one that answers first in front.
fn in_turn(t: &mut Tracer<'_>, a: VarId, b: VarId) -> [Rc<Variable>; 2] {
    let [left, right] = [t.looked_at(a), t.looked_at(b)];
    let of = |var: &Variable| ask!(&var.kind, known => precedence(known));
    if of(&right) > of(&left) {
        [right, left]
    } else {
        [left, right]
    }
}

/// `a op b`, or `a op= b`; `None` where neither has an answer.
pub fn binary(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    for var in in_turn(t, a, b) {
        let answer = ask!(&var.kind, known => known.binary(t, op, inplace, (a, b)))?;
        if answer.is_some() {
            return Ok(answer);
        }
    }
    Ok(None)
}

/// `a < b` and its like; `None` where neither has an answer.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    for var in in_turn(t, a, b) {
        let answer = ask!(&var.kind, known => known.compare(t, op, (a, b)))?;
        if answer.is_some() {
            return Ok(answer);
        }
    }
    Ok(None)
}

/// `reversed(value)`
pub fn reversed(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    ask!(&t.looked_at(value).kind, known => known.reversed(t, value))
}

/// What an exported program has of a value that the function returns.
pub fn exports(t: &mut Tracer<'_>, value: VarId) -> Result<Exports, Break> {
    ask!(&t.looked_at(value).kind, known => known.exports(t))
}

/// An object that is equal to a variable, where that can be made now.
pub fn to_object<'py>(t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    ask!(&t.looked_at(id).kind, known => known.to_object(t, id))
}

/// The argument of a statement of the graph that a variable is.
pub fn argument(t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
    ask!(&t.looked_at(id).kind, known => known.argument(t, id))
}

impl Variable {
    /// Pushes it, made anew, as the value of `id`; whether it was kept already.
    pub fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        ask!(&self.kind, known => known.reconstruct(to, id))
    }

    /// What `type()` of it answers, where that is known.
    pub fn python_type<'py>(&self, t: &Tracer<'py>) -> Option<Bound<'py, PyType>> {
        ask!(&self.kind, known => known.python_type(t, self))
    }
}

impl Tracer<'_> {
    /// The variable, looked at: an answer may change what it is asked of.
    pub(crate) fn looked_at(&mut self, id: VarId) -> Rc<Variable> {
        self.kind(id);
        self.vars.get(id).clone()
    }
}
