//! What a trace relies on beyond the kinds of its variables: guards on objects, on their dictionaries, and that nothing
//! with a destructor goes away.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::guard::{native, GuardKind};
use crate::obj::Obj;
use crate::simulator::{attributes, classes};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId};

use super::{Step, Tracer};

impl<'py> Tracer<'py> {
    /// Adds a guard on `id`, when it comes from outside.
    pub fn guard(&mut self, id: VarId, kind: GuardKind) {
        let Some(source) = self.source(id) else {
            return;
        };
        let fixed = matches!(*source, Tracker::Const(_));
        let known = match &kind {
            GuardKind::Is(_) | GuardKind::ConstEq(_) => fixed,
            // An object may exchange its class for another.
            GuardKind::TypeIs(class) => {
                let class = class.bind(self.py).cast::<PyType>();
                fixed && class.is_ok_and(|class| !native::is_mutable(class))
            }
            _ => false,
        };
        if !known {
            self.guards.add(&source, kind);
        }
    }

    /// Guards that `id` is this very object.
    pub fn guard_identity(&mut self, id: VarId) {
        if let Some(value) = self.vars.get(id).value.clone() {
            self.guard(id, GuardKind::Is(value));
        }
    }

    /// Called for the dictionary of an object whose attributes are read or written. Stops where the program
    /// has the dictionary itself too, and where looking into it may run user code.
    pub fn note_namespace(&mut self, dict: &Bound<'py, PyDict>, of: &TrackerRef) -> Step<()> {
        let address = dict.as_ptr() as usize;
        if self.namespaces.contains_key(&address) {
            return Ok(());
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
        let tracker = Arc::new(Tracker::InstanceDict(of.clone()));
        self.namespaces.insert(address, tracker);
        Ok(())
    }

    /// Guards that no dictionary which the program has is that of an object, where it writes to one of them: the other
    /// would change too.
    pub fn guard_namespaces(&mut self) {
        let (mut dicts, mut objects) = (Vec::new(), Vec::new());
        for id in self.vars.mutated() {
            let var = self.vars.get(*id);
            match (&var.kind, &var.source, &var.value) {
                (Kind::Dict(_), Some(source), _) => dicts.push(source.clone()),
                (Kind::Object(_) | Kind::Layer(_), Some(source), Some(_)) => {
                    objects.push(source.clone())
                }
                _ => {}
            }
        }
        let mut pairs = Vec::new();
        for dict in &dicts {
            pairs.extend(
                self.namespaces
                    .values()
                    .map(|own| (own.clone(), dict.clone())),
            );
        }
        for object in objects {
            let own = Arc::new(Tracker::InstanceDict(object));
            if !self.namespaces.values().any(|known| *known == own) {
                continue;
            }
            let all = self.vars.sources(|kind| matches!(kind, Kind::Dict(_)));
            pairs.extend(all.into_iter().map(|dict| (own.clone(), dict)));
        }
        for (own, dict) in pairs {
            self.guards.add(&own, GuardKind::OtherThan(dict));
        }
    }

    /// Called for a value whose reference goes away: stops when that may run a destructor.
    pub fn let_go(&mut self, id: VarId) -> Step<()> {
        self.let_go_of(id, 4)
    }

    fn let_go_of(&mut self, id: VarId, depth: usize) -> Step<()> {
        let var = self.vars.get(id);
        if var.value.is_none() && depth > 0 {
            let held: Vec<VarId> = match &var.kind {
                Kind::List(items) | Kind::Tuple(items, _) => items.clone(),
                Kind::Dict(dict) => dict.items.values().map(|(_, value)| *value).collect(),
                Kind::Object(object) => object.contents.into_iter().collect(),
                _ => Vec::new(),
            };
            for item in held {
                self.let_go_of(item, depth - 1)?;
            }
        }
        let var = self.vars.get(id);
        let (real, known) = match (&var.kind, &var.value) {
            (Kind::Lazy | Kind::Opaque, Some(value)) => (value.bind(self.py).clone(), false),
            (Kind::Object(_), Some(value)) => (value.bind(self.py).clone(), true),
            _ => return Ok(()),
        };
        if known {
            classes::guard_names(self, &real.get_type(), &["__del__"]);
        }
        if attributes::lookup(&real.get_type(), "__del__").is_some() {
            return self.unsupported("an object with a destructor may go away");
        }
        Ok(())
    }

    /// Guards the class of `id`.
    pub(in crate::simulator) fn guard_class(&mut self, id: VarId) {
        if let Some(value) = self.value(id) {
            self.guard_type(id, &value);
        }
    }

    pub(super) fn guard_type(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        self.guard(id, GuardKind::TypeIs(Obj::from(value.get_type())));
    }

    pub(super) fn distinct(&mut self, id: VarId) {
        if let Some(source) = self.source(id) {
            self.guards.add_distinct(&source);
        }
    }
}
