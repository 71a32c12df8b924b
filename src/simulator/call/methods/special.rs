//! Operations that are called as methods: `x.__len__()`. The operation itself knows what it does
//! with each kind.

use crate::{generators, iterate, subscript, truth};

use super::row::MethodRow;

/// `x.__len__()`
pub(super) const LEN: MethodRow = MethodRow::new("__len__", (0, 0), |t, call| {
    let len = truth::len(t, call.receiver)?;
    Ok(t.int(len))
})
.reads();

/// `x.__getitem__(key)`
pub(super) const GET_ITEM: MethodRow = MethodRow::new("__getitem__", (1, 1), |t, call| {
    subscript::get(t, call.receiver, call.args[0])
})
.reads();

/// `x.__setitem__(key, value)`
pub(super) const SET_ITEM: MethodRow = MethodRow::new("__setitem__", (2, 2), |t, call| {
    subscript::set(t, call.receiver, call.args[0], call.args[1])?;
    Ok(t.none())
})
.writes();

/// `x.__delitem__(key)`
const DEL_ITEM: MethodRow = MethodRow::new("__delitem__", (1, 1), |t, call| {
    subscript::delete(t, call.receiver, call.args[0])?;
    Ok(t.none())
})
.writes();

/// `x.__contains__(item)`
pub(super) const CONTAINS: MethodRow = MethodRow::new("__contains__", (1, 1), |t, call| {
    let found = truth::contains(t, call.receiver, call.args[0])?;
    Ok(t.bool(found))
})
.reads();

/// `x.__iter__()`
pub(super) const ITER: MethodRow = MethodRow::new("__iter__", (0, 0), |t, call| {
    iterate::get_iter(t, call.receiver)
})
.reads();

/// `x.__next__()`
const NEXT: MethodRow = MethodRow::new("__next__", (0, 0), |t, call| {
    generators::next_or_stop(t, call.receiver)
});

/// What a receiver of any kind is asked first, where it has such a method.
pub(crate) const SPECIAL: &[MethodRow] = &[LEN, GET_ITEM, SET_ITEM, DEL_ITEM, CONTAINS, ITER, NEXT];

/// Methods of iterators.
pub(crate) const ITERATOR: &[MethodRow] = &[ITER, NEXT];
