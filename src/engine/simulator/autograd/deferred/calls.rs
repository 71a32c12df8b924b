//! [`DeferredCalls`]: the calls of a train step that are made behind the graph, and what is written
//! around them.

use crate::obj::Obj;
use crate::simulator::tracer::function_graph::GraphInput;

use super::DeferredCall;

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
}

impl DeferredCalls {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// In program order.
    pub fn iter(&self) -> std::slice::Iter<'_, DeferredCall> {
        self.calls.iter()
    }

    /// The first one.
    pub fn first(&self) -> Option<&DeferredCall> {
        self.calls.first()
    }

    /// The last one.
    pub fn last(&self) -> Option<&DeferredCall> {
        self.calls.last()
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, DeferredCall> {
        self.calls.iter_mut()
    }

    /// One more, behind the others.
    pub fn push(&mut self, call: DeferredCall) {
        self.calls.push(call);
    }

    /// Forgets all behind the first `len`, and with the last of them that something was written
    /// first.
    pub(in crate::simulator) fn rollback(&mut self, len: usize) {
        self.calls.truncate(len);
        if self.calls.is_empty() {
            self.writes_first = None;
        }
    }
}
