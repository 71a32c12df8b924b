//! Iteration and unpacking.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};

use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{DictVar, IterVar, Kind, ObjectVar, VarId};

use crate::call::call;
use crate::{Step, Stop, Tracer};
use crate::{attributes, classes, exceptions, generators, given_iterators};
use crate::{itertools, layers};
use crate::{tensors, truth};

pub use crate::variables::protocol::{collect, is_unchanged, iter as get_iter, next};
pub(crate) use crate::variables::protocol::{emptied, is_iterator};

/// An iterator over what was fixed when it was made.
pub(crate) fn over_fixed(t: &mut Tracer<'_>, over: VarId, items: Vec<VarId>) -> VarId {
    t.add(Kind::Iter(IterVar::Fixed {
        over: (over, Rc::from([])),
        items,
        index: 0,
    }))
}

/// Whether the length of such a `range()`, and what lies one step outside of it, are machine
/// numbers.
pub fn is_short(start: i64, stop: i64, step: i64) -> bool {
    const MOST: u64 = 1 << 61;
    [start, stop, step]
        .iter()
        .all(|part| part.unsigned_abs() < MOST)
}

/// Whether the class of an instance has a `__next__`.
pub(crate) fn has_next(t: &mut Tracer<'_>, value: VarId, object: &ObjectVar) -> Step<bool> {
    let Some(class) = t.type_of(value) else {
        return Ok(false);
    };
    let found = attributes::lookup(&class, "__next__");
    attributes::guard_type_attr(t, &object.class, "__next__", found.as_ref());
    Ok(found.is_some())
}

/// The parts of a list of layers that holds none.
pub(crate) fn no_parts(t: &Tracer<'_>) -> Step<Kind> {
    let class = t.py.collections()?.getattr("OrderedDict")?;
    Ok(Kind::Dict(DictVar {
        class: Some(Obj::from(class)),
        ..DictVar::default()
    }))
}

fn advance(t: &mut Tracer<'_>, iterator: VarId, state: IterVar) {
    t.vars.mutate(iterator, |var| var.kind = Kind::Iter(state));
}

/// CPython raises where the size changed, and goes on somewhere where only the keys did.
fn changed<T>(t: &mut Tracer<'_>) -> Step<T> {
    t.stop(
        BreakKind::RaisesException,
        "the container changed during iteration",
    )
}

