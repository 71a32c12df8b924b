//! What a trace relies on beyond the kinds of its variables: guards on objects and on their
//! dictionaries.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyString, PyType};

use crate::guard::GuardKind;
use crate::native;
use crate::obj::Obj;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{AttrOp, Kind, VarId};

use super::{Step, Tracer};

/// The dictionary of an object.
pub struct Namespace {
    place: TrackerRef,
    /// The address of the object: another one may have the same dictionary.
    owner: usize,
}

/// Whether a dictionary is that of a module: its items are variables.
pub(super) fn is_of_module(dict: &Bound<'_, PyDict>) -> bool {
    ["__builtins__", "__spec__"]
        .iter()
        .any(|name| dict.contains(*name).unwrap_or(true))
}

/// Whether a guard of this kind always holds of an object that is always the same.
fn is_fixed(py: Python<'_>, kind: &GuardKind) -> bool {
    // An object may exchange its class for another.
    if let GuardKind::TypeIs(class) = kind {
        let class = class.bind(py).cast::<PyType>();
        return class.is_ok_and(|class| !native::is_mutable(class));
    }
    matches!(kind, GuardKind::Is(_) | GuardKind::ConstEq(_))
}

impl<'py> Tracer<'py> {
    /// Adds a guard on `id`, when it comes from outside.
    pub(crate) fn guard(&mut self, id: VarId, kind: GuardKind) {
        let Some(source) = self.source(id) else {
            return;
        };
        let fixed = matches!(*source, Tracker::Const(_));
        let known = fixed && is_fixed(self.py, &kind);
        if !known {
            self.guards.add(&source, kind);
        }
    }

    /// Guards that `id` is this very object.
    pub(crate) fn guard_identity(&mut self, id: VarId) {
        if let Some(value) = self.vars.get(id).value.clone() {
            self.guard(id, GuardKind::Is(value));
        }
    }

    /// Called for the dictionary of an object whose attributes are read or written. Stops where the
    /// program has the dictionary itself too, and where looking into it may run user code.
    pub(crate) fn note_namespace(
        &mut self,
        dict: &Bound<'py, PyDict>,
        of: &TrackerRef,
        owner: &Bound<'py, PyAny>,
    ) -> Step<()> {
        let place = Arc::new(Tracker::InstanceDict(of.clone()));
        self.note_dict(dict, place, owner)
    }

    /// The same for a dictionary of `owner` that is found at `place`.
    pub(crate) fn note_dict(
        &mut self,
        dict: &Bound<'py, PyDict>,
        place: TrackerRef,
        owner: &Bound<'py, PyAny>,
    ) -> Step<()> {
        let of_module = owner.is_instance_of::<PyModule>();
        let (address, owner) = (dict.as_ptr() as usize, owner.as_ptr() as usize);
        let written = |(globals, _): &(Obj, AttrOp)| globals.bind(self.py).is(dict);
        // The dictionary of a function was noted before the first write.
        let own = self.seen.namespaces.get(&address);
        let of_function = own.is_some_and(|own| own.owner == owner) && !is_of_module(dict);
        if !of_function && self.global_writes.iter().any(written) {
            return self.unsupported("globals that were written, as the __dict__ of an object");
        }
        if let Some(known) = self.seen.namespaces.get(&address) {
            return match known.owner == owner {
                true => Ok(()),
                false => self.unsupported("two objects that share one dictionary"),
            };
        }
        if !of_module && is_of_module(dict) {
            return self.unsupported("an object whose __dict__ is that of a module");
        }
        let seen = self.known.get(&address).copied();
        if seen.is_some_and(|id| !matches!(self.vars.kind(id), Kind::Lazy | Kind::Opaque)) {
            return self.unsupported("an object together with its __dict__");
        }
        if !dict
            .keys()
            .iter()
            .all(|key| key.is_exact_instance_of::<PyString>())
        {
            return self.unsupported("an object with attributes that are not strings");
        }
        self.seen
            .namespaces
            .insert(address, Namespace { place, owner });
        Ok(())
    }

