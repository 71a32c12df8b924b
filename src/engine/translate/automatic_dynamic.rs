//! What differs between calls: learnt from the guards of one translation after the other.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::guard::{GuardKind, GuardSet};
use crate::obj::Obj;
use crate::simulator::LoopPlaces;
use crate::sync::lock;
use crate::tracker::{Place, Tracker, TrackerRef};

use super::declared_dynamic::Declared;
use super::function::Translated;

/// What differs between calls.
#[derive(Default)]
pub(super) struct Varies {
    pub(super) dims: FxHashMap<TrackerRef, Vec<usize>>,
    pub(super) numbers: FxHashMap<TrackerRef, Obj>,
    /// Containers that differ too often to be looked into.
    pub(super) closed: FxHashSet<TrackerRef>,
    /// Whether guards are kept: what is exported has none.
    pub(super) guarded: bool,
    /// Loops that are captured where their rounds are known.
    pub(super) kept_open: LoopPlaces,
    /// What the user calls the tensors among the arguments, by address.
    pub(super) names: FxHashMap<usize, String>,
}

/// Numbers that are tried one by one where not all of them together can stay open.
pub(super) const FEW: usize = 4;

/// Values of one number that are translated one by one where Python needs them; behind them the
/// graph breaks there.
const MOST_VALUES: usize = 16;

/// The same for what differs from round to round of a loop.
const MOST_ROUNDS: usize = 4;

/// What earlier translations say of a number.
pub enum Seen {
    /// The first value.
    First(Obj),
    /// Python needs the value.
    Needed,
}

/// Numbers of a translation that differ from those of earlier ones.
#[derive(Default)]
pub(super) struct Learnt {
    /// Those that nothing was found to need.
    pub(super) open: Vec<(TrackerRef, Obj)>,
    /// Those whose values alone took many translations.
    pub(super) costly: Vec<(TrackerRef, Obj)>,
    /// Containers whose contents alone took many translations.
    pub(super) containers: Vec<TrackerRef>,
}

/// Compares what guards rely on with what earlier translations do.
pub(super) fn numbers(
    py: Python<'_>,
    of: &Translated,
    bound: &[Bound<'_, PyAny>],
    guards: &GuardSet,
) -> Learnt {
    let is_needed = |seen: &Seen| matches!(seen, Seen::Needed);
    let most = if of.loops() { MOST_ROUNDS } else { MOST_VALUES };
    let many = of.entries().len() >= most;
    let missed = match many || lock(&of.learnt.numbers).values().any(is_needed) {
        true => of.missed(py, bound),
        false => Vec::new(),
    };
    let mut known = lock(&of.learnt.numbers);
    let mut learnt = Learnt::default();
    let is_costly = |place: &Place| missed.iter().filter(|missed| *missed == place).count() >= most;
    for (_, tracker, value) in values(py, guards) {
        let place = Place::of(tracker);
        let seen = known
            .entry(place)
            .or_insert_with(|| Seen::First(value.clone()));
        let found = match seen {
            Seen::First(first) => {
                let is_other = !first.bind(py).eq(value.bind(py)).unwrap_or(true);
                is_other.then_some(&mut learnt.open)
            }
            Seen::Needed => is_costly(&place).then_some(&mut learnt.costly),
        };
        if let Some(found) = found {
            found.push((tracker.clone(), value.clone()));
        }
    }
    for (_, tracker) in containers(guards) {
        let place = Place::of(tracker);
        if is_costly(&place) && !learnt.containers.contains(tracker) {
            learnt.containers.push(tracker.clone());
        }
    }
    learnt
}

/// The containers whose lengths, keys or elements guards rely on, with the positions of those.
pub(super) fn containers(guards: &GuardSet) -> impl Iterator<Item = (usize, &TrackerRef)> {
    let guards = guards.iter().enumerate();
    guards.filter_map(|(at, guard)| {
        let container = if let GuardKind::SameAs(other) = &guard.kind {
            holder(&guard.tracker).or_else(|| holder(other))
        } else {
            guard.kind.is_of_container().then_some(&guard.tracker)
        };
        container.map(|container| (at, container))
    })
}

/// The list, tuple or dict that something is an item of.
fn holder(item: &TrackerRef) -> Option<&TrackerRef> {
    match &**item {
        Tracker::ListItem(holder, _) | Tracker::TupleItem(holder, _) => Some(holder),
        // Of a module or an object these are variables and attributes.
        Tracker::DictItem(holder, _) => {
            let is_namespace = matches!(**holder, Tracker::Const(_) | Tracker::InstanceDict(_));
            (!is_namespace).then_some(holder)
        }
        Tracker::Local { .. }
        | Tracker::FreeCell { .. }
        | Tracker::Handled
        | Tracker::Const(_)
        | Tracker::CellContents(_)
        | Tracker::TypeOf(_)
        | Tracker::InstanceDict(_)
        | Tracker::DictKeyAt(..)
        | Tracker::DequeItem(..)
        | Tracker::Upcoming(..)
        | Tracker::Proxied(_)
        | Tracker::ContextValue(_)
        | Tracker::TypeAttr(..)
        | Tracker::Member(..)
        | Tracker::NativeAttr(..)
        | Tracker::Function(..)
        | Tracker::MethodSelf(_)
        | Tracker::MethodFunc(_)
        | Tracker::Number(..)
        | Tracker::Array(..) => None,
    }
}

/// The numbers and texts that guards rely on, with the positions of those.
pub(super) fn values<'a>(
    py: Python<'a>,
    guards: &'a GuardSet,
) -> impl Iterator<Item = (usize, &'a TrackerRef, &'a Obj)> + 'a {
    let can_be_open = move |value: &Obj| {
        let value = value.bind(py);
        value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>()
            || value.is_exact_instance_of::<PyString>()
    };
    let guards = guards.iter().enumerate();
    guards.filter_map(move |(at, guard)| {
        let GuardKind::ConstEq(value) = &guard.kind else {
            return None;
        };
        can_be_open(value).then_some((at, &guard.tracker, value))
    })
}

/// Dims that differ from those of earlier translations or were declared dynamic, by tracker.
pub(super) fn dims(
    of: &Translated,
    guards: &GuardSet,
    declared: &Declared,
    learns: bool,
) -> FxHashMap<TrackerRef, Vec<usize>> {
    let mut known = lock(&of.learnt.dims);
    let mut dynamic = FxHashMap::default();
    for guard in guards.iter() {
        let dims = if let GuardKind::Tensor(tensor) = &guard.kind {
            &tensor.dims
        } else if let GuardKind::Array(array) = &guard.kind {
            &array.dims
        } else {
            continue;
        };
        let seen = known
            .entry(Place::of(&guard.tracker))
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
