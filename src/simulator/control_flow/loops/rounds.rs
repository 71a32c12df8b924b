//! What differs from round to round is found by simulating rounds, until a round begins with what
//! the last one left.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::control_flow::attributes;
use crate::graph::SymbolId;
use crate::loop_return::{self, Answer, Leaf, Returns};
use crate::obj::Obj;
use crate::phi::{self, Piece, refuse};
use crate::region::{self, End};
use crate::saved_for_backward::Statements;
use crate::tracer::function_graph::Cut;
use crate::tuple_carry::{self, Trees};
use crate::variables::{Form, IterVar, Kind, VarId};
use crate::{
    Step, Tracer, call, carried_aliases, grown_lists, item, program_numbers, tensor_scalar,
};

use super::{Behind, Captured, Carried, Part, next};

/// Most such parts.
const PARTS: usize = 256;

const RETURNED: &str = "what the loop returns";

/// Rounds of looking for what differs before the loop is given up.
const ATTEMPTS: usize = 12;
impl Captured<'_> {
    /// Adds the loop to the graph, where these lists are rows; the answer is its results, and the
    /// locals behind it.
    pub(super) fn settled(
        &self,
        t: &mut Tracer<'_>,
        condition: SymbolId,
        grown: &[VarId],
    ) -> Step<Behind> {
        let mut carried: BTreeMap<usize, Carried> = BTreeMap::new();
        // The next number of a range() is carried like a local.
        let counter = self.inside.code.localsplus.len();
        let range = self.range.as_ref();
        if let Some(range) = range {
            carried.insert(
                counter,
                self.start(t, Some(range.next), "the number of the loop")?,
            );
        }
        let first_part = self.inside.locals.len().max(counter + 1);
        let first_leaf = first_part + PARTS;
        let hidden = first_leaf + tuple_carry::MOST;
        let mut parts: Vec<Part> = Vec::new();
        let mut trees = Trees::new(first_leaf);
        for list in grown {
            let slot = first_part + parts.len();
            parts.push(Part {
                of: *list,
                item: None,
                slot,
            });
            let first = self.first(t, slot, &parts, None);
            let mut rows = self.start(t, first, "a list")?;
            // It grows.
            rows.meta.shape[0] = -1;
            carried.insert(slot, rows);
        }
        let mut answer: Option<Answer> = None;
        for _ in 0..ATTEMPTS {
            let mark = t.mark();
            let returns = Returns::new(t, hidden, answer.clone());
            let slots = returns.slots();
            let mut region = (*self.region).clone();
            region.live.extend(slots.clone());
            region.returns = returns;
            let region = Rc::new(region);
            let mut frame = self.inside.clone();
            if !slots.is_empty() {
                frame.locals.resize(slots.end, None);
            }
            frame.region = Some(region.clone());
            let (mut leading, mut placeholders, mut number) = (Vec::new(), Vec::new(), None);
            let mut leaves = BTreeMap::new();
            for (slot, variable) in &carried {
                let symbol = t.graph.placeholder(t.py, variable.meta.clone())?;
                leading.push(symbol);
                t.flow.carried.push(symbol);
                // The first round has the parameter itself.
                if carried_aliases::class_of_input(t, variable.first).is_some() {
                    carried_aliases::note(t, symbol, variable.first);
                }
                if variable.unbound {
                    continue;
                }
                let part = parts.iter().find(|part| part.slot == *slot);
                if let Some(Part { of, item: None, .. }) = part {
                    region::change_tensor(t, *of, symbol);
                    continue;
                }
                let value = match variable.number {
                    true => item::variable(t, symbol),
                    false => region::tensor(t, symbol),
                };
                placeholders.push(value);
                if let Some(Part {
                    of, item: Some(at), ..
                }) = part
                {
                    region::change_item(t, *of, *at, value);
                } else if *slot == counter {
                    number = Some(value);
                } else if trees.leaf(*slot).is_some() {
                    leaves.insert(*slot, value);
                } else {
                    frame.locals[*slot] = Some(value);
                }
            }
            let built = trees.build(t, &leaves);
            placeholders.extend(Trees::stand_ins(t, &built, &mark));
            for (slot, tuple) in built {
                match parts.iter().find(|part| part.slot == slot) {
                    Some(Part {
                        of, item: Some(at), ..
                    }) => region::change_item(t, *of, *at, tuple),
                    _ => frame.locals[slot] = Some(tuple),
                }
            }
            // Rows are of what the round begins with.
            if let (Some(range), Some(number)) = (range, number) {
                next(t, &mut frame, &region, number, range)?;
            }
            // The number of the round is on the stack already.
            let below = frame.stack.len() - usize::from(range.is_some());
            let stack = frame.stack[..below].to_vec();
            region.returns.begin(t, &mut frame, stack);
            let locations = t.frames.locations.clone();
            let (end, value) = region::run_to(t, &mut frame, None)?;
            t.frames.locations = locations;
            if end != End::Next {
                return refuse(t, "the function returns from inside of the loop");
            }
            // Somebody else may have the tensor that the first round begins with.
            if placeholders.iter().any(|id| t.vars.get(*id).mutated) {
                return refuse(
                    t,
                    "a tensor, list or dict that differs from round to round is changed in place",
                );
            }
            let mut advanced = None;
            if range.is_some() {
                let iterator = frame.pop(t)?;
                if let Kind::Iter(IterVar::Numbers { next, .. }) = *t.kind(iterator) {
                    advanced = Some(phi::piece(t, Some(next), &mark, &mut Vec::new()));
                }
            }
            let below = self.inside.stack.len() - usize::from(range.is_some());
            let stack = frame.stack[..] == self.inside.stack[..below];
            let mut way = region::way(t, &frame, mark, end, value, &region.live, &[])?;
            if !way.stale_views.is_empty() {
                return refuse(t, "a view from in front of the loop changes with its base");
            }
            if let Some(advanced) = advanced {
                way.locals.push((counter, advanced));
            }
            self.parts(t, &mut way, &mut parts, first_part)?;
            self.open_tuples(t, &mut way, &parts, &mut trees)?;
            way.locals.sort_by_key(|(slot, _)| *slot);
            if !stack {
                return refuse(t, "the value stack differs from round to round");
            }
            t.graph.adopt(t.py, &mut way.cut)?;
            let (variables, returned) = ((&carried, &leading[..]), region.returns.slots());
            self.refuse_shared(t, &way, (&parts, &trees), variables, &returned)?;
            if let Some(news) = region.returns.news() {
                carried.retain(|slot, _| *slot < hidden);
                self.carry(t, &mut carried, hidden, &news)?;
                answer = Some(news);
                continue;
            }
            if self.settle(t, &mut carried, &mut way, (&parts, &trees))? {
                let returns = &region.returns;
                let carried = (&carried, &parts[..], &trees);
                return self.emit(t, condition, carried, &leading, way, returns);
            }
        }
        refuse(t, "what differs from round to round does not settle")
    }

    /// Notes what a round changed in things from before the loop, as locals of the round.
    fn parts(
        &self,
        t: &mut Tracer<'_>,
        way: &mut region::Way,
        parts: &mut Vec<Part>,
        first: usize,
    ) -> Step<()> {
        let cells = std::mem::take(&mut way.cells);
        let cells = cells.into_iter().map(|(of, piece)| (of, piece, true));
        let changed = std::mem::take(&mut way.changed);
        let changed = changed.into_iter().map(|(of, piece)| (of, piece, false));
        for (of, piece, is_cell) in cells.chain(changed).collect::<Vec<_>>() {
            let items: Vec<(Option<usize>, Piece)> = match (phi::unchanged(t, of), piece) {
                (_, piece) if is_cell => vec![(Some(0), piece)],
                (Piece::List(before, _), Piece::List(now, _)) if before.len() == now.len() => {
                    let now = now.into_iter().enumerate();
                    now.map(|(at, piece)| (Some(at), piece)).collect()
                }
                (Piece::Dict(before), Piece::Dict(now)) if phi::same_keys(t, &before, &now)? => {
                    let now = now.into_iter().enumerate();
                    now.map(|(at, (.., piece))| (Some(at), piece)).collect()
                }
                (Piece::Same(_), piece) if matches!(t.kind(of), Kind::Rows(_)) => {
                    vec![(None, piece)]
                }
                (Piece::Same(_), Piece::Tensor(symbol, _)) => {
                    let stops = way.cut.meta(symbol).is_some_and(|meta| meta.stop_gradient);
                    let flows = t.goes_backward();
                    if flows && !stops {
                        return refuse(t, "a tensor with a gradient is changed in place inside");
                    }
                    // Of what is kept in front of the change in a round, the change itself is
                    // refused.
                    let shares = way.aliases.iter().filter(|(_, of)| *of == symbol);
                    let mut same = shares.map(|(view, _)| *view).chain([symbol]);
                    let round = Statements::of_cut(&way.cut);
                    if flows && same.any(|it| round.keep(t, it)) {
                        return refuse(
                            t,
                            "a tensor that the gradient of the round before keeps is changed in place inside",
                        );
                    }
                    vec![(None, Piece::Tensor(symbol, None))]
                }
                (Piece::Same(_), Piece::Dict(now))
                    if let Some(places) = attributes::places(t, of, &now) =>
                {
                    let pieces = now.into_iter().map(|(.., piece)| piece);
                    places.into_iter().map(Some).zip(pieces).collect()
                }
                (before, now) => {
                    if let (Piece::List(before, _), Piece::List(now, _)) = (&before, &now) {
                        let cut = &way.cut;
                        grown_lists::note(t, of, before, now, |id| cut.meta(id).cloned());
                    }
                    let kind = t.kind(of).clone();
                    let what = call::describe(t, of, &kind);
                    return refuse(
                        t,
                        format!("{what} is changed inside, and its items are others"),
                    );
                }
            };
            for (item, piece) in items {
                let known = parts.iter().find(|part| part.of == of && part.item == item);
                let slot = known.map_or(first + parts.len(), |part| part.slot);
                if known.is_none() {
                    if parts.len() == PARTS {
                        return refuse(t, "too much is changed inside");
                    }
                    parts.push(Part { of, item, slot });
                }
                way.locals.push((slot, piece));
            }
        }
        Ok(())
    }

    /// What a variable of the loop is called.
    pub(super) fn name(&self, slot: usize, parts: &[Part], trees: Option<&Trees>) -> Arc<str> {
        let slots = &self.inside.code.localsplus;
        match slots.get(slot) {
            Some(slot) => slot.name.clone(),
            None if slot == slots.len() => Arc::from("the number of the loop"),
            None if parts.iter().any(|part| part.slot == slot) => Arc::from("an item"),
            None => match trees.and_then(|trees| trees.leaf(slot)) {
                Some((_, root)) => {
                    Arc::from(format!("an item of {}", self.name(root, parts, None)))
                }
                None => Arc::from(RETURNED),
            },
        }
    }

    /// What a local, or a part of something else, is in front of the loop.
    pub(super) fn first(
        &self,
        t: &mut Tracer<'_>,
        slot: usize,
        parts: &[Part],
        trees: Option<&Trees>,
    ) -> Option<VarId> {
        if let Some((first, _)) = trees.and_then(|trees| trees.leaf(slot)) {
            return Some(first);
        }
        let Some(part) = parts.iter().find(|part| part.slot == slot) else {
            return self.inside.locals.get(slot).copied().flatten();
        };
        let Some(item) = part.item else {
            let rows = if let Kind::Rows(rows) = t.kind(part.of) {
                Some(rows.symbol)
            } else {
                None
            };
            return Some(rows.map_or(part.of, |rows| region::tensor(t, rows)));
        };
        region::item(t, part.of, item)
    }

    /// Carries what the loop may return, from `hidden` on.
    fn carry(
        &self,
        t: &mut Tracer<'_>,
        carried: &mut BTreeMap<usize, Carried>,
        hidden: usize,
        answer: &Answer,
    ) -> Step<()> {
        let returned = t.bool(false);
        carried.insert(hidden, self.start(t, Some(returned), RETURNED)?);
        for (at, leaf) in answer.leaves().into_iter().enumerate() {
            let first = loop_return::zeros(t, leaf, &self.inside.locals)?;
            let mut meta = leaf.meta.clone();
            meta.stop_gradient = true;
            let number = leaf.number;
            carried.insert(
                hidden + 1 + at,
                Carried {
                    first,
                    meta,
                    number,
                    unbound: false,
                },
            );
        }
        Ok(())
    }

    /// Compares the end of a round with its start; true when nothing new differs.
    fn settle(
        &self,
        t: &mut Tracer<'_>,
        carried: &mut BTreeMap<usize, Carried>,
        way: &mut region::Way,
        (parts, trees): (&[Part], &Trees),
    ) -> Step<bool> {
        let mut settled = true;
        for (slot, piece) in &way.locals {
            let name = self.name(*slot, parts, Some(trees));
            let first = self.first(t, *slot, parts, Some(trees));
            let Some(variable) = carried.get_mut(slot) else {
                if matches!((piece, first), (Piece::Same(now), Some(first)) if *now == first)
                    || matches!((piece, first), (Piece::Unbound, None))
                {
                    continue;
                }
                let is_local = *slot < self.inside.code.localsplus.len();
                if first.is_none() && is_local && !self.region.after.contains(slot) {
                    // Each round binds it before it reads it: a read in front of that would have
                    // raised.
                    continue;
                }
                settled = false;
                let started = match first {
                    None => self.unbound(t, &mut way.cut, piece, &name)?,
                    first => self.start(t, first, &name)?,
                };
                carried.insert(*slot, started);
                continue;
            };
            let Some((_, next, number)) = phi::symbol(t, &mut way.cut, piece)? else {
                return phi::unlike(
                    t,
                    format!("{name:?} is not a tensor or number after a round of the loop"),
                );
            };
            phi::keeps_no_gradient(t, &next, &name)?;
            let meta = &mut variable.meta;
            if next.dtype != meta.dtype
                || next.shape.len() != meta.shape.len()
                || number != variable.number
            {
                return phi::unlike(
                    t,
                    format!(
                        "{name:?} changes from dtype {} and rank {} to dtype {} and rank {} in a round of the loop; \
                         a variable of a loop may change the size of its dims only",
                        meta.dtype.as_str(),
                        meta.shape.len(),
                        next.dtype.as_str(),
                        next.shape.len()
                    ),
                );
            }
            for (dim, next) in meta.shape.iter_mut().zip(&next.shape) {
                if *dim != *next && *dim != -1 {
                    *dim = -1;
                    settled = false;
                }
            }
            if meta.stop_gradient && !next.stop_gradient {
                meta.stop_gradient = false;
                settled = false;
            }
        }
        Ok(settled)
    }

    /// A local that is bound in each round, and read behind the loop: without a round, Python
    /// raises there.
    fn unbound(
        &self,
        t: &mut Tracer<'_>,
        cut: &mut Cut,
        piece: &Piece,
        name: &str,
    ) -> Step<Carried> {
        let Some((_, mut meta, number)) = phi::symbol(t, cut, piece)? else {
            let now = phi::shown(t, piece);
            return phi::unlike(
                t,
                format!(
                    "{name:?} is not bound in front of the loop, read after it, and {now} inside"
                ),
            );
        };
        let first = loop_return::zeros(
            t,
            &Leaf {
                meta: meta.clone(),
                number,
            },
            &self.inside.locals,
        )?;
        meta.stop_gradient = true;
        Ok(Carried {
            first,
            meta,
            number,
            unbound: true,
        })
    }

    /// The first value of a local that differs from round to round.
    fn start(&self, t: &mut Tracer<'_>, first: Option<VarId>, name: &str) -> Step<Carried> {
        let Some(first) = first else {
            return refuse(
                t,
                format!("{name:?} is read after the loop, but not bound in front of it"),
            );
        };
        t.realize(first);
        let first = program_numbers::lowered(t, first)?;
        let form = t.kind(first).form();
        let symbol = match (form.symbol(), form, t.value(first)) {
            (None, Form::Const, Some(value)) => {
                tensor_scalar::number(t, &Obj::from(value))?.map(|symbol| (symbol, true))
            }
            (symbol, ..) => symbol,
        };
        let found = symbol.and_then(|(symbol, number)| {
            let meta = t.graph.meta(symbol).cloned()?;
            Some(Carried {
                first: symbol,
                meta,
                number,
                unbound: false,
            })
        });
        match found {
            Some(carried) => {
                phi::keeps_no_gradient(t, &carried.meta, name)?;
                Ok(carried)
            }
            None => phi::unlike(
                t,
                format!(
                    "{name:?} differs from round to round and is not a tensor or a whole number"
                ),
            ),
        }
    }
}
