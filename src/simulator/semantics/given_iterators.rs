//! `next()` of iterators that exist before the frame, where guards see what they give: those over
//! lists, tuples and ranges, `itertools.count()` and `cycle()`. That the items are taken is a side
//! effect.

use std::sync::Arc;

use pyo3::types::PyInt;

use crate::native::{self, Upcoming};
use crate::reason::BreakId;
use crate::tracker::Tracker;
use crate::variables::{IterVar, Kind, VarId};
use crate::{Step, Tracer};

/// The next item; `None` where no guard sees it, and at the end: what the iterator lets go there
/// goes when the interpreter asks.
pub fn next(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<VarId>> {
    let taken = if let Kind::Iter(IterVar::Given { taken }) = t.kind(iterator) {
        *taken
    } else if let Kind::Opaque = t.kind(iterator) {
        0
    } else {
        return Ok(None);
    };
    let (Some(value), Some(source)) = (t.value(iterator), t.source(iterator)) else {
        return Ok(None);
    };
    // Nobody takes items for what is exported.
    if t.options.forward_only {
        return Ok(None);
    }
    native::know_iterators(t.py);
    let item = match native::upcoming(t.py, (&value).into(), taken) {
        Some(Upcoming::Item(item)) => native::to_bound(t.py, item),
        Some(Upcoming::Number(number)) => PyInt::new(t.py, number).into_any(),
        None => return Ok(None),
    };
    if has_changed_lists(t) {
        return Ok(None);
    }
    t.guard_class(iterator);
    t.distinct(iterator);
    let item = t.wrap(&item, Arc::new(Tracker::Upcoming(source, taken)));
    t.vars.mutate(iterator, |var| {
        var.kind = Kind::Iter(IterVar::Given { taken: taken + 1 });
    });
    Ok(Some(item))
}

/// Whether the frame has changed a list that others may have: guards see what an iterator over it
/// gives at the beginning of the frame.
fn has_changed_lists(t: &Tracer<'_>) -> bool {
    let mut mutated = t.vars.mutated().iter();
    mutated.any(|id| {
        let var = t.vars.get(*id);
        let is_list = matches!(var.kind, Kind::List(_) | Kind::Appended(_));
        is_list && var.source.is_some()
    })
}

/// Leaves it to the interpreter.
pub fn refuse<T>(t: &mut Tracer<'_>) -> Step<T> {
    t.stop(
        BreakId::GivenIterator,
        "next() of an iterator that exists, which no guard can look into",
    )
}
