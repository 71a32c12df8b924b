//! Pieces of a long graph: statements that follow one another, each piece a program.
//!
//! Paddle takes a time for a program before its first run, and for its dependencies, that grows
//! with the square of its operators. Pieces keep it linear, and those that are alike can share a
//! program: see `alike.rs`.
//!
//! Where gradients flow, a program gives one gradient for each tensor that it takes, and eager
//! mode adds one for each use. The sums are those of eager mode where no tensor that carries a
//! gradient is taken by two pieces; where each piece hands it on to the next that takes it, see
//! `chained_uses.rs`; or, in the rounds of a very long loop, where each piece uses it once (but for
//! the last, whose gradient comes first).

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::ordered_sums::Arrivals;
use super::places::{Life, Places, Rounds, Sharing, Sizes};
use super::split::{Part, Plan, for_each_operand};
use super::{Callee, Statement, StatementIr, SymbolId, SymbolKind};
use paddle_sot_cpython::obj::Obj;

/// Graphs of more operations are run in pieces.
const LONG: usize = 600;
/// A piece has about so many operations.
const PIECE: usize = 240;
/// Graphs of more operations are run in pieces where those are alike.
const REPEATED: usize = 400;
/// A piece of rounds that are alike has at least so many operations.
const ROUNDS: usize = 120;
/// Graphs of more operations are run in small pieces, if that is how sums stay those of eager
/// mode.
const VERY_LONG: usize = 1500;

/// A graph that may run in pieces.
pub struct Cutter<'a> {
    pub(super) sir: &'a StatementIr,
    /// For each symbol the statement that makes it.
    pub(super) producer: Vec<Option<usize>>,
    places: Places,
    rounds: Option<Rounds>,
    operations: usize,
    /// Whether gradients may be asked for.
    trains: bool,
    /// The pieces of the statements, where these share nothing that carries a gradient.
    apart: Option<Vec<usize>>,
    /// In which order eager mode adds them, if somebody knows.
    pub arrivals: Option<Arrivals>,
}

/// The uses of a tensor in one piece: its statements, in the order in which eager mode adds their
/// gradients.
pub(super) struct Uses {
    pub(super) piece: usize,
    pub(super) statements: Vec<usize>,
}

