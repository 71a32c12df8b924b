//! The kinds of guards, and the ordered set a translation collects.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxHashSet;

use crate::native::DictKey;
use crate::obj::Obj;
use crate::tracker::TrackerRef;

use super::{ArrayGuard, TensorGuard};
use crate::tracker::number::Outcome;

/// What is checked about the value at the end of a tracker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GuardKind {
    /// The value exists (a dict key is present, a cell is full).
    Present,
    /// The value does not exist.
    Absent,
    /// `type(x) is T`, exactly.
    TypeIs(Obj),
    /// `x is obj`. The guard holds `obj` weakly where its type allows.
    Is(Obj),
    /// Exactly this constant: same type, same value; tells `1`, `1.0`, `True`, `-0.0` and NaN
    /// apart, and looks into tuples, slices and ranges.
    ConstEq(Obj),
    /// `len(x)` of a list, tuple, dict or set (or of a subclass).
    Len(usize),
    /// Whether a list, tuple, dict or set (or a subclass) has items.
    Filled(bool),
    /// `maxlen` of a deque.
    MaxLen(Option<usize>),
    /// Whether a set has this element: a plain constant or a class.
    Holds(Obj, bool),
    /// The elements of a set, which are plain constants, in its order.
    Elements(Vec<Obj>),
    /// The keys of a dict, in order (strings by value, others by identity).
    DictKeys(Vec<DictKey>),
    /// A `paddle.Tensor` (or Parameter) with this metadata.
    Tensor(TensorGuard),
    /// A `paddle.Tensor` that lies in storage without gaps, in its own order.
    Contiguous,
    /// A `paddle.Tensor` that has no memory in common with the one at another tracker.
    Apart(TrackerRef),
    /// The same of all tensors that the object at another tracker holds in its attributes, and of
    /// their gradients; where that is a tensor, of it and its gradient.
    ApartFromAll(TrackerRef),
    /// A NumPy array of this dtype and shape.
    Array(ArrayGuard),
    /// A comparison of numbers answers the same; the guard looks at the first of them.
    Outcome(Arc<Outcome>),
    /// The same object as the one at another tracker.
    SameAs(TrackerRef),
    /// Another object than the one at another tracker.
    OtherThan(TrackerRef),
    /// A class with these classes in its method resolution order: what it is a subclass of, and
    /// where it looks things up.
    Order(Vec<Obj>),
    /// Whether a class is a subclass of an abstract one, where others may be registered.
    Registered(Obj, bool),
    /// `__name__` or the like of a function or class.
    Named(Arc<str>, Obj),
    /// No code of the user's runs when what is there, if anything is, goes.
    Quiet,
    /// A tensor that stops gradients, or a leaf: no hook of the user's sees its gradient.
    Unhooked,
    /// An optimizer: no code of the user's runs where a step reads what it holds.
    PlainOptimizer,
    /// All state that an opaque Paddle layer's `forward` may read is as it was: `__dict__`,
    /// parameters, buffers, sub-layers and hooks, recursively. The value is the layer itself.
    LayerState(Obj),
    /// Position and remaining content of an iterator cannot be guarded; this never holds twice.
    Never,
}

impl GuardKind {
    /// Whether it relies on how many items a container has, or on which.
    pub fn is_of_container(&self) -> bool {
        matches!(
            self,
            Self::Len(_) | Self::DictKeys(_) | Self::Elements(_) | Self::Holds(..)
        )
    }

    /// Whether it is of what Python code reads again, where that code runs once more: what tensors
    /// hold is read where they are, and the others hold where what is at their places is the same.
    pub fn is_of_python(&self) -> bool {
        match self {
            Self::Absent
            | Self::TypeIs(_)
            | Self::Is(_)
            | Self::ConstEq(_)
            | Self::Len(_)
            | Self::Filled(_)
            | Self::MaxLen(_)
            | Self::Holds(..)
            | Self::Elements(_)
            | Self::DictKeys(_)
            | Self::Order(_)
            | Self::Registered(..)
            | Self::Named(..)
            | Self::Tensor(_)
            | Self::LayerState(_) => true,
            Self::Present
            | Self::Contiguous
            | Self::Apart(_)
            | Self::ApartFromAll(_)
            | Self::Unhooked
            | Self::PlainOptimizer
            | Self::Array(_)
            | Self::Outcome(_)
            | Self::SameAs(_)
            | Self::OtherThan(_)
            | Self::Quiet
            | Self::Never => false,
        }
    }
}

/// One guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// What it looks at.
    pub tracker: TrackerRef,
    /// What must hold.
    pub kind: GuardKind,
}

/// The guards of one translation: in order of discovery, without repetition.
///
/// Order matters: a guard on `x` comes before guards on what is read from `x`. Global state (grad
/// mode, AMP state, default dtype, device, static mode) is always checked and is not listed.
#[derive(Clone, Debug, Default)]
pub struct GuardSet {
    guards: IndexSet<Guard>,
    distinct: IndexSet<TrackerRef>,
    /// Those that were asked for since somebody watches, new or not.
    watched: Option<FxHashSet<usize>>,
}

impl GuardSet {
    /// Adds a guard unless it is there.
    pub fn add(&mut self, tracker: &TrackerRef, kind: GuardKind) {
        let (at, _) = self.guards.insert_full(Guard {
            tracker: tracker.clone(),
            kind,
        });
        if let Some(watched) = &mut self.watched {
            watched.insert(at);
        }
    }

    /// From here on [`GuardSet::end_watch`] knows what was asked for, new or not. The answer is for
    /// it.
    pub fn watch(&mut self) -> Option<FxHashSet<usize>> {
        self.watched.replace(FxHashSet::default())
    }

    /// Ends a watch, inside of the one around it; the answer is what was asked for since it began.
    pub fn end_watch(&mut self, around: Option<FxHashSet<usize>>) -> Vec<Guard> {
        let watched = std::mem::replace(&mut self.watched, around).unwrap_or_default();
        if let Some(around) = &mut self.watched {
            around.extend(&watched);
        }
        let found = watched
            .into_iter()
            .filter_map(|at| self.guards.get_index(at));
        found.cloned().collect()
    }

    /// Declares that this value is a different object from every other value declared so.
    pub fn add_distinct(&mut self, tracker: &TrackerRef) {
        self.distinct.insert(tracker.clone());
    }

    /// The guards, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter()
    }

    /// Trackers whose values must all be different objects.
    pub fn distinct(&self) -> impl Iterator<Item = &TrackerRef> {
        self.distinct.iter()
    }

    /// The number of guards.
    pub fn len(&self) -> usize {
        self.guards.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// A position to roll back to.
    pub fn mark(&self) -> (usize, usize) {
        (self.guards.len(), self.distinct.len())
    }

    /// Forgets what was added since `mark`.
    pub fn rollback(&mut self, mark: (usize, usize)) {
        self.guards.truncate(mark.0);
        self.distinct.truncate(mark.1);
        if let Some(watched) = &mut self.watched {
            watched.retain(|at| *at < mark.0);
        }
    }
}
