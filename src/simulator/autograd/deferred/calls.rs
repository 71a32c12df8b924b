//! [`DeferredCalls`]: the calls of a train step that are made behind the graph, and what is written
//! around them.

use crate::obj::Obj;
use crate::tracer::function_graph::GraphInput;

use super::inside::InnerStep;
use super::{Act, DeferredCall};

/// Calls behind the graph, in program order.
#[derive(Debug, Default)]
pub struct DeferredCalls {
    calls: Vec<DeferredCall>,
    /// Where the frame had written something in front of the first of them, which is done before
    /// it: how often the frame had written.
    pub writes_first: Option<u64>,
    /// What the graph takes and reads for something that is computed behind them.
    pub read_behind: Vec<GraphInput>,
    /// Layers with attributes that the frame wrote.
    pub written_layers: Vec<Obj>,
    /// Steps that are part of the graph: their calls are not made behind it.
    pub(super) inner: Vec<InnerStep>,
}

impl DeferredCalls {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Those that are made behind the graph, in program order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &DeferredCall> {
        let calls = self.calls.iter().enumerate();
        calls
            .filter(|(at, _)| !self.is_inside(*at))
            .map(|(_, call)| call)
    }

    /// All, those that are part of the graph too.
    pub(super) fn all(&self) -> &[DeferredCall] {
        &self.calls
    }

    /// The first of those behind the graph.
    pub(crate) fn first(&self) -> Option<&DeferredCall> {
        self.iter().next()
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Option<&DeferredCall> {
        self.iter().next_back()
    }

    /// Whether a call is part of the graph.
    fn is_inside(&self, at: usize) -> bool {
        self.inner.iter().any(|step| step.calls.contains(&at))
    }

    /// Whether nothing is behind the graph but the beginning of a train step.
    pub(super) fn begins_step(&self) -> bool {
        let mut acts = self.iter().map(|call| call.act);
        match (acts.next(), acts.next(), acts.next()) {
            (None, ..) | (Some(Act::Backward), None | Some(Act::Steps), None) => true,
            (Some(_), ..) => false,
        }
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, DeferredCall> {
        self.calls.iter_mut()
    }

    /// One more, behind the others.
    pub(crate) fn push(&mut self, call: DeferredCall) {
        self.calls.push(call);
    }

    /// Forgets all behind the first `len`, and with the last of them that something was written
    /// first.
    pub(crate) fn rollback(&mut self, len: usize) {
        self.calls.truncate(len);
        self.inner.retain_mut(|step| step.is_left(len));
        if self.calls.is_empty() {
            self.writes_first = None;
        }
    }
}
