//! Where names live: fast locals, cells, globals and builtins, the namespace of a class.

use std::sync::Arc;

use pyo3::exceptions::PyUnboundLocalError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::control_flow::maybe;
use crate::frame_state::FrameState;
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{AttrOp, CellVar, Kind, VarId};
use crate::{Step, Tracer, fold, subscript, truth};

pub(super) fn store_fast(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    local: u32,
    value: VarId,
) -> Step<()> {
    if let Some(old) = f.locals[local as usize].filter(|old| *old != value) {
        t.let_go(old)?;
    }
    // Inlined comprehensions save and restore slots that may be empty.
    let empty = matches!(t.vars.kind(value), Kind::Null);
    f.locals[local as usize] = (!empty).then_some(value);
    Ok(())
}

pub(super) fn load_fast(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    local: usize,
    clear: bool,
) -> Step<()> {
    match (f.locals[local], clear) {
        (Some(value), _) => {
            let value = maybe::decided(t, value);
            f.push(value);
        }
        (None, true) => {
            let null = t.null();
            f.push(null);
        }
        (None, false) => return unbound(t, f, local, "read of an unbound local"),
    }
    if clear {
        f.locals[local] = None;
    }
    Ok(())
}

/// A local is not bound, which raises: on one of two ways the simulation raises it, elsewhere the
/// interpreter does. In the round of a captured loop the round before may have bound it.
pub(super) fn unbound<T>(t: &mut Tracer<'_>, f: &FrameState, local: usize, what: &str) -> Step<T> {
    let slot = f.code.localsplus.get(local);
    let of_a_way = t.flow.is_captured() && f.region.is_none();
    let Some(name) = slot.filter(|_| of_a_way) else {
        return t.stop(BreakKind::RaisesException, what);
    };
    let name = &name.name;
    let message =
        format!("cannot access local variable '{name}' where it is not associated with a value");
    fold::raise_error(t, &PyUnboundLocalError::new_err(message))
}

pub(super) fn cell_of(t: &Tracer<'_>, f: &FrameState, local: u32) -> Step<VarId> {
    match f.locals[local as usize] {
        Some(cell) => Ok(cell),
        None => t.stop(BreakKind::Internal, "a cell slot is empty"),
    }
}

/// Reads a cell; an empty one raises.
pub fn cell_get(t: &mut Tracer<'_>, cell: VarId) -> Step<VarId> {
    match cell_get_raw(t, cell)? {
        Some(value) => Ok(value),
        None => t.stop(BreakKind::RaisesException, "read of an empty cell"),
    }
}

/// Reads a cell; `None` when it is empty. A real cell is looked at (and guarded) at its first read.
pub fn cell_get_raw(t: &mut Tracer<'_>, cell: VarId) -> Step<Option<VarId>> {
    let Kind::Cell(content) = t.kind(cell).clone() else {
        return t.unsupported("a cell slot holds no cell");
    };
    match content {
        CellVar::Full(value) => Ok(Some(value)),
        CellVar::Empty => Ok(None),
        CellVar::Unread => {
            let (Some(object), Some(source)) = (t.value(cell), t.source(cell)) else {
                return t.unsupported("a cell without a source");
            };
            let source = Arc::new(Tracker::CellContents(source));
            match object.getattr("cell_contents") {
                Ok(content) => {
                    let value = t.wrap(&content, source);
                    t.vars
                        .update(cell, |var| var.kind = Kind::Cell(CellVar::Full(value)));
                    Ok(Some(value))
                }
                Err(_) => {
                    t.guards.add(&source, GuardKind::Absent);
                    t.vars
                        .update(cell, |var| var.kind = Kind::Cell(CellVar::Empty));
                    Ok(None)
                }
            }
        }
    }
}

pub(super) fn load_global(t: &mut Tracer<'_>, f: &FrameState, name: &Arc<str>) -> Step<VarId> {
    if let Some(reads) = &mut t.replays.reads {
        reads.note_name(name);
    }
    match written_global(t, f, name) {
        Some(Some(value)) => return Ok(value),
        Some(None) => {}
        None => {
            if let Some(value) = load_from_dict(t, &f.globals, name)? {
                return Ok(value);
            }
        }
    }
    match load_from_dict(t, &f.builtins, name)? {
        Some(value) => Ok(value),
        None => t.stop(
            BreakKind::RaisesException,
            format!("name {name:?} is not defined"),
        ),
    }
}

