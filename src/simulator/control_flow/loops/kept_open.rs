//! Loops over open dims that were captured: where the dims are known they are captured, too, and
//! both traces have the same operations.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::bytecode::Code;
use crate::frame_state::FrameState;
use crate::obj::Obj;
use crate::variables::{Item, IterVar, Kind, VarId};
use crate::{Step, Tracer, rows, tensor_scalar};

/// Loops, by the code that they stand in.
pub type LoopPlaces = FxHashSet<LoopPlace>;

/// The place of a loop, in another trace of the same function too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopPlace {
    filename: Arc<str>,
    qualname: Arc<str>,
    firstlineno: u32,
    at: usize,
}

impl LoopPlace {
    /// Of the FOR_ITER at `at`.
    pub(crate) fn of(code: &Code, at: usize) -> Self {
        Self {
            filename: code.filename.clone(),
            qualname: code.qualname.clone(),
            firstlineno: code.firstlineno,
            at,
        }
    }
}

/// Where the loop at `at` was captured with open dims, its iterator counts in the graph here, too.
pub(crate) fn keep_open(
    t: &mut Tracer<'_>,
    frame: &FrameState,
    at: usize,
    iterator: VarId,
) -> Step<()> {
    let places = &t.options.kept_open;
    if places.is_empty() || !places.contains(&LoopPlace::of(&frame.code, at)) {
        return Ok(());
    }
    count(t, iterator).map(drop)
}

/// An iterator that was not advanced counts in the graph from now on; false where it cannot.
pub(crate) fn count(t: &mut Tracer<'_>, iterator: VarId) -> Step<bool> {
    let Some(state) = counting(t, iterator)? else {
        return Ok(false);
    };
    t.vars.mutate(iterator, |var| var.kind = Kind::Iter(state));
    Ok(true)
}

/// An iterator that was not advanced, as one that counts in the graph.
fn counting(t: &mut Tracer<'_>, iterator: VarId) -> Step<Option<IterVar>> {
    let Kind::Iter(state) = t.kind(iterator).clone() else {
        return Ok(None);
    };
    let (next, stop, step, item) = if let IterVar::Range { next, stop, step } = state {
        (next, stop, step, Item::Number)
    } else if let IterVar::Tensor { over, index: 0 } = state {
        let len = crate::truth::len(t, over)?;
        (0, len, 1, Item::Row(over))
    } else if let IterVar::Enumerate { inner, count } = state {
        let Some(state) = counting(t, inner)? else {
            return Ok(None);
        };
        t.vars.mutate(inner, |var| var.kind = Kind::Iter(state));
        return Ok(rows::counted(t, inner, count));
    } else {
        return Ok(None);
    };
    let stop = t.int(stop);
    let Some(stop) = t.value(stop) else {
        return Ok(None);
    };
    let stop = tensor_scalar::number(t, &Obj::from(stop))?;
    Ok(stop.map(|stop| IterVar::Numbers {
        next: t.int(next),
        stop: t.add(Kind::SymNumber(stop)),
        step,
        item: Rc::new(item),
    }))
}
