//! [`Recurrence`]: sizes that a function has met. Behind a few translations that differ in nothing
//! else, one is made for sizes that come again.
//!
//! A loop that is unrolled is a translation for each length, and most lengths of a set of texts
//! come once: what is translated then is never run again.

use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};
use rustc_hash::{FxHashSet, FxHasher};

use crate::paddle::{Paddle, tensor_meta};
use crate::reason::BreakId;
use crate::sync::lock;
use crate::translate::arguments::addresses;
use crate::translate::choice::Configured;
use crate::translate::declared_dynamic;

use super::compile_lock::fails_on_recompile;
use super::{Translated, tiered};

/// Translations that differ from a call in sizes alone, before sizes have to come again.
const ENOUGH: usize = 3;

/// Calls in a row whose sizes come for the first time: the next one is translated. What differs may
/// be the way through branches, which comes again with other sizes.
const MOST_CALLS: usize = 8;

/// Sizes that are remembered.
const MOST_SIZES: usize = 4096;

/// How far into containers sizes are looked for.
const DEPTH: usize = 3;

/// Values that are looked at.
const MOST_VALUES: usize = 1000;

/// What a function has met.
#[derive(Default)]
pub(super) struct Recurrence {
    sizes: FxHashSet<u64>,
    /// Calls in a row that were not translated.
    passed: usize,
}

impl Recurrence {
    /// Whether a call of these sizes runs as it is.
    fn waits(&mut self, sizes: u64) -> bool {
        if self.sizes.len() >= MOST_SIZES {
            self.sizes.clear();
        }
        let is_new = self.sizes.insert(sizes);
        let waits = is_new && self.passed < MOST_CALLS;
        self.passed = if waits { self.passed + 1 } else { 0 };
        waits
    }
}

/// The sizes of the arguments of a call. Nothing but a sign that sizes come again: whatever it
/// says, the call is right.
struct Sizes {
    paddle: &'static Paddle,
    hash: FxHasher,
    /// Dims of this call are declared to be dynamic.
    are_declared: bool,
    /// Values that may still be looked at.
    left: usize,
}

impl Sizes {
    fn add(&mut self, value: &Bound<'_, PyAny>, depth: usize) {
        if self.paddle.is_tensor(value) {
            if let Some(meta) = tensor_meta(value) {
                meta.shape.hash(&mut self.hash);
            }
            self.are_declared |= declared_dynamic::is_marked(value);
        } else if value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyBool>() {
            let number: i64 = value.extract().unwrap_or_default();
            number.hash(&mut self.hash);
        } else if depth == 0 {
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.add_all(list.iter(), depth - 1);
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.add_all(tuple.iter(), depth - 1);
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.add_all(dict.iter().map(|(_, item)| item), depth - 1);
        }
    }

    fn add_all<'py>(
        &mut self,
        items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) {
        items.len().hash(&mut self.hash);
        for item in items {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.add(&item, depth);
        }
    }
}

impl Translated {
    /// Whether a call that no translation is ready for runs as it is, since its sizes come for the
    /// first time.
    pub(super) fn waits_for_sizes(&self, py: Python<'_>, bound: &[Bound<'_, PyAny>]) -> bool {
        let options = &self.shared.options;
        if options.full_graph
            || self.shared.forced
            || tiered::compiles_at_once()
            || fails_on_recompile()
        {
            return false;
        }
        let entries = self.entries();
        let waits = |chosen: &Configured| chosen.dynamic && !chosen.compiles_at_once;
        let is_asked = entries.last().is_some_and(|entry| waits(&entry.backend));
        if entries.len() < ENOUGH || !is_asked {
            return false;
        }
        let locals = addresses(bound);
        let inputs = self.guard_inputs(&locals);
        let mut others = entries.iter().filter(|entry| {
            let failure = entry.guard.check(py, inputs).err();
            failure.is_some_and(|failure| entry.guard.is_of_sizes(py, inputs, failure))
        });
        if others.nth(ENOUGH - 1).is_none() {
            return false;
        }
        let Ok(paddle) = Paddle::get(py) else {
            return false;
        };
        let mut sizes = Sizes {
            paddle,
            hash: FxHasher::default(),
            are_declared: false,
            left: MOST_VALUES,
        };
        sizes.add_all(bound.iter().cloned(), DEPTH);
        let sign = sizes.hash.finish();
        let waits = !sizes.are_declared && lock(&self.learnt.recurrence).waits(sign);
        if waits {
            self.note_fallback(BreakId::NewSizes, "sizes that come for the first time");
        }
        waits
    }
}
