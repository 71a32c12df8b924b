//! Counters and event lists behind `stats()`.

use super::{Break, Seconds, SourceLoc};

/// A graph break as users see it.
#[derive(Clone, Debug)]
pub struct GraphBreakEvent {
    /// The reason.
    pub reason: Break,
    /// How often it was met.
    pub count: u64,
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
    /// How often.
    pub count: u64,
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
    /// Calls whose program did the step of the optimizer as well.
    pub whole_steps: u64,
    /// Graph breaks met while translating.
    pub graph_breaks: Vec<GraphBreakEvent>,
    /// Misses on functions that already had entries.
    pub recompiles: Vec<Recompile>,
    /// Frames run natively.
    pub fallbacks: Vec<Fallback>,
    /// Why steps of optimizers ran Paddle's own code, and how often.
    pub own_steps: Vec<(String, u64)>,
    /// What translations took.
    pub seconds: Seconds,
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
            whole_steps: 0,
            graph_breaks: Vec::new(),
            recompiles: Vec::new(),
            fallbacks: Vec::new(),
            own_steps: Vec::new(),
            seconds: Seconds::NONE,
        }
    }

    /// Counts a break; the answer says how often it was met.
    pub fn note_break(&mut self, reason: &Break, count: u64) -> u64 {
        let mut known = self.graph_breaks.iter_mut();
        if let Some(event) = known.find(|event| event.reason == *reason) {
            event.count += count;
            return event.count;
        }
        self.graph_breaks.push(GraphBreakEvent {
            reason: reason.clone(),
            count,
        });
        count
    }

    /// Counts a call that ran natively; the answer says how often for this reason.
    pub fn note_fallback(&mut self, function: &SourceLoc, reason: &Break, count: u64) -> u64 {
        let mut known = self.fallbacks.iter_mut();
        let is_it = |event: &&mut Fallback| event.reason == *reason && event.function == *function;
        if let Some(event) = known.find(is_it) {
            event.count += count;
            return event.count;
        }
        self.fallbacks.push(Fallback {
            function: function.clone(),
            reason: reason.clone(),
            count,
        });
        count
    }

    /// Counts steps of optimizers that ran Paddle's own code.
    pub fn note_own_steps(&mut self, reason: &str, count: u64) {
        match self.own_steps.iter_mut().find(|(known, _)| known == reason) {
            Some((_, known)) => *known += count,
            None => self.own_steps.push((reason.to_owned(), count)),
        }
    }

    /// Adds the counts of `other` to this one.
    pub fn merge(&mut self, other: &Stats) {
        self.graphs += other.graphs;
        self.ops += other.ops;
        self.translations += other.translations;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.whole_steps += other.whole_steps;
        self.seconds.add(&other.seconds);
        for event in &other.graph_breaks {
            self.note_break(&event.reason, event.count);
        }
        self.recompiles.extend(other.recompiles.iter().cloned());
        for event in &other.fallbacks {
            self.note_fallback(&event.function, &event.reason, event.count);
        }
        for (reason, count) in &other.own_steps {
            self.note_own_steps(reason, *count);
        }
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
    use super::super::BreakKind;
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
    fn equal_breaks_are_counted() {
        let reason = |message: &str| Break::new(BreakKind::TensorValue, message);
        let mut stats = Stats::new();
        assert_eq!(stats.note_break(&reason("a"), 1), 1);
        assert_eq!(stats.note_break(&reason("b"), 1), 1);
        assert_eq!(stats.note_break(&reason("a"), 1), 2);
        let mut sum = stats.clone();
        sum.merge(&stats);
        let counts: Vec<u64> = sum.graph_breaks.iter().map(|event| event.count).collect();
        assert_eq!(counts, [4, 2]);
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
