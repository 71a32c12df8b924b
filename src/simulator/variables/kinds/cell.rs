//! Cells.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frame::TYPES;
use crate::reason::Break;
use crate::{Step, Tracer};

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

/// A cell.
#[derive(Clone, Debug)]
pub enum CellVar {
    /// A real cell nobody read yet.
    Unread,
    /// Empty.
    Empty,
    /// Full.
    Full(VarId),
}

impl Protocol for CellVar {
    const NAME: &'static str = "Cell";

    fn children(&self) -> Vec<VarId> {
        match self {
            Self::Full(content) => vec![*content],
            Self::Unread | Self::Empty => Vec::new(),
        }
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        match self {
            Self::Full(content) => Snapshot::Value("set_cell", *content),
            Self::Unread | Self::Empty => Snapshot::Attributes,
        }
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        to.call_type(TYPES, "CellType", 0, |_| Ok(()))?;
        to.keep(id)?;
        if let Self::Full(value) = self {
            to.call_helper("set_cell", 2, |to| {
                to.value(id)?;
                to.value(*value)
            })?;
            to.code().op("POP_TOP", 0)?;
        }
        Ok(true)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }
}
