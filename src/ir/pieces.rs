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
/// So many pieces that are alike are worth the cuts.
const WORTH: usize = 4;
/// Graphs of more operations are run in small pieces, if that is how sums stay those of eager
/// mode.
const VERY_LONG: usize = 1500;

/// Where a symbol is made and used: numbers of statements.
#[derive(Clone, Default)]
struct Life {
    made: Option<usize>,
    /// The last statement that takes it.
    last: Option<usize>,
    /// The last one through which a gradient comes to it.
    last_with_gradient: Option<usize>,
    /// Whether gradients of the results flow to it.
    carries: bool,
}

/// How many statements a piece has, if it can be.
#[derive(Clone, Copy)]
struct Sizes {
    least: usize,
    most: usize,
}

impl Sizes {
    fn around(size: usize) -> Self {
        Self {
            least: (size / 2).max(1),
            most: size + size / 2,
        }
    }

    fn just(size: usize) -> Self {
        Self {
            least: size,
            most: size,
        }
    }

    fn up_to(most: usize) -> Self {
        Self {
            least: 1,
            most: most.max(1),
        }
    }
}

/// Statements that come again and again.
#[derive(Clone, Copy)]
struct Rounds {
    /// The first of them, and how many there are.
    start: usize,
    count: usize,
    /// How many are one round.
    each: usize,
}

impl Rounds {
    /// The longest of these rounds, the shortest ones of those.
    fn of(kinds: &[usize]) -> Option<Self> {
        let mut best: Option<Self> = None;
        for each in 1..=kinds.len() / WORTH {
            let mut again = 0;
            for at in 0..kinds.len() - each {
                again = match kinds[at] == kinds[at + each] {
                    true => again + 1,
                    false => 0,
                };
                let count = again + each;
                if count / each >= WORTH && best.is_none_or(|best| count > best.count + each) {
                    let start = at + 1 - again;
                    best = Some(Self { start, count, each });
                }
            }
        }
        best
    }
}

/// How pieces may take a tensor of others that carries a gradient.
#[derive(Clone, Copy)]
pub(super) enum Sharing<'a> {
    /// One of them may.
    No,
    /// Each may that uses it once.
    Once,
    /// These are handed on, by symbol.
    Chained(&'a [bool]),
}

/// What is asked of places between statements. Those at `n` are in front of statement `n`.
struct Places {
    lives: Vec<Life>,
    /// What each statement takes.
    taken: Vec<Vec<SymbolId>>,
    /// How many tensors go over each place.
    crossing: Vec<usize>,
    /// How many of them carry a gradient that nothing behind the place gives them.
    starved: Vec<usize>,
}

/// A graph that may run in pieces.
pub struct Cutter<'a> {
    pub(super) sir: &'a StatementIr,
    /// For each symbol the statement that makes it.
    pub(super) producer: Vec<Option<usize>>,
    places: Places,
    rounds: Option<Rounds>,
    operations: usize,
    /// Whether gradients may be asked for.
    pub(super) trains: bool,
}

