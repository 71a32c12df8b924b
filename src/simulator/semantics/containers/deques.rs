//! `collections.deque`: an object that holds a list, which its methods change at both ends.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::methods::names::{APPEND, CLEAR, COPY, EXTEND, REVERSE};
use crate::methods::row::{Inherited, MANY, MethodCall, MethodRow, find};
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::variables::{IterVar, Kind, ObjectVar, VarId};

use crate::bytecode::CmpOp;
use crate::{Kwargs, Step, Tracer};
use crate::{comparisons, iterate, methods, subscript};

/// A method that does what that of lists does.
macro_rules! as_list {
    ($name:expr) => {
        MethodRow::new($name, (0, MANY), |t, call| on_list(t, call, $name))
    };
}

/// A method that does so with an item: a deque has no slices.
macro_rules! item {
    ($name:expr) => {
        MethodRow::new($name, (0, MANY), |t, call| {
            check_place(t, call)?;
            on_list(t, call, $name)
        })
    };
}

/// Methods of deques. What no function says is done as lists do it.
const DEQUE: &[MethodRow] = &[
    MethodRow::new(APPEND, (1, 1), |t, call| add(t, call, call.args[0], true)).writes(),
    MethodRow::new("appendleft", (1, 1), |t, call| {
        add(t, call, call.args[0], false)
    })
    .writes(),
    MethodRow::new(EXTEND, (1, 1), |t, call| extend(t, call, true)).writes(),
    MethodRow::new("extendleft", (1, 1), |t, call| extend(t, call, false)).writes(),
    MethodRow::new("pop", (0, 0), |t, call| pop(t, call, true)).writes(),
    MethodRow::new("popleft", (0, 0), |t, call| pop(t, call, false)).writes(),
    MethodRow::new("insert", (0, MANY), insert).writes(),
    MethodRow::new("rotate", (0, 1), rotate).writes(),
    as_list!(CLEAR).writes(),
    as_list!("remove").writes(),
    as_list!(REVERSE).writes(),
    item!("__setitem__").writes(),
    item!("__getitem__"),
    MethodRow::new("__delitem__", (1, 1), delete_item).writes(),
    as_list!("__len__"),
    as_list!("__contains__"),
    as_list!("__iter__"),
    as_list!("index"),
    as_list!("count"),
    MethodRow::new(COPY, (0, 0), copy),
    MethodRow::new("__iadd__", (1, 1), |t, call| {
        let contents = contents_of(t, call.receiver)?;
        refuse_iterated(t, contents)?;
        extend(t, call, true)?;
        Ok(call.receiver)
    }),
    MethodRow::new("__add__", (1, 1), sum),
    MethodRow::new("__eq__", (1, 1), |t, call| compare(t, call, CmpOp::Eq)),
    MethodRow::new("__ne__", (1, 1), |t, call| compare(t, call, CmpOp::Ne)),
];

/// Those of them that its iterators do not notice, and those of which they notice each item.
const NOTED_BY_ITEM: [&str; 4] = ["__setitem__", REVERSE, EXTEND, "extendleft"];

/// `collections.deque`.
fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(py.collections()?.getattr("deque")?.cast_into()?)
}

/// Whether a class is this one, and none of its subclasses.
pub(crate) fn is_exact(of: &Bound<'_, PyAny>) -> bool {
    class(of.py()).is_ok_and(|class| of.is(&class))
}

/// Whether this is a method that is simulated.
pub(crate) fn has(name: &str) -> bool {
    find(&[DEQUE], name).is_some()
}

/// `deque(iterable, maxlen)`.
pub(crate) fn new(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let (over, most) = match (args, kwargs) {
        ([], []) => (None, None),
        ([over], []) => (Some(*over), None),
        ([over, most], []) => (Some(*over), Some(*most)),
        ([], [(name, most)]) if &**name == "maxlen" => (None, Some(*most)),
        ([over], [(name, most)]) if &**name == "maxlen" => (Some(*over), Some(*most)),
        _ => return t.stop(BreakId::ContainerMethod, "deque() with these arguments"),
    };
    let most = match most {
        Some(most) if !t.is_none(most) => match t.const_int(most).map(usize::try_from) {
            Some(Ok(most)) => Some(most),
            _ => return t.stop(BreakId::ContainerMethod, "deque() with this maxlen"),
        },
        _ => None,
    };
    let deque = of(t, most)?;
    if let Some(over) = over {
        call(t, deque, EXTEND, &[over], &[])?;
    }
    Ok(deque)
}