/// What the frame wrote last to a global: a value, or `None` where it deleted it.
fn written_global(t: &Tracer<'_>, f: &FrameState, name: &Arc<str>) -> Option<Option<VarId>> {
    let mut writes = t.global_writes.iter().rev();
    let written = writes.find(|(dict, op)| dict.is(&f.globals) && op.name == *name);
    written.map(|(_, op)| op.value)
}

fn namespace<'py>(t: &Tracer<'py>, dict: &Obj) -> Step<Bound<'py, PyDict>> {
    match dict.bind(t.py).cast::<PyDict>() {
        Ok(dict) => Ok(dict.clone()),
        Err(_) => t.unsupported("globals that are not a dict"),
    }
}

pub(super) fn load_from_dict(
    t: &mut Tracer<'_>,
    dict: &Obj,
    name: &Arc<str>,
) -> Step<Option<VarId>> {
    let source = Arc::new(Tracker::Const(dict.clone()));
    t.note_variable(source.clone(), name);
    let source = Arc::new(Tracker::DictItem(source, DictKey::Str(name.clone())));
    match namespace(t, dict)?.get_item(&**name)? {
        Some(value) => Ok(Some(t.wrap(&value, source))),
        None => {
            t.guards.add(&source, GuardKind::Absent);
            Ok(None)
        }
    }
}

/// `name` in the namespace of a class that is on the stack, for what is evaluated inside of class
/// bodies.
pub(super) fn namespace_item(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    name: &str,
) -> Step<Option<VarId>> {
    let namespace = f.pop(t)?;
    if !matches!(t.kind(namespace), Kind::Dict(_)) {
        return t.unsupported("the namespace of a class that is no dict");
    }
    let key = t.str(name);
    if truth::contains(t, namespace, key)? {
        return subscript::get(t, namespace, key).map(Some);
    }
    Ok(None)
}

pub(super) fn store_deref(
    t: &mut Tracer<'_>,
    f: &FrameState,
    local: u32,
    value: VarId,
) -> Step<()> {
    let cell = cell_of(t, f, local)?;
    if let Some(old) = cell_get_raw(t, cell)? {
        t.release(cell, old)?;
    }
    t.vars
        .mutate(cell, |var| var.kind = Kind::Cell(CellVar::Full(value)));
    Ok(())
}

pub(super) fn delete_deref(t: &mut Tracer<'_>, f: &FrameState, local: u32) -> Step<()> {
    let cell = cell_of(t, f, local)?;
    let old = cell_get(t, cell)?;
    t.release(cell, old)?;
    t.vars
        .mutate(cell, |var| var.kind = Kind::Cell(CellVar::Empty));
    Ok(())
}

/// A global is stored, or deleted.
pub(super) fn write_global(
    t: &mut Tracer<'_>,
    f: &FrameState,
    name: Arc<str>,
    value: Option<VarId>,
) -> Step<()> {
    if written_global(t, f, &name).is_none() {
        let globals = namespace(t, &f.globals)?;
        t.release_item(&globals, Arc::new(Tracker::Const(f.globals.clone())), &name)?;
    }
    let write = AttrOp {
        name,
        value,
        registers: false,
    };
    t.global_writes.push((f.globals.clone(), write));
    Ok(())
}

/// A name that the namespace of a class may have, then the globals.
pub(super) fn load_from_dict_or_globals(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    name: &Arc<str>,
) -> Step<()> {
    let value = match namespace_item(t, f, name)? {
        Some(value) => value,
        None => load_global(t, f, name)?,
    };
    f.push(value);
    Ok(())
}

/// A name that the namespace of a class may have, then a cell.
pub(super) fn load_from_dict_or_deref(
    t: &mut Tracer<'_>,
    f: &mut FrameState,
    local: u32,
) -> Step<()> {
    let name = f.code.localsplus[local as usize].name.clone();
    let value = match namespace_item(t, f, &name)? {
        Some(value) => value,
        None => {
            let cell = cell_of(t, f, local)?;
            cell_get(t, cell)?
        }
    };
    f.push(value);
    Ok(())
}

/// What the `class` statement calls.
pub(super) fn load_build_class(t: &mut Tracer<'_>, f: &mut FrameState) -> Step<()> {
    let name: Arc<str> = Arc::from("__build_class__");
    let builtins = f.builtins.clone();
    match load_from_dict(t, &builtins, &name)? {
        Some(function) => f.push(function),
        None => return t.stop(BreakKind::RaisesException, "no __build_class__"),
    }
    Ok(())
}