impl Cutter<'_> {
    /// So many operations as statements.
    fn count(&self, operations: usize) -> usize {
        operations * self.sir.statements.len() / self.operations
    }

    /// The pieces, in order, and whether one of them is long itself: others might be shorter that
    /// share tensors. `None`: it is one program, or they have to share some.
    pub fn pieces(&self, py: Python<'_>) -> Option<(Vec<Part>, bool)> {
        let parts = self.sir.cut_into(py, self, &self.of(Sharing::No)?)?;
        let longest = parts.iter().map(|part| part.statements.len()).max();
        let is_long = longest.is_some_and(|longest| longest > self.count(LONG));
        Some((parts, is_long))
    }

    /// The pieces of a graph that is very long, each of which uses once what it shares.
    pub fn small_pieces(&self, py: Python<'_>) -> Option<Vec<Part>> {
        if self.operations <= VERY_LONG {
            return None;
        }
        let (sizes, limit) = (Sizes::up_to(self.count(PIECE)), self.count(VERY_LONG));
        let of = self.places.pieces(sizes, Sharing::Once, limit)?;
        self.sir.cut_into(py, self, &of)
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
        if operations <= REPEATED || is_whole {
            return None;
        }
        // Where a statement changes its argument, who else has it may be in another piece.
        self.order(py)?;
        let producer = self.producers();
        let places = self.places_between(py, &producer, examples, trains);
        let rounds = self.kinds(py).and_then(|kinds| Rounds::of(&kinds));
        Some(Cutter {
            sir: self,
            producer,
            places,
            rounds,
            operations,
            trains,
        })
    }

    fn cut_into(&self, py: Python<'_>, cutter: &Cutter<'_>, of: &[usize]) -> Option<Vec<Part>> {
        let alone = vec![false; self.statements.len()];
        let plan = Plan {
            producer: &cutter.producer,
            of,
            alone: &alone,
            is_view: &|_| false,
            taken: Some(&cutter.places.taken),
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

impl Places {
    fn new(lives: Vec<Life>, taken: Vec<Vec<SymbolId>>) -> Self {
        let mut crossing = vec![0; taken.len() + 1];
        let mut starved = vec![0; taken.len() + 1];
        for life in &lives {
            let (Some(made), Some(last)) = (life.made, life.last) else {
                continue;
            };
            for place in made + 1..=last {
                crossing[place] += 1;
                let is_fed = life.last_with_gradient.is_some_and(|last| last >= place);
                starved[place] += usize::from(life.carries && !is_fed);
            }
        }
        Self {
            lives,
            taken,
            crossing,
            starved,
        }
    }

    /// The piece of each statement. `None` where one is longer than `limit`.
    fn pieces(&self, sizes: Sizes, sharing: Sharing<'_>, limit: usize) -> Option<Vec<usize>> {
        let count = self.taken.len();
        let mut of = Vec::with_capacity(count);
        let (mut start, mut piece) = (0, 0);
        while start < count {
            let is_once = matches!(sharing, Sharing::Once);
            let end = match count - start > sizes.most || is_once {
                true => self.end(start, sizes, sharing),
                false => count,
            };
            if end - start > limit {
                return None;
            }
            of.resize(end, piece);
            (start, piece) = (end, piece + 1);
        }
        (piece > 1).then_some(of)
    }

    /// The piece of each statement, where each has some of these rounds: at least so many
    /// statements. `None` where that is not worth it, or cannot be.
    fn of_rounds(
        &self,
        rounds: Rounds,
        sharing: Sharing<'_>,
        least: usize,
        limit: usize,
    ) -> Option<Vec<usize>> {
        let Rounds { start, count, each } = rounds;
        // Where a round begins nobody says: where the fewest tensors go over.
        let starts = start..(start + each).min(start + count + 1 - each * WORTH);
        let start = starts.min_by_key(|start| self.crossing[start + each])?;
        let rounds = (rounds.start + count - start) / each;
        let least = least.div_ceil(each).max(1);
        // Those that are left are one more program, with what is in front of them.
        let together = (least..=2 * least).filter(|together| rounds / together >= WORTH);
        let together = together.min_by_key(|together| together + rounds % together)?;
        let (start, size) = (start + rounds % together * each, together * each);
        let mut of = vec![0; start];
        let mut piece = usize::from(start > 0);
        for number in 0..rounds / together {
            let start = start + number * size;
            let end = start + size;
            let is_end = end == self.taken.len();
            if !is_end && self.end(start, Sizes::just(size), sharing) != end {
                return None;
            }
            of.resize(end, piece);
            piece += 1;
        }
        let rest = self.taken.len() - of.len();
        of.resize(self.taken.len(), piece);
        let is_open = start > 0 && self.end(0, Sizes::just(start), sharing) != start;
        (!is_open && start.max(rest) <= limit).then_some(of)
    }

    /// The end of the piece that begins here: the latest of those in reach that the fewest tensors
    /// go over, else the next.
    fn end(&self, start: usize, sizes: Sizes, sharing: Sharing<'_>) -> usize {
        let is_outside = |life: &Life| life.made.is_none_or(|made| made < start);
        let mut best: Option<usize> = None;
        // What others carry a gradient to, and is taken here and behind; where it may be taken
        // once, twice here.
        let mut open = 0_usize;
        let mut closes: FxHashMap<usize, usize> = FxHashMap::default();
        let mut uses: FxHashMap<SymbolId, usize> = FxHashMap::default();
        let shared = if matches!(sharing, Sharing::Once) {
            2
        } else {
            1
        };
        let is_chained = |id: &SymbolId| match sharing {
            Sharing::Chained(chained) => chained[id.0 as usize],
            Sharing::No | Sharing::Once => false,
        };
        for at in start..self.taken.len() {
            for id in &self.taken[at] {
                let life = &self.lives[id.0 as usize];
                if !life.carries || !is_outside(life) || is_chained(id) {
                    continue;
                }
                let uses = uses.entry(*id).or_default();
                *uses += 1;
                if *uses == shared {
                    open += 1;
                    *closes.entry(life.last.unwrap_or(at)).or_default() += 1;
                }
            }
            open -= closes.remove(&at).unwrap_or(0);
            let place = at + 1;
            if place - start > sizes.most && best.is_some() {
                break;
            }
            let is_better = best.is_none_or(|best| self.crossing[place] <= self.crossing[best]);
            if place - start >= sizes.least && open == 0 && self.starved[place] == 0 && is_better {
                best = Some(place);
            }
        }
        best.unwrap_or(self.taken.len())
    }
}
