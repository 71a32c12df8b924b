//! Tuples, and named ones.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::reason::Break;
use crate::simulator::{comparisons, Step, Tracer};

use crate::simulator::variables::protocol::{
    builtin, class, Finalizer, Protocol, Rebuild, Snapshot,
};
use crate::simulator::variables::{IterVar, Kind, VarId, Variable};

/// `tuple`; with a class: a named tuple.
pub struct Tuple<'a>(pub &'a [VarId], pub Option<&'a Obj>);

impl Protocol for Tuple<'_> {
    const NAME: &'static str = "Tuple";

    fn children(&self) -> Vec<VarId> {
        self.0.to_vec()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match self.1 {
            Some(named) => class(t, named),
            None => builtin(t, "tuple"),
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        match self.1 {
            None => {
                to.values(self.0)?;
                to.code().op("BUILD_TUPLE", self.0.len() as u32)?;
            }
            Some(class) => {
                to.code().begin_call(class)?;
                to.values(self.0)?;
                to.code().call(self.0.len())?;
            }
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
