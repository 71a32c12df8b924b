//! Attributes of objects that change in captured control flow: what each is on either way, or
//! behind a round.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::phi::{self, Joined, Piece};
use crate::tracer::TraceMark;
use crate::tracer::function_graph::Cut;
use crate::variables::{AttrOp, Key, Kind, ObjectVar, VarId};
use crate::{Step, Tracer, attributes};

/// The attributes of an object, with what they are.
pub(crate) type Attributes = Vec<(Key, Obj, Piece)>;

/// The name that a key of [`Attributes`] is.
fn name_of(key: &Key) -> Option<&str> {
    if let Key::Str(name) = key {
        Some(name)
    } else {
        None
    }
}

/// What the frame has written to an instance of a class.
fn state(kind: &Kind) -> Option<&ObjectVar> {
    if let Kind::Object(state) | Kind::Layer(state) = kind {
        Some(state)
    } else {
        None
    }
}

/// The attributes that a piece is.
pub(crate) fn of(piece: &Piece) -> Option<&Attributes> {
    if let Piece::Dict(items) = piece {
        Some(items)
    } else {
        None
    }
}

/// The last write to an attribute.
fn last<'a>(state: &'a ObjectVar, name: &str) -> Option<(usize, &'a AttrOp)> {
    let writes = state.writes.iter().enumerate();
    writes.rev().find(|(_, op)| &*op.name == name)
}

/// What was written since `mark` to an object that was `before`; `None` where anything else of it
/// changed.
pub(crate) fn written(
    t: &mut Tracer<'_>,
    (before, now): (&Kind, &Kind),
    mark: &TraceMark,
    seen: &mut Vec<VarId>,
) -> Option<Piece> {
    let is_layer = matches!(now, Kind::Layer(_));
    let now = state(now)?;
    // It may have been met first there.
    let untouched = ObjectVar::of(now.class.clone());
    let before = state(before).unwrap_or(&untouched);
    let same = before.base == now.base
        && before.contents == now.contents
        && before.most == now.most
        && before.is_shifted == now.is_shifted;
    if !same {
        return None;
    }
    // What is set again behind that stands at another place of the dictionary.
    let deletions = |state: &ObjectVar| state.writes.iter().filter(|op| op.value.is_none()).count();
    if deletions(before) != deletions(now) {
        return None;
    }
    let mut names: Vec<&Arc<str>> = Vec::new();
    for op in &now.writes {
        if !names.contains(&&op.name) {
            names.push(&op.name);
        }
    }
    let mut found = Attributes::new();
    for name in names {
        let (_, op) = last(now, name)?;
        let value = op.value?;
        let old = last(before, name);
        if old.is_some_and(|(_, old)| old.value == op.value && old.registers == op.registers) {
            continue;
        }
        // A tensor of a layer is a buffer.
        if op.registers != (is_layer && matches!(t.kind(value), Kind::Tensor(_))) {
            return None;
        }
        let shown = Obj::from(PyString::new(t.py, name).into_any());
        let piece = phi::piece(t, Some(value), mark, seen);
        found.push((Key::Str(name.clone()), shown, piece));
    }
    Some(Piece::Dict(found))
}

/// The attributes that changed on either of two ways, on both; `None` where one of them is not
/// known to be what it was on the other way.
pub(crate) fn on_both(
    t: &mut Tracer<'_>,
    id: VarId,
    [first, second]: [Option<&Attributes>; 2],
    cuts: [&Cut; 2],
) -> Option<[Piece; 2]> {
    let kind = t.kind(id).clone();
    let state = state(&kind)?;
    let is_new = t.vars.get(id).source.is_none();
    let empty = Attributes::new();
    let ways = [first.unwrap_or(&empty), second.unwrap_or(&empty)];
    let is_known = |key: &Key| name_of(key).is_some_and(|name| last(state, name).is_some());
    // A new attribute stands behind those that are there; which are new to others is not known.
    let [news, others] = ways.map(|way| {
        let news = way.iter().filter(|(key, ..)| !is_new || !is_known(key));
        news.map(|(key, ..)| key).collect::<Vec<_>>()
    });
    if news != others {
        return None;
    }
    let mut both = [Attributes::new(), Attributes::new()];
    for (key, shown, _) in ways[0].iter().chain(ways[1]) {
        if both[0].iter().any(|(known, ..)| known == key) {
            continue;
        }
        for (way, made) in ways.iter().zip(&mut both) {
            let piece = match way.iter().find(|(known, ..)| known == key) {
                Some((.., piece)) => piece.clone(),
                None if is_new => Piece::Same(last(state, name_of(key)?)?.1.value?),
                // Others may look at what somebody else has, and for whether it is the same object.
                None => return None,
            };
            made.push((key.clone(), shown.clone(), piece));
        }
    }
    let mut pairs = both[0].iter().zip(&both[1]);
    let fits = is_new || pairs.all(|((.., a), (.., b))| may_be_seen(t, cuts, [a, b]));
    fits.then(|| both.map(Piece::Dict))
}

