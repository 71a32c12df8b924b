//! Edges of autograd from a program to inputs that its run has not reached: see
//! `grad_reachability.py`.

use paddle_sot_backend::abi::{can_move_edges, move_edges, stand_in};
use paddle_sot_backend::frame::Modules;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use smallvec::SmallVec;

/// Whether such edges can be cut. The node of a program has all its inputs in one place, in order:
/// known of this version. (Asking the node for them would keep it alive for good.)
#[pyfunction]
pub fn can_cut(py: Python<'_>) -> PyResult<bool> {
    let version: String = py.paddle()?.getattr("__version__")?.extract()?;
    let known = ["3.2.", "3.3."]
        .iter()
        .any(|known| version.starts_with(known));
    Ok(known && can_move_edges(py))
}

/// A `Plan` of `grad_reachability.py`: whether there are flags, the rows and the loose outputs.
pub type Decided = (bool, Vec<(usize, Vec<i32>)>, Vec<usize>);

/// What one run of a program was given.
pub struct Given<'a, 'py> {
    /// The tensors.
    pub tensors: &'a [Bound<'py, PyAny>],
    /// Those of them, by position, that need no gradient after all, behind the gates too.
    pub stops: &'a [usize],
    /// The gates that the program has, with what they note.
    pub gates: Option<(&'a Bound<'py, PyAny>, &'a Bound<'py, PyList>)>,
}

/// What decides which inputs of a program are reached.
pub struct Cuts {
    /// Whether the last output says so.
    pub has_flags: bool,
    /// An input, and for each output that gradients flow through: which flag says whether the input
    /// is reached from it, -1 where it always is, -2 where it never is.
    rows: Vec<(usize, Vec<i32>)>,
    /// Among those outputs the ones from which no input may be reached.
    loose: Vec<usize>,
    /// Inputs behind the gates, in order: each is an input of the node of the gates.
    gated: Vec<usize>,
}

impl Cuts {
    /// Those of a program.
    pub fn new((has_flags, rows, loose): Decided, gated: Vec<usize>) -> Self {
        Self {
            has_flags,
            rows,
            loose,
            gated,
        }
    }

    /// Cuts the edges of a run. `flags` is the last output, if it has one to say; `output` is one
    /// that gradients flow through. The answer is the outputs from which nothing is reached.
    pub fn apply(
        &self,
        flags: Option<&Bound<'_, PyAny>>,
        given: &Given<'_, '_>,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<SmallVec<[usize; 4]>> {
        let Given { tensors, stops, .. } = given;
        let py = output.py();
        let flags: Vec<bool> = match flags {
            Some(flags) => flags.call_method0(pyo3::intern!(py, "tolist"))?.extract()?,
            None => Vec::new(),
        };
        let holds = |code: &i32| match *code {
            -1 => true,
            -2 => false,
            at => flags.get(at as usize).copied().unwrap_or(true),
        };
        let mut dead: SmallVec<[usize; 4]> = self.loose.iter().copied().collect();
        let mut cut: SmallVec<[usize; 8]> = SmallVec::new();
        let masks = PyDict::new(py);
        for (at, codes) in &self.rows {
            // Captured control flow may have made it, on another way than the one with a gradient.
            let stops = stops.contains(at);
            let holds = |code: &i32| !stops && holds(code);
            let mask: Vec<bool> = codes.iter().map(holds).collect();
            dead.retain(|number| !mask.get(*number).copied().unwrap_or(true));
            if !mask.contains(&true) && !stops {
                cut.push(*at);
            }
            if self.gated.contains(at) {
                masks.set_item(at, mask)?;
            }
        }
        if let (Some((gates, noted)), false) = (given.gates, masks.is_empty()) {
            gates.call_method1("narrow", (noted, masks))?;
        }
        if cut.is_empty() {
            return Ok(dead);
        }
        let mut now: SmallVec<[Bound<'_, PyAny>; 16]> = tensors.iter().cloned().collect();
        for &at in &cut {
            now[at] = stand_in(&tensors[at])?;
            if let Some(slot) = self.gated.iter().position(|gated| *gated == at) {
                // The node of the gates gives gradients to others: the edge behind it is the one to
                // cut.
                move_edges(&tensors[at], &now[at..=at], slot)?;
            }
        }
        move_edges(output, &now, 0)?;
        Ok(dead)
    }
}
