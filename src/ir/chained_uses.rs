//! Tensors that several pieces of a long graph use: each piece hands them on to the next.
//!
//! A piece is one node of autograd, and gives a tensor the sum of what its own operations give it.
//! Eager mode adds one use after the other. So a piece takes what the piece in front of it hands
//! on: what comes back to that is the sum of all pieces behind, and to it the piece adds its own
//! uses, one by one. This is eager mode's order where there the uses of a piece come before those
//! of the pieces in front of it, and where its program adds its own in that order, too: a piece
//! says which one it needs.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use paddle_sot_cpython::bytecode::SourceLoc;
use paddle_sot_cpython::obj::Obj;

use super::ordered_sums::{Arrivals, Makers, count};
use super::pieces::{Cutter, Uses};
use super::places::Sharing;
use super::split::Part;
use super::{Arg, Callee, Statement, StatementIr, SymbolId};

/// A graph in pieces that hand on what they share.
pub struct Chained {
    /// The graph, with a statement for each tensor that a piece hands on.
    pub sir: StatementIr,
    /// The pieces.
    pub parts: Vec<Part>,
}

/// Tensors of more elements are not handed on: each piece copies them.
const MOST: i64 = 1 << 15;

/// What a piece takes in the place of a tensor, with its uses, and what it hands on.
struct Link {
    taken: SymbolId,
    uses: Uses,
    handed_on: Option<SymbolId>,
}

/// A graph on its way to one whose pieces hand tensors on.
struct Chaining<'a> {
    py: Python<'a>,
    makers: &'a Makers,
    sir: StatementIr,
    /// What each statement takes.
    taken: Vec<Vec<SymbolId>>,
    links: Vec<Link>,
    /// For each statement whose layer holds such tensors: the tensors, where they are, and what is
    /// taken in their place.
    held: FxHashMap<usize, Vec<(SymbolId, Obj, SymbolId)>>,
}

impl Cutter<'_> {
    /// The pieces that hand on what they share. `None`: there are none, or their sums would not be
    /// those of eager mode.
    ///
    /// # Errors
    /// When Python cannot look at a layer.
    pub fn chained(&self, py: Python<'_>, makers: &Makers) -> PyResult<Option<Chained>> {
        let Some(arrivals) = &self.arrivals else {
            return Ok(None);
        };
        let of = self.of(Sharing::Chained(&self.may_be_chained(py)));
        let Some(of) = of.filter(|of| self.adds_in_order(of)) else {
            return Ok(None);
        };
        let Some(uses) = self.uses_by_pieces(&of, arrivals) else {
            return Ok(None);
        };
        let mut chaining = Chaining {
            py,
            makers,
            sir: self.sir.clone(),
            taken: self.taken().to_vec(),
            links: Vec::new(),
            held: FxHashMap::default(),
        };
        for (tensor, uses) in uses {
            if chaining.chain(&of, tensor, uses)?.is_none() {
                return Ok(None);
            }
        }
        chaining.hand_to_layers()?;
        let Some((mut chained, numbers)) = chaining.finish(&of) else {
            return Ok(None);
        };
        self.stop_dead_ends(&mut chained.parts);
        self.ask_sums(&mut chained.parts, &of, (&chained.sir, &numbers));
        Ok(Some(chained))
    }

    /// Which symbols a piece may hand on.
    fn may_be_chained(&self, py: Python<'_>) -> Vec<bool> {
        let sir = self.sir;
        let may = |id: SymbolId| {
            sir.carries_gradient(id)
                && !sir.outputs.contains(&id)
                && (sir.meta(id)).is_some_and(|meta| {
                    meta.is_static() && meta.shape.iter().product::<i64>() <= MOST
                })
        };
        let mut all: Vec<bool> = (0..sir.symbols.len() as u32)
            .map(|id| may(SymbolId(id)))
            .collect();
        let mut is_made = vec![false; all.len()];
        for (statement, taken) in sir.statements.iter().zip(self.taken()) {
            // Who hands on what it was given makes it once more.
            statement.output.for_each_symbol(&mut |id| {
                let again = std::mem::replace(&mut is_made[id.0 as usize], true);
                all[id.0 as usize] &= !again && !sir.inputs.contains(&id);
            });
            if statement.may_select_rows(py, &sir.symbols) {
                taken.iter().for_each(|id| all[id.0 as usize] = false);
            }
        }
        all
    }

    /// What several pieces take that carries a gradient, with its uses, piece by piece. `None`
    /// where a sum would be another.
    fn uses_by_pieces(
        &self,
        of: &[usize],
        arrivals: &Arrivals,
    ) -> Option<Vec<(SymbolId, Vec<Uses>)>> {
        let mut takers: FxHashMap<SymbolId, Vec<usize>> = FxHashMap::default();
        for (taken, piece) in self.taken().iter().zip(of) {
            for id in taken.iter().filter(|id| self.carries(**id)) {
                let pieces = takers.entry(*id).or_default();
                if pieces.last() != Some(piece) {
                    pieces.push(*piece);
                }
            }
        }
        takers.retain(|id, pieces| {
            let home = self.producer[id.0 as usize].map(|at| of[at]);
            pieces.iter().filter(|piece| Some(**piece) != home).count() > 1
        });
        let sums: FxHashMap<SymbolId, &Vec<(SymbolId, usize)>> =
            arrivals.sums.iter().map(|(id, made)| (*id, made)).collect();
        let mut found: Vec<(SymbolId, Vec<Uses>)> = Vec::with_capacity(takers.len());
        for (id, pieces) in takers {
            let mut uses = self.uses_in_pieces(of, sums.get(&id)?)?;
            let last = uses.first().map(|uses| uses.piece);
            // One that gives it no gradient hands it on all the same.
            let mut all: Vec<Uses> = Vec::with_capacity(pieces.len());
            for piece in &pieces {
                let is_next = uses.last().is_some_and(|uses| uses.piece == *piece);
                let next = if is_next { uses.pop() } else { None };
                all.push(next.unwrap_or(Uses {
                    piece: *piece,
                    statements: Vec::new(),
                }));
            }
            if !uses.is_empty() || last.as_ref() != pieces.last() {
                return None;
            }
            found.push((id, all));
        }
        found.sort_by_key(|(id, _)| *id);
        Some(found)
    }
}

