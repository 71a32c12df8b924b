//! Exception groups, as `except*` takes them apart: `exception_group_match` in CPython's
//! `Python/ceval.c`, `_PyExc_PrepReraiseStar` and `exceptiongroup_split_recursive` in its
//! `Objects/exceptions.c`.
//!
//! What a group keeps beside its message and its exceptions (traceback, context, cause) is not
//! looked at here: exceptions that were raised are not rebuilt, and groups made from them count as
//! raised.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::FxHashSet;

use crate::native;
use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::tracker::Tracker;
use crate::variables::{Kind, VarId};

use crate::{Step, Tracer};
use crate::{attributes, exceptions};

/// An exception group that the frame made.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The group.
    pub id: VarId,
    /// The tuple of what is in it.
    pub members: VarId,
    /// The instruction of the outermost frame that made it.
    pub made_at: usize,
    /// Whether `except*` made it around something else: some versions give it no traceback.
    pub by_interpreter: bool,
}

fn by_interpreter(t: &mut Tracer<'_>, id: VarId) {
    if let Some(group) = t.exceptions.groups.iter_mut().find(|known| known.id == id) {
        group.by_interpreter = true;
    }
}

fn builtin<'py>(t: &Tracer<'py>, name: &str) -> Step<Bound<'py, PyType>> {
    let class = t.builtin(name)?;
    Ok(class.cast_into::<PyType>().map_err(PyErr::from)?)
}

fn has_base(class: &Bound<'_, PyType>, base: &Bound<'_, PyType>) -> bool {
    native::mro(class).iter().any(|known| known.is(base))
}

/// Whether it is a class of exception groups.
pub fn is_group_class(t: &Tracer<'_>, class: &Bound<'_, PyType>) -> Step<bool> {
    Ok(has_base(class, &builtin(t, "BaseExceptionGroup")?))
}

/// Whether a variable is an exception group.
pub fn is_group(t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
    match t.type_of(id) {
        Some(class) => is_group_class(t, &class),
        None => Ok(false),
    }
}

/// `class(message, exceptions)`. What would raise breaks the graph.
pub fn new(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, args: &[VarId]) -> Step<VarId> {
    let [message, sequence] = args else {
        return t.stop(
            BreakKind::RaisesException,
            "a group without message and exceptions",
        );
    };
    if t.const_str(*message).is_none() {
        return t.stop(
            BreakId::ExceptionGroup,
            "an exception group whose message is not known",
        );
    }
    let Some(items) = t.kind(*sequence).plain_items().map(<[VarId]>::to_vec) else {
        return t.stop(
            BreakId::ExceptionGroup,
            "an exception group of this sequence",
        );
    };
    let kept = matches!(t.kind(*sequence), Kind::Tuple(..)).then_some(*sequence);
    if items.is_empty() {
        return t.stop(BreakKind::RaisesException, "an empty exception group");
    }
    let (exception, base_exception) = (builtin(t, "Exception")?, builtin(t, "BaseException")?);
    let mut usual = true;
    for item in &items {
        match t.type_of(*item) {
            Some(of) if has_base(&of, &base_exception) => usual &= has_base(&of, &exception),
            _ => return t.stop(BreakKind::RaisesException, "no exception in a group"),
        }
    }
    let mut class = class.clone();
    if usual && class.is(&builtin(t, "BaseExceptionGroup")?) {
        class = builtin(t, "ExceptionGroup")?;
    } else if !usual && has_base(&class, &exception) {
        return t.stop(
            BreakKind::RaisesException,
            "a BaseException in an ExceptionGroup",
        );
    }
    let group = exceptions::new(t, class.as_any(), args.to_vec());
    let members = match kept {
        Some(tuple) => tuple,
        None => t.add(Kind::Tuple(items, None)),
    };
    t.exceptions.groups.push(Group {
        id: group,
        members,
        made_at: t.frames.outermost,
        by_interpreter: false,
    });
    Ok(group)
}

fn known_members(t: &Tracer<'_>, group: VarId) -> Option<VarId> {
    let found = t.exceptions.groups.iter().find(|known| known.id == group);
    found.map(|known| known.members)
}

/// The instruction that made a group which cannot be made again from its arguments: the list it got
/// has changed.
pub fn stale(t: &Tracer<'_>, id: VarId) -> Option<usize> {
    let group = t.exceptions.groups.iter().find(|known| known.id == id)?;
    is_changed(t, id, group.members).then_some(group.made_at)
}

