//! Locks that threads of Python wait for.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::sleep;
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;

/// Between two looks at a lock that another thread has. Locks are held for less.
const PAUSE: Duration = Duration::from_micros(20);

/// Locks a mutex. A thread that has to wait gives up the GIL meanwhile: who has the lock may be
/// waiting for it, since nearly all that asks Python may switch threads, an `intern!` that is met
/// for the first time included.
///
/// Nothing of Python's that may run code is asked or dropped under a lock all the same: it may
/// come here again in the same thread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(locked) => return locked,
            // Nothing panics while it has a lock half-way through an update.
            Err(TryLockError::Poisoned(err)) => return err.into_inner(),
            Err(TryLockError::WouldBlock) => wait(),
        }
    }
}

/// The lock is not taken before the GIL is there again: a process that is forked in between would
/// have it locked for ever.
#[cold]
fn wait() {
    // SAFETY: any thread may ask whether it has the GIL.
    match unsafe { ffi::PyGILState_Check() } {
        0 => sleep(PAUSE),
        _ => Python::attach(|py| py.detach(|| sleep(PAUSE))),
    }
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