impl Chaining<'_> {
    /// Has each piece take the tensor from the one in front. `None`: a layer holds it in a way that
    /// nothing can take the place of.
    fn chain(&mut self, of: &[usize], tensor: SymbolId, uses: Vec<Uses>) -> PyResult<Option<()>> {
        let last = uses.len() - 1;
        let mut taken = tensor;
        for (at, uses) in uses.into_iter().enumerate() {
            let start = of.partition_point(|piece| *piece < uses.piece);
            let end = of.partition_point(|piece| *piece <= uses.piece);
            for statement in start..end {
                if self.take_from(statement, tensor, taken)?.is_none() {
                    return Ok(None);
                }
            }
            let handed_on = (at < last).then(|| self.like(tensor));
            self.links.push(Link {
                taken,
                uses,
                handed_on,
            });
            taken = handed_on.unwrap_or(taken);
        }
        Ok(Some(()))
    }

    /// A symbol for another tensor with the metadata of this one.
    fn like(&mut self, tensor: SymbolId) -> SymbolId {
        let kind = self.sir.kind(tensor).clone();
        self.sir.symbols.push(kind);
        SymbolId(self.sir.symbols.len() as u32 - 1)
    }

    /// Has a statement take one tensor in the place of another.
    fn take_from(&mut self, at: usize, tensor: SymbolId, taken: SymbolId) -> PyResult<Option<()>> {
        let times = self.taken[at].iter().filter(|id| **id == tensor).count();
        let given = count(&self.sir.statements[at], tensor);
        match times - given.min(times) {
            0 if given == 0 => return Ok(Some(())),
            0 => {}
            1 if given == 0 => {
                let statement = &self.sir.statements[at];
                let place = self
                    .sir
                    .place_in_layer(self.py, statement, tensor, self.makers)?;
                let Some(place) = place else {
                    return Ok(None);
                };
                self.held
                    .entry(at)
                    .or_default()
                    .push((tensor, place, taken));
            }
            // A layer holds what it is given, or does so in several places.
            _ => return Ok(None),
        }
        let mut rename = |id: SymbolId| if id == tensor { taken } else { id };
        self.sir.statements[at].rename_arguments(&mut rename);
        let all = self.taken[at].iter_mut();
        all.for_each(|id| *id = rename(*id));
        Ok(Some(()))
    }

    /// Has layers take what they hold. Rounds that call one layer call one stand-in.
    fn hand_to_layers(&mut self) -> PyResult<()> {
        let mut known: FxHashMap<(SymbolId, Vec<SymbolId>), SymbolId> = FxHashMap::default();
        let mut held: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        held.sort_by_key(|(at, _)| *at);
        for (at, held) in held {
            let Callee::Layer(of) = self.sir.statements[at].callee else {
                continue;
            };
            let tensors: Vec<SymbolId> = held.iter().map(|(tensor, ..)| *tensor).collect();
            let key = (of, tensors);
            let symbol = match known.get(&key) {
                Some(symbol) => *symbol,
                None => {
                    let places = held.iter().map(|(_, place, _)| place);
                    let made = self.sir.stand_in(self.py, at, places, self.makers)?;
                    let Some(symbol) = made else {
                        continue;
                    };
                    known.insert(key, symbol);
                    symbol
                }
            };
            let given = held.iter().map(|(.., taken)| Arg::Symbol(*taken));
            self.sir.statements[at].call_stand_in(symbol, given.collect());
            for id in self.taken[at].iter_mut().filter(|id| **id == of) {
                *id = symbol;
            }
        }
        Ok(())
    }

    /// The pieces, with what they hand on in front of them, or behind what makes it: there the
    /// program begins to go back. With them the new number of each statement.
    fn finish(mut self, of: &[usize]) -> Option<(Chained, Vec<usize>)> {
        let made_by = self.sir.producers();
        let statements = std::mem::take(&mut self.sir.statements);
        let mut taken = std::mem::take(&mut self.taken).into_iter();
        let (mut new_of, mut new_taken) = (Vec::new(), Vec::new());
        // The new number of each statement, and of those that hand on, by what they make.
        let mut numbers = Vec::with_capacity(statements.len());
        let mut handing: FxHashMap<SymbolId, usize> = FxHashMap::default();
        let mut links: FxHashMap<usize, Vec<&Link>> = FxHashMap::default();
        for link in &self.links {
            let piece = link.uses.piece;
            let home = made_by.get(link.taken.0 as usize).copied().flatten();
            let place = match home.filter(|at| of[*at] == piece) {
                Some(home) => home + 1,
                None => of.partition_point(|other| *other < piece),
            };
            links.entry(place).or_default().push(link);
        }
        for (at, statement) in statements.into_iter().enumerate() {
            for link in links.remove(&at).into_iter().flatten() {
                let Some(handed_on) = link.handed_on else {
                    continue;
                };
                handing.insert(handed_on, self.sir.statements.len());
                let loc = statement.loc.clone();
                self.sir
                    .statements
                    .push(self.makers.hand_on(link.taken, handed_on, loc));
                new_of.push(link.uses.piece);
                new_taken.push(vec![link.taken]);
            }
            numbers.push(self.sir.statements.len());
            self.sir.statements.push(statement);
            new_of.push(of[at]);
            new_taken.extend(taken.next());
        }
        let producer = self.sir.producers();
        let mut parts = (self.sir).cut_into(self.py, &producer, &new_of, &new_taken)?;
        for link in &self.links {
            let part = parts.get_mut(link.uses.piece)?;
            let first = link.handed_on.and_then(|id| handing.get(&id).copied());
            let uses = link.uses.statements.iter().map(|at| numbers[*at]);
            let all: Vec<usize> = first.into_iter().chain(uses).collect();
            part.ask_sum(&self.sir, &producer, link.taken, &all)?;
            // What it makes itself nobody else has.
            let handed_on = link.handed_on.filter(|_| part.inputs.contains(&link.taken));
            part.chained
                .extend(handed_on.map(|handed_on| (handed_on, link.taken)));
        }
        let sir = self.sir;
        Some((Chained { sir, parts }, numbers))
    }
}