fn is_changed(t: &Tracer<'_>, id: VarId, members: VarId) -> bool {
    let (Kind::Object(object), Kind::Tuple(members, _)) = (t.vars.kind(id), t.vars.kind(members))
    else {
        return true;
    };
    let args = if let Some(Kind::Tuple(args, _)) = object.base.map(|args| t.vars.kind(args)) {
        args
    } else {
        return true;
    };
    if let Some(Kind::Tuple(items, _) | Kind::List(items)) =
        args.get(1).map(|sequence| t.vars.kind(*sequence))
    {
        items != members
    } else {
        true
    }
}

/// `exception.name` of an exception that the frame made, where C code keeps it.
pub fn member(t: &mut Tracer<'_>, exception: VarId, name: &str) -> Step<VarId> {
    let (Kind::Object(object), members) = (t.kind(exception).clone(), known_members(t, exception))
    else {
        return t.stop(BreakId::ExceptionGroup, "an exception of another kind");
    };
    let args = if let Some(Kind::Tuple(args, _)) = object.base.map(|args| t.kind(args).clone()) {
        args
    } else {
        Vec::new()
    };
    let class = object.class.bind(t.py);
    let stops = class.is(&builtin(t, "StopIteration")?);
    match (name, members) {
        ("exceptions", Some(members)) => Ok(members),
        ("message", Some(_)) if args.len() == 2 => Ok(args[0]),
        ("value", None) if stops => Ok(match args.first() {
            Some(value) => *value,
            None => t.none(),
        }),
        _ => t.stop(
            BreakId::ExceptionGroup,
            format!("attribute {name} of an exception"),
        ),
    }
}

/// `exception.name` of an exception from outside, of a class of C code: what never changes.
pub fn real_member(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
    if !matches!(name, "exceptions" | "message") || !is_group(t, id)? {
        return Ok(None);
    }
    let (Some(value), Some(source)) = (t.value(id), t.source(id)) else {
        return Ok(None);
    };
    let class = value.get_type();
    let own = attributes::lookup(&builtin(t, "BaseExceptionGroup")?, name);
    match (attributes::lookup(&class, name), own) {
        (Some(found), Some(own)) if found.is(&own) => {
            let value = found.call_method1("__get__", (&value,))?;
            let source = Arc::new(Tracker::Member(source, Arc::from(name)));
            Ok(Some(t.wrap(&value, source)))
        }
        _ => Ok(None),
    }
}

/// A part of a group that C code reads without asking the class.
fn part(t: &mut Tracer<'_>, group: VarId, name: &str) -> Step<VarId> {
    let own = builtin(t, "BaseExceptionGroup")?;
    let default = attributes::lookup(&own, name);
    let found = t
        .type_of(group)
        .and_then(|class| attributes::lookup(&class, name));
    match (found, default) {
        (Some(found), Some(default)) if found.is(&default) => attributes::get(t, group, name),
        _ => t.stop(
            BreakId::ExceptionGroup,
            format!("an exception group with its own {name}"),
        ),
    }
}

fn exceptions_of(t: &mut Tracer<'_>, group: VarId) -> Step<Vec<VarId>> {
    let members = part(t, group, "exceptions")?;
    if let Kind::Tuple(items, None) = t.kind(members) {
        Ok(items.clone())
    } else {
        t.stop(
            BreakId::ExceptionGroup,
            "an exception group without exceptions",
        )
    }
}

/// A group like `original` of some of its exceptions; `None` for none.
fn derive(t: &mut Tracer<'_>, original: VarId, items: Vec<VarId>) -> Step<Option<VarId>> {
    if items.is_empty() {
        return Ok(None);
    }
    let base = builtin(t, "BaseExceptionGroup")?;
    let Some(class) = t.type_of(original) else {
        return t.stop(
            BreakId::ExceptionGroup,
            "an exception group without a class",
        );
    };
    for name in ["split", "derive", "__getattribute__"] {
        let found = attributes::lookup(&class, name);
        attributes::guard_type_attr(t, &Obj::from(&class), name, found.as_ref());
        if !found
            .is_some_and(|found| attributes::lookup(&base, name).is_some_and(|own| own.is(&found)))
        {
            return t.stop(
                BreakId::ExceptionGroup,
                format!("an exception group with its own {name}"),
            );
        }
    }
    // Each part gets a copy of the notes.
    let written = if let Kind::Object(object) = t.kind(original) {
        object.written("__notes__").is_some()
    } else {
        false
    };
    if written || attributes::instance_value(t, original, "__notes__")?.is_some() {
        return t.stop(BreakId::ExceptionGroup, "an exception group with notes");
    }
    let message = part(t, original, "message")?;
    let list = t.add(Kind::List(items));
    let made = new(t, &base, &[message, list])?;
    let at = exceptions::raised_at(t, original);
    t.exceptions.raised.push((made, at));
    Ok(Some(made))
}

