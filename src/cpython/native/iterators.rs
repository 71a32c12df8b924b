//! What iterators give next, without taking it.
//!
//! The fields read here are no API of CPython's. Whether they lie where they are read is tried
//! once, on iterators of our own: of a type that fails nothing is known.

use std::mem::size_of;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyRange, PyTuple};

use crate::frame::Modules;

use super::classes::is_mutable;
use super::containers::{length, list_item, tuple_item};
use super::object::Ptr;
use super::thread_state::is_alone;

/// What an iterator gives after so many items more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upcoming<'a> {
    /// An object that the iterator's container holds.
    Item(Ptr<'a>),
    /// A number that it makes.
    Number(i64),
}

/// `seqiterobject`, `listiterobject`, `tupleiterobject` and `listreviterobject`.
#[repr(C)]
struct OverSequence {
    head: ffi::PyObject,
    index: isize,
    sequence: *mut ffi::PyObject,
}

/// `_PyRangeIterObject`, since 3.12.
#[repr(C)]
struct OverRange {
    head: ffi::PyObject,
    start: std::ffi::c_long,
    step: std::ffi::c_long,
    len: std::ffi::c_long,
}

/// `countobject`: the next number, unless that is the largest of its type.
#[repr(C)]
struct Count {
    head: ffi::PyObject,
    next: isize,
}

/// `cycleobject`: `saved` is gone over once `inner` is at its end.
#[repr(C)]
struct Cycle {
    head: ffi::PyObject,
    inner: *mut ffi::PyObject,
    saved: *mut ffi::PyObject,
    index: isize,
    first_pass: std::ffi::c_int,
}

/// How an iterator of a type is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Sequence,
    Reversed,
    Range,
    Count,
    Cycle,
}

impl Layout {
    fn size(self) -> usize {
        match self {
            Self::Sequence | Self::Reversed => size_of::<OverSequence>(),
            Self::Range => size_of::<OverRange>(),
            Self::Count => size_of::<Count>(),
            Self::Cycle => size_of::<Cycle>(),
        }
    }
}

/// By type, which lives as long as the process.
static LAYOUTS: PyOnceLock<Vec<(usize, Layout)>> = PyOnceLock::new();

/// Makes these iterators known to the guards, whose reads are no time to try layouts.
pub fn know_iterators(py: Python<'_>) {
    LAYOUTS.get_or_init(py, || known(py).unwrap_or_default());
}

/// The layouts that are right here. `known`, which is tried, has those before it: a cycle reads
/// what it goes over.
fn known(py: Python<'_>) -> PyResult<Vec<(usize, Layout)>> {
    let items = [py.None(), py.Ellipsis(), py.NotImplemented()];
    let list = PyList::new(py, &items)?;
    let tuple = PyTuple::new(py, &items)?;
    let itertools = py.module("itertools")?;
    let cycle = || itertools.getattr("cycle")?.call1((&list,));
    let cycles = vec![(cycle()?, 1), (cycle()?, 2), (cycle()?, 5)];
    let samples = [
        (Layout::Sequence, vec![(list.try_iter()?.into_any(), 1)]),
        (Layout::Sequence, vec![(tuple.try_iter()?.into_any(), 1)]),
        (
            Layout::Reversed,
            vec![(list.call_method0("__reversed__")?, 1)],
        ),
        (
            Layout::Range,
            vec![(numbers(py)?.try_iter()?.into_any(), 1)],
        ),
        (
            Layout::Count,
            vec![(itertools.getattr("count")?.call1((5,))?, 1)],
        ),
        (Layout::Cycle, cycles),
    ];
    let mut known = Vec::new();
    for (layout, samples) in samples {
        let class = samples[0].0.get_type();
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        if is_mutable(&class) || size < layout.size() {
            continue;
        }
        known.push((class.as_ptr() as usize, layout));
        for (iterator, taken) in samples {
            if !tells_what_follows(&known, &iterator, taken)? {
                known.pop();
                break;
            }
        }
    }
    Ok(known)
}

fn numbers(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.get_type::<PyRange>().call1((7, 20, 3))
}

