//! Calling anything: the dispatch on what is called.

pub mod arguments;
pub mod contexts;
pub mod fold;
pub mod inline;
pub(crate) mod inlined_frame;
pub mod methods;
pub(crate) mod process_state;
mod random_state;
pub(crate) mod registry;

use std::sync::Arc;

use pyo3::prelude::*;

use crate::obj::{is_attr, is_partial_class, text_of};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::Tracker;
use crate::variables::{Key, Kind, VarId};

use super::variables::protocol;
use super::{Kwargs, Step, Tracer};
use super::{iterate, provenance};

pub(crate) use registry::call_known;

/// `callee(*args, **kwargs)`
pub fn call(t: &mut Tracer<'_>, callee: VarId, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let tail = std::mem::take(&mut t.tail);
    // An object whose `__call__` is such an object again never reaches a frame.
    if t.progress.calls > MAX_CALLS {
        return t.stop(BreakKind::InlineDepth, "calls that are too deep");
    }
    t.progress.calls += 1;
    let answer = match refuse_listed(t, callee) {
        Ok(()) => protocol::call(t, callee, args, kwargs, tail),
        Err(stop) => Err(stop),
    };
    t.progress.calls = t.progress.calls.saturating_sub(1);
    answer
}

/// Calls that nest in the simulator: the C stack is not endless.
const MAX_CALLS: usize = 400;

/// What `to_static` answers with: the function itself is called.
pub(crate) fn call_translated(
    t: &mut Tracer<'_>,
    callee: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
    tail: bool,
) -> Step<VarId> {
    t.guard_identity(callee);
    let Some(wrapped) = t.value(callee) else {
        return t.unsupported("a translated function without a value");
    };
    let wrapped = t.constant(&wrapped.getattr("dygraph_function")?);
    t.tail = tail;
    call(t, wrapped, args, kwargs)
}

/// Whether this is a `functools.partial` (no subclass) that exists already.
pub(crate) fn is_partial(t: &mut Tracer<'_>, callee: VarId) -> bool {
    let (Some(class), Some(_)) = (t.type_of(callee), t.source(callee)) else {
        return false;
    };
    is_partial_class(&class)
}

/// Keyword arguments.
pub type Named = Vec<(Arc<str>, VarId)>;

/// Function, arguments and keyword arguments of a partial.
pub(crate) type Parts = (VarId, Vec<VarId>, Named);

/// Calls a partial.
pub(crate) fn call_partial(
    t: &mut Tracer<'_>,
    (function, mut all, given): Parts,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    all.extend_from_slice(args);
    call(t, function, &all, &merge_kwargs(&given, kwargs))
}

/// The parts of a real `functools.partial`.
pub(crate) fn parts(t: &mut Tracer<'_>, partial: VarId) -> Step<Parts> {
    let (Some(object), Some(source)) = (t.value(partial), t.source(partial)) else {
        return t.unsupported("a partial without an object");
    };
    let part = |t: &mut Tracer<'_>, name: &str| -> Step<VarId> {
        let tracker = Tracker::NativeAttr(source.clone(), Arc::from(name));
        Ok(t.wrap(&object.getattr(name)?, Arc::new(tracker)))
    };
    let function = part(t, "func")?;
    let args = part(t, "args")?;
    let args = iterate::collect(t, args)?;
    let keywords = part(t, "keywords")?;
    Ok((function, args, named(t, keywords)?))
}

/// `**mapping` as keyword arguments.
pub fn named(t: &mut Tracer<'_>, mapping: VarId) -> Step<Named> {
    let Kind::Dict(dict) = t.kind(mapping).clone() else {
        return t.unsupported("** of something that is not a dict");
    };
    let mut kwargs = Vec::with_capacity(dict.items.len());
    for (key, (_, value)) in dict.items {
        match key {
            Key::Str(name) => kwargs.push((name, value)),
            Key::Open(_) => return t.stop(BreakId::Key, "a keyword that differs between calls"),
            Key::Bytes(_)
            | Key::Int(_)
            | Key::Float(_)
            | Key::Tuple(_)
            | Key::FrozenSet(_)
            | Key::Identity(_)
            | Key::Var(_) => return t.stop(BreakKind::RaisesException, "keywords must be strings"),
        }
    }
    Ok(kwargs)
}

/// Whether a built-in answers with, or acts on, the locals of its caller: the frame must be the
/// real one. `bare` says that it is called without arguments.
pub fn looks_at_frames(value: &Bound<'_, PyAny>, bare: bool) -> bool {
    let builtin = |name: &&str| provenance::is_builtin(value, name);
    ["locals", "eval", "exec", "breakpoint"].iter().any(builtin)
        || bare && ["vars", "dir"].iter().any(builtin)
        || ["_getframe", "_getframemodulename"]
            .iter()
            .any(|name| is_attr(value, "sys", name))
}

/// Whether this is what `to_static` answers with: inside of another translation the function itself
/// is meant.
pub(crate) fn is_translated(t: &mut Tracer<'_>, callee: VarId) -> bool {
    t.type_of(callee)
        .is_some_and(|class| provenance::is_static_function(&class))
}

/// Whether a callable is of a module, or of one below.
pub(crate) fn in_module(t: &Tracer<'_>, callee: VarId, name: &str) -> bool {
    let module = t.value(callee).map(|value| text_of(&value, "__module__"));
    module.is_some_and(|module| module.starts_with(name))
}

/// Stops at callables that the user disabled or black-listed.
fn refuse_listed(t: &mut Tracer<'_>, callee: VarId) -> Step<()> {
    if t.options.black_list.is_empty() && t.options.disabled.is_empty() {
        return Ok(());
    }
    t.realize(callee);
    let Some(value) = t.value(callee) else {
        return Ok(());
    };
    let address = value.as_ptr() as usize;
    let name = || crate::obj::shown(&value);
    if t.options.disabled.contains(&address) {
        return t.stop(BreakKind::Disabled, format!("{} is disabled", name()));
    }
    if t.options.black_list.contains(&address) {
        return t.stop(
            BreakKind::BlackListed,
            format!("{} is on the black list", name()),
        );
    }
    Ok(())
}

/// `{**first, **second}` on keyword lists.
pub fn merge_kwargs(first: &[(Arc<str>, VarId)], second: &Kwargs) -> Named {
    let mut merged = first.to_vec();
    for (name, value) in second {
        match merged.iter_mut().find(|(known, _)| known == name) {
            Some(slot) => slot.1 = *value,
            None => merged.push((name.clone(), *value)),
        }
    }
    merged
}

/// A readable name of what `id` is, for break messages.
pub fn describe(t: &mut Tracer<'_>, id: VarId, kind: &Kind) -> String {
    if let Some(value) = t.value(id) {
        if let Some(name) = crate::obj::name_of(&value) {
            return name;
        }
    }
    match t.type_of(id).and_then(|class| class.name().ok()) {
        Some(name) => format!("a {name}"),
        None => kind.name().to_owned(),
    }
}
