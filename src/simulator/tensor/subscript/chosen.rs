//! Items of lists and tuples by a number that the graph makes: it chooses between them.

use crate::bytecode::{BinOp, CmpOp};
use crate::phi::{self, Merge, Piece, refuse};
use crate::variables::VarId;
use crate::{Step, Tracer, branches, carried_aliases, tensor_scalar};

/// Most items that the graph chooses between.
const MOST: usize = 32;

/// `items[key]`; `None` where the key is no number of the graph.
pub fn get(t: &mut Tracer<'_>, items: &[VarId], key: VarId) -> Step<Option<VarId>> {
    let (Some(place), [others @ .., last]) = (place(t, items, key)?, items) else {
        return Ok(None);
    };
    let mut chosen = *last;
    for (at, item) in others.iter().enumerate().rev() {
        chosen = either(t, place, at, *item, chosen)?;
    }
    Ok(Some(chosen))
}

/// The items behind `list[key] = value`; `None` where the key is no number of the graph.
pub fn set(
    t: &mut Tracer<'_>,
    items: &[VarId],
    key: VarId,
    value: VarId,
) -> Step<Option<Vec<VarId>>> {
    let Some(place) = place(t, items, key)? else {
        return Ok(None);
    };
    let all = items.iter().enumerate();
    all.map(|(at, item)| either(t, place, at, value, *item))
        .collect::<Step<_>>()
        .map(Some)
}

/// Which of the items it is, counted from the first. The graph fails where there is no such item.
fn place(t: &mut Tracer<'_>, items: &[VarId], key: VarId) -> Step<Option<VarId>> {
    if items.is_empty() || items.len() > MOST || !tensor_scalar::is_captured(t, key) {
        return Ok(None);
    }
    let count = items.len() as i64;
    let key = tensor_scalar::index(t, key)?;
    let ends = [(CmpOp::Ge, -count), (CmpOp::Lt, count)];
    for (op, end) in ends {
        let end = t.int(end);
        if let Some(holds) = tensor_scalar::comparison(t, op, key, end)? {
            tensor_scalar::statement(t, "check", &[holds])?;
        }
    }
    let count = t.int(count);
    tensor_scalar::arithmetic(t, BinOp::Rem, key, count)
}

/// `a` where the number is `at`, else `b`.
fn either(t: &mut Tracer<'_>, place: VarId, at: usize, a: VarId, b: VarId) -> Step<VarId> {
    let at = t.int(at as i64);
    let Some(is_it) = tensor_scalar::comparison(t, CmpOp::Eq, place, at)? else {
        return refuse(t, "an index that is not a number of the graph");
    };
    let condition = tensor_scalar::condition(t, is_it)?;
    let mut empty = || {
        let mark = t.mark();
        t.cut(mark)
    };
    let (mut first, mut second) = (empty(), empty());
    let mut merge = Merge {
        locals: &[],
        cuts: [&mut first, &mut second],
        outputs: [Vec::new(), Vec::new()],
        objects: Vec::new(),
        changed: Vec::new(),
    };
    let joined = merge.join(t, &Piece::Same(a), &Piece::Same(b), "an item of a list")?;
    let outputs = std::mem::take(&mut merge.outputs);
    let mut made = Vec::new();
    if !outputs[0].is_empty() {
        made = branches::either(t, condition, [&first, &second], [&outputs[0], &outputs[1]])?;
    }
    for (cut, outputs) in [&first, &second].into_iter().zip(&outputs) {
        for (result, output) in made.iter().zip(outputs) {
            for of in carried_aliases::of(cut, &[], *output) {
                carried_aliases::note(t, *result, of);
            }
        }
    }
    match phi::variable(t, &joined, &made) {
        Some(item) => Ok(item),
        None => refuse(t, "an item of a list that is not bound"),
    }
}