/// `next()` of an iterator in this state; `None` at the end.
pub(crate) fn next_of_state(
    t: &mut Tracer<'_>,
    iterator: VarId,
    state: IterVar,
) -> Step<Option<VarId>> {
    match state {
        IterVar::Numbers { .. } | IterVar::Advanced => t.stop(
            BreakId::TensorLoop,
            "the next of an iterator whose length only the graph knows",
        ),
        IterVar::Sequence { over, index } => {
            let Some(items) = t.kind(over).items() else {
                return t.stop(
                    BreakId::Iteration,
                    "a sequence iterator over something else",
                );
            };
            let item = items.get(index).copied();
            let state = match item {
                Some(_) => IterVar::Sequence {
                    over,
                    index: index + 1,
                },
                None => IterVar::Sequence {
                    over: emptied(t, over)?.unwrap_or(over),
                    index: 0,
                },
            };
            advance(t, iterator, state);
            Ok(item)
        }
        IterVar::Dict {
            over,
            which,
            keys,
            index,
        } => {
            let Kind::Dict(dict) = t.kind(over) else {
                return t.stop(BreakId::Iteration, "a view of something else");
            };
            let found = dict.items.get_index(index);
            // Keys are added at the end, and what follows a removed one moves up: the one at hand
            // tells.
            let same = match keys.get(index) {
                Some(key) => {
                    dict.items.len() == keys.len()
                        && found.is_some_and(|(_, (found, _))| found == key)
                }
                None => dict.keys().eq(keys.iter().copied()),
            };
            if !same {
                return changed(t);
            }
            let Some((key, value)) = found.map(|(_, item)| *item) else {
                let over = emptied(t, over)?.unwrap_or(over);
                let state = IterVar::Dict {
                    over,
                    which,
                    keys: Rc::from([]),
                    index: 0,
                };
                advance(t, iterator, state);
                return Ok(None);
            };
            let index = index + 1;
            let state = IterVar::Dict {
                over,
                which,
                keys,
                index,
            };
            advance(t, iterator, state);
            Ok(Some(which.item(t, key, value)))
        }
        IterVar::Fixed { over, items, index } => {
            // At the end of a list of layers nobody looks.
            let looks = index < items.len() || !matches!(t.kind(over.0), Kind::Layer(_));
            if looks && !is_unchanged(t, over.0, &over.1) {
                return changed(t);
            }
            let item = items.get(index).copied();
            let state = match item {
                Some(_) => IterVar::Fixed {
                    over,
                    items,
                    index: index + 1,
                },
                None => match emptied(t, over.0)? {
                    Some(empty) => IterVar::Fixed {
                        over: (empty, Rc::from([])),
                        items: Vec::new(),
                        index: 0,
                    },
                    None => return Ok(None),
                },
            };
            advance(t, iterator, state);
            Ok(item)
        }
        IterVar::Range { next, stop, step } => {
            if (step > 0 && next >= stop) || (step < 0 && next <= stop) {
                return Ok(None);
            }
            advance(
                t,
                iterator,
                IterVar::Range {
                    next: next.saturating_add(step),
                    stop,
                    step,
                },
            );
            Ok(Some(t.int(next)))
        }
        IterVar::Enumerate { inner, count } => {
            let Some(following) = count.checked_add(1) else {
                return t.stop(
                    BreakId::Iteration,
                    "enumerate() beyond what fits into 64 bits",
                );
            };
            let Some(item) = next(t, inner)? else {
                return Ok(None);
            };
            let count_on = IterVar::Enumerate {
                inner,
                count: following,
            };
            advance(t, iterator, count_on);
            let number = t.int(count);
            Ok(Some(t.add(Kind::Tuple(vec![number, item], None))))
        }
        IterVar::Zip { inner, strict } => next_of_zip(t, &inner, strict),
        IterVar::Map { function, inner } => {
            let mut args = Vec::with_capacity(inner.len());
            for iterator in inner {
                match next(t, iterator)? {
                    Some(item) => args.push(item),
                    None => return Ok(None),
                }
            }
            itertools::call_for_next(t, function, &args).map(Some)
        }
        IterVar::Filter { function, inner } => next_where(t, function, inner, true),
        IterVar::Reversed { over, left } => {
            let item = if let Kind::List(items) | Kind::Tuple(items, _) = t.kind(over) {
                left.checked_sub(1).and_then(|at| items.get(at)).copied()
            } else if let Kind::Tensor(_) = t.kind(over) {
                let at = left.checked_sub(1);
                at.map(|at| tensors::row(t, over, at)).transpose()?
            } else {
                return t.stop(BreakId::Iteration, "reversed() over something else");
            };
            let state = match item {
                Some(_) => IterVar::Reversed {
                    over,
                    left: left - 1,
                },
                None => IterVar::Reversed {
                    over: emptied(t, over)?.unwrap_or(over),
                    left: 0,
                },
            };
            advance(t, iterator, state);
            Ok(item)
        }
        IterVar::Tensor { over, index } => {
            if index as i64 >= truth::len(t, over)? {
                return Ok(None);
            }
            let row = tensors::row(t, over, index)?;
            advance(
                t,
                iterator,
                IterVar::Tensor {
                    over,
                    index: index + 1,
                },
            );
            Ok(Some(row))
        }
        IterVar::Generator { .. } | IterVar::Ended { .. } => generators::next(t, iterator),
        // Whoever takes all of its items takes them natively.
        IterVar::Given { .. } => given_iterators::refuse(t),
        IterVar::Tool(tool) => itertools::next(t, iterator, tool),
    }
}