    /// Called for each variable of a module that is read, under its name and the dictionary that it
    /// is in.
    pub(crate) fn note_variable(&mut self, dict: TrackerRef, name: &str) {
        let dicts = self.seen.variables.entry(Arc::from(name)).or_default();
        if !dicts.contains(&dict) {
            dicts.push(dict);
        }
    }

    /// Guards that no dictionary which the program has is one of an object, where it writes to one
    /// of them, that objects it writes to share theirs with none, nor with a module of which
    /// variables are read or written, and that cells it writes to are no others: those would change
    /// too.
    pub fn guard_namespaces(&mut self) {
        let (mut dicts, mut objects, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for id in self.vars.mutated() {
            let var = self.vars.get(*id);
            match (&var.kind, &var.source, &var.value) {
                (Kind::Dict(_), Some(source), _) => dicts.push(source.clone()),
                (Kind::Object(object) | Kind::Layer(object), Some(source), Some(_)) => {
                    objects.push((source.clone(), object.writes.iter().map(|op| &op.name)));
                }
                (Kind::Cell(_), Some(source), Some(_)) => cells.push(source.clone()),
                _ => {}
            }
        }
        let mut pairs = Vec::new();
        for dict in &dicts {
            pairs.extend(
                self.seen
                    .namespaces
                    .values()
                    .map(|own| (own.place.clone(), dict.clone())),
            );
        }
        let all = self.vars.sources(|kind| matches!(kind, Kind::Dict(_)));
        for (object, names) in objects {
            let own = Arc::new(Tracker::InstanceDict(object));
            let places = || self.seen.namespaces.values().map(|known| &known.place);
            for known in places().filter(|known| **known == own || known.base() == Some(&own)) {
                pairs.extend(all.iter().map(|dict| (known.clone(), dict.clone())));
            }
            if places().any(|known| *known == own) {
                let others =
                    places().filter(|it| matches!(***it, Tracker::InstanceDict(_)) && **it != own);
                pairs.extend(others.map(|other| (own.clone(), other.clone())));
                let variables = names
                    .filter_map(|name| self.seen.variables.get(name))
                    .flatten();
                pairs.extend(variables.map(|globals| (own.clone(), globals.clone())));
            }
        }
        for (globals, _) in &self.global_writes {
            let address = globals.bind(self.py).as_ptr() as usize;
            let of_module = globals.bind(self.py).cast().is_ok_and(is_of_module);
            let globals = Arc::new(Tracker::Const(globals.clone()));
            // That of a function which is written to is known as its own.
            let others = self.seen.namespaces.iter();
            let others = others.filter(|(known, _)| of_module || **known != address);
            let places = others.map(|(_, known)| &known.place);
            let own = places.filter(|it| matches!(***it, Tracker::InstanceDict(_)));
            pairs.extend(own.map(|own| (own.clone(), globals.clone())));
        }
        let all = self.vars.sources(|kind| matches!(kind, Kind::Cell(_)));
        for cell in cells {
            let others = all.iter().filter(|other| **other != cell);
            pairs.extend(others.map(|other| (cell.clone(), other.clone())));
        }
        for (own, dict) in pairs {
            self.guards.add(&own, GuardKind::OtherThan(dict));
        }
    }

    /// Guards the class of `id`.
    pub(crate) fn guard_class(&mut self, id: VarId) {
        if let Some(value) = self.value(id) {
            self.guard_type(id, &value);
        }
    }

    pub(super) fn guard_type(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        self.guard(id, GuardKind::TypeIs(Obj::from(value.get_type())));
    }

    pub(crate) fn distinct(&mut self, id: VarId) {
        if let Some(source) = self.source(id) {
            self.guards.add_distinct(&source);
        }
    }
}
