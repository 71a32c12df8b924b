//! What differs between calls: learnt from the guards of one translation after the other.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Arg, Callee, Statement, StatementIr, SymbolId};
use crate::guard::{GuardKind, GuardSet};
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
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
        let dims = match &guard.kind {
            GuardKind::Tensor(tensor) => &tensor.dims,
            GuardKind::Array(array) => &array.dims,
            _ => continue,
        };
        let seen = known
            .entry(guard.tracker.clone())
            .or_insert_with(|| dims.to_vec());
        if seen.len() != dims.len() {
            *seen = dims.to_vec();
        }
        let is_static = |dim| declared.is_static(&guard.tracker, dim);
        for (dim, (seen, now)) in seen.iter_mut().zip(dims).enumerate() {
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
        let open: Vec<usize> = (0..seen.len())
            .filter(|at| seen[*at].is_none() && !matches!(dims[*at], Some(0 | 1)))
            .collect();
        if !open.is_empty() {
            dynamic.insert(guard.tracker.clone(), open);
        }
    }
    dynamic
}

/// Checks what Paddle inferred for open dims: `open` is traced with some, `known` with the dims of this call.
///
/// Some of Paddle's rules compute with the -1 that stands for an open dim, and answer with a number that is none.
///
/// # Errors
/// For the first operation that has another known dim than it has in this call.
pub(super) fn check_dims(
    py: Python<'_>,
    open: &StatementIr,
    known: &StatementIr,
) -> Result<(), Break> {
    // Statements that make numbers of dims are not there when the dims are known.
    let mut helpers: FxHashSet<SymbolId> = FxHashSet::default();
    let mut expected = known.statements.iter().peekable();
    let refuse = |it: &Statement, why: &str| {
        let names = it.callee.api_names(py).join(", ");
        let mut reason = Break::new(BreakKind::InferenceFailed, format!("{why}: {names}"));
        reason.loc = it.loc.clone();
        Err(reason)
    };
    for it in &open.statements {
        let of_helper = matches!(it.callee, Callee::Method(_))
            && matches!(it.args.first(), Some(Arg::Symbol(first)) if helpers.contains(first));
        match expected.peek() {
            Some(other) if !of_helper && is_same_call(py, it, other) => {
                if !has_dims_of(open, it, known, other) {
                    return refuse(it, "another shape is inferred with open dims");
                }
                expected.next();
            }
            _ if of_helper || is_named(py, it, &["shape"]) => {
                it.output.for_each_symbol(&mut |made| {
                    helpers.insert(made);
                });
            }
            // One to the shape that the tensor has is left out where that is known.
            _ if is_named(py, it, &["reshape", "view"]) => {}
            _ => return refuse(it, "other operations are captured with open dims"),
        }
    }
    // In front of a break, more may have been captured where the dims are known.
    Ok(())
}

fn is_named(py: Python<'_>, it: &Statement, names: &[&str]) -> bool {
    let known = it.callee.api_names(py);
    known.iter().any(|name| names.contains(&name.as_str()))
}

fn is_same_call(py: Python<'_>, open: &Statement, known: &Statement) -> bool {
    let callee = match (&open.callee, &known.callee) {
        (Callee::Api(a), Callee::Api(b)) => a.is(b),
        (Callee::Method(a), Callee::Method(b)) | (Callee::Attribute(a), Callee::Attribute(b)) => {
            a == b
        }
        (Callee::Layer(_), Callee::Layer(_)) | (Callee::Sir(_), Callee::Sir(_)) => true,
        // See `numbers::scaled`.
        (Callee::Api(_), Callee::Method(name)) => {
            matches!(&**name, "__mul__" | "__rmul__") && is_named(py, open, &["scale"])
        }
        _ => false,
    };
    callee && open.loc == known.loc
}

fn has_dims_of(open: &StatementIr, it: &Statement, known: &StatementIr, other: &Statement) -> bool {
    let shapes = |sir: &StatementIr, it: &Statement| {
        let mut found = Vec::new();
        it.output
            .for_each_symbol(&mut |made| found.push(sir.meta(made).map(|meta| meta.shape.clone())));
        found
    };
    let (open, known) = (shapes(open, it), shapes(known, other));
    open.len() == known.len()
        && open.iter().zip(&known).all(|pair| match pair {
            (Some(open), Some(known)) => {
                let agrees = |(open, known): (&i64, &i64)| *open < 0 || open == known;
                open.len() == known.len() && open.iter().zip(known).all(agrees)
            }
            (open, known) => open.is_none() && known.is_none(),
        })
}
