//! Replaying side effects: all new values are built first, then everything is applied.

use indexmap::IndexMap;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString};

use crate::frame::{Modules, OPERATOR};
use crate::native;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::simulator::deferred::{self, DeferredCall, FramePlace};
use crate::simulator::deques;
use crate::tracker::Tracker;
use crate::variables::{AttrOp, DictVar, Kind, ObjectVar, Rebuild, Snapshot, VarId};

use super::reconstruct::Emitter;

/// Whether the simulation changed anything that existed before.
pub fn any(t: &crate::simulator::Tracer<'_>) -> bool {
    !t.left_behind.is_empty() || t.changes_what_exists()
}

/// A call of a train step, in the user's line: an exception has the frames that it has there.
fn deferred_call(e: &mut Emitter<'_, '_>, deferred: DeferredCall) -> Result<(), Break> {
    let Kind::Partial { function, args, .. } = e.t.vars.kind(deferred.call).clone() else {
        return Err(Break::internal("a deferred call is none"));
    };
    let Some(function) = e.t.vars.get(function).value.clone() else {
        return Err(Break::internal("a deferred call of nothing"));
    };
    for arg in args.iter().chain(&deferred.more) {
        e.prepare(*arg)?;
    }
    let around = std::mem::replace(&mut e.code.loc, deferred.loc);
    // What is called, outermost first: each calls the next one with what follows.
    let mut called = Vec::new();
    for frame in &deferred.frames {
        called.push(frame_of(e.t.py, frame)?);
    }
    if deferred.through.is_some() {
        // In C: tracebacks show no frame of it.
        called.push(Obj::from(e.t.py.module(OPERATOR)?.getattr("call")?));
    } else {
        called.push(function);
    }
    let mut argc = args.len() + called.len() - 1;
    for (at, callable) in called.iter().enumerate() {
        match at {
            0 => e.code.begin_call(callable)?,
            _ => e.code.load_const(callable)?,
        }
    }
    if let Some(through) = &deferred.through {
        e.code.begin_call(through)?;
        for arg in args.iter().chain(&deferred.more) {
            e.value(*arg)?;
        }
        e.code.call(args.len() + deferred.more.len())?;
        argc += 1;
    }
    for arg in &args {
        e.value(*arg)?;
    }
    e.code.call(argc)?;
    e.code.op("POP_TOP", 0)?;
    e.code.loc = around;
    Ok(())
}

/// A function that calls what it is given, and that a traceback shows as this frame.
fn frame_of(py: Python<'_>, frame: &FramePlace) -> Result<Obj, Break> {
    let code = &frame.code;
    let names = (&*code.name, &*code.qualname, &*code.filename, frame.line);
    let make = py
        .own("paddle_sot_rs._codegen.frames")?
        .getattr("calling")?;
    Ok(Obj::from(make.call1(names)?))
}

/// Emits the replay.
pub fn emit(e: &mut Emitter<'_, '_>) -> Result<(), Break> {
    let mutated: Vec<VarId> =
        e.t.vars
            .mutated()
            .iter()
            .copied()
            .filter(|id| e.t.vars.get(*id).source.is_some())
            .collect();
    let mut pending = Vec::new();
    for id in mutated {
        let fresh = match e.t.vars.kind(id).snapshot() {
            Snapshot::Contents(_, contents @ Kind::List(_)) if deques::keeps_iterators(e.t, id) => {
                Some(("set_items", e.t.add(contents)))
            }
            Snapshot::Contents(helper, contents) => {
                let changes = changes_of_dict(e, id).or_else(|| changes_of_list(e, id));
                Some(changes.unwrap_or_else(|| (helper, e.t.add(contents))))
            }
            Snapshot::Popped(helper, count, contents) => {
                let parts = vec![e.t.int(count as i64), e.t.add(contents)];
                Some((helper, e.t.add(Kind::Tuple(parts, None))))
            }
            Snapshot::Value(helper, value) => Some((helper, value)),
            Snapshot::Taken(count) => Some(("take_items", e.t.int(count as i64))),
            Snapshot::Attributes => None,
            Snapshot::Never => {
                return Err(Break::new(
                    BreakKind::Construct,
                    "a change to an object of this kind cannot be replayed",
                ));
            }
        };
        if let Some((_, value)) = fresh {
            e.prepare(value)?;
        }
        if let Kind::Object(object) | Kind::Layer(object) = e.t.vars.kind(id).clone() {
            for value in object.writes.iter().filter_map(|write| write.value) {
                e.prepare(value)?;
            }
        }
        // Before what they go over changes: the frame has taken their items before.
        let is_taken = matches!(fresh, Some(("take_items", _)));
        let at = if is_taken { 0 } else { pending.len() };
        pending.insert(at, (id, fresh));
    }
    let globals = e.t.global_writes.clone();
    for value in globals.iter().filter_map(|(_, write)| write.value) {
        e.prepare(value)?;
    }
    if e.t.deferred.writes_first.is_none() {
        left_behind(e)?;
        return write(e, pending, &globals);
    }
    // They are loaded as they were before.
    let calls: Vec<_> = e.t.deferred.iter().map(|it| it.call).collect();
    for call in calls {
        if let Kind::Partial { args, .. } = e.t.vars.kind(call).clone() {
            for arg in &args {
                e.prepare(*arg)?;
            }
        }
    }
    write(e, pending, &globals)?;
    left_behind(e)
}

