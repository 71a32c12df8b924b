//! What happens where a function cannot be translated: an error under `full_graph`, else it runs as
//! it is and is left alone after a few attempts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple};

use crate::backend;
use crate::frame::{CodeState, Modules, Policy, user_is_tracing};
use crate::guard::GuardFailure;
use crate::reason::{Break, BreakId, BreakKind, SourceLoc, Stats};
use crate::sync::lock;
use crate::translate::arguments::addresses;
use crate::translate::pin;

use super::Translated;
use super::cache::Entry;
use super::compile_lock::saves_are_hooked;
use super::nesting;
use crate::backend::is_translating;

/// Failed attempts on one function before it is left alone.
const MAX_FAILURES: usize = 3;

/// Most guards that a message names.
const SHOWN: usize = 3;

/// The translations of a function that failed under one generation of its backend.
#[derive(Default)]
pub(super) struct Attempts {
    failures: AtomicUsize,
    gave_up: AtomicBool,
    /// The generation that these are about: the next one is tried again.
    tried_under: AtomicU64,
    /// Why it last ran natively, for counting.
    pub(super) why: Mutex<Option<String>>,
}

impl Attempts {
    fn is_given_up(&self, generation: Option<u64>) -> bool {
        self.gave_up.load(Ordering::Relaxed)
            && generation.is_none_or(|now| now == self.tried_under.load(Ordering::Relaxed))
    }

    fn give_up(&self, generation: u64) {
        self.tried_under.store(generation, Ordering::Relaxed);
        self.gave_up.store(true, Ordering::Relaxed);
    }

    /// Begins anew under another generation than the last one.
    fn try_under(&self, generation: u64) {
        if self.tried_under.swap(generation, Ordering::Relaxed) != generation {
            self.forget();
        }
    }

    /// Counts one that failed; whether no other is made.
    fn is_last(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES
    }

    /// Tries again.
    pub(super) fn forget(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.gave_up.store(false, Ordering::Relaxed);
    }
}

impl Translated {
    /// Whether translating it was given up.
    pub fn is_left_alone(&self) -> bool {
        self.is_given_up(self.generation())
    }

    /// The generation of the backend: the one this call began on, else the registered one, if there
    /// is any.
    pub(super) fn generation(&self) -> Option<u64> {
        pin::generation(&self.shared)
            .or_else(|| backend::current(self.shared.options.backend.name()))
    }

    pub(super) fn is_given_up(&self, generation: Option<u64>) -> bool {
        self.learnt.attempts.is_given_up(generation)
    }

    pub(super) fn give_up(&self) {
        let now = self.generation().unwrap_or(0);
        self.learnt.attempts.give_up(now);
    }

    /// The error of a function that must be one graph and is not.
    pub(in crate::translate) fn refusal(&self, py: Python<'_>, reason: Break) -> PyErr {
        let reason = self.placed(reason);
        let mut reasons = std::mem::take(&mut *lock(&self.learnt.reasons));
        if reasons.is_empty() {
            reasons.push(reason);
        }
        graph_break_error(py, &reasons)
    }

    /// The error of a call that would be translated once more, under the stance that forbids it.
    pub(super) fn recompile_error(&self, py: Python<'_>, guard: &str) -> PyErr {
        let place = &self.location;
        let id = BreakId::Recompile;
        let link = id.link();
        let message = format!("{id} {place} would be translated again: {guard}; see {link}");
        error(py, "RecompileError", &message, None)
    }

