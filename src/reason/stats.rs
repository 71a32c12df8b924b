//! Counters and event lists behind `stats()`.

use super::{Break, SourceLoc};

/// A graph break as users see it.
#[derive(Clone, Debug)]
pub struct GraphBreakEvent {
    /// The reason.
    pub reason: Break,
}

/// A cache miss on a code object that already had entries.
#[derive(Clone, Debug)]
pub struct Recompile {
    /// The function that was recompiled.
    pub function: SourceLoc,
    /// The guard that failed, as readable text.
    pub guard: String,
}

/// A frame that ran natively.
#[derive(Clone, Debug)]
pub struct Fallback {
    /// The function.
    pub function: SourceLoc,
    /// Why.
    pub reason: Break,
}

/// What happened to one translated function and its resume functions.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Compiled sub-graphs.
    pub graphs: u64,
    /// Statements captured.
    pub ops: u64,
    /// Translations attempted.
    pub translations: u64,
    /// Calls answered from the cache.
    pub cache_hits: u64,
    /// Calls that had to translate.
    pub cache_misses: u64,
    /// Graph breaks met while translating.
    pub graph_breaks: Vec<GraphBreakEvent>,
    /// Misses on functions that already had entries.
    pub recompiles: Vec<Recompile>,
    /// Frames run natively.
    pub fallbacks: Vec<Fallback>,
}

impl Stats {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            graphs: 0,
            ops: 0,
            translations: 0,
            cache_hits: 0,
            cache_misses: 0,
            graph_breaks: Vec::new(),
            recompiles: Vec::new(),
            fallbacks: Vec::new(),
        }
    }

    /// Adds the counts of `other` to this one.
    pub fn merge(&mut self, other: &Stats) {
        self.graphs += other.graphs;
        self.ops += other.ops;
        self.translations += other.translations;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.graph_breaks.extend(other.graph_breaks.iter().cloned());
        self.recompiles.extend(other.recompiles.iter().cloned());
        self.fallbacks.extend(other.fallbacks.iter().cloned());
    }
    /// Forgets all but the newest `count` events of each list; the numbers stay.
    pub fn keep_newest_events(&mut self, count: usize) {
        fn trim<T>(events: &mut Vec<T>, count: usize) {
            events.drain(..events.len().saturating_sub(count));
        }
        trim(&mut self.graph_breaks, count);
        trim(&mut self.recompiles, count);
        trim(&mut self.fallbacks, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recompiled(guard: &str) -> Recompile {
        Recompile {
            function: SourceLoc::default(),
            guard: guard.to_owned(),
        }
    }

    #[test]
    fn merging_adds_numbers_and_appends_events() {
        let mut sum = Stats {
            graphs: 1,
            recompiles: vec![recompiled("a")],
            ..Stats::new()
        };
        sum.merge(&Stats {
            graphs: 2,
            cache_hits: 5,
            recompiles: vec![recompiled("b")],
            ..Stats::new()
        });
        assert_eq!((sum.graphs, sum.cache_hits), (3, 5));
        assert_eq!(sum.recompiles[0].guard, "a");
        assert_eq!(sum.recompiles[1].guard, "b");
    }

    #[test]
    fn the_newest_events_stay() {
        let mut stats = Stats {
            cache_misses: 3,
            recompiles: ["a", "b", "c"].map(recompiled).into(),
            ..Stats::new()
        };
        stats.keep_newest_events(2);
        stats.keep_newest_events(7);
        let left: Vec<&str> = stats.recompiles.iter().map(|event| &*event.guard).collect();
        assert_eq!(left, ["b", "c"]);
        assert_eq!(stats.cache_misses, 3);
    }
}
