//! Lists.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::reason::Break;
use crate::simulator::{comparisons, Step, Tracer};

use crate::simulator::variables::protocol::{
    builtin, class, not_made, Finalizer, Protocol, Rebuild, Snapshot,
};
use crate::simulator::variables::{IterVar, Kind, VarId, Variable};

/// `list`
pub struct List<'a>(pub &'a [VarId]);

impl Protocol for List<'_> {
    const NAME: &'static str = "List";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        match &var.class {
            Some(of) => class(t, of),
            None => builtin(t, "list"),
        }
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("set_list", Kind::List(self.0.to_vec()))
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        let class = to.tracer().vars.get(id).class.clone();
        if let Some(class) = &class {
            to.code().begin_call(class)?;
        }
        to.values(self.0)?;
        to.code().op("BUILD_LIST", self.0.len() as u32)?;
        if class.is_some() {
            to.code().call(1)?;
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Items(self.0.to_vec())
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(!self.0.is_empty())
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        Ok(self.0.len() as i64)
    }

    fn contains(&self, t: &mut Tracer<'_>, _: VarId, item: VarId) -> Step<bool> {
        for candidate in self.0 {
            if comparisons::equal_values(t, *candidate, item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let state = IterVar::Sequence { over: id, index: 0 };
        Ok(t.add(Kind::Iter(state)))
    }

    fn collect(&self, _: &mut Tracer<'_>, _: VarId) -> Step<Vec<VarId>> {
        Ok(self.0.to_vec())
    }
}

/// What was appended to a list that nothing has looked into.
pub struct Appended<'a>(pub &'a [VarId]);

impl Protocol for Appended<'_> {
    const NAME: &'static str = "Appended";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("extend_list", Kind::List(self.0.to_vec()))
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
