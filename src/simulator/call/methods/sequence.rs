//! Methods that lists and tuples have.

use crate::reason::{BreakId, BreakKind};
use crate::variables::VarId;
use crate::{Step, Tracer, comparisons};

use super::row::MethodRow;

/// What a list or a tuple holds.
pub(super) fn items(t: &mut Tracer<'_>, sequence: VarId) -> Step<Vec<VarId>> {
    match t.kind(sequence).items() {
        Some(items) => Ok(items.to_vec()),
        None => t.stop(BreakId::ContainerMethod, "a method of sequences"),
    }
}

/// `x.index(item)`
pub(super) const INDEX: MethodRow = MethodRow::new("index", (1, 1), |t, call| {
    for (at, item) in items(t, call.receiver)?.into_iter().enumerate() {
        if comparisons::equal_values(t, item, call.args[0])? {
            return Ok(t.int(at as i64));
        }
    }
    t.stop(
        BreakKind::RaisesException,
        "the value is not in the sequence",
    )
})
.reads();

/// `x.count(item)`
pub(super) const COUNT: MethodRow = MethodRow::new("count", (1, 1), |t, call| {
    let mut count = 0;
    for item in items(t, call.receiver)? {
        count += i64::from(comparisons::equal_values(t, item, call.args[0])?);
    }
    Ok(t.int(count))
})
.reads();
