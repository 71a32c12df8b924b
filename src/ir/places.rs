//! Places between the statements of a graph, where it may be cut into pieces.

use rustc_hash::FxHashMap;

use super::SymbolId;

/// So many pieces that are alike are worth the cuts.
const WORTH: usize = 4;

/// Where a symbol is made and used: numbers of statements.
#[derive(Clone, Default)]
pub(super) struct Life {
    pub(super) made: Option<usize>,
    /// The last statement that takes it.
    pub(super) last: Option<usize>,
    /// The last one through which a gradient comes to it.
    pub(super) last_with_gradient: Option<usize>,
    /// Whether gradients of the results flow to it.
    pub(super) carries: bool,
}

/// How many statements a piece has, if it can be.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    least: usize,
    most: usize,
}

impl Sizes {
    pub(super) fn around(size: usize) -> Self {
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

    pub(super) fn up_to(most: usize) -> Self {
        Self {
            least: 1,
            most: most.max(1),
        }
    }
}

/// Statements that come again and again.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    /// The first of them, and how many there are.
    start: usize,
    count: usize,
    /// How many are one round.
    each: usize,
}

impl Rounds {
    /// The longest of these rounds, the shortest ones of those.
    pub(super) fn of(kinds: &[usize]) -> Option<Self> {
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
pub(super) struct Places {
    pub(super) lives: Vec<Life>,
    /// What each statement takes.
    pub(super) taken: Vec<Vec<SymbolId>>,
    /// How many tensors go over each place.
    pub(super) crossing: Vec<usize>,
    /// How many of them carry a gradient that nothing behind the place gives them.
    pub(super) starved: Vec<usize>,
}

impl Places {
    pub(super) fn new(lives: Vec<Life>, taken: Vec<Vec<SymbolId>>) -> Self {
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
    pub(super) fn pieces(
        &self,
        sizes: Sizes,
        sharing: Sharing<'_>,
        limit: usize,
    ) -> Option<Vec<usize>> {
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
    pub(super) fn of_rounds(
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
        // What is in front of the rounds and runs call by call goes back in the order in which they
        // give their gradients, not in eager mode's.
        let is_joined = matches!(sharing, Sharing::Chained(_)) && start < size;
        let mut of = vec![0; start];
        let mut piece = usize::from(start > 0 && !is_joined);
        for number in 0..rounds / together {
            let end = start + (number + 1) * size;
            let start = match is_joined && number == 0 {
                true => 0,
                false => end - size,
            };
            let is_end = end == self.taken.len();
            if !is_end && self.end(start, Sizes::just(end - start), sharing) != end {
                return None;
            }
            of.resize(end, piece);
            piece += 1;
        }
        let rest = self.taken.len() - of.len();
        of.resize(self.taken.len(), piece);
        let is_open = start > 0 && !is_joined && self.end(0, Sizes::just(start), sharing) != start;
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
