//! Which lists and dicts only one variable of a frame has: what a loop makes anew in each round may
//! stand in their place, as nobody sees whether it is another object.

use rustc_hash::FxHashSet;

use crate::Tracer;
use crate::frame_state::FrameState;
use crate::obj::Obj;
use crate::phi::Piece;
use crate::variables::{Key, Kind, VarId};

/// What is in a list or dict.
pub enum Items {
    /// Of a list.
    List(Vec<VarId>),
    /// Of a dict: each key, as it is shown, and the item.
    Dict(Vec<(Key, Obj, VarId)>),
}

/// A variable that holds containers.
#[derive(Clone, Copy)]
pub enum Holder {
    /// A local of the frame.
    Local(usize),
    /// An item of this list, dict or cell.
    Item(VarId),
}

/// A frame in front of a loop.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The frame.
    pub frame: &'a FrameState,
    /// Locals that may be read from there on.
    pub live: &'a [usize],
}

/// What is in a list or dict that the function made, and that only `holder` has. In an export it
/// may be one of the caller's, who does not see it.
pub fn items_of(
    t: &mut Tracer<'_>,
    around: Around<'_>,
    holder: Holder,
    id: VarId,
) -> Option<Items> {
    let var = t.vars.get(id);
    let plain = var.class.is_none() && var.owner.is_none();
    let is_new = var.source.is_none() && var.value.is_none();
    let first = t.frames.simulated.last().map_or(usize::MAX, |it| it.first);
    let is_of_frame = is_new && id.0 as usize >= first;
    if !plain || !is_of_frame && !t.options.forward_only {
        return None;
    }
    let items = if let Kind::List(items) = t.kind(id).clone() {
        Items::List(items)
    } else if let Kind::Dict(dict) = t.kind(id).clone() {
        if !dict.is_plain() {
            return None;
        }
        let mut items = Vec::with_capacity(dict.items.len());
        for (key, (name, item)) in dict.items {
            items.push((key, Obj::from(t.value(name)?), item));
        }
        Items::Dict(items)
    } else {
        return None;
    };
    (!is_held(t, around, holder, id)).then_some(items)
}

/// What is `piece` on one way and `other`, a new list or dict, on the other: where nobody else has
/// the old one, what is in it can meet what is in the new one in a third.
pub fn opened(
    t: &mut Tracer<'_>,
    around: Around<'_>,
    holder: Holder,
    piece: &Piece,
    other: &Piece,
) -> Option<Piece> {
    let Piece::Same(id) = *piece else {
        return None;
    };
    if !matches!(other, Piece::List(_, None) | Piece::Dict(_)) {
        return None;
    }
    let one = |t: &mut Tracer<'_>, item: VarId, other: Option<&Piece>| {
        let same = Piece::Same(item);
        let inner = other.and_then(|other| opened(t, around, Holder::Item(id), &same, other));
        inner.unwrap_or(same)
    };
    match (items_of(t, around, holder, id)?, other) {
        (Items::List(items), Piece::List(others, None)) => {
            let items = items.into_iter().enumerate();
            let items = items.map(|(at, item)| one(t, item, others.get(at)));
            Some(Piece::List(items.collect(), None))
        }
        (Items::Dict(items), Piece::Dict(others)) => {
            let items = items.into_iter().enumerate();
            let items = items.map(|(at, (key, name, item))| {
                (key, name, one(t, item, others.get(at).map(|(.., it)| it)))
            });
            Some(Piece::Dict(items.collect()))
        }
        _ => None,
    }
}

/// Whether another variable has it.
fn is_held(t: &Tracer<'_>, around: Around<'_>, holder: Holder, wanted: VarId) -> bool {
    let frame = around.frame;
    let elsewhere = !t.left_behind.is_empty() || !t.exceptions.raised.is_empty();
    if elsewhere || !t.global_writes.is_empty() || t.frames.suspends() {
        return true;
    }
    let locals = frame.locals.iter().enumerate();
    let locals = locals.filter(|(slot, _)| {
        around.live.contains(slot) && !matches!(holder, Holder::Local(it) if it == *slot)
    });
    let mut open: Vec<VarId> = locals.filter_map(|(_, id)| *id).collect();
    open.extend(
        frame
            .stack
            .iter()
            .chain(&frame.closure)
            .chain(&frame.handling),
    );
    let exists = |id: &&VarId| t.vars.get(**id).source.is_some();
    open.extend(t.vars.mutated().iter().filter(exists));
    let mut seen = FxHashSet::default();
    let mut times = 0;
    while let Some(id) = open.pop() {
        if id == wanted {
            return true;
        }
        if !seen.insert(id) {
            continue;
        }
        for child in t.vars.kind(id).children() {
            let is_holder = matches!(holder, Holder::Item(of) if of == id);
            match child == wanted && is_holder {
                true => times += 1,
                false => open.push(child),
            }
        }
    }
    times > 1
}
