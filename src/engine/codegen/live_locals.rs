//! Which locals of a frame a resume function goes on with.

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::bytecode::{Code, live_locals};
use crate::obj::is_plain_constant;
use crate::obj::{Obj, is_named};
use crate::simulator::{Tracer, frame_introspection, looks_at_frames};
use crate::variables::{CellVar, Kind, VarId};

/// Names of what shows all locals of a frame, or which of their values still live.
const SHOW: &[&str] = &[
    "locals",
    "vars",
    "dir",
    "eval",
    "exec",
    "_getframe",
    "currentframe",
    "weakref",
    "ref",
    "proxy",
    "finalize",
    "WeakKeyDictionary",
    "WeakMethod",
    "WeakSet",
    "WeakValueDictionary",
];

/// The slots that are alive at an instruction, in order. `value` says what is in a slot, `rest` is
/// on the stack, `stack` was there in front of the instruction that breaks.
pub(super) fn slots(
    t: &Tracer<'_>,
    code: &Code,
    globals: &Obj,
    at: usize,
    value: &dyn Fn(usize) -> Option<VarId>,
    rest: &[VarId],
    stack: &[VarId],
) -> Vec<usize> {
    let mut slots = live_locals(code, at);
    let locals = (0..code.localsplus.len()).filter_map(value);
    let mut values = locals.chain(rest.iter().copied());
    let shown = code.names.iter().any(|name| SHOW.contains(&&**name))
        || values.any(|id| shows_frames(t, id))
        || frame_introspection::reads_locals(code)
        || frame_introspection::calls_onlookers(t.py, code, globals);
    let goes_on = slots.iter().filter_map(|slot| value(*slot));
    let reached = reached_from(t, goes_on.chain(stack.iter().copied()));
    for (slot, known) in code.localsplus.iter().enumerate() {
        // The interpreter takes for granted that free variables are there: whoever asks for the
        // locals of the frame would end the process. `super()` without arguments looks at the first
        // argument.
        let needed = known.kind.free || slot == 0 && code.argcount > 0;
        // What no instruction reads any more lives to the end of the frame all the same.
        let lives_on = || {
            let ends = |id| shown || is_seen_dying(t, id) || is_filled(t, id, &reached);
            value(slot).is_some_and(ends)
        };
        if !slots.contains(&slot) && (needed || lives_on()) {
            slots.push(slot);
        }
    }
    slots.sort_unstable();
    slots
}

/// Whether this is or holds a list, dict or set that the frame made and that goes on: what is put
/// into it behind the break may be seen dying.
fn is_filled(t: &Tracer<'_>, id: VarId, goes_on: &FxHashSet<VarId>) -> bool {
    let is_container = |id: &VarId| {
        let kind = t.vars.kind(*id);
        goes_on.contains(id) && matches!(kind, Kind::List(_) | Kind::Dict(_) | Kind::Set(_))
    };
    reached_from(t, std::iter::once(id))
        .iter()
        .any(is_container)
}

/// These and what they hold.
fn reached_from(t: &Tracer<'_>, from: impl Iterator<Item = VarId>) -> FxHashSet<VarId> {
    let mut found = FxHashSet::default();
    let mut open: Vec<_> = from.collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(t.vars.kind(id).children());
        }
    }
    found
}

/// Whether this looks at the frame that calls it, by whatever name: a built-in, or what reads its
/// locals.
fn shows_frames(t: &Tracer<'_>, id: VarId) -> bool {
    let var = t.vars.get(id);
    match (&var.kind, &var.value) {
        (Kind::Cell(CellVar::Full(content)), _) => shows_frames(t, *content),
        (Kind::Tensor(_) | Kind::Null | Kind::Module, _) => false,
        (_, Some(value)) => {
            let value = value.bind(t.py);
            // Cells that nobody has read yet are such objects.
            match is_named(value, "cell").then(|| value.getattr("cell_contents")) {
                Some(content) => content.is_ok_and(|content| is_shown_to(&content)),
                None => is_shown_to(value),
            }
        }
        _ => false,
    }
}

fn is_shown_to(value: &Bound<'_, PyAny>) -> bool {
    looks_at_frames(value, true) || frame_introspection::is_onlooker(value)
}

/// Whether a program can tell when this value dies: by a weak reference, or by a destructor of it
/// or of what it holds.
pub(super) fn is_seen_dying(t: &Tracer<'_>, id: VarId) -> bool {
    let var = t.vars.get(id);
    match (&var.kind, &var.value) {
        (Kind::Cell(CellVar::Full(content)), _) => is_seen_dying(t, *content),
        (Kind::Tensor(_) | Kind::Const | Kind::Null | Kind::Module, _) => false,
        (Kind::Object(_), _) => true,
        (_, Some(value)) => {
            let value = value.bind(t.py);
            var.source.is_some() && !is_plain_constant(value) && !t.paddle.is_tensor(value)
        }
        _ => false,
    }
}
