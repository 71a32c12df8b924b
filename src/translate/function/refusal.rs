//! What happens where a function cannot be translated: an error under `full_graph`, else it runs as it is and is left
//! alone after a few attempts.

use std::sync::atomic::Ordering;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::backend;
use crate::frame::{user_is_tracing, CodeState, Modules, Policy};
use crate::reason::{Break, BreakKind, Fallback, SourceLoc};
use crate::translate::pin;

use super::nested;
use super::turn::{is_translating, saves_are_hooked};
use super::{lock, Translated};

/// Failed attempts on one function before it is left alone.
const MAX_FAILURES: usize = 3;

impl Translated {
    /// Whether translating it was given up.
    pub fn is_left_alone(&self) -> bool {
        self.is_given_up(self.generation())
    }

    /// The generation of the backend: the one this call began on, else the registered one, if there is any.
    pub(super) fn generation(&self) -> Option<u64> {
        pin::generation(&self.shared)
            .or_else(|| backend::current(self.shared.options.backend.name()))
    }

    pub(super) fn is_given_up(&self, generation: Option<u64>) -> bool {
        self.gave_up.load(Ordering::Relaxed)
            && generation.is_none_or(|now| now == self.tried_under.load(Ordering::Relaxed))
    }

    pub(super) fn give_up(&self) {
        let now = self.generation().unwrap_or(0);
        self.tried_under.store(now, Ordering::Relaxed);
        self.gave_up.store(true, Ordering::Relaxed);
    }

    /// The error of a function that must be one graph and is not.
    pub(in crate::translate) fn refusal(&self, py: Python<'_>, reason: Break) -> PyErr {
        let reason = self.placed(reason);
        let mut reasons = std::mem::take(&mut *lock(&self.reasons));
        if reasons.is_empty() {
            reasons.push(reason);
        }
        graph_break_error(py, &reasons)
    }

    /// The error of a call that would be translated once more, under the stance that forbids it.
    pub(super) fn recompile_error(&self, py: Python<'_>, guard: &str) -> PyErr {
        let place = &self.location;
        let message = format!("{place} would be translated again: {guard}");
        error(py, "RecompileError", &message)
    }

    /// Whether nothing is in the way of one graph but an exception that leaves the function.
    pub(super) fn only_raises(&self, reason: &Break) -> bool {
        let reasons = lock(&self.reasons);
        let first = reasons.first().unwrap_or(reason);
        reasons.len() < 2 && first.kind == BreakKind::RaisesException
    }

    /// A callee without tensor operations: after a few, its frames are not looked at any more.
    pub(super) fn is_not_worth_it(&self, py: Python<'_>) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 < MAX_FAILURES {
            return;
        }
        self.give_up();
        let code = self.function.bind(py).getattr("__code__");
        let marked = code.and_then(|code| {
            let state = CodeState::of(code.cast()?)?;
            state.set_policies(Policy::Skip, Policy::Default);
            Ok(())
        });
        if let Err(err) = marked {
            log::debug!(target: "paddle_sot_rs.graph_breaks", "{}: {err}", self.location);
        }
    }

    /// Whether calls run as they are, because of what goes on around them.
    pub(super) fn is_watched(&self, py: Python<'_>) -> bool {
        if is_translating() {
            return true;
        }
        let (kind, message) = if user_is_tracing(py) {
            (BreakKind::Tracing, "somebody traces, profiles or monitors")
        } else if saves_are_hooked() {
            let message = "hooks on the tensors that autograd saves";
            (BreakKind::HookedSaves, message)
        } else {
            return false;
        };
        self.note_fallback(kind, message);
        true
    }

    /// Whether a call runs as it is, because too many nest.
    pub(super) fn is_too_deep(&self) -> bool {
        let is = nested::is_too_deep();
        if is {
            self.note_fallback(BreakKind::InlineDepth, "calls that nest too deep");
        }
        is
    }

    /// Counts, once, that calls run as they are for a reason that is none of the function's own.
    pub(super) fn note_fallback(&self, kind: BreakKind, message: &str) {
        let mut stats = lock(&self.shared.stats);
        let is_known = |it: &Fallback| it.reason.kind == kind && it.function == self.location;
        if !stats.fallbacks.iter().any(is_known) {
            stats.fallbacks.push(Fallback {
                function: self.location.clone(),
                reason: self.placed(Break::new(kind, message)),
            });
        }
    }

    /// A reason without a place is about the whole function.
    fn placed(&self, mut reason: Break) -> Break {
        if reason.loc == SourceLoc::default() {
            reason.loc = self.location.clone();
        }
        reason
    }

    pub(super) fn fall_back(&self, reason: Break) {
        if self.shared.forced {
            let kind = format!("{:?}", reason.kind);
            // Messages name what they met: the first words tell the rule.
            let rule: String = reason
                .message
                .chars()
                .take_while(|c| !"0123456789'\"(".contains(*c))
                .take(50)
                .collect();
            *lock(&self.why) = Some(format!("{kind}: {}", rule.trim()));
        }
        let reason = self.placed(reason);
        log::info!(target: "paddle_sot_rs.graph_breaks", "{} runs as it is: {reason}", self.location);
        lock(&self.shared.stats).fallbacks.push(Fallback {
            function: self.location.clone(),
            reason,
        });
        let now = self.generation().unwrap_or(0);
        if self.tried_under.swap(now, Ordering::Relaxed) != now {
            self.failures.store(0, Ordering::Relaxed);
            self.gave_up.store(false, Ordering::Relaxed);
        }
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
            self.give_up();
            log::warn!(target: "paddle_sot_rs.graph_breaks", "{} could not be translated {MAX_FAILURES} times; it is left alone", self.location);
        }
    }
}

/// `GraphBreakError` that lists the reasons.
pub fn graph_break_error(py: Python<'_>, reasons: &[Break]) -> PyErr {
    let lines: Vec<String> = reasons
        .iter()
        .map(|reason| format!("  {reason}\n    hint: {}", reason.kind.hint()))
        .collect();
    let message = format!(
        "full_graph=True, but the graph breaks:\n{}",
        lines.join("\n")
    );
    error(py, "GraphBreakError", &message)
}

/// An exception of `errors.py`.
fn error(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.module("paddle_sot_rs.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    make().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}
