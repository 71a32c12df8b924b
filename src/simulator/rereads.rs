//! What Python code that runs again on the way back has read (a block of `recompute`, the `backward` of a PyLayer): plain
//! Python reads it then, as it has become by that time. Where the frame changes it behind the operation, the interpreter
//! runs the operation.

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::{flow, Code, Instr};
use crate::reason::{BreakKind, SourceLoc};
use crate::variables::{AttrOp, CellVar, Kind, VarId, Variable};

use super::executor::Outcome;
use super::{Step, Tracer};

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
}

impl Reads {
    pub(super) fn note(&mut self, id: VarId, var: &Variable) {
        if may_change(&var.kind) && self.ids.insert(id) {
            self.containers |= is_container(&var.kind);
            self.objects.extend(address(var));
            if matches!(var.kind, Kind::Cell(_)) {
                self.cells.insert(id);
            }
        }
    }

    pub(super) fn note_name(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(Arc::from(name));
        }
    }
}

fn address(var: &Variable) -> Option<usize> {
    var.value.as_ref().map(|value| value.as_ptr() as usize)
}

/// Layers keep their parts in ordered dicts: those are left out.
fn is_container(kind: &Kind) -> bool {
    match kind {
        Kind::List(_) | Kind::Appended(_) | Kind::Set(_) => true,
        Kind::Dict(dict) => dict.class.is_none() || dict.default_factory.is_some(),
        _ => false,
    }
}

fn may_change(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Cell(_)
            | Kind::Tensor(_)
            | Kind::List(_)
            | Kind::Appended(_)
            | Kind::Dict(_)
            | Kind::Set(_)
            | Kind::Object(_)
            | Kind::Layer(_)
            | Kind::Function(_)
            | Kind::Iter(_)
    )
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
}

/// Runs `run`; the answer says what it read, too.
pub fn watch<'py, R>(t: &mut Tracer<'py>, run: impl FnOnce(&mut Tracer<'py>) -> R) -> (R, Reads) {
    let around = t.reads.replace(Reads::default());
    let answer = run(t);
    let reads = std::mem::replace(&mut t.reads, around).unwrap_or_default();
    if let Some(around) = &mut t.reads {
        around.ids.extend(&reads.ids);
        around.cells.extend(&reads.cells);
        around.objects.extend(&reads.objects);
        around.names.extend(reads.names.iter().cloned());
        around.containers |= reads.containers;
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
    let mut locations = t.locations.iter().rev();
    let of_user = locations.find(|loc| !loc.file.starts_with(&paddle));
    Ok(of_user.cloned().unwrap_or_else(|| t.loc()))
}

/// Stops where another attempt has found that what the operation reads changes behind it.
pub fn check(t: &Tracer<'_>, operation: &str) -> Step<()> {
    if !t.options.changed_later.is_empty() && t.options.changed_later.contains(&place(t)?) {
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
pub fn note(t: &mut Tracer<'_>, reads: Reads) -> PyResult<()> {
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
    };
    t.run_again.push(operation);
    Ok(())
}

impl RunsAgain {
    /// Variables from `len` on are no more.
    pub(super) fn forget(&mut self, len: usize) {
        self.read.retain(|id, _| (id.0 as usize) < len);
        self.cells.retain(|id| (id.0 as usize) < len);
    }

    fn is_changed(&self, t: &Tracer<'_>) -> bool {
        let named = |write: &AttrOp| self.names.contains(&write.name);
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
                && match &var.kind {
                    Kind::Object(object) | Kind::Layer(object) => object.writes.iter().any(named),
                    _ => true,
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
                let (writes, base) = match then {
                    Kind::Object(then) | Kind::Layer(then) => (then.writes.len(), then.base),
                    // Nobody had looked at it.
                    _ => (0, None),
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

/// What the rest of the frames of a break may write.
#[derive(Default)]
struct Written {
    /// Attributes and globals.
    names: FxHashSet<Arc<str>>,
    cells: FxHashSet<VarId>,
    /// Whether there are items: nobody knows of what.
    items: bool,
    /// Whether that is not known.
    anything: bool,
}

/// Methods that change a list, a dict or a set.
const MUTATORS: &[&str] = &[
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "update",
    "setdefault",
    "popitem",
    "add",
    "discard",
];

impl Written {
    /// Adds the rest of a frame, and all of its inner functions.
    fn add(&mut self, t: &mut Tracer<'_>, code: &Code, at: usize, locals: &[Option<VarId>]) {
        let behind = flow::reachable(code, at);
        for (it, behind) in code.instructions.iter().zip(behind) {
            if behind {
                self.note(code, &it.instr);
                self.cells
                    .extend(bound(&it.instr).and_then(|slot| *locals.get(slot)?));
            }
        }
        let mut variables = FxHashSet::default();
        self.add_inner(t, code, &mut variables);
        for (slot, local) in code.localsplus.iter().zip(locals) {
            if variables.contains(&slot.name) {
                self.cells.extend(*local);
            }
        }
    }

    /// Adds the inner functions of this code; `variables` are those that they bind.
    fn add_inner(&mut self, t: &mut Tracer<'_>, code: &Code, variables: &mut FxHashSet<Arc<str>>) {
        for item in &code.consts {
            if !item.bind(t.py).is_instance_of::<PyCode>() {
                continue;
            }
            let Ok(inner) = t.decode(item) else {
                self.anything = true;
                continue;
            };
            for it in &inner.instructions {
                self.note(&inner, &it.instr);
                let name = bound(&it.instr).map(|slot| inner.localsplus[slot].name.clone());
                variables.extend(name);
            }
            self.add_inner(t, &inner, variables);
        }
    }

    fn note(&mut self, code: &Code, instr: &Instr) {
        if let Instr::StoreAttr { name }
        | Instr::DeleteAttr { name }
        | Instr::StoreGlobal { name }
        | Instr::DeleteGlobal { name } = instr
        {
            self.names.insert(code.names[*name as usize].clone());
        }
        self.items |= match instr {
            Instr::StoreSubscr | Instr::DeleteSubscr | Instr::StoreSlice => true,
            Instr::LoadAttr { name, .. } => MUTATORS.contains(&&*code.names[*name as usize]),
            _ => false,
        };
    }

    fn is_read_by(&self, operation: &RunsAgain) -> bool {
        self.anything
            || (self.items && operation.containers)
            || !self.names.is_disjoint(&operation.names)
            || !self.cells.is_disjoint(&operation.cells)
    }
}

/// The slot whose cell an instruction changes.
fn bound(instr: &Instr) -> Option<usize> {
    match instr {
        Instr::StoreDeref { local } | Instr::DeleteDeref { local } => Some(*local as usize),
        _ => None,
    }
}

/// An operation whose code reads what the frame changes behind it, or may change when it goes on behind its break.
pub fn changed(t: &mut Tracer<'_>, code: &Code, outcome: &Outcome) -> Option<SourceLoc> {
    let all = std::mem::take(&mut t.run_again);
    if all.is_empty() {
        return None;
    }
    let mut later = Written::default();
    if let Outcome::Break(at) = outcome {
        later.add(t, code, at.start, &at.locals);
        for frame in &at.inner {
            later.add(t, &frame.code, frame.start, &frame.locals);
        }
    }
    let found = (all.iter()).find(|it| it.is_changed(t) || later.is_read_by(it));
    found.map(|operation| operation.loc.clone())
}
