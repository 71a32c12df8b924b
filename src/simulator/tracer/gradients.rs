//! [`Gradients`]: how gradients flow through what is simulated now.

use rustc_hash::FxHashSet;

use crate::graph::SymbolId;

/// The grad mode of the simulated program, and what was followed without the gradient that Paddle
/// gives it.
#[derive(Debug)]
pub struct Gradients {
    /// Grad mode as the simulated program sees it now.
    pub enabled: bool,
    /// Grad mode at the call: a graph that is run without it has no gradients anywhere.
    pub at_entry: bool,
    /// How many PyLayers it is inside of whose `backward` says how gradients flow.
    pub custom: usize,
    /// How often gradients were switched off, or a custom operation was followed without its own
    /// gradient.
    pub cut_off: usize,
    /// While the `backward` of a custom operation is followed: the first symbol that it makes.
    pub backward: Option<SymbolId>,
    /// How many `auto_cast` are entered.
    pub auto_casts: usize,
    /// The instructions of the outermost frame in which a tensor began to take gradients in place.
    pub fills: FxHashSet<usize>,
}

/// The part of it that a roll-back restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GradMark {
    enabled: bool,
    auto_casts: usize,
}

impl Gradients {
    /// At the begin of a call in this grad mode.
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            at_entry: enabled,
            custom: 0,
            cut_off: 0,
            backward: None,
            auto_casts: 0,
            fills: FxHashSet::default(),
        }
    }

    /// Whether what is followed is the code of a custom operation, whose gradient it says itself.
    pub(crate) fn is_in_custom_operation(&self) -> bool {
        self.backward.is_some() || self.custom > 0
    }

    /// Whether an operation has the gradient here that Paddle gives it, in its own type.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_in_custom_operation() && self.auto_casts == 0
    }

    pub(super) fn mark(&self) -> GradMark {
        GradMark {
            enabled: self.enabled,
            auto_casts: self.auto_casts,
        }
    }

    pub(super) fn rollback(&mut self, mark: GradMark) {
        self.enabled = mark.enabled;
        self.auto_casts = mark.auto_casts;
    }
}
