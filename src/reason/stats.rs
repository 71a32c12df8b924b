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
}
