//! [`Replays`]: the operations of a trace whose code runs again on the way back.

use super::{Reads, RunsAgain};

/// Operations that run again, and what is read for the one that is being simulated.
#[derive(Debug, Default)]
pub struct Replays {
    /// Whether what is simulated runs again on the way back, where other tensors need gradients
    /// than on this one.
    pub is_inside: bool,
    /// What is read, while somebody asks.
    pub reads: Option<Reads>,
    /// Captured operations whose code plain Python runs again on the way back.
    pub operations: Vec<RunsAgain>,
}

impl Replays {
    /// Forgets all operations behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.operations.truncate(len);
    }

    /// Forgets what operations have read of variables from the number `vars` on.
    pub(crate) fn forget(&mut self, vars: usize) {
        for operation in &mut self.operations {
            operation.forget(vars);
        }
    }
}