impl Cutter<'_> {
    /// So many operations as statements.
    fn count(&self, operations: usize) -> usize {
        operations * self.sir.statements.len() / self.operations
    }

    /// Whether it has to be known in which order eager mode adds gradients: where pieces share
    /// tensors, or get gradients at several places. What hangs on one goes back in one order.
    pub fn asks_order(&self) -> bool {
        if !self.trains {
            return false;
        }
        let Some(of) = &self.apart else {
            return self.rounds.is_some() || self.operations > LONG;
        };
        let mut given = vec![0_usize; of.len()];
        let lives = self.places.lives.iter().enumerate();
        for (id, life) in lives.filter(|(_, life)| life.carries) {
            let Some(made) = life.made else {
                continue;
            };
            let is_taken = life.last.is_some_and(|last| of[last] != of[made]);
            given[of[made]] +=
                usize::from(is_taken || self.sir.outputs.contains(&SymbolId(id as u32)));
        }
        self.leaves_long_pieces() || given.iter().any(|given| *given > 1)
    }

    /// Whether one of the pieces is long itself: others might be shorter that share tensors.
    pub fn leaves_long_pieces(&self) -> bool {
        let of = self.apart.as_deref().unwrap_or_default();
        let mut pieces = of.chunk_by(|one, next| one == next);
        pieces.any(|piece| piece.len() > self.count(LONG))
    }

    /// The pieces, in order. `None`: it is one program, or they have to share tensors.
    pub fn pieces(&self, py: Python<'_>) -> Option<Vec<Part>> {
        let of = self.apart.as_ref().filter(|of| self.adds_in_order(of))?;
        let mut parts = self.cut_into(py, of)?;
        let numbers: Vec<usize> = (0..of.len()).collect();
        self.ask_sums(&mut parts, of, (self.sir, &numbers));
        Some(parts)
    }

    /// The pieces of a graph that is very long, each of which uses once what it shares. Where they
    /// would add up in another order than eager mode, they run call by call.
    pub fn small_pieces(&self, py: Python<'_>) -> Option<Vec<Part>> {
        if self.operations <= VERY_LONG {
            return None;
        }
        let (sizes, limit) = (Sizes::up_to(self.count(PIECE)), self.count(VERY_LONG));
        let of = self.places.pieces(sizes, Sharing::Once, limit)?;
        let mut parts = self.cut_into(py, &of)?;
        let numbers: Vec<usize> = (0..of.len()).collect();
        self.ask_sums(&mut parts, &of, (self.sir, &numbers));
        let is_in_order = self.adds_in_order(&of);
        for part in &mut parts {
            // The last one may use a tensor several times.
            let adds = part.sums.iter().any(|(_, uses)| uses.len() > 1);
            part.by_calls |= adds || !is_in_order;
        }
        Some(parts)
    }

    /// Whether the pieces give each tensor what they have summed up in eager mode's order: the last
    /// one first. Two sums may change places.
    pub(super) fn adds_in_order(&self, of: &[usize]) -> bool {
        let Some(arrivals) = &self.arrivals else {
            return true;
        };
        let mut sums = arrivals.sums.iter().filter(|(_, made)| made.len() > 2);
        sums.all(|(_, made)| {
            let uses = self.uses_in_pieces(of, made);
            uses.is_none_or(|uses| uses.is_sorted_by(|one, next| one.piece > next.piece))
        })
    }

    /// The statements of each piece that give a tensor gradients, as eager mode adds those: by the
    /// pieces, the last one first. `None` where nobody knows which they are.
    pub(super) fn uses_in_pieces(
        &self,
        of: &[usize],
        made: &[(SymbolId, usize)],
    ) -> Option<Vec<Uses>> {
        let mut all: Vec<Uses> = Vec::new();
        for (made, _) in made {
            let statement = self.producer[made.0 as usize]?;
            let piece = of[statement];
            match all.last_mut() {
                Some(last) if last.piece == piece => last.statements.push(statement),
                _ => all.push(Uses {
                    piece,
                    statements: vec![statement],
                }),
            }
        }
        Some(all)
    }

    /// Has the program of each piece add up in eager mode's order. `whole` is what they are pieces
    /// of, with its number for each statement.
    pub(super) fn ask_sums(
        &self,
        parts: &mut [Part],
        of: &[usize],
        (whole, numbers): (&StatementIr, &[usize]),
    ) {
        let producer = whole.producers();
        let sums = self.arrivals.iter().flat_map(|arrivals| &arrivals.sums);
        for (id, made) in sums.filter(|(_, made)| made.len() > 2) {
            for uses in self.uses_in_pieces(of, made).into_iter().flatten() {
                let statements: Vec<usize> =
                    uses.statements.iter().map(|at| numbers[*at]).collect();
                parts[uses.piece].ask_sum(whole, &producer, *id, &statements);
            }
        }
    }

    fn cut_into(&self, py: Python<'_>, of: &[usize]) -> Option<Vec<Part>> {
        let mut parts = (self.sir).cut_into(py, &self.producer, of, self.taken())?;
        self.stop_dead_ends(&mut parts);
        Some(parts)
    }

    /// Has pieces hand on without gradients what none comes back to, and says of it where they take
    /// it: an operation in front of it gets no gradient at all in eager mode, and zeros from a
    /// program.
    pub(super) fn stop_dead_ends(&self, parts: &mut [Part]) {
        // What stands for another tensor is none of these.
        let is_dead = |id: &SymbolId| {
            let life = self.places.lives.get(id.0 as usize);
            life.is_some_and(|life| !life.carries && self.sir.carries_gradient(*id))
        };
        for part in parts.iter_mut().filter(|_| self.trains) {
            part.unfed = part.inputs.iter().copied().filter(is_dead).collect();
            for at in 0..part.outputs.len() {
                if is_dead(&part.outputs[at]) {
                    part.sir.stop_output(at);
                }
            }
        }
    }

    /// The piece of each statement.
    pub(super) fn of(&self, sharing: Sharing<'_>) -> Option<Vec<usize>> {
        let (size, limit) = (self.count(PIECE), self.count(VERY_LONG));
        let least = self.count(ROUNDS);
        let of_rounds = |rounds| self.places.of_rounds(rounds, sharing, least, limit);
        let of = self.rounds.and_then(of_rounds);
        of.or_else(|| match self.operations > LONG {
            true => self.places.pieces(Sizes::around(size), sharing, limit),
            false => None,
        })
    }

    /// Whether gradients flow to a tensor.
    pub(super) fn carries(&self, id: SymbolId) -> bool {
        self.places.lives[id.0 as usize].carries
    }

    /// What each statement takes, the parameters and buffers of a layer that is called included.
    pub(super) fn taken(&self) -> &[Vec<SymbolId>] {
        &self.places.taken
    }
}

