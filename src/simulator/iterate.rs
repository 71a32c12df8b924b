//! Iteration and unpacking.

use crate::variables::VarId;

use super::{Step, Tracer};

/// `iter(value)`
pub fn get_iter(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let _ = (value,);
    t.unsupported("iterate::get_iter is not simulated")
}

/// `next(iterator)`; `None` at the end.
pub fn next(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<VarId>> {
    let _ = (iterator,);
    t.unsupported("iterate::next is not simulated")
}

/// All items of an iterable.
pub fn collect(t: &mut Tracer<'_>, value: VarId) -> Step<Vec<VarId>> {
    let _ = (value,);
    t.unsupported("iterate::collect is not simulated")
}
