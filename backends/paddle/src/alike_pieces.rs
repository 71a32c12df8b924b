//! Pieces that are alike: the first has a program, others run that.

use std::sync::Arc;

use paddle_sot_backend::graph::{StatementIr, SymbolId};
use paddle_sot_backend::obj::Obj;
use pyo3::prelude::*;

/// Pieces that have programs of their own: others that are alike run those.
pub struct Programs {
    /// In order.
    pub known: Vec<Known>,
    /// Whether pieces share programs.
    pub shares: bool,
}

/// What a program was made for.
pub struct Known {
    /// What was compiled.
    pub piece: Piece,
    /// The number of the part.
    pub at: usize,
}

/// A piece, and what it is given.
#[derive(Clone)]
pub struct Piece {
    /// The piece.
    pub sir: Arc<StatementIr>,
    /// The tensors among its inputs, or stand-ins.
    pub examples: Vec<Obj>,
    /// What others use too, and it may use once.
    pub once: Vec<SymbolId>,
    /// Its `sums` of `Part`.
    pub sums: Vec<(SymbolId, Vec<usize>)>,
    /// See `Role`.
    pub uncertain: Vec<usize>,
}

impl Piece {
    /// Whether it can run the program of another one.
    fn is_like(&self, py: Python<'_>, other: &Self) -> bool {
        self.uncertain == other.uncertain
            && self.once.iter().all(|id| other.once.contains(id))
            && self.sums == other.sums
            && (self.sir).is_alike(py, &self.examples, (&other.sir, &other.examples))
    }
}

impl Programs {
    /// The part whose program a piece can run.
    pub fn of(&self, py: Python<'_>, piece: &Piece) -> Option<usize> {
        let mut known = self.known.iter().filter(|_| self.shares);
        let found = known.find(|known| piece.is_like(py, &known.piece));
        found.map(|known| known.at)
    }
}
