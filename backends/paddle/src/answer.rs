//! What the Python part of the backend answers to a program that is compiled.

use pyo3::prelude::*;

use crate::edge_pruning::Decided;
use crate::steady::Recipe;

/// What `compile_graph` answers: see `Compiled` in `programs.py`.
#[derive(FromPyObject)]
pub struct Answer {
    pub attributes: Py<PyAny>,
    pub program: Py<PyAny>,
    pub constants: Vec<Py<PyAny>>,
    pub trains: bool,
    pub training: Vec<usize>,
    pub without: Vec<usize>,
    pub by_operators: Vec<usize>,
    pub gates: Option<Py<PyAny>>,
    pub decided: Option<Decided>,
    pub has_signal: bool,
    pub needed: Vec<String>,
    pub results: Vec<String>,
    pub is_random: bool,
    pub read: Vec<usize>,
    pub read_outputs: Vec<usize>,
    pub computed_from: Vec<(usize, bool)>,
    pub outputs_again: Vec<(usize, bool)>,
    pub has_loops: bool,
    pub in_place: bool,
    pub memory: Option<usize>,
    pub steady: Option<Recipe>,
}

impl Answer {
    /// Whether all that the backward needs of a run is in the tensors of variables: not where
    /// control flow keeps its rounds, or decides what gets gradients.
    pub fn saves_in_variables(&self) -> bool {
        let decides = self.gates.is_some() || self.decided.is_some();
        !self.has_loops && !decides && self.steady.is_none()
    }
}
