//! What Python code that runs again on the way back has read (a block of `recompute`, the
//! `backward` of a PyLayer): plain Python reads it then, as it has become by that time. Where the
//! frame changes it behind the operation, the interpreter runs the operation. What others may have
//! changed is checked when it would run again: see [`Outside`].

mod outside;
mod replays;
mod written;

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::Code;
use crate::reason::{BreakKind, SourceLoc};
use crate::tracker::TrackerRef;
use crate::variables::{AttrOp, CellVar, DictVar, Kind, ObjectVar, VarId, Variable};

use crate::opcode_executor::Outcome;
use crate::{Step, Tracer};
use written::Written;

pub use outside::Outside;
pub use replays::Replays;

/// What is read while it is recorded.
#[derive(Debug, Default)]
pub struct Reads {
    ids: FxHashSet<VarId>,
    /// Those of them that are cells.
    cells: FxHashSet<VarId>,
    /// Addresses of those that come from outside.
    objects: FxHashSet<usize>,
    /// Of attributes and globals.
    names: FxHashSet<Arc<str>>,
    /// Whether lists, dicts or sets are among them.
    containers: bool,
    outside: Outside,
}

impl Reads {
    pub(crate) fn note(&mut self, id: VarId, var: &Variable) {
        if var.kind.may_change() && self.ids.insert(id) {
            self.containers |= is_container(&var.kind);
            self.objects.extend(address(var));
            if matches!(var.kind, Kind::Cell(_)) {
                self.cells.insert(id);
            }
        }
    }

    pub(crate) fn note_name(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(Arc::from(name));
        }
    }

    /// Something outside was looked up.
    pub(crate) fn note_place(&mut self, place: &TrackerRef) {
        if place.base().is_some() {
            self.outside.add(place.clone());
        }
    }
}

fn address(var: &Variable) -> Option<usize> {
    var.value.as_ref().map(|value| value.as_ptr() as usize)
}

/// Layers keep their parts in ordered dicts: those are left out.
fn is_container(kind: &Kind) -> bool {
    let is_dict = |dict: &DictVar| dict.class.is_none() || dict.default_factory.is_some();
    matches!(kind, Kind::List(_) | Kind::Appended(_) | Kind::Set(_))
        || kind.dict().is_some_and(is_dict)
}

/// A captured operation whose Python code plain Python runs again on the way back.
#[derive(Debug)]
pub struct RunsAgain {
    loc: SourceLoc,
    /// What was there in front of it, as it was then.
    read: FxHashMap<VarId, Rc<Variable>>,
    cells: FxHashSet<VarId>,
    /// Addresses of objects from outside.
    objects: FxHashSet<usize>,
    names: FxHashSet<Arc<str>>,
    /// Whether it reads lists, dicts or sets.
    containers: bool,
    global_writes: usize,
    outside: Outside,
}

/// Runs `run`; the answer says what it read, too.
pub(crate) fn watch<'py, R>(
    t: &mut Tracer<'py>,
    run: impl FnOnce(&mut Tracer<'py>) -> R,
) -> (R, Reads) {
    let around = t.replays.reads.replace(Reads::default());
    let guards = t.guards.watch();
    let answer = run(t);
    let guards = t.guards.end_watch(guards);
    let mut reads = std::mem::replace(&mut t.replays.reads, around).unwrap_or_default();
    reads.outside.relies_on(guards);
    reads.outside.add_contents(t, &reads.ids);
    if let Some(around) = &mut t.replays.reads {
        around.ids.extend(&reads.ids);
        around.cells.extend(&reads.cells);
        around.objects.extend(&reads.objects);
        around.names.extend(reads.names.iter().cloned());
        around.containers |= reads.containers;
        around.outside.extend(&reads.outside);
    }
    (answer, reads)
}

/// The user's call, which Paddle's own functions may stand in between.
fn place(t: &Tracer<'_>) -> PyResult<SourceLoc> {
    let paddle = t
        .paddle
        .module
        .bind(t.py)
        .getattr("__path__")?
        .get_item(0)?;
    let paddle: String = paddle.extract()?;
    let mut locations = t.frames.locations.iter().rev();
    let of_user = locations.find(|loc| !loc.file.starts_with(&paddle));
    Ok(of_user.cloned().unwrap_or_else(|| t.loc()))
}

/// Stops where another attempt has found that what the operation reads changes behind it.
pub(crate) fn check(t: &Tracer<'_>, operation: &str) -> Step<()> {
    if !t.options.detours.changed_later.is_empty()
        && t.options.detours.changed_later.contains(&place(t)?)
    {
        return t.stop(
            BreakKind::UnsupportedCall,
            format!(
                "{operation}: what its code reads changes before it runs again on the way back"
            ),
        );
    }
    Ok(())
}

/// Remembers an operation, when it is in the trace and nothing else of what was simulated for it.
pub(crate) fn note(t: &mut Tracer<'_>, reads: Reads) -> PyResult<()> {
    let len = t.vars.len();
    let is_there = |id: &VarId| (id.0 as usize) < len;
    let read = reads.ids.into_iter().filter(is_there);
    let operation = RunsAgain {
        loc: place(t)?,
        read: read.map(|id| (id, t.vars.get(id).clone())).collect(),
        cells: reads.cells.into_iter().filter(is_there).collect(),
        objects: reads.objects,
        names: reads.names,
        containers: reads.containers,
        global_writes: t.global_writes.len(),
        outside: reads.outside,
    };
    t.replays.operations.push(operation);
    Ok(())
}

