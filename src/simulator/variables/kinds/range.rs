//! Ranges.

use pyo3::prelude::*;
use pyo3::types::{PyRange, PyType};
use std::rc::Rc;

use super::slice::PARTS;
use crate::bytecode::{BinOp, CmpOp};
use crate::graph::Arg;
use crate::obj::Obj;
use crate::reason::Break;
use crate::{Step, Tracer, fold, iterate, operators, phi, program_numbers, tensor_scalar};

use crate::variables::answers::{Finalizer, Snapshot, builtin, no_reversed};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Item, IterVar, Kind, VarId, Variable, protocol};

/// The class of ranges, as `builtins` has it.
pub const RANGE: &str = "range";

/// `range(start, stop, step)`
pub struct Range(pub i64, pub i64, pub i64);

impl Protocol for Range {
    const NAME: &'static str = "Range";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, RANGE)
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.call_builtin(RANGE, 3, |to| {
            [self.0, self.1, self.2]
                .into_iter()
                .try_for_each(|part| to.int(part))
        })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        Ok(self.len(t, id)? != 0)
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        let Self(start, stop, step) = *self;
        let span = if step > 0 {
            stop.saturating_sub(start)
        } else {
            start.saturating_sub(stop)
        };
        let step = step.saturating_abs();
        Ok(if span <= 0 { 0 } else { (span - 1) / step + 1 })
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        let result = fold::operator(t, "contains", &[id, item])?;
        protocol::truth(t, result)
    }

    fn iter(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        let Self(next, stop, step) = *self;
        Ok(t.add(Kind::Iter(IterVar::Range { next, stop, step })))
    }

    fn collect(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Vec<VarId>> {
        let len = self.len(t, id)?;
        iterate::check_count(t, usize::try_from(len).unwrap_or(usize::MAX))?;
        iterate::collect_steps(t, id)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        fold::get_item(t, id, key)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str) -> Step<Option<VarId>> {
        let Self(start, stop, step) = *self;
        match PARTS.iter().position(|part| *part == name) {
            Some(at) => Ok(Some(t.int([start, stop, step][at]))),
            None => t.unsupported(format!("attribute {name} of a range")),
        }
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, _: VarId) -> Option<Bound<'py, PyAny>> {
        let Self(start, stop, step) = *self;
        Some(
            PyRange::new_with_step(t.py, start as isize, stop as isize, step as isize)
                .ok()?
                .into_any(),
        )
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        match self.to_object(t, id) {
            Some(range) => Ok(Arg::Const(Obj::from(range))),
            None => t.unsupported("a range argument"),
        }
    }

    fn reversed(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        let Self(start, stop, step) = *self;
        Ok(t.add(Kind::Iter(backwards(start, stop, step))))
    }
}

/// The same numbers, the last one first.
fn backwards(start: i64, stop: i64, step: i64) -> IterVar {
    let span = if step > 0 { stop - start } else { start - stop };
    let by = step.abs();
    let length = (span.max(0) + by - 1) / by;
    IterVar::Range {
        next: start + (length - 1) * step,
        stop: start - step,
        step: -step,
    }
}

/// How many numbers `range(start, stop, step)` has.
pub(crate) fn count(t: &mut Tracer<'_>, [start, stop]: [VarId; 2], step: i64) -> Step<VarId> {
    let (from, to) = if step > 0 {
        (start, stop)
    } else {
        (stop, start)
    };
    let by = step.unsigned_abs().try_into().unwrap_or(i64::MAX);
    let (most, by, zero) = (t.int(by - 1), t.int(by), t.int(0));
    let span = operators::binary(t, BinOp::Sub, false, to, from)?;
    let span = operators::binary(t, BinOp::Add, false, span, most)?;
    let count = operators::binary(t, BinOp::FloorDiv, false, span, by)?;
    match program_numbers::extreme(t, CmpOp::Gt, &[count, zero])? {
        Some(count) => Ok(count),
        None => phi::refuse(t, "len() of such a range()"),
    }
}

/// `range(start, stop, step)` whose ends are numbers of the graph.
pub struct NumberRange(pub VarId, pub VarId, pub i64);

impl Protocol for NumberRange {
    const NAME: &'static str = "NumberRange";

    fn children(&self) -> Vec<VarId> {
        vec![self.0, self.1]
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn iter(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        let Self(next, stop, step) = *self;
        Ok(t.add(Kind::Iter(IterVar::Numbers {
            next,
            stop,
            step,
            item: Rc::new(Item::Number),
        })))
    }

    fn reversed(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        let Self(start, stop, step) = *self;
        if step.abs() != 1 {
            return no_reversed(t);
        }
        // From the last one to the one in front of the first.
        let (Some(next), Some(stop)) = (
            tensor_scalar::less(t, stop, step)?,
            tensor_scalar::less(t, start, step)?,
        ) else {
            return no_reversed(t);
        };
        Ok(t.add(Kind::Iter(IterVar::Numbers {
            next,
            stop,
            step: -step,
            item: Rc::new(Item::Number),
        })))
    }
}
