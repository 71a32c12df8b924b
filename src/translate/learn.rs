//! What differs between calls: learnt from the guards of one translation after the other.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use rustc_hash::FxHashMap;

use crate::guard::{GuardKind, GuardSet};
use crate::obj::Obj;
use crate::tracker::TrackerRef;

use super::declared::Declared;
use super::function::{lock, Translated};

/// What differs between calls.
#[derive(Default)]
pub(super) struct Varies {
    pub(super) dims: FxHashMap<TrackerRef, Vec<usize>>,
    pub(super) numbers: FxHashMap<TrackerRef, Obj>,
    /// Whether guards are kept: what is exported has none.
    pub(super) guarded: bool,
}

/// Numbers that are tried one by one where not all of them together can stay open.
pub(super) const FEW: usize = 4;

/// Numbers that differ from those of earlier translations, and that nothing was found to need.
pub(super) fn numbers(
    py: Python<'_>,
    of: &Translated,
    guards: &GuardSet,
) -> Vec<(TrackerRef, Obj)> {
    let mut known = lock(&of.numbers);
    let mut open = Vec::new();
    for guard in guards.iter() {
        let GuardKind::ConstEq(value) = &guard.kind else {
            continue;
        };
        let number = value.bind(py);
        if !number.is_exact_instance_of::<PyInt>() && !number.is_exact_instance_of::<PyFloat>() {
            continue;
        }
        let seen = known
            .entry(guard.tracker.clone())
            .or_insert_with(|| Some(value.clone()));
        if let Some(seen) = seen {
            if !seen.bind(py).eq(number).unwrap_or(true) {
                open.push((guard.tracker.clone(), value.clone()));
            }
        }
    }
    open
}

/// Dims that differ from those of earlier translations or were declared dynamic, by tracker.
pub(super) fn dims(
    of: &Translated,
    guards: &GuardSet,
    declared: &Declared,
    learns: bool,
) -> FxHashMap<TrackerRef, Vec<usize>> {
    let mut known = lock(&of.dims);
    let mut dynamic = FxHashMap::default();
    for guard in guards.iter() {
        let GuardKind::Tensor(tensor) = &guard.kind else {
            continue;
        };
        let seen = known
            .entry(guard.tracker.clone())
            .or_insert_with(|| tensor.dims.to_vec());
        if seen.len() != tensor.dims.len() {
            *seen = tensor.dims.to_vec();
        }
        let is_static = |dim| declared.is_static(&guard.tracker, dim);
        for (dim, (seen, now)) in seen.iter_mut().zip(&tensor.dims).enumerate() {
            // 0 and 1 broadcast and are special everywhere: they stay static.
            let special = matches!(now, Some(0 | 1));
            if learns && *seen != *now && !special && !is_static(dim) {
                *seen = None;
            }
        }
        for &dim in declared.dynamic.get(&guard.tracker).into_iter().flatten() {
            if let Some(seen) = seen.get_mut(dim) {
                *seen = None;
            }
        }
        let dims: Vec<usize> = (0..seen.len())
            .filter(|at| seen[*at].is_none() && !matches!(tensor.dims[*at], Some(0 | 1)))
            .collect();
        if !dims.is_empty() {
            dynamic.insert(guard.tracker.clone(), dims);
        }
    }
    dynamic
}