    /// The guards that are in the way of a translation, each with what it was and is: one for each
    /// thing that differs.
    pub(super) fn what_failed(
        &self,
        py: Python<'_>,
        bound: &[Bound<'_, PyAny>],
        newest: (&Entry, GuardFailure),
    ) -> String {
        let locals = addresses(bound);
        let inputs = self.guard_inputs(&locals);
        let mut found = vec![newest.0.guard.explain_failure(py, inputs, newest.1)];
        let entries = self.entries();
        for entry in entries
            .iter()
            .rev()
            .filter(|it| !std::ptr::eq(&***it, newest.0))
        {
            if let Err(failure) = entry.guard.check(py, inputs) {
                let what = entry.guard.explain_failure(py, inputs, failure);
                if !found.iter().any(|known| subject(known) == subject(&what)) {
                    found.push(what);
                }
            }
            if found.len() == SHOWN {
                break;
            }
        }
        found.join("; ")
    }

    /// Whether nothing is in the way of one graph but an exception that leaves the function.
    pub(super) fn only_raises(&self, reason: &Break) -> bool {
        let reasons = lock(&self.learnt.reasons);
        let first = reasons.first().unwrap_or(reason);
        reasons.len() < 2 && first.kind == BreakKind::RaisesException
    }

    /// A callee without tensor operations: after a few, its frames are not looked at any more.
    pub(super) fn is_not_worth_it(&self, py: Python<'_>) {
        if !self.learnt.attempts.is_last() {
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
        let is = nesting::is_too_deep();
        if is {
            self.note_fallback(BreakId::NestedCalls, "calls that nest too deep");
        }
        is
    }

    /// Counts that calls run as they are for a reason that is none of the function's own.
    pub(super) fn note_fallback(&self, id: impl Into<BreakId>, message: &str) {
        let reason = self.placed(Break::new(id, message));
        lock(&self.shared.stats).note_fallback(&self.location, &reason, 1);
    }

    /// A reason without a place is about the whole function.
    fn placed(&self, mut reason: Break) -> Break {
        if reason.loc == SourceLoc::default() {
            reason.loc = self.location.clone();
        }
        reason
    }

    /// Counts that the function has too many translations, with the guards that failed.
    pub(super) fn note_limit(&self, py: Python<'_>, limit: usize) {
        let failed = guards_that_failed(&lock(&self.shared.stats), &self.location);
        let message = format!("{limit} translations; what failed each time: {failed}");
        let reason = self.placed(Break::new(BreakId::RecompileLimit, message));
        log::warn!(target: "paddle_sot_rs.recompiles", "{} has {limit} translations; from now on it runs as it is: {}", self.location, reason.advice(py));
        lock(&self.shared.stats).note_fallback(&self.location, &reason, 1);
    }

    pub(super) fn fall_back(&self, py: Python<'_>, reason: Break) {
        if self.shared.forced {
            let kind = format!("{:?}", reason.kind);
            // Messages name what they met: the first words tell the rule.
            let rule: String = reason
                .message
                .chars()
                .take_while(|c| !"0123456789'\"(".contains(*c))
                .take(50)
                .collect();
            *lock(&self.learnt.attempts.why) = Some(format!("{kind}: {}", rule.trim()));
        }
        let reason = self.placed(reason);
        let count = lock(&self.shared.stats).note_fallback(&self.location, &reason, 1);
        if let Some(times) = shown(count) {
            log::info!(target: "paddle_sot_rs.graph_breaks", "{times}{} runs as it is: {}", self.location, reason.advice(py));
        }
        let now = self.generation().unwrap_or(0);
        self.learnt.attempts.try_under(now);
        if self.learnt.attempts.is_last() {
            self.give_up();
            let id = BreakId::LeftAlone;
            log::warn!(target: "paddle_sot_rs.graph_breaks", "{id} {} could not be translated {MAX_FAILURES} times; it is left alone; see {}", self.location, id.link());
        }
    }
}

/// Each reason once, in the order of the source: files as they were reached, then lines.
fn in_order(reasons: &[Break]) -> Vec<&Break> {
    let mut files: Vec<&str> = Vec::new();
    let mut found: Vec<&Break> = Vec::new();
    for reason in reasons {
        if !files.contains(&&*reason.loc.file) {
            files.push(&reason.loc.file);
        }
        if !found.contains(&reason) {
            found.push(reason);
        }
    }
    let place = |reason: &&Break| {
        let file = files.iter().position(|file| **file == *reason.loc.file);
        (file, reason.loc.line)
    };
    found.sort_by_key(place);
    found
}

/// What stands in front of the `count`th line about something in the log, if it is shown.
pub(in crate::translate) fn shown(count: u64) -> Option<String> {
    match count {
        1 => Some(String::new()),
        10 | 100 | 1000 | 10000 => Some(format!("({count} times) ")),
        _ => None,
    }
}

/// `GraphBreakError` that lists the reasons.
pub fn graph_break_error(py: Python<'_>, reasons: &[Break]) -> PyErr {
    let lines: Vec<String> = in_order(reasons)
        .iter()
        .map(|reason| format!("  {}", reason.advice(py)))
        .collect();
    let message = format!(
        "full_graph=True, but the graph breaks:\n{}",
        lines.join("\n")
    );
    let ids = reasons.iter().map(|reason| reason.id.code()).collect();
    error(py, "GraphBreakError", &message, Some(ids))
}

/// An exception of `errors.py`, which may take the ids of its reasons.
fn error(py: Python<'_>, class: &str, message: &str, ids: Option<Vec<String>>) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.module("paddle_sot_rs.errors")?.getattr(class)?;
        let ids = ids.map(|ids| PyTuple::new(py, ids)).transpose()?;
        let named = ids.map(|ids| [("ids", ids)].into_py_dict(py)).transpose()?;
        Ok(PyErr::from_value(class.call((message,), named.as_ref())?))
    };
    make().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

/// The change alone: `x.shape[0]: 4 -> 5` of `x.shape[0]: 4 -> 5 (...)`.
fn change(failure: &str) -> &str {
    let now = failure.find(" -> ").unwrap_or(failure.len());
    let end = failure[now..].find(" (").map(|at| now + at);
    &failure[..end.unwrap_or(failure.len())]
}

/// What a failed guard is about: `x.shape[0]` of `x.shape[0]: 4 -> 5 (...)`.
fn subject(failure: &str) -> &str {
    failure.split(": ").next().unwrap_or(failure)
}

/// Guards that made a function be translated again: the newest of each subject, and how often.
fn guards_that_failed(stats: &Stats, function: &SourceLoc) -> String {
    let mut found: Vec<(&str, &str, usize)> = Vec::new();
    let own = stats
        .recompiles
        .iter()
        .filter(|it| it.function == *function);
    for guard in own.flat_map(|it| it.guard.split("; ")) {
        match found
            .iter_mut()
            .find(|(known, ..)| *known == subject(guard))
        {
            Some((_, newest, times)) => (*newest, *times) = (guard, *times + 1),
            None => found.push((subject(guard), guard, 1)),
        }
    }
    found.sort_by_key(|(.., times)| std::cmp::Reverse(*times));
    let shown = found.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|(_, guard, times)| format!("{} ({times} times)", change(guard)))
        .collect();
    shown.join("; ")
}