/// A new deque without items.
fn of(t: &mut Tracer<'_>, most: Option<usize>) -> Step<VarId> {
    let class = Obj::from(class(t.py)?);
    let contents = t.add(Kind::List(Vec::new()));
    let deque = t.add(Kind::Object(ObjectVar {
        contents: Some(contents),
        most,
        ..ObjectVar::of(class)
    }));
    t.vars.update(contents, |var| var.owner = Some(deque));
    Ok(deque)
}

fn contents_of(t: &Tracer<'_>, deque: VarId) -> Step<VarId> {
    if let Kind::Object(ObjectVar {
        contents: Some(contents),
        ..
    }) = t.vars.kind(deque)
    {
        Ok(*contents)
    } else {
        t.stop(
            BreakId::ContainerMethod,
            "a deque whose items are not known",
        )
    }
}

/// What an exact deque holds; `None` for anything else.
fn contents_of_deque(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    t.realize(id);
    let class = class(t.py)?;
    if !t.type_of(id).is_some_and(|own| own.is(&class)) {
        return Ok(None);
    }
    let len = class.getattr("__len__")?;
    Ok(t.contents(id, &len, "__len__"))
}

/// Whether this is what a deque that exists holds, and iterators notice no change of it.
pub fn keeps_iterators(t: &Tracer<'_>, contents: VarId) -> bool {
    let value = t.vars.get(contents).value.as_ref();
    if !value.is_some_and(|value| is_exact(&value.bind(t.py).get_type())) {
        return false;
    }
    let mut all = (0..t.vars.len() as u32).map(|id| t.vars.kind(VarId(id)));
    all.any(|kind| {
        matches!(kind, Kind::Object(ObjectVar { contents: Some(held), is_shifted: false, .. })
            if *held == contents)
    })
}

/// `deque.name(*args)`.
pub(crate) fn call(
    t: &mut Tracer<'_>,
    deque: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let Some(row) = find(&[DEQUE], name) else {
        return t.stop(BreakId::ContainerMethod, format!("{name}() of a deque"));
    };
    let contents = contents_of(t, deque)?;
    if row.inherited == Inherited::Writes {
        refuse_iterated(t, contents)?;
        let fewest = match name {
            CLEAR => 1,
            "rotate" => 2,
            _ => 0,
        };
        if !NOTED_BY_ITEM.contains(&name) && len(t, contents)? >= fewest {
            note_shift(t, deque);
        }
    }
    len(t, contents)?;
    if !kwargs.is_empty() {
        return t.stop(BreakId::ContainerMethod, "a method of a deque with names");
    }
    let call = MethodCall {
        receiver: deque,
        args,
        kwargs,
    };
    row.run(t, call)
}

/// Its iterators notice what is done.
fn note_shift(t: &mut Tracer<'_>, deque: VarId) {
    t.vars.update(deque, |var| {
        if let Kind::Object(object) = &mut var.kind {
            object.is_shifted = true;
        }
    });
}

fn on_list(t: &mut Tracer<'_>, call: MethodCall<'_>, name: &str) -> Step<VarId> {
    let contents = contents_of(t, call.receiver)?;
    methods::call(t, contents, name, call.args, &[])
}

fn refused<T>(t: &Tracer<'_>, name: &str) -> Step<T> {
    t.stop(
        BreakId::ContainerMethod,
        format!("{name}() of a deque with these arguments"),
    )
}

/// Each item at the right or left end.
fn extend(t: &mut Tracer<'_>, call: MethodCall<'_>, last: bool) -> Step<VarId> {
    let over = call.args[0];
    if over == call.receiver {
        return refused(t, if last { EXTEND } else { "extendleft" });
    }
    iterate::for_each(t, over, |t, item| add(t, call, item, last).map(drop))?;
    Ok(t.none())
}

fn pop(t: &mut Tracer<'_>, call: MethodCall<'_>, last: bool) -> Step<VarId> {
    let contents = contents_of(t, call.receiver)?;
    if len(t, contents)? == 0 {
        return refused(t, if last { "pop" } else { "popleft" });
    }
    if last {
        return on_list(t, call, "pop");
    }
    let first = [t.int(0)];
    let args = &first;
    on_list(t, MethodCall { args, ..call }, "pop")
}

