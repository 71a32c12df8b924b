//! Scopes of runs: what holds the variables of one.

use std::collections::VecDeque;
use std::sync::Arc;

use paddle_sot_backend::sync::lock;
use pyo3::prelude::*;

use crate::double_backward::{Scope, Shared};
use crate::runtime::executor_lock::{self, Turn};

/// Runs of one graph that may wait for their backward where what they have saved cannot wait
/// elsewhere: each needs a scope, which costs milliseconds to make and is never freed. Further ones
/// run call by call.
const SCOPES: usize = 16;

impl Shared {
    /// A scope nobody uses: the caller gives it back after the run. None: too many wait for their
    /// backward. `keeps`: whether runs keep something for each scope and each thread. Then threads
    /// have scopes of their own, as far as there are enough.
    pub fn take_scope(
        &self,
        py: Python<'_>,
        new_scope: &Py<PyAny>,
        keeps: bool,
    ) -> PyResult<Option<Scope>> {
        self.drop_spoiled();
        if keeps {
            let thread = executor_lock::thread_token();
            let mut may_be_more = false;
            let own = self.take_if_free(py, |scopes| {
                let own = scopes.iter().position(|it| it.thread.ptr_eq(&thread));
                let is_nobodys = |it: &Scope| it.thread.strong_count() == 0;
                let own = own.or_else(|| scopes.iter().position(is_nobodys));
                may_be_more = own.is_none() && scopes.len() < SCOPES;
                own
            })?;
            if own.is_some() {
                return Ok(own);
            }
            if may_be_more {
                return made(py, new_scope).map(Some);
            }
        }
        // The one used last is free again in a loop that trains, the first one after a backward
        // through many.
        let last = self.take_if_free(py, |scopes| scopes.len().checked_sub(1))?;
        if last.is_some() {
            return Ok(last);
        }
        let first = self.take_if_free(py, |scopes| (scopes.len() > 1).then_some(0))?;
        if first.is_some() {
            return Ok(first);
        }
        let cleared = self.take_cleared(py)?;
        if cleared.is_some() {
            return Ok(cleared);
        }
        if lock(&self.scopes).len() >= SCOPES * Arc::strong_count(&self.scopes) {
            return Ok(None);
        }
        made(py, new_scope).map(Some)
    }

    /// The scope at this position, if nothing waits for its backward.
    fn take_if_free(
        &self,
        py: Python<'_>,
        which: impl FnOnce(&VecDeque<Scope>) -> Option<usize>,
    ) -> PyResult<Option<Scope>> {
        self.take_if(which, |scope| match scope.is_open() {
            true => scope.is_free(py),
            false => Ok(false),
        })
    }

    /// The scope used last whose run can wait elsewhere.
    fn take_cleared(&self, py: Python<'_>) -> PyResult<Option<Scope>> {
        let thread = executor_lock::thread_token();
        let is_own = |it: &Scope| it.thread.ptr_eq(&thread) && it.is_made();
        let last = |scopes: &VecDeque<Scope>| scopes.iter().rposition(is_own);
        self.take_if(last, |scope| scope.backward.make_room(py, self))
    }

    /// The scope at this position, if a test says yes of it. Python is asked for that, and another
    /// thread may come meanwhile: the scope is out of the list.
    fn take_if(
        &self,
        which: impl FnOnce(&VecDeque<Scope>) -> Option<usize>,
        test: impl FnOnce(&Scope) -> PyResult<bool>,
    ) -> PyResult<Option<Scope>> {
        let taken = {
            let mut scopes = lock(&self.scopes);
            which(&scopes).and_then(|at| Some((at, scopes.remove(at)?)))
        };
        let Some((at, scope)) = taken else {
            return Ok(None);
        };
        let is_taken = test(&scope);
        if matches!(is_taken, Ok(true)) {
            return Ok(Some(scope));
        }
        let mut scopes = lock(&self.scopes);
        let at = at.min(scopes.len());
        scopes.insert(at, scope);
        is_taken.map(|_| None)
    }

    /// Drops the spoiled ones at both ends, outside of the lock: variables of a scope may go.
    fn drop_spoiled(&self) {
        let mut spoiled = Vec::new();
        let mut scopes = lock(&self.scopes);
        while scopes.back().is_some_and(Scope::is_spoiled) {
            spoiled.extend(scopes.pop_back());
        }
        while scopes.front().is_some_and(Scope::is_spoiled) {
            spoiled.extend(scopes.pop_front());
        }
        drop(scopes);
        drop(spoiled);
    }

    /// Drops those that a test says yes of.
    pub fn drop_scopes(&self, is_dropped: impl Fn(&Scope) -> bool) {
        let mut scopes = lock(&self.scopes);
        let all = std::mem::take(&mut *scopes).into_iter();
        let (dropped, left): (VecDeque<_>, _) = all.partition(|scope| is_dropped(scope));
        *scopes = left;
        drop(scopes);
        drop(dropped);
    }

    /// For the next run.
    pub fn give_back(&self, scope: Scope) {
        lock(&self.scopes).push_back(scope);
    }
}

fn made(py: Python<'_>, new_scope: &Py<PyAny>) -> PyResult<Scope> {
    Scope::new(py, new_scope.call0(py)?)
}

/// The turn of a run in this scope, and whether its executor is made then. `is_ready`: whether what
/// no run may meet half made is there.
pub fn take_turn(
    py: Python<'_>,
    scope: &Scope,
    is_ready: impl Fn() -> bool,
) -> Option<(Turn, bool)> {
    let makes = !scope.is_made();
    let alone = makes || !is_ready();
    let turn = executor_lock::take(py, alone)?;
    if alone || (scope.is_made() && is_ready()) {
        return Some((turn, makes));
    }
    // It went while this thread waited.
    drop(turn);
    Some((executor_lock::take(py, true)?, !scope.is_made()))
}