/// What `except* class` takes of an exception, and what it leaves.
pub fn matched(
    t: &mut Tracer<'_>,
    exception: VarId,
    class: VarId,
) -> Step<(Option<VarId>, Option<VarId>)> {
    let is_single = |t: &Tracer<'_>, class: &Bound<'_, PyType>| Ok(!is_group_class(t, class)?);
    exceptions::check_clause(t, "except*", class, is_single)?;
    if t.is_none(exception) {
        return Ok((None, None));
    }
    if is_group(t, exception)? {
        return split(t, exception, class);
    }
    if !exceptions::matches(t, exception, class)? {
        return Ok((None, Some(exception)));
    }
    let (base, message) = (builtin(t, "BaseExceptionGroup")?, t.str(""));
    let members = t.add(Kind::Tuple(vec![exception], None));
    let wrapped = new(t, &base, &[message, members])?;
    by_interpreter(t, wrapped);
    let at = exceptions::raised_at(t, exception);
    t.exceptions.raised.push((wrapped, at));
    Ok((Some(wrapped), None))
}

fn split(
    t: &mut Tracer<'_>,
    exception: VarId,
    class: VarId,
) -> Step<(Option<VarId>, Option<VarId>)> {
    if exceptions::matches(t, exception, class)? {
        return Ok((Some(exception), None));
    }
    if !is_group(t, exception)? {
        return Ok((None, Some(exception)));
    }
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for item in exceptions_of(t, exception)? {
        let (matched, rest) = split(t, item, class)?;
        taken.extend(matched);
        left.extend(rest);
    }
    Ok((derive(t, exception, taken)?, derive(t, exception, left)?))
}

/// What is raised at the end of `except*` clauses: `list` has what they raised, and last what none
/// of them took.
pub fn left_over(t: &mut Tracer<'_>, original: VarId, list: VarId) -> Step<Option<VarId>> {
    let Kind::List(items) = t.kind(list).clone() else {
        return t.stop(BreakId::ExceptionGroup, "no list of exceptions");
    };
    let mut raised = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if !t.is_none(*item) {
            raised.push((index, *item));
        }
    }
    if !is_group(t, original)? {
        return Ok(raised.first().map(|(_, only)| *only));
    }
    let mut parts = Vec::new();
    for (index, item) in raised {
        let last = index + 1 == items.len();
        match is_group(t, item)? {
            false => parts.push(item),
            // What no clause took. It is the last item: other groups may be parts that a bare
            // `raise` raised again, or `raise found`, which is not the same.
            true if last => {
                let mut leaves = FxHashSet::default();
                collect_leaves(t, item, &mut leaves)?;
                parts.extend(project(t, original, &leaves)?);
            }
            true => {
                return t.stop(
                    BreakId::ExceptionGroup,
                    "a group that a clause of except* raises",
                );
            }
        }
    }
    if parts.len() < 2 {
        return Ok(parts.first().copied());
    }
    let (base, message) = (builtin(t, "BaseExceptionGroup")?, t.str(""));
    let list = t.add(Kind::List(parts));
    let made = new(t, &base, &[message, list])?;
    by_interpreter(t, made);
    Ok(Some(made))
}

fn collect_leaves(t: &mut Tracer<'_>, exception: VarId, into: &mut FxHashSet<VarId>) -> Step<()> {
    if !is_group(t, exception)? {
        into.insert(exception);
        return Ok(());
    }
    for item in exceptions_of(t, exception)? {
        collect_leaves(t, item, into)?;
    }
    Ok(())
}

fn project(t: &mut Tracer<'_>, exception: VarId, leaves: &FxHashSet<VarId>) -> Step<Option<VarId>> {
    if !is_group(t, exception)? {
        return Ok(leaves.contains(&exception).then_some(exception));
    }
    let mut parts = Vec::new();
    for item in exceptions_of(t, exception)? {
        parts.extend(project(t, item, leaves)?);
    }
    derive(t, exception, parts)
}
