//! Marks in a trace, and the way back to one: what is tried may fail, and what is captured is cut
//! out.

use std::rc::Rc;

use crate::simulator::tracer::function_graph::{Cut, GraphMark};
use crate::variables::{ArenaMark, VarId, Variable};

use super::Tracer;

/// A position of the whole trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceMark {
    arena: ArenaMark,
    graph: GraphMark,
    guards: (usize, usize),
    global_writes: usize,
    grad_enabled: bool,
    auto_casts: usize,
    left_behind: usize,
    deferred: usize,
    depths: (usize, usize),
    raised: (usize, usize),
    aliases: usize,
    carried: usize,
    run_again: usize,
}

impl<'py> Tracer<'py> {
    /// The current position of everything.
    pub fn mark(&self) -> TraceMark {
        TraceMark {
            arena: self.vars.mark(),
            graph: self.graph.mark(),
            guards: self.guards.mark(),
            global_writes: self.global_writes.len(),
            grad_enabled: self.grad_enabled,
            auto_casts: self.auto_casts,
            left_behind: self.left_behind.len(),
            deferred: self.deferred.len(),
            raised: (self.raised.len(), self.groups.len()),
            aliases: self.aliases.len(),
            carried: self.carried.len(),
            run_again: self.run_again.len(),
            depths: (self.progress.nesting, self.progress.calls),
        }
    }

    /// Forgets everything since `mark`.
    pub fn rollback(&mut self, mark: TraceMark) {
        self.graph.rollback(self.py, mark.graph);
        self.guards.rollback(mark.guards);
        self.run_again.truncate(mark.run_again);
        self.restore(mark);
    }

    /// Takes everything since `mark` out of the graph and forgets it otherwise; what was relied on
    /// stays guarded.
    pub(in crate::simulator) fn cut(&mut self, mark: TraceMark) -> Cut {
        let cut = self.graph.cut(self.py, mark.graph);
        self.restore(mark);
        cut
    }

    /// The simulated program as it was at `mark`: all but graph and guards.
    fn restore(&mut self, mark: TraceMark) {
        self.vars.rollback(mark.arena);
        self.global_writes.truncate(mark.global_writes);
        self.grad_enabled = mark.grad_enabled;
        self.auto_casts = mark.auto_casts;
        self.left_behind.truncate(mark.left_behind);
        self.deferred.truncate(mark.deferred);
        if self.deferred.is_empty() {
            self.writes_first = None;
        }
        let len = self.vars.len();
        self.known.retain(|_, id| (id.0 as usize) < len);
        self.aliases.truncate(mark.aliases);
        self.carried.truncate(mark.carried);
        for operation in &mut self.run_again {
            operation.forget(len);
        }
        self.raised.truncate(mark.raised.0);
        self.groups.truncate(mark.raised.1);
        let sir = &self.graph.sir;
        self.known_numbers
            .forget(sir.symbols.len(), sir.statements.len());
        self.unwound.clear();
        self.unnest(&mark);
    }

    /// No deeper in calls and containers than at `mark`.
    pub(in crate::simulator) fn unnest(&mut self, mark: &TraceMark) {
        (self.progress.nesting, self.progress.calls) = mark.depths;
    }

    /// Variables older than `mark` that changed since; `None` when something else changed that
    /// outlives a branch.
    pub(in crate::simulator) fn changed(
        &self,
        mark: &TraceMark,
    ) -> Option<Vec<(VarId, Rc<Variable>)>> {
        let same = self.global_writes.len() == mark.global_writes
            && self.grad_enabled == mark.grad_enabled
            && self.auto_casts == mark.auto_casts
            && self.left_behind.len() == mark.left_behind
            && !self.vars.changed_real(&mark.arena);
        same.then(|| self.vars.changed(&mark.arena))
    }

    /// How many statements there were at `mark`.
    pub(in crate::simulator) fn graph_len(&self, mark: &TraceMark) -> usize {
        mark.graph.statements()
    }

    /// Whether a variable is older than `mark`.
    pub(in crate::simulator) fn is_older(&self, id: VarId, mark: &TraceMark) -> bool {
        self.vars.is_older(id, &mark.arena)
    }
}
