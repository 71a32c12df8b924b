//! Sets and frozen sets.

use indexmap::IndexMap;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet, PyType};

use crate::bytecode::BinOp;
use crate::containers::views;
use crate::frame::OPERATOR;
use crate::methods::row::MethodRow;
use crate::reason::{Break, BreakId};
use crate::{Step, Tracer, fold, keys, methods};

use crate::variables::answers::{Finalizer, Precedence, Snapshot, builtin};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{IterVar, Key, Kind, VarId, Variable};

/// A set or frozenset.
#[derive(Clone, Debug, Default)]
pub struct SetVar {
    /// Key -> element.
    pub items: IndexMap<Key, VarId>,
    /// Whether it is a frozenset.
    pub frozen: bool,
    /// The operator that made it, and copies of its operands; `None`: its elements were added one
    /// by one, in this order.
    pub made_by: Option<(BinOp, VarId, VarId)>,
}

impl Protocol for SetVar {
    const NAME: &'static str = "Set";

    fn children(&self) -> Vec<VarId> {
        let operands = self.made_by.iter().flat_map(|(_, a, b)| [*a, *b]);
        self.items.values().copied().chain(operands).collect()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, if self.frozen { "frozenset" } else { "set" })
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("set_set", Kind::Set(self.clone()))
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        if let Some((op, a, b)) = self.made_by {
            to.call_type(OPERATOR, &op.function(false), 2, |to| to.values(&[a, b]))?;
            return Ok(false);
        }
        let items: Vec<VarId> = self.items.values().copied().collect();
        if self.frozen {
            to.call_builtin("frozenset", 1, |to| {
                to.values(&items)?;
                to.code().op("BUILD_TUPLE", items.len() as u32)?;
                Ok(())
            })?;
        } else {
            to.values(&items)?;
            to.code().op("BUILD_SET", items.len() as u32)?;
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(!self.items.is_empty())
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        Ok(self.items.len() as i64)
    }

    fn contains(&self, t: &mut Tracer<'_>, _: VarId, item: VarId) -> Step<bool> {
        let key = keys::key_of(t, item)?;
        Ok(self.items.contains_key(&key))
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let items = self.collect(t, id)?;
        let keys = self.items.keys().cloned().collect();
        Ok(t.add(Kind::Iter(IterVar::Fixed {
            over: (id, keys),
            items,
            index: 0,
        })))
    }

    fn collect(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Vec<VarId>> {
        // The order of a set is the order of the real set with these elements.
        let Some(object) = fold::to_object(t, id) else {
            return t.stop(BreakId::Iteration, "iteration over this set");
        };
        let mut items = Vec::with_capacity(self.items.len());
        for item in object.try_iter()? {
            items.push(fold::from_object(t, &item?)?);
        }
        Ok(items)
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        operands: (VarId, VarId),
    ) -> Step<Option<VarId>> {
        views::operator(t, op, inplace, operands)
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        match self.frozen {
            true => &[methods::SET],
            false => &[methods::SET, methods::SET_CHANGES],
        }
    }

    fn is_unchanged(&self, _: &mut Tracer<'_>, _: VarId, keys: &[Key]) -> bool {
        self.items.keys().eq(keys)
    }

    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(Some(Kind::Set(Self::default())))
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        if let Some(value) = t.value(id).filter(|_| self.frozen) {
            return Some(value);
        }
        if let Some((op, a, b)) = self.made_by {
            let operands = (fold::to_object(t, a)?, fold::to_object(t, b)?);
            let function = t.operator(&op.function(false)).ok()?;
            return function.call1(operands).ok();
        }
        let items: Vec<VarId> = self.items.values().copied().collect();
        let items = fold::to_objects(t, &items)?;
        Some(if self.frozen {
            PyFrozenSet::new(t.py, items).ok()?.into_any()
        } else {
            PySet::new(t.py, items).ok()?.into_any()
        })
    }
}
