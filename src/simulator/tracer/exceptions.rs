//! [`Exceptions`]: what is not rebuilt, since a traceback or a context may belong to it.

use crate::groups::Group;
use crate::variables::VarId;

/// Exceptions that were raised, groups of them, and what else only the interpreter makes.
#[derive(Debug, Default)]
pub struct Exceptions {
    /// What is not rebuilt: exceptions that were raised, which have a traceback and may have a
    /// context, and what only the interpreter can make. With each the instruction of the outermost
    /// frame that raised or made it.
    pub raised: Vec<(VarId, usize)>,
    /// Exception groups that the frame made.
    pub groups: Vec<Group>,
}

/// A position of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExceptionMark {
    raised: usize,
    groups: usize,
}

impl Exceptions {
    /// The instruction of the outermost frame that raised or made this.
    pub(crate) fn raised_at(&self, id: VarId) -> Option<usize> {
        let mut raised = self.raised.iter();
        raised.find(|(raised, _)| *raised == id).map(|(_, at)| *at)
    }

    pub(super) fn mark(&self) -> ExceptionMark {
        ExceptionMark {
            raised: self.raised.len(),
            groups: self.groups.len(),
        }
    }

    pub(super) fn rollback(&mut self, mark: ExceptionMark) {
        self.raised.truncate(mark.raised);
        self.groups.truncate(mark.groups);
    }
}
