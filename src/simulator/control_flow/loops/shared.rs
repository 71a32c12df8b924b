//! Variables of a loop that share storage with a tensor which its rounds change in place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::SymbolId;
use crate::phi::{Piece, refuse};
use crate::tuple_carry::Trees;
use crate::variables::Kind;
use crate::{Step, Tracer, region};

use super::{Captured, Carried, Part};

impl Captured<'_> {
    /// Stops where a round hands on such a variable, and the next one reads it: what it changes in
    /// place is changed there too, and the graph has what it was. `leading` are the variables in
    /// front of a round; those of `returned` are not read again.
    pub(super) fn refuse_shared(
        &self,
        t: &mut Tracer<'_>,
        way: &region::Way,
        (parts, trees): (&[Part], &Trees),
        (carried, leading): (&BTreeMap<usize, Carried>, &[SymbolId]),
        returned: &Range<usize>,
    ) -> Step<()> {
        for part in parts.iter().filter(|part| part.item.is_none()) {
            let mut pieces = way.locals.iter();
            let changed = pieces.find(|(slot, _)| *slot == part.slot);
            let Some(now) = changed.and_then(|(_, piece)| tensor(piece)) else {
                continue;
            };
            if !matches!(t.kind(part.of), Kind::Tensor(_)) {
                continue;
            }
            for (slot, piece) in &way.locals {
                // What it was before is no longer there.
                let renamed = matches!(piece, Piece::Same(id) if *id == part.of);
                if renamed && self.first(t, *slot, parts, Some(trees)) != Some(part.of) {
                    return refuse(t, "a tensor that is changed in place gets another name");
                }
                let shares = |it: SymbolId| it == now || way.aliases.contains(&(it, now));
                if *slot == part.slot
                    || returned.contains(slot)
                    || !tensor(piece).is_some_and(shares)
                {
                    continue;
                }
                let before = carried
                    .keys()
                    .zip(leading)
                    .find(|(known, _)| *known == slot);
                if before.is_some_and(|(_, before)| is_read(way, *slot, *before)) {
                    return refuse(
                        t,
                        "what a round changes in place is what the round before has handed on",
                    );
                }
            }
        }
        Ok(())
    }
}

fn tensor(piece: &Piece) -> Option<SymbolId> {
    if let Piece::Tensor(symbol, _) = piece {
        Some(*symbol)
    } else {
        None
    }
}

/// Whether a round reads the variable of this slot, or hands it on under another name.
fn is_read(way: &region::Way, slot: usize, before: SymbolId) -> bool {
    let mut reads = false;
    for statement in &way.cut.statements {
        statement.for_each_argument(&mut |id| reads |= id == before);
    }
    let mut others = way.locals.iter().filter(|(other, _)| *other != slot);
    reads || others.any(|(_, piece)| tensor(piece) == Some(before))
}
