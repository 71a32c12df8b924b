//! [`Outside`]: what such code reads outside of the frame. The guards say that it is as it was when
//! the frame begins; who changes it before the code runs again makes plain Python compute something
//! else.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxHashSet;

use crate::Tracer;
use crate::guard::{Guard, GuardKind, GuardSet};
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{CellVar, Kind, VarId};

/// What is read outside of a frame.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    relied: IndexSet<Guard>,
    places: IndexSet<TrackerRef>,
}

impl Outside {
    /// What was relied on, apart from what is at the places.
    pub fn guards(&self) -> GuardSet {
        let mut guards = GuardSet::default();
        for guard in &self.relied {
            let of_value = matches!(guard.kind, GuardKind::Is(_) | GuardKind::ConstEq(_));
            if !of_value || !self.places.contains(&guard.tracker) {
                guards.add(&guard.tracker, guard.kind.clone());
            }
        }
        guards
    }

    /// Where the same has to be.
    pub fn places(&self) -> Vec<TrackerRef> {
        self.places.iter().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.relied.is_empty() && self.places.is_empty()
    }

    pub(super) fn add(&mut self, place: TrackerRef) {
        self.places.insert(place);
    }

    pub(super) fn relies_on(&mut self, guards: Vec<Guard>) {
        self.relied
            .extend(guards.into_iter().filter(|guard| guard.kind.is_of_python()));
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.relied.extend(other.relied.iter().cloned());
        self.places.extend(other.places.iter().cloned());
    }

    /// Adds the items of containers among these, and what cells hold: they may have been looked
    /// into before.
    pub(super) fn add_contents(&mut self, t: &Tracer<'_>, ids: &FxHashSet<VarId>) {
        let mut containers = FxHashSet::default();
        // Others were of operations inside, which have added theirs.
        for id in ids.iter().filter(|id| (id.0 as usize) < t.vars.len()) {
            let var = t.vars.get(*id);
            match (&var.source, &var.kind) {
                (Some(source), Kind::Cell(CellVar::Full(_))) => {
                    self.add(Arc::new(Tracker::CellContents(source.clone())));
                }
                (Some(source), Kind::List(_) | Kind::Dict(_) | Kind::Set(_)) => {
                    containers.insert(source.clone());
                }
                _ => {}
            }
        }
        if containers.is_empty() {
            return;
        }
        let all = t.guards.iter();
        for guard in all.filter(|guard| containers.contains(&guard.tracker)) {
            let of = &guard.tracker;
            if let GuardKind::Len(len) = &guard.kind {
                let items = (0..*len).map(|at| Arc::new(Tracker::ListItem(of.clone(), at)));
                self.places.extend(items);
            } else if let GuardKind::DictKeys(keys) = &guard.kind {
                let item = |key: &DictKey| Tracker::DictItem(of.clone(), key.clone());
                self.places
                    .extend(keys.iter().map(|key| Arc::new(item(key))));
            }
            self.relies_on(vec![guard.clone()]);
        }
    }

    /// What the frame has written itself differs from what the guards say, and is another matter.
    pub(super) fn without_written(mut self, t: &Tracer<'_>) -> Self {
        let written = Written::by(t);
        self.relied.retain(|guard| {
            let below = matches!(&guard.kind, GuardKind::LayerState(layer) if t.deferred.written_layers.contains(layer));
            !below && !written.covers(&guard.tracker)
        });
        self.places.retain(|place| !written.covers(place));
        self
    }
}

/// What a frame writes outside of it.
#[derive(Default)]
struct Written {
    /// Whole containers and cells.
    all_of: FxHashSet<TrackerRef>,
    attributes: FxHashSet<(TrackerRef, Arc<str>)>,
}

impl Written {
    fn by(t: &Tracer<'_>) -> Self {
        let mut written = Self::default();
        for id in t.vars.mutated() {
            let var = t.vars.get(*id);
            let Some(source) = &var.source else {
                continue;
            };
            if let Kind::Object(object) | Kind::Layer(object) = &var.kind {
                let names = object.writes.iter().map(|write| write.name.clone());
                let names = names.map(|name| (source.clone(), name));
                written.attributes.extend(names);
            } else {
                written.all_of.insert(source.clone());
            }
        }
        for (namespace, write) in &t.global_writes {
            let namespace = Arc::new(Tracker::Const(namespace.clone()));
            let at = Tracker::DictItem(namespace, DictKey::Str(write.name.clone()));
            written.all_of.insert(Arc::new(at));
        }
        written
    }

    /// Whether it is there, or below.
    fn covers(&self, place: &TrackerRef) -> bool {
        let mut at = Some(place);
        while let Some(here) = at {
            if self.all_of.contains(here) || self.is_attribute(here) {
                return true;
            }
            at = here.base();
        }
        false
    }

    fn is_attribute(&self, place: &Tracker) -> bool {
        let is = |owner: &TrackerRef, name: &Arc<str>| {
            self.attributes.contains(&(owner.clone(), name.clone()))
        };
        if let Tracker::Member(owner, name) | Tracker::NativeAttr(owner, name) = place {
            return is(owner, name);
        }
        let Tracker::DictItem(dict, DictKey::Str(name)) = place else {
            return false;
        };
        let mut dict = &**dict;
        if let Tracker::DictItem(registries, _) = dict {
            // Parameters, layers and buffers of a layer.
            dict = registries;
        }
        matches!(dict, Tracker::InstanceDict(owner) if is(owner, name))
    }
}
