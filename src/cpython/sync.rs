//! Locks that threads of Python wait for.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

/// Locks a mutex. A thread that has to wait gives up the GIL meanwhile: who has the lock may be
/// waiting for it, since nearly all that asks Python may switch threads, an `intern!` that is met
/// for the first time included.
///
/// Nothing of Python's that may run code is asked or dropped under a lock all the same: it may
/// come here again in the same thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(locked) => locked,
        // Nothing panics while it has a lock half-way through an update.
        Err(TryLockError::Poisoned(err)) => err.into_inner(),
        Err(TryLockError::WouldBlock) => wait_for(mutex),
    }
}

#[cold]
#[allow(clippy::disallowed_methods)] // Without the GIL.
fn wait_for<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // SAFETY: any thread may ask whether it has the GIL.
    let locked = match unsafe { ffi::PyGILState_Check() } {
        0 => mutex.lock(),
        _ => Python::attach(|py| mutex.lock_py_attached(py)),
    };
    locked.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// A thread has the lock and wants the GIL, another one has the GIL and wants the lock.
    #[test]
    fn who_waits_for_a_lock_gives_up_the_gil() {
        let (mutex, both) = (Mutex::new(0), Barrier::new(2));
        thread::scope(|threads| {
            threads.spawn(|| {
                let mut number = lock(&mutex);
                both.wait();
                Python::attach(|_| *number += 1);
            });
            Python::attach(|_| {
                both.wait();
                assert_eq!(*lock(&mutex), 1);
            });
        });
    }

    #[test]
    fn a_thread_without_the_gil_waits_for_the_lock_alone() {
        let mutex = Mutex::new(0);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..1000).for_each(|_| *lock(&mutex) += 1));
            }
        });
        assert_eq!(*lock(&mutex), 4000);
    }

    #[test]
    fn a_panic_under_a_lock_locks_nobody_out() {
        let mutex = Mutex::new(1);
        thread::scope(|threads| {
            let thread = threads.spawn(|| {
                let _locked = lock(&mutex);
                panic!("under the lock");
            });
            assert!(thread.join().is_err());
        });
        assert_eq!(*lock(&mutex), 1);
    }
}