impl StatementIr {
    /// How a graph of so many operations is cut up. `examples` are the tensors among its inputs,
    /// and `trains` is whether gradients may be asked for. `None`: it is one program.
    pub fn cutter(
        &self,
        py: Python<'_>,
        operations: usize,
        examples: &[Obj],
        trains: bool,
    ) -> Option<Cutter<'_>> {
        let is_whole = self.has_regions()
            || self.makes_gradients(py)
            || self.statements.iter().any(|it| it.alone);
        // Where a statement changes its argument, who else has it may be in another piece.
        if operations <= REPEATED || is_whole || self.order(py).is_none() {
            return None;
        }
        let producer = self.producers();
        let places = self.places_between(py, &producer, examples, trains);
        let rounds = self.kinds(py).and_then(|kinds| Rounds::of(&kinds));
        let mut cutter = Cutter {
            sir: self,
            producer,
            places,
            rounds,
            operations,
            trains,
            apart: None,
            arrivals: None,
        };
        cutter.apart = cutter.of(Sharing::No);
        Some(cutter)
    }

    /// The pieces, by the piece of each statement and what each takes.
    pub(super) fn cut_into(
        &self,
        py: Python<'_>,
        producer: &[Option<usize>],
        of: &[usize],
        taken: &[Vec<SymbolId>],
    ) -> Option<Vec<Part>> {
        let alone = vec![false; of.len()];
        let plan = Plan {
            producer,
            of,
            alone: &alone,
            is_view: &|_| false,
            taken: Some(taken),
        };
        self.cut_up(py, &plan)
    }

    fn places_between(
        &self,
        py: Python<'_>,
        producer: &[Option<usize>],
        examples: &[Obj],
        trains: bool,
    ) -> Places {
        let mut lives = vec![Life::default(); self.symbols.len()];
        for (life, made) in lives.iter_mut().zip(producer) {
            life.made = *made;
        }
        let taken = self.taken_with_state(py, examples);
        if trains {
            for id in &self.outputs {
                lives[id.0 as usize].carries = self.carries_gradient(*id);
            }
        }
        for (number, statement) in self.statements.iter().enumerate().rev() {
            let mut flows = false;
            statement.output.for_each_symbol(&mut |id| {
                flows |= statement.grad_enabled && lives[id.0 as usize].carries;
            });
            for id in &taken[number] {
                let life = &mut lives[id.0 as usize];
                life.last = life.last.or(Some(number));
                if flows && self.carries_gradient(*id) {
                    life.carries = true;
                    life.last_with_gradient = life.last_with_gradient.or(Some(number));
                }
            }
        }
        // What the caller gets is there to the end, and gets its gradient there.
        for id in &self.outputs {
            let life = &mut lives[id.0 as usize];
            life.last_with_gradient = Some(self.statements.len());
        }
        Places::new(lives, taken)
    }

    /// What each statement takes, the parameters and buffers of a layer that is called included.
    fn taken_with_state(&self, py: Python<'_>, examples: &[Obj]) -> Vec<Vec<SymbolId>> {
        let known: FxHashMap<usize, SymbolId> = (examples.iter())
            .map(|example| example.as_ptr() as usize)
            .zip(self.tensor_inputs())
            .collect();
        let mut of_layers: FxHashMap<SymbolId, Vec<SymbolId>> = FxHashMap::default();
        let mut all = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            let mut taken = operands(statement);
            if let Callee::Layer(layer) = statement.callee {
                let state = of_layers.entry(layer).or_insert_with(|| {
                    self.state(py, layer, &known)
                        .unwrap_or_else(|_| self.inputs.clone())
                });
                taken.extend_from_slice(state);
            }
            all.push(taken);
        }
        all
    }

    fn state(
        &self,
        py: Python<'_>,
        layer: SymbolId,
        known: &FxHashMap<usize, SymbolId>,
    ) -> PyResult<Vec<SymbolId>> {
        let SymbolKind::Layer(layer) = self.kind(layer) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for held in ["parameters", "buffers"] {
            for tensor in layer.bind(py).call_method0(held)?.try_iter()? {
                found.extend(known.get(&(tensor?.as_ptr() as usize)).copied());
            }
        }
        Ok(found)
    }
}

fn operands(statement: &Statement) -> Vec<SymbolId> {
    let mut found = Vec::new();
    for_each_operand(statement, &mut |id| found.push(id));
    found
}