impl RunsAgain {
    /// Variables from `len` on are no more.
    pub(crate) fn forget(&mut self, len: usize) {
        self.read.retain(|id, _| (id.0 as usize) < len);
        self.cells.retain(|id| (id.0 as usize) < len);
    }

    fn names(&self, write: &AttrOp) -> bool {
        self.names.contains(&write.name)
    }

    /// Whether it reads what the frame has written to something outside: nobody could tell whether
    /// that is still there.
    fn reads_written(&self, t: &Tracer<'_>) -> bool {
        let globals = t.global_writes.iter().take(self.global_writes);
        let written = |var: &Rc<Variable>| {
            let by_frame = var.mutated && var.source.is_some();
            let names = |object: &ObjectVar| object.writes.iter().any(|write| self.names(write));
            by_frame
                && match var.kind.object() {
                    Some(object) => names(object),
                    None => is_container(&var.kind) || matches!(var.kind, Kind::Cell(_)),
                }
        };
        globals.into_iter().any(|(_, write)| self.names(write)) || self.read.values().any(written)
    }

    /// Whether it reads something that the frame made, may change and hands on to others.
    fn is_handed_on(&self, t: &Tracer<'_>, made: &FxHashSet<VarId>, returns: bool) -> bool {
        let mut read = self.read.keys();
        read.any(|id| {
            let kind = t.vars.kind(*id);
            // Behind a break the frame itself may need a cell: what that writes is known.
            let is_cell = returns && matches!(kind, Kind::Cell(_));
            let may_change = is_cell || kind.object().is_some() || is_container(kind);
            may_change && made.contains(id)
        })
    }

    fn is_changed(&self, t: &Tracer<'_>) -> bool {
        let named = |write: &AttrOp| self.names(write);
        let globals = t.global_writes.get(self.global_writes..);
        if globals.is_some_and(|writes| writes.iter().any(|(_, write)| named(write))) {
            return true;
        }
        let differs = |(id, then): (&VarId, &Rc<Variable>)| {
            let now = t.vars.get(*id);
            let same =
                Rc::ptr_eq(now, then) || (!now.mutated && !matches!(now.kind, Kind::Iter(_)));
            !same && self.differs(&then.kind, &now.kind)
        };
        // Objects that were met in there first, and again behind it.
        let met_again = |id: &VarId| {
            let var = t.vars.get(*id);
            address(var).is_some_and(|of| self.objects.contains(&of))
                && !self.read.contains_key(id)
                && if let Kind::Object(object) | Kind::Layer(object) = &var.kind {
                    object.writes.iter().any(named)
                } else {
                    true
                }
        };
        self.read.iter().any(differs) || t.vars.mutated().iter().any(met_again)
    }

    fn differs(&self, then: &Kind, now: &Kind) -> bool {
        match (then, now) {
            (Kind::Cell(CellVar::Full(then)), Kind::Cell(CellVar::Full(now))) => then != now,
            (Kind::Tensor(then), Kind::Tensor(now)) => then.symbol != now.symbol,
            (Kind::List(then), Kind::List(now)) => then != now,
            (then, Kind::Object(now) | Kind::Layer(now)) => {
                let (writes, base) = if let Kind::Object(then) | Kind::Layer(then) = then {
                    (then.writes.len(), then.base)
                } else {
                    // Nobody had looked at it.
                    (0, None)
                };
                let mut later = now.writes.iter().skip(writes);
                now.writes.len() < writes
                    || now.base != base
                    || later.any(|write| self.names.contains(&write.name))
            }
            _ => true,
        }
    }
}

/// One whose code reads what the frame changes, or may change when it goes on behind its break.
pub fn changed(t: &mut Tracer<'_>, code: &Code, outcome: &Outcome) -> Option<SourceLoc> {
    if t.replays.operations.is_empty() {
        return None;
    }
    let mut later = Written::default();
    match outcome {
        Outcome::Break(at) => {
            later.add(t, code, at.start, &at.locals);
            for frame in &at.inner {
                later.add(t, &frame.code, frame.start, &frame.locals);
            }
        }
        Outcome::Return(_) => {}
    }
    let differs = |it: &&RunsAgain| it.is_changed(t) || it.reads_written(t) || later.is_read_by(it);
    t.replays
        .operations
        .iter()
        .find(differs)
        .map(|it| it.loc.clone())
}

/// One whose code reads what the frame made and hands on; `made` is all that it makes.
pub fn handed_on(t: &Tracer<'_>, made: &FxHashSet<VarId>, outcome: &Outcome) -> Option<SourceLoc> {
    let returns = matches!(outcome, Outcome::Return(_));
    let mut all = t.replays.operations.iter();
    let found = all.find(|it| it.is_handed_on(t, made, returns));
    found.map(|it| it.loc.clone())
}

/// What their code reads outside of the frame, and where they are; `None` where it reads nothing.
pub fn outside(t: &Tracer<'_>) -> Option<(Outside, Vec<SourceLoc>)> {
    let mut all = Outside::default();
    t.replays
        .operations
        .iter()
        .for_each(|it| all.extend(&it.outside));
    let all = all.without_written(t);
    let places = t.replays.operations.iter().map(|it| it.loc.clone());
    (!all.is_empty()).then(|| (all, places.collect()))
}