impl Makers {
    /// A statement that hands a tensor on.
    fn hand_on(&self, taken: SymbolId, handed_on: SymbolId, loc: SourceLoc) -> Statement {
        let callee = Callee::Api(self.chained.clone());
        let args = vec![Arg::Symbol(taken)];
        Statement::plain(callee, args, Arg::Symbol(handed_on), loc)
    }
}

impl Part {
    /// Has its program add what these statements of the whole give to this symbol in their order,
    /// if none is asked for yet.
    pub(super) fn ask_sum(
        &mut self,
        whole: &StatementIr,
        producer: &[Option<usize>],
        id: SymbolId,
        statements: &[usize],
    ) -> Option<()> {
        let own = self.own_symbol(whole, producer, id)?;
        if self.sums.iter().any(|(asked, _)| *asked == own) {
            return Some(());
        }
        let place = |at: &usize| self.statements.iter().position(|own| own == at);
        let order: Option<Vec<usize>> = statements.iter().map(place).collect();
        self.sums.push((own, order?));
        Some(())
    }

    /// What a symbol of the whole is called in its graph.
    fn own_symbol(
        &self,
        whole: &StatementIr,
        producer: &[Option<usize>],
        id: SymbolId,
    ) -> Option<SymbolId> {
        if let Some(at) = self.inputs.iter().position(|input| *input == id) {
            return self.sir.inputs.get(at).copied();
        }
        let made = producer[id.0 as usize]?;
        let at = self.statements.iter().position(|at| *at == made)?;
        let symbols = |statement: &Statement| {
            let mut found = Vec::new();
            statement.output.for_each_symbol(&mut |id| found.push(id));
            found
        };
        let place = symbols(&whole.statements[made])
            .iter()
            .position(|other| *other == id)?;
        symbols(&self.sir.statements[at]).get(place).copied()
    }
}

impl StatementIr {
    /// Whether a program adds the gradients of these inputs in the order that is asked for: see
    /// `Part::sums`.
    pub fn adds_like(&self, asked: &[(SymbolId, Vec<usize>)], found: Option<&Arrivals>) -> bool {
        let producer = self.producers();
        let order = |id: &SymbolId| {
            let mut sums = found?.sums.iter();
            let (_, made) = sums.find(|(known, _)| known == id)?;
            let by = made.iter().map(|(made, _)| producer[made.0 as usize]);
            by.collect::<Option<Vec<usize>>>()
        };
        // The first two may change places.
        let sorted = |mut uses: Vec<usize>| {
            let first = uses.len().min(2);
            uses[..first].sort_unstable();
            uses
        };
        let is_right = |(id, asked): &(SymbolId, Vec<usize>)| {
            asked.len() == 1 || order(id).map(sorted) == Some(sorted(asked.clone()))
        };
        asked.iter().all(is_right)
    }
}
