//! The state of what `itertools` makes.

use crate::variables::VarId;

/// A tool of `itertools`.
#[derive(Clone, Debug)]
pub enum Tool {
    /// `chain`: the iterator at hand, and the one over those that follow.
    Chain {
        /// The iterator at hand.
        active: Option<VarId>,
        /// What gives the next one; `None` at the end.
        source: Option<VarId>,
    },
    /// `combinations`, `permutations`, `product` and `combinations_with_replacement`: all rows,
    /// made when it was called.
    Rows {
        /// The name of the tool.
        name: &'static str,
        /// What the items were taken from, as tuples.
        pools: Vec<VarId>,
        /// How many items a row has, of tools that take one pool.
        length: Option<i64>,
        /// The rows.
        rows: std::rc::Rc<[Vec<VarId>]>,
        /// The next row.
        index: usize,
    },
    /// `islice`; no iterator at the end.
    Islice {
        /// What it takes from.
        inner: Option<VarId>,
        /// How many items it has taken.
        taken: i64,
        /// The item it takes next.
        next: i64,
        /// Where it ends.
        stop: Option<i64>,
        /// How far items are apart.
        step: i64,
    },
    /// `count` of whole numbers.
    Count {
        /// The next number.
        next: i64,
        /// The step.
        step: i64,
    },
    /// `repeat`
    Repeat {
        /// What it yields.
        item: VarId,
        /// How often, where that was said.
        left: Option<i64>,
    },
    /// `cycle`: in its first round it notes what it yields.
    Cycle {
        /// What it takes from in its first round.
        inner: Option<VarId>,
        /// What it has yielded.
        saved: Vec<VarId>,
        /// The next of those, in later rounds.
        index: usize,
    },
    /// `starmap`
    Starmap {
        /// What is called.
        function: VarId,
        /// Where its arguments come from.
        inner: VarId,
    },
    /// `takewhile`
    TakeWhile {
        /// The predicate.
        function: VarId,
        /// What it takes from.
        inner: VarId,
        /// It has seen an item that it does not take.
        over: bool,
    },
    /// `dropwhile`
    DropWhile {
        /// The predicate.
        function: VarId,
        /// What it takes from.
        inner: VarId,
        /// It has yielded its first item.
        begun: bool,
    },
    /// `filterfalse`; without a function by truth.
    FilterFalse {
        /// The predicate.
        function: Option<VarId>,
        /// What it takes from.
        inner: VarId,
    },
    /// `compress`
    Compress {
        /// What it takes from.
        data: VarId,
        /// Which items it takes.
        selectors: VarId,
    },
    /// `accumulate`
    Accumulate {
        /// What it takes from.
        inner: VarId,
        /// What is called; sums without.
        function: Option<VarId>,
        /// The last it has yielded.
        total: Option<VarId>,
        /// What it yields first.
        initial: Option<VarId>,
    },
    /// `pairwise`; no iterator at the end.
    Pairwise {
        /// What it takes from.
        inner: Option<VarId>,
        /// The item that begins the next pair.
        old: Option<VarId>,
    },
    /// `zip_longest`; no iterators for those that ended.
    ZipLongest {
        /// What it takes from.
        inner: Vec<Option<VarId>>,
        /// What stands for missing items.
        fill: VarId,
    },
    /// `batched`; no iterator at the end.
    Batched {
        /// What it takes from.
        inner: Option<VarId>,
        /// Items of a batch.
        size: i64,
    },
}

impl Tool {
    /// The iterators it advances.
    pub fn inner(&self) -> Vec<VarId> {
        match self {
            Self::Chain { active, source } => active.iter().chain(source).copied().collect(),
            Self::Islice { inner, .. }
            | Self::Cycle { inner, .. }
            | Self::Pairwise { inner, .. }
            | Self::Batched { inner, .. } => inner.iter().copied().collect(),
            Self::Starmap { inner, .. }
            | Self::TakeWhile { inner, .. }
            | Self::DropWhile { inner, .. }
            | Self::FilterFalse { inner, .. }
            | Self::Accumulate { inner, .. } => vec![*inner],
            Self::Compress { data, selectors } => vec![*data, *selectors],
            Self::ZipLongest { inner, .. } => inner.iter().flatten().copied().collect(),
            Self::Rows { .. } | Self::Count { .. } | Self::Repeat { .. } => Vec::new(),
        }
    }

    /// The variables that it holds.
    pub fn children(&self) -> Vec<VarId> {
        let mut held = self.inner();
        match self {
            Self::Rows { pools, rows, .. } => {
                held.extend(pools);
                held.extend(rows.iter().flatten());
            }
            Self::Repeat { item, .. } => held.push(*item),
            Self::Cycle { saved, .. } => held.extend(saved),
            Self::Starmap { function, .. }
            | Self::TakeWhile { function, .. }
            | Self::DropWhile { function, .. } => held.push(*function),
            Self::FilterFalse { function, .. } => held.extend(function),
            Self::Accumulate {
                function,
                total,
                initial,
                ..
            } => held.extend([function, total, initial].into_iter().flatten()),
            Self::Pairwise { old, .. } => held.extend(old),
            Self::ZipLongest { fill, .. } => held.push(*fill),
            Self::Chain { .. }
            | Self::Islice { .. }
            | Self::Count { .. }
            | Self::Compress { .. }
            | Self::Batched { .. } => {}
        }
        held
    }
}
