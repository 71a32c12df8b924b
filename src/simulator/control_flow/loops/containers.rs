//! Containers that differ from round to round, of which the loop carries what is in them.

use crate::control_flow::maybe;
use crate::control_flow::own_containers::{Around, Holder};
use crate::phi;
use crate::region;
use crate::tuple_carry::{Root, Trees};
use crate::{Step, Tracer};

use super::{Captured, Part};

impl Captured<'_> {
    /// Puts what is in tuples that differ from round to round next to the locals of a round.
    pub(super) fn open_tuples(
        &self,
        t: &mut Tracer<'_>,
        way: &mut region::Way,
        parts: &[Part],
        trees: &mut Trees,
    ) -> Step<()> {
        for (slot, piece) in std::mem::take(&mut way.locals) {
            let first = self.first(t, slot, parts, None);
            let name = self.name(slot, parts, None);
            let part = parts.iter().find(|part| part.slot == slot);
            let at = Root {
                slot,
                around: Around {
                    frame: self.inside,
                    live: &self.region.live,
                },
                holder: part.map_or(Holder::Local(slot), |part| Holder::Item(part.of)),
            };
            let meta = match t.flow.maybes.then(|| maybe::parts(t, &piece)).flatten() {
                Some((_, Some(tensor))) => {
                    phi::symbol(t, &mut way.cut, &tensor)?.map(|(_, meta, _)| meta)
                }
                _ => None,
            };
            if !trees.open(t, at, first, (&piece, meta), &name, &mut way.locals)? {
                way.locals.push((slot, piece));
            }
        }
        Ok(())
    }
}