/// Whether what is read of an iterator of which so many items are taken is what it gives then.
fn tells_what_follows(
    layouts: &[(usize, Layout)],
    iterator: &Bound<'_, PyAny>,
    taken: usize,
) -> PyResult<bool> {
    for _ in 0..taken {
        iterator.call_method0("__next__")?;
    }
    for told in [0, 1].map(|ahead| read(layouts, iterator.into(), ahead)) {
        let item = iterator.call_method0("__next__")?;
        let is_it = match told {
            Some(Upcoming::Item(told)) => told == Ptr::from(&item),
            Some(Upcoming::Number(told)) => item.extract::<i64>().is_ok_and(|item| item == told),
            None => false,
        };
        if !is_it {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What an iterator gives when so many items more are taken; `None` at its end, and where nothing
/// is known of it. Where there are other threads they may take it before this one does.
pub fn upcoming<'a>(py: Python<'a>, iterator: Ptr<'a>, ahead: usize) -> Option<Upcoming<'a>> {
    let layouts = LAYOUTS.get(py)?;
    is_alone(py)
        .then(|| read(layouts, iterator, ahead))
        .flatten()
}

/// Whether it is of a type of which that may be known.
pub fn is_known_iterator(object: &Bound<'_, PyAny>) -> bool {
    know_iterators(object.py());
    let layouts = LAYOUTS.get(object.py());
    layouts.is_some_and(|layouts| layout_of(layouts, object.as_ptr()).is_some())
}

fn layout_of(layouts: &[(usize, Layout)], iterator: *mut ffi::PyObject) -> Option<Layout> {
    // SAFETY: the object is live.
    let class = unsafe { ffi::Py_TYPE(iterator) } as usize;
    let found = layouts.iter().find(|(known, _)| *known == class);
    found.map(|(_, layout)| *layout)
}

fn read<'a>(layouts: &[(usize, Layout)], iterator: Ptr<'a>, ahead: usize) -> Option<Upcoming<'a>> {
    let object = iterator.as_ptr();
    let layout = layout_of(layouts, object)?;
    let ahead = isize::try_from(ahead).ok()?;
    // SAFETY: the object is live and of a type of at least this size. Its fields are objects that
    // it holds, or null, and numbers.
    let item = unsafe {
        match layout {
            Layout::Sequence | Layout::Reversed => {
                let at = &*object.cast::<OverSequence>();
                let step = if layout == Layout::Sequence { 1 } else { -1 };
                item_of(at.sequence, at.index.checked_add(ahead * step)?)?
            }
            Layout::Range => {
                let at = &*object.cast::<OverRange>();
                let ahead = ahead as std::ffi::c_long;
                let ahead = (ahead < at.len).then_some(ahead)?;
                let number = at.start.checked_add(at.step.checked_mul(ahead)?)?;
                return Some(Upcoming::Number(number));
            }
            Layout::Count => {
                let number = (*object.cast::<Count>()).next.checked_add(ahead)?;
                let is_counted = number < isize::MAX;
                return is_counted.then_some(Upcoming::Number(number as i64));
            }
            Layout::Cycle => item_of_cycle(layouts, &*object.cast::<Cycle>(), ahead)?,
        }
    };
    Some(Upcoming::Item(item))
}

/// An item of an exact list or tuple.
///
/// # Safety
/// The sequence is live or null.
unsafe fn item_of<'a>(sequence: *mut ffi::PyObject, index: isize) -> Option<Ptr<'a>> {
    // SAFETY: see above.
    let sequence = (!sequence.is_null()).then(|| unsafe { Ptr::new(sequence) })?;
    let index = usize::try_from(index).ok()?;
    let item = match is_exact_list(sequence) {
        true => list_item(sequence, index),
        false => tuple_item(sequence, index),
    };
    (!item.is_null()).then_some(item)
}

fn is_exact_list(sequence: Ptr<'_>) -> bool {
    // SAFETY: a `Ptr` that is not null is live.
    unsafe { ffi::PyList_CheckExact(sequence.as_ptr()) != 0 }
}

/// An item of a `cycle()`: of what it has saved, behind what is left of an iterator over a
/// sequence in its first round.
///
/// # Safety
/// The cycle is live.
unsafe fn item_of_cycle<'a>(
    layouts: &[(usize, Layout)],
    cycle: &Cycle,
    ahead: isize,
) -> Option<Ptr<'a>> {
    // SAFETY: the cycle holds what it has saved.
    let saved = unsafe { Ptr::new(cycle.saved) };
    if saved.is_null() || !is_exact_list(saved) {
        return None;
    }
    // SAFETY: it is a list.
    let kept = unsafe { ffi::PyList_GET_SIZE(cycle.saved) };
    if cycle.inner.is_null() {
        let at = (kept > 0).then(|| cycle.index.checked_add(ahead))??;
        // SAFETY: it is held.
        return unsafe { item_of(cycle.saved, at % kept) };
    }
    // Whoever else has it takes what the cycle would give.
    // SAFETY: the cycle holds it.
    let is_own = unsafe { ffi::Py_REFCNT(cycle.inner) == 1 };
    let is_first = cycle.first_pass != 0;
    if !is_own || is_first || layout_of(layouts, cycle.inner)? != Layout::Sequence {
        return None;
    }
    // SAFETY: the cycle holds it, it is of such a type, and holds what it goes over.
    let inner = unsafe { &*cycle.inner.cast::<OverSequence>() };
    // SAFETY: see above.
    let sequence = (!inner.sequence.is_null()).then(|| unsafe { Ptr::new(inner.sequence) })?;
    let left = (isize::try_from(length(sequence)?).ok()? - inner.index).max(0);
    if ahead < left {
        // SAFETY: it is held.
        return unsafe { item_of(inner.sequence, inner.index + ahead) };
    }
    let all = kept.checked_add(left).filter(|all| *all > 0)?;
    let at = (ahead - left) % all;
    // SAFETY: both are held.
    unsafe {
        match at < kept {
            true => item_of(cycle.saved, at),
            false => item_of(inner.sequence, inner.index + at - kept),
        }
    }
}