fn insert(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    if most(t, call.receiver)?.is_some() {
        return t.stop(
            BreakId::ContainerMethod,
            "insert() into a deque with a maxlen",
        );
    }
    on_list(t, call, "insert")
}

fn sum(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let Some(more) = contents_of_deque(t, call.args[0])? else {
        return t.stop(
            BreakId::ContainerMethod,
            "a deque and another object are added",
        );
    };
    let made = copy(t, call)?;
    self::call(t, made, EXTEND, &[more], &[])?;
    Ok(made)
}

fn compare(t: &mut Tracer<'_>, call: MethodCall<'_>, op: CmpOp) -> Step<VarId> {
    let contents = contents_of(t, call.receiver)?;
    let Some(others) = contents_of_deque(t, call.args[0])? else {
        return t.stop(
            BreakId::ContainerMethod,
            "a deque and another object are compared",
        );
    };
    comparisons::compare(t, op, contents, others)
}

fn copy(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let contents = contents_of(t, call.receiver)?;
    let most = most(t, call.receiver)?;
    let made = of(t, most)?;
    let target = contents_of(t, made)?;
    methods::call(t, target, EXTEND, &[contents], &[])?;
    Ok(made)
}

/// A deque has no slices.
fn check_place(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<()> {
    match call.args.first() {
        Some(key) if t.const_int(*key).is_some() => Ok(()),
        _ => t.stop(
            BreakId::ContainerMethod,
            "an item of a deque at such a place",
        ),
    }
}

fn delete_item(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    check_place(t, call)?;
    let contents = contents_of(t, call.receiver)?;
    subscript::delete(t, contents, call.args[0])?;
    Ok(t.none())
}

fn len(t: &mut Tracer<'_>, contents: VarId) -> Step<usize> {
    if let Kind::List(items) = t.kind(contents) {
        Ok(items.len())
    } else {
        t.stop(
            BreakId::ContainerMethod,
            "a deque that holds something else",
        )
    }
}

/// An item at the right or left end: the one at the other end goes where there are too many.
fn add(t: &mut Tracer<'_>, call: MethodCall<'_>, item: VarId, last: bool) -> Step<VarId> {
    let contents = contents_of(t, call.receiver)?;
    note_shift(t, call.receiver);
    let first = t.int(0);
    match last {
        true => methods::call(t, contents, APPEND, &[item], &[])?,
        false => methods::call(t, contents, "insert", &[first, item], &[])?,
    };
    if most(t, call.receiver)?.is_some_and(|most| most < len(t, contents).unwrap_or(0)) {
        let gone: &[VarId] = if last { &[first] } else { &[] };
        methods::call(t, contents, "pop", gone, &[])?;
    }
    Ok(t.none())
}

/// `maxlen`, guarded where the deque exists.
pub(crate) fn most(t: &mut Tracer<'_>, deque: VarId) -> Step<Option<usize>> {
    if t.source(deque).is_none() {
        let made = if let Kind::Object(made) = t.kind(deque) {
            made.most
        } else {
            None
        };
        return Ok(made);
    }
    let Some(value) = t.value(deque) else {
        return t.stop(
            BreakId::ContainerMethod,
            "a deque whose maxlen is not known",
        );
    };
    let most = value.getattr("maxlen")?.extract()?;
    t.guard(deque, GuardKind::MaxLen(most));
    Ok(most)
}

fn rotate(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let by = match call.args.first() {
        Some(by) => t.const_int(*by),
        None => Some(1),
    };
    let Some(by) = by else {
        return t.stop(
            BreakId::ContainerMethod,
            "rotate() by a number that is not constant",
        );
    };
    let contents = contents_of(t, call.receiver)?;
    t.vars.mutate(contents, |var| {
        if let Kind::List(items) = &mut var.kind {
            if !items.is_empty() {
                let by = by.rem_euclid(items.len() as i64);
                items.rotate_right(by as usize);
            }
        }
    });
    Ok(t.none())
}

/// Its iterators notice every change, also one that is undone.
fn refuse_iterated(t: &Tracer<'_>, contents: VarId) -> Step<()> {
    let iterates = |id: VarId| matches!(t.vars.kind(id), Kind::Iter(IterVar::Sequence { over, .. }) if *over == contents);
    match (0..t.vars.len() as u32).map(VarId).any(iterates) {
        true => t.stop(
            BreakId::ContainerMethod,
            "a change of a deque that is iterated over",
        ),
        false => Ok(()),
    }
}
