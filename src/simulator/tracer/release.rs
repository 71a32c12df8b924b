//! References that go away: nothing may, in silence, whose end runs code of the user's.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::abi;
use crate::guard::GuardKind;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{Finalizer, Kind, VarId};
use crate::{attributes, classes};

use super::{Step, Tracer};

const WHY: &str = "an object with a destructor may go away";

impl<'py> Tracer<'py> {
    /// Called where a container or cell lets a value go, also for another holder: from then on
    /// names of the frame may be all that holds it, which are not followed. Stops where its end may
    /// run code of the user's.
    pub(crate) fn release(&mut self, holder: VarId, id: VarId) -> Step<()> {
        // Not `kind`, which looks at what nobody has read.
        let leaf = matches!(
            self.vars.kind(id),
            Kind::Const | Kind::Tensor(_) | Kind::Null
        );
        let existed = self.value(holder).is_some();
        match (self.value(id), self.source(id)) {
            (Some(value), Some(source)) if existed && !leaf => self.release_at(Some(value), source),
            _ => self.let_go(id),
        }
    }

    /// The same for what an attribute or global variable holds, if it does; it need not have been
    /// read.
    pub(crate) fn release_item(
        &mut self,
        dict: &Bound<'py, PyDict>,
        of: TrackerRef,
        name: &str,
    ) -> Step<()> {
        let place = Arc::new(Tracker::DictItem(of, DictKey::Str(Arc::from(name))));
        self.release_at(dict.get_item(name)?, place)
    }

    /// The same for the value at a place, if there is one. What is asked now is what the guard asks
    /// at each call.
    pub(crate) fn release_at(
        &mut self,
        old: Option<Bound<'py, PyAny>>,
        place: TrackerRef,
    ) -> Step<()> {
        if old.is_some_and(|old| !abi::is_quiet(self.py, (&old).into())) {
            return self.unsupported(WHY);
        }
        self.guards.add(&place, GuardKind::Quiet);
        Ok(())
    }

    /// Called for a value whose reference goes away: stops when that may run a destructor.
    pub(crate) fn let_go(&mut self, id: VarId) -> Step<()> {
        self.let_go_of(id, 4)
    }

    fn let_go_of(&mut self, id: VarId, depth: usize) -> Step<()> {
        let var = self.vars.get(id);
        if var.value.is_none() && depth > 0 {
            let held = match var.kind.finalizer() {
                Finalizer::Items(items) => items,
                Finalizer::OfInstance(contents) => contents.into_iter().collect(),
                Finalizer::Nothing | Finalizer::OfUnknown => Vec::new(),
            };
            for item in held {
                self.let_go_of(item, depth - 1)?;
            }
        }
        let var = self.vars.get(id);
        let known = match var.kind.finalizer() {
            Finalizer::OfUnknown => false,
            Finalizer::OfInstance(_) => true,
            Finalizer::Nothing | Finalizer::Items(_) => return Ok(()),
        };
        let Some(real) = self.value(id) else {
            return Ok(());
        };
        if known {
            classes::guard_names(self, &real.get_type(), &["__del__"]);
        }
        if attributes::lookup(&real.get_type(), "__del__").is_some() {
            return self.unsupported(WHY);
        }
        Ok(())
    }
}