/// The next item that `function` says `wanted` of; without a function, the next that counts as that
/// itself.
pub fn next_where(
    t: &mut Tracer<'_>,
    function: Option<VarId>,
    inner: VarId,
    wanted: bool,
) -> Step<Option<VarId>> {
    while let Some(item) = next(t, inner)? {
        let verdict = match function {
            Some(function) => itertools::call_for_next(t, function, &[item])?,
            None => item,
        };
        if truth::truth(t, verdict)? == wanted {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

fn next_of_zip(t: &mut Tracer<'_>, inner: &[VarId], strict: bool) -> Step<Option<VarId>> {
    let mut row = Vec::with_capacity(inner.len());
    for (at, iterator) in inner.iter().enumerate() {
        match next(t, *iterator)? {
            Some(item) => row.push(item),
            None if strict && at > 0 => {
                return t.stop(
                    BreakKind::RaisesException,
                    "zip(): arguments of different lengths",
                );
            }
            None => {
                if strict {
                    for other in &inner[1..] {
                        if next(t, *other)?.is_some() {
                            return t.stop(
                                BreakKind::RaisesException,
                                "zip(): arguments of different lengths",
                            );
                        }
                    }
                }
                return Ok(None);
            }
        }
    }
    if row.is_empty() {
        return Ok(None);
    }
    Ok(Some(t.add(Kind::Tuple(row, None))))
}

/// `next()` of an instance with a `__next__`.
pub(crate) fn next_of_object(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<VarId>> {
    let method = attributes::get_special(t, iterator, "__next__")?;
    match call(t, method, &[], &[]) {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Raise(exception)) => match exceptions::is_a(t, exception, "StopIteration")? {
            true => Ok(None),
            false => Err(Stop::Raise(exception)),
        },
        Err(stop) => Err(stop),
    }
}

/// Calls `visit` with the items of an iterable, each before the next one is asked for: what runs
/// there and here may see each other, and nothing is asked for behind an item that raises.
pub fn for_each(
    t: &mut Tracer<'_>,
    over: VarId,
    visit: impl FnMut(&mut Tracer<'_>, VarId) -> Step<()>,
) -> Step<()> {
    let iterator = get_iter(t, over)?;
    drain(t, iterator, visit)
}

/// The same with an iterator, which is not asked for one of its own again.
pub fn drain(
    t: &mut Tracer<'_>,
    iterator: VarId,
    mut visit: impl FnMut(&mut Tracer<'_>, VarId) -> Step<()>,
) -> Step<()> {
    let mut count = 0;
    while let Some(item) = next(t, iterator)? {
        check_count(t, count)?;
        count += 1;
        visit(t, item)?;
    }
    Ok(())
}

/// Stops behind so many items of an iterator that they would fill the memory: the interpreter
/// raises there.
pub(crate) fn check_count(t: &Tracer<'_>, count: usize) -> Step<()> {
    const MOST: usize = 100_000;
    match count < MOST {
        true => Ok(()),
        false => t.stop(BreakId::Iteration, "very many items of an iterator"),
    }
}

/// Whether code of the user's may run between two items.
pub fn is_lazy(t: &mut Tracer<'_>, over: VarId) -> bool {
    t.realize(over);
    matches!(
        t.kind(over),
        Kind::Iter(_)
            | Kind::Object(_)
            | Kind::Class
            | Kind::StandIn(_)
            | Kind::Layer(_)
            | Kind::Opaque
    )
}

/// The items of an iterable, but no more than `most`.
pub fn collect_some(t: &mut Tracer<'_>, over: VarId, most: usize) -> Step<Vec<VarId>> {
    if !is_lazy(t, over) {
        return collect(t, over);
    }
    let iterator = get_iter(t, over)?;
    take(t, iterator, most)
}

/// The next items of an iterator, but no more than `most`.
pub fn take(t: &mut Tracer<'_>, iterator: VarId, most: usize) -> Step<Vec<VarId>> {
    let mut items = Vec::new();
    while items.len() < most {
        match next(t, iterator)? {
            Some(item) => items.push(item),
            None => break,
        }
    }
    Ok(items)
}

/// All items of an iterable, as `list(x)` takes them: once it has an iterator it asks the object
/// how long it may be.
pub fn collect_for_list(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    let Some(iterator) = for_list(t, value)? else {
        return collect(t, value);
    };
    let mut items = Vec::new();
    drain(t, iterator, |_, item| {
        items.push(item);
        Ok(())
    })?;
    Ok(items)
}

/// All items of an iterable, as `PySequence_Fast` takes them: it makes a list of the iterator.
pub fn collect_fast(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    if !is_lazy(t, value) {
        return collect(t, value);
    }
    let iterator = get_iter(t, value)?;
    collect_for_list(t, iterator)
}

/// The iterator that `list(x)` goes through, where `x` is the user's.
pub fn for_list(t: &mut Tracer<'_>, value: VarId) -> Step<Option<VarId>> {
    // A class is an object of its metaclass.
    let is_object = matches!(t.kind(value), Kind::Object(_) | Kind::Class);
    if let Kind::StandIn(object) = *t.kind(value) {
        return for_list_of_stand_in(t, value, object);
    }
    let is_layer = matches!(t.kind(value), Kind::Layer(_));
    let is_given = is_layer && layers::items(t, value, &["__iter__", "__len__"])?.is_none();
    if !is_object && !is_given {
        return Ok(None);
    }
    let iterator = get_iter(t, value)?;
    if let Some(class) = t.type_of(value) {
        classes::guard_names(t, &class, &["__length_hint__", "__len__"]);
        if attributes::lookup(&class, "__length_hint__").is_some() {
            return t.stop(BreakId::Iteration, "an object with __length_hint__");
        }
        if attributes::lookup(&class, "__len__").is_some() {
            truth::len(t, value)?;
        }
    }
    Ok(Some(iterator))
}

/// The same of what a polyfill makes, whose class says whether that is asked how long it may be.
fn for_list_of_stand_in(t: &mut Tracer<'_>, value: VarId, object: VarId) -> Step<Option<VarId>> {
    const HINT: &str = "__length_hint__";
    let iterator = get_iter(t, value)?;
    let class = t.type_of(object);
    if class.is_some_and(|class| attributes::lookup(&class, HINT).is_some()) {
        let hint = attributes::get_special(t, object, HINT)?;
        call(t, hint, &[], &[])?;
    }
    Ok(Some(iterator))
}

/// All items of an iterable, as sets take them: out of the storage of other sets, whatever their
/// `__iter__` says.
pub fn collect_for_set(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    refuse_set(t, value)?;
    collect(t, value)
}

/// Stops at a set of a class of the user's, which may iterate as it likes: those are merged without
/// asking it.
pub fn refuse_set(t: &mut Tracer<'_>, value: VarId) -> Step<()> {
    if let (Kind::Object(_), Some(class)) = (t.kind(value).clone(), t.type_of(value)) {
        let sets = (t.py.get_type::<PySet>(), t.py.get_type::<PyFrozenSet>());
        if class.is_subclass(&sets.0)? || class.is_subclass(&sets.1)? {
            return t.stop(
                BreakId::Iteration,
                "a set of a class of the user's made part of another",
            );
        }
    }
    Ok(())
}

/// All items of an iterable, one step after the other.
pub(crate) fn collect_steps(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    let iterator = get_iter(t, value)?;
    let mut items = Vec::new();
    drain(t, iterator, |_, item| {
        items.push(item);
        Ok(())
    })?;
    Ok(items)
}