/// The keys that a dict with plain keys has no more, or no more in their places, and what is set
/// in it: what the frame has left alone other threads may have written to meanwhile.
fn changes_of_dict(e: &mut Emitter<'_, '_>, id: VarId) -> Option<(&'static str, VarId)> {
    let py = e.t.py;
    let Kind::Dict(dict) = e.t.vars.kind(id).clone() else {
        return None;
    };
    let (value, source) = (e.t.value(id)?, e.t.source(id)?);
    // An `OrderedDict` has an order of its own.
    let ordered = py.module("collections").ok()?.getattr("OrderedDict").ok()?;
    let own = match value.is_instance(&ordered).ok()? {
        true => ordered,
        false => py.get_type::<PyDict>().into_any(),
    };
    let before = own.call_method1("__iter__", (&value,)).ok()?;
    let is_plain = |key: &Bound<'_, PyAny>| {
        key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>()
    };
    let is_same = |a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>| {
        a.get_type().is(b.get_type()) && a.eq(b).unwrap_or(false)
    };
    let mut named = Vec::with_capacity(dict.items.len());
    for key in dict.keys() {
        named.push(e.t.value(key)?);
    }
    // Keys that stay where they are in front of the others are left alone: iterators that others
    // have on the dict find it so.
    let (mut staying, mut gone) = (0, Vec::new());
    for key in before.try_iter().ok()? {
        let key = key.ok()?;
        if !is_plain(&key) {
            return None;
        }
        if named.get(staying).is_some_and(|new| is_same(&key, new)) {
            staying += 1;
        } else {
            gone.push(key);
        }
    }
    let mut set = IndexMap::new();
    for (at, (known_as, (key, item))) in dict.items.into_iter().enumerate() {
        let is_kept = match e.t.source(item).as_deref() {
            Some(Tracker::DictItem(base, of)) if at < staying && *base == source => {
                named[at].eq(native::key_object(py, of)).unwrap_or(false)
            }
            _ => false,
        };
        if !is_kept {
            set.insert(known_as, (key, item));
        }
    }
    let gone = gone.iter().map(|key| e.t.constant(key)).collect();
    let set = DictVar {
        items: set,
        ..DictVar::default()
    };
    let parts = [Kind::Tuple(gone, None), Kind::Dict(set)];
    let parts = parts.map(|part| e.t.add(part)).to_vec();
    Some(("set_changed_dict", e.t.add(Kind::Tuple(parts, None))))
}

/// The same of a list that is as long as before: the places that are written to, and what is there
/// now.
fn changes_of_list(e: &mut Emitter<'_, '_>, id: VarId) -> Option<(&'static str, VarId)> {
    let Kind::List(items) = e.t.vars.kind(id).clone() else {
        return None;
    };
    let (value, source) = (e.t.value(id)?, e.t.source(id)?);
    if value.cast::<PyList>().ok()?.len() != items.len() {
        return None;
    }
    let is_kept = |at: usize, item: VarId| {
        let of = e.t.source(item);
        of.is_some_and(|of| *of == Tracker::ListItem(source.clone(), at))
    };
    let changed = items.into_iter().enumerate();
    let changed = changed.filter(|(at, item)| !is_kept(*at, *item));
    let (places, set): (Vec<usize>, Vec<VarId>) = changed.unzip();
    let places = places.into_iter().map(|at| e.t.int(at as i64)).collect();
    let parts = [Kind::Tuple(places, None), Kind::Tuple(set, None)];
    let parts = parts.map(|part| e.t.add(part)).to_vec();
    Some(("set_changed_list", e.t.add(Kind::Tuple(parts, None))))
}

/// What was left to be done behind the graph, in its order.
fn left_behind(e: &mut Emitter<'_, '_>) -> Result<(), Break> {
    for left in e.t.left_behind.clone() {
        if let Some(call) = deferred::of(e.t, left) {
            deferred_call(e, call)?;
            continue;
        }
        let kind = e.t.vars.kind(left).clone();
        if let Kind::Layers { class, .. } | Kind::Layer(ObjectVar { class, .. }) = kind {
            e.call_helper("take_name", 1, |e| {
                e.code.load_const(&class)?;
                Ok(())
            })?;
        } else if let Kind::Partial { .. } = kind {
            e.prepare(left)?;
            e.call_helper("call_later", 1, |e| e.value(left))?;
        } else if let Kind::Tuple(..) = kind {
            e.prepare(left)?;
            e.call_helper("show_line", 1, |e| e.value(left))?;
        } else {
            e.call_helper("enter_and_leave", 1, |e| e.value(left))?;
        }
        e.code.op("POP_TOP", 0)?;
    }
    Ok(())
}

/// Values that were built are what existing objects hold from now on.
fn write(
    e: &mut Emitter<'_, '_>,
    pending: Vec<(VarId, Option<(&'static str, VarId)>)>,
    globals: &[(Obj, AttrOp)],
) -> Result<(), Break> {
    for (id, fresh) in pending {
        match (fresh, e.t.vars.kind(id).clone()) {
            (Some((helper, value)), _) => {
                e.call_helper(helper, 2, |e| {
                    e.value(id)?;
                    e.value(value)
                })?;
                e.code.op("POP_TOP", 0)?;
            }
            (None, Kind::Object(object) | Kind::Layer(object)) => object.replay_writes(e, id)?,
            (None, _) => {
                e.call_helper("clear_cell", 1, |e| e.value(id))?;
                e.code.op("POP_TOP", 0)?;
            }
        }
    }
    for (namespace, write) in globals {
        let name = pyo3::types::PyString::intern(e.t.py, &write.name).into_any();
        match write.value {
            Some(value) => e.call_helper("set_global", 3, |e| {
                e.code.load_const(namespace)?;
                e.constant(&name)?;
                e.value(value)
            })?,
            None => e.call_helper("delete_global", 2, |e| {
                e.code.load_const(namespace)?;
                e.constant(&name)
            })?,
        }
        e.code.op("POP_TOP", 0)?;
    }
    Ok(())
}
