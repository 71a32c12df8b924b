//! Scopes of runs: what holds the variables of one.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::double_backward::{Scope, Shared};
use crate::executor_lock::{self, Turn};

/// Runs of one graph that may wait for their backward: each needs a scope, which costs
/// milliseconds to make and is never freed. Further ones run call by call.
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
        let made = || Scope::new(py, new_scope.call0(py)?).map(Some);
        let Ok(mut scopes) = self.scopes.lock() else {
            return made();
        };
        while scopes.back().is_some_and(Scope::is_spoiled) {
            scopes.pop_back();
        }
        while scopes.front().is_some_and(Scope::is_spoiled) {
            scopes.pop_front();
        }
        if keeps {
            let thread = executor_lock::thread_token();
            let own = scopes.iter().position(|it| it.thread.ptr_eq(&thread));
            let is_nobodys = |it: &Scope| it.thread.strong_count() == 0;
            let own = own.or_else(|| scopes.iter().position(is_nobodys));
            match own {
                Some(at) if scopes[at].is_free(py)? => return Ok(scopes.remove(at)),
                None if scopes.len() < SCOPES => {
                    drop(scopes);
                    return made();
                }
                _ => {}
            }
        }
        // The one used last is free again in a loop that trains, the first one after a backward
        // through many.
        let ends = [scopes.len().checked_sub(1), (scopes.len() > 1).then_some(0)];
        for at in ends.into_iter().flatten() {
            if scopes[at].is_free(py)? {
                return Ok(scopes.remove(at));
            }
        }
        if scopes.len() >= SCOPES * Arc::strong_count(&self.scopes) {
            return Ok(None);
        }
        drop(scopes);
        made()
    }

    /// For the next run.
    pub fn give_back(&self, scope: Scope) {
        if let Ok(mut scopes) = self.scopes.lock() {
            scopes.push_back(scope);
        }
    }
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