/// Whether an attribute of somebody else's object may be what joins these: no tensor that had
/// another name before, which would be another object, and none on one way alone, which a layer
/// registers.
fn may_be_seen(t: &Tracer<'_>, cuts: [&Cut; 2], [a, b]: [&Piece; 2]) -> bool {
    if matches!((a, b), (Piece::Same(a), Piece::Same(b)) if a == b) {
        return true;
    }
    let is_new = |piece: &Piece| matches!(piece, Piece::Tensor(..));
    !has_old(t, cuts[0], a) && !has_old(t, cuts[1], b) && is_new(a) == is_new(b)
}

/// Whether it is, or holds, a tensor that had another name before.
fn has_old(t: &Tracer<'_>, cut: &Cut, piece: &Piece) -> bool {
    let is_tensor = |value: &Bound<'_, PyAny>| {
        let found = value.is_instance(t.paddle.tensor.bind(t.py));
        found.unwrap_or(true)
    };
    match piece {
        // Nobody has looked at it yet.
        Piece::Same(id) if matches!(t.vars.kind(*id), Kind::Lazy) => {
            t.value(*id).is_none_or(|value| is_tensor(&value))
        }
        Piece::Same(id) => matches!(t.vars.kind(*id), Kind::Tensor(_) | Kind::Maybe(_)),
        Piece::Real(object, _) => is_tensor(object.bind(t.py)),
        // One that was met there first came in, too.
        Piece::Tensor(symbol, _) => cut.outer(*symbol).is_some(),
        Piece::Maybe(_) => true,
        Piece::List(items, _) | Piece::Tuple(items, _) => {
            items.iter().any(|it| has_old(t, cut, it))
        }
        Piece::Dict(items) => items.iter().any(|(.., it)| has_old(t, cut, it)),
        Piece::Unbound | Piece::Number(_) | Piece::Const(_) | Piece::Other(_) => false,
    }
}

/// Writes what the attributes are behind both ways.
pub(crate) fn write(
    t: &mut Tracer<'_>,
    id: VarId,
    joined: &[(Key, Obj, Joined)],
    made: &[SymbolId],
) -> Step<()> {
    let is_layer = matches!(t.kind(id), Kind::Layer(_));
    for (key, _, joined) in joined {
        let value = phi::variable(t, joined, made);
        let (Some(name), Some(value)) = (name_of(key), value) else {
            return phi::refuse(t, "an attribute without a value");
        };
        let registers = is_layer && matches!(t.kind(value), Kind::Tensor(_));
        attributes::write_as(t, id, name, value, registers)?;
    }
    Ok(())
}

/// The places of attributes among the writes to a new object, for a loop that carries them; `None`
/// where one is not there in front of the loop.
pub(crate) fn places(t: &Tracer<'_>, id: VarId, now: &Attributes) -> Option<Vec<usize>> {
    let var = t.vars.get(id);
    if var.source.is_some() || matches!(var.kind, Kind::Layer(_)) {
        return None;
    }
    let state = state(&var.kind)?;
    let place = |key: &Key| last(state, name_of(key)?).filter(|(_, op)| op.value.is_some());
    now.iter().map(|(key, ..)| Some(place(key)?.0)).collect()
}

/// The attribute that was written at this place.
pub(crate) fn at(kind: &Kind, place: usize) -> Option<VarId> {
    state(kind)?.writes.get(place)?.value
}

/// Makes it another one.
pub(crate) fn change(kind: &mut Kind, place: usize, value: VarId) {
    if let Kind::Object(state) | Kind::Layer(state) = kind {
        if let Some(op) = state.writes.get_mut(place) {
            op.value = Some(value);
        }
    }
}
