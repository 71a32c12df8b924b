//! What lists, dicts, tensors and attributes are behind both ways of a branch.

use crate::control_flow::attributes;
use crate::graph::SymbolId;
use crate::grown_lists;
use crate::phi::{self, Joined, Merge, Piece, refuse};
use crate::region::change_tensor;
use crate::variables::{Kind, VarId};
use crate::{Step, Tracer};

/// What lists, dicts and tensors that changed on either way are behind both. `stale` are views of
/// them, which say what was there before.
pub(super) fn contents_of_both(
    t: &mut Tracer<'_>,
    merge: &mut Merge<'_>,
    first: &[(VarId, Piece)],
    second: &[(VarId, Piece)],
    stale: &[VarId],
) -> Step<Vec<(VarId, Joined)>> {
    let mut ids: Vec<VarId> = Vec::new();
    for (id, _) in first.iter().chain(second) {
        if !ids.contains(id) {
            ids.push(*id);
        }
    }
    let is_tensor = |t: &mut Tracer<'_>, id: &VarId| matches!(t.kind(*id), Kind::Tensor(_));
    let (tensors, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| is_tensor(t, id));
    let mut joined = Vec::new();
    merge.changed.extend(stale);
    let mut all = tensors.clone();
    all.extend(others);
    for (at, id) in all.into_iter().enumerate() {
        if at == tensors.len() {
            // From here on, such a tensor is not what it was before.
            merge.changed.extend(&tensors);
        }
        let of = |t: &mut Tracer<'_>, contents: &[(VarId, Piece)]| {
            let found = contents.iter().find(|(known, _)| *known == id);
            match found {
                Some((_, piece)) => piece.clone(),
                None => phi::unchanged(t, id),
            }
        };
        let (a, b) = if let Kind::Object(_) | Kind::Layer(_) = t.kind(id) {
            let ways = [first, second].map(|way| {
                let found = way.iter().find(|(known, _)| *known == id);
                found.and_then(|(_, piece)| attributes::of(piece))
            });
            let cuts = [&*merge.cuts[0], &*merge.cuts[1]];
            match attributes::on_both(t, id, ways, cuts) {
                Some([a, b]) => (a, b),
                None => return refuse(t, "an attribute that only one side sets"),
            }
        } else {
            (of(t, first), of(t, second))
        };
        if let (Piece::List(a, _), Piece::List(b, _)) = (&a, &b) {
            let cuts = &merge.cuts;
            grown_lists::note(t, id, a, b, |symbol| cuts[1].meta(symbol).cloned());
            grown_lists::note(t, id, b, a, |symbol| cuts[0].meta(symbol).cloned());
        }
        joined.push((id, merge.join(t, &a, &b, "what is changed")?));
    }
    merge.changed = [&tensors, stale].concat();
    Ok(joined)
}

/// What the tensor was that became this result of the operation.
pub(super) fn before_change(
    t: &mut Tracer<'_>,
    changed: &[(VarId, Joined)],
    result: usize,
) -> Option<SymbolId> {
    let is_it = |joined: &Joined| matches!(joined, Joined::Output(at) if *at == result);
    let (id, _) = changed.iter().find(|(_, joined)| is_it(joined))?;
    t.kind(*id).tensor().map(|tensor| tensor.symbol)
}

/// Makes a list, dict or tensor of the frame what it is behind captured control flow.
pub(super) fn change(
    t: &mut Tracer<'_>,
    id: VarId,
    joined: &Joined,
    made: &[SymbolId],
) -> Step<()> {
    if let (Kind::Object(_) | Kind::Layer(_), Joined::Dict(items)) = (t.kind(id), joined) {
        return attributes::write(t, id, items, made);
    }
    match joined {
        Joined::Output(at) => {
            let symbol = made[*at];
            change_tensor(t, id, symbol);
        }
        Joined::List(items, _) => {
            let many: Vec<VarId> = items
                .iter()
                .filter_map(|item| phi::variable(t, item, made))
                .collect();
            t.vars.mutate(id, |var| {
                if let Kind::List(items) = &mut var.kind {
                    *items = many;
                }
            });
        }
        Joined::Dict(_) => {
            let Some(like) = phi::variable(t, joined, made) else {
                return Ok(());
            };
            let Kind::Dict(like) = t.kind(like).clone() else {
                return Ok(());
            };
            t.vars.mutate(id, |var| {
                if let Kind::Dict(dict) = &mut var.kind {
                    dict.items = like.items;
                }
            });
        }
        Joined::Unbound
        | Joined::Keep(_)
        | Joined::Real(..)
        | Joined::Const(_)
        | Joined::Number(_)
        | Joined::Maybe(_)
        | Joined::Tuple(..) => {}
    }
    Ok(())
}
