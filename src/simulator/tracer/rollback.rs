//! Marks in a trace, and the way back to one: what is tried may fail, and what is captured is cut
//! out.

use std::rc::Rc;

use crate::tracer::function_graph::{Cut, GraphMark};
use crate::variables::{ArenaMark, VarId, Variable};

use crate::captured_flow::FlowMark;

use super::Tracer;
use super::exceptions::ExceptionMark;
use super::gradients::GradMark;

/// A position of the whole trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceMark {
    arena: ArenaMark,
    graph: GraphMark,
    guards: (usize, usize),
    global_writes: usize,
    grad: GradMark,
    left_behind: usize,
    deferred: usize,
    depths: (usize, usize),
    exceptions: ExceptionMark,
    flow: FlowMark,
    replays: usize,
}

impl<'py> Tracer<'py> {
    /// The current position of everything.
    pub fn mark(&self) -> TraceMark {
        TraceMark {
            arena: self.vars.mark(),
            graph: self.graph.mark(),
            guards: self.guards.mark(),
            global_writes: self.global_writes.len(),
            grad: self.grad.mark(),
            left_behind: self.left_behind.len(),
            deferred: self.deferred.len(),
            exceptions: self.exceptions.mark(),
            flow: self.flow.mark(),
            replays: self.replays.operations.len(),
            depths: (self.progress.nesting, self.progress.calls),
        }
    }

    /// Forgets everything since `mark`.
    pub fn rollback(&mut self, mark: TraceMark) {
        self.graph.rollback(self.py, mark.graph);
        self.guards.rollback(mark.guards);
        self.replays.truncate(mark.replays);
        self.restore(mark);
    }

    /// Takes everything since `mark` out of the graph and forgets it otherwise; what was relied on
    /// stays guarded.
    pub(crate) fn cut(&mut self, mark: TraceMark) -> Cut {
        let cut = self.graph.cut(self.py, mark.graph);
        self.restore(mark);
        cut
    }

    /// The simulated program as it was at `mark`: all but graph and guards.
    fn restore(&mut self, mark: TraceMark) {
        self.vars.rollback(mark.arena);
        self.global_writes.truncate(mark.global_writes);
        self.grad.rollback(mark.grad);
        self.left_behind.truncate(mark.left_behind);
        self.deferred.rollback(mark.deferred);
        let len = self.vars.len();
        self.known.retain(|_, id| (id.0 as usize) < len);
        self.replays.forget(len);
        self.exceptions.rollback(mark.exceptions);
        let sir = &self.graph.sir;
        let size = (sir.symbols.len(), sir.statements.len());
        self.flow.rollback(mark.flow, size);
        self.at_break.unwound.clear();
        self.unnest(&mark);
    }

    /// No deeper in calls and containers than at `mark`.
    pub(crate) fn unnest(&mut self, mark: &TraceMark) {
        (self.progress.nesting, self.progress.calls) = mark.depths;
    }

    /// Variables older than `mark` that changed since; `None` when something else changed that
    /// outlives a branch.
    pub(crate) fn changed(&self, mark: &TraceMark) -> Option<Vec<(VarId, Rc<Variable>)>> {
        let same = self.global_writes.len() == mark.global_writes
            && self.grad.mark() == mark.grad
            && self.left_behind.len() == mark.left_behind
            && !self.vars.changed_real(&mark.arena);
        same.then(|| self.vars.changed(&mark.arena))
    }

    /// How many statements there were at `mark`.
    pub(crate) fn graph_len(&self, mark: &TraceMark) -> usize {
        mark.graph.statements()
    }

    /// Whether a variable is older than `mark`.
    pub(crate) fn is_older(&self, id: VarId, mark: &TraceMark) -> bool {
        self.vars.is_older(id, &mark.arena)
    }
}
