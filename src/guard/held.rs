//! References to what guards have found, taken in front of checks that may run Python.
//!
//! What a slot holds is borrowed: good as long as nothing runs. A check that may run Python lets
//! other threads and destructors run too, which may let go of what was found before it.

use pyo3::ffi;
use pyo3::prelude::*;

use super::checks::{Check, Step};
use crate::abi;
use crate::native::{self, Ptr};

/// Whether a check may run Python.
pub(super) fn may_run_python(py: Python<'_>, check: &Check) -> bool {
    match check {
        Check::Contiguous
        | Check::Unhooked
        | Check::PlainOptimizer
        | Check::Registered(_)
        | Check::Quiet
        | Check::Layer(_) => true,
        // Their attributes are code where they cannot be read natively.
        Check::Tensor(_) | Check::Outcome(_) => abi::reader_name(py) != "native",
        Check::Present
        | Check::Absent
        | Check::TypeIs(_)
        | Check::Is(_)
        | Check::ConstEq(_)
        | Check::Len(_)
        | Check::Filled(_)
        | Check::MaxLen(_)
        | Check::Holds(..)
        | Check::Elements(_)
        | Check::DictKeys(_)
        | Check::Array(_)
        | Check::Apart(_)
        | Check::ApartFromAll(_)
        | Check::SameAs(_)
        | Check::OtherThan(_)
        | Check::Order(_)
        | Check::Named(..)
        | Check::Never => false,
    }
}

/// The same, by step.
pub(super) fn steps_that_run_python(py: Python<'_>, steps: &[Step]) -> Vec<bool> {
    let runs = |step: &Step| matches!(step, Step::Check { check, .. } if may_run_python(py, check));
    steps.iter().map(runs).collect()
}

/// What a walk over guards has found and holds.
pub(super) struct Held<'py> {
    py: Python<'py>,
    /// Whether a check of the walk may run Python.
    is_needed: bool,
    /// What is valid without being loaded, until it is held.
    known: &'py [bool],
    /// Slots found since the last such check.
    fresh: Vec<usize>,
    held: Vec<Bound<'py, PyAny>>,
}

impl<'py> Held<'py> {
    /// Nothing yet. `known`: by slot, whether it is valid without being loaded.
    pub(super) fn new(py: Python<'py>, is_needed: bool, known: &'py [bool]) -> Self {
        Self {
            py,
            is_needed,
            known,
            fresh: Vec::new(),
            held: Vec::new(),
        }
    }

    /// A slot was filled.
    pub(super) fn found(&mut self, slot: usize) {
        if self.is_needed {
            self.fresh.push(slot);
        }
    }

    /// Holds all that was found: Python may run now.
    pub(super) fn hold(&mut self, slots: &[usize]) {
        let py = self.py;
        let known = std::mem::take(&mut self.known).iter().enumerate();
        let known = known.filter_map(|(slot, is_known)| is_known.then_some(slot));
        let found = known.chain(self.fresh.drain(..)).map(|slot| slots[slot]);
        let objects = found.filter(|object| *object != 0).map(|object| {
            // SAFETY: nothing has run since it was found.
            let object = unsafe { Ptr::new(object as *mut ffi::PyObject) };
            native::to_bound(py, object)
        });
        self.held.extend(objects);
    }
}
