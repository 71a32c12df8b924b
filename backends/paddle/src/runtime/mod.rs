//! [`ExecutorRuntime`]: what the process knows of Paddle's executors, of the programs that run, and
//! of the flags that are set for them. All statics of this backend are its parts. What a thread has
//! is in `executor_lock`.

pub(crate) mod executor_lock;
pub(crate) mod executors;
pub(crate) mod garbage;
pub(crate) mod inherited;

use std::sync::atomic::{AtomicU8, AtomicU64};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCFunction;

use crate::double_backward::Runs;

/// One for all threads, as what it knows of.
pub(crate) struct ExecutorRuntime {
    /// Executors, and the flag that says how early they free.
    executors: executors::State,
    /// Who runs programs.
    turns: executor_lock::State,
    /// Whether executors came by a fork.
    forks: inherited::State,
    /// Runs of programs that may go backward.
    pub(crate) runs: Runs,
    /// See `steady::Made`: how many were made, of any program.
    pub(crate) steady: AtomicU64,
    /// Which flags of oneDNN are off for a backward that has begun, one bit each.
    pub(crate) onednn_lent: AtomicU8,
    /// Paddle's table of flags.
    pub(crate) flags: PyOnceLock<Py<PyAny>>,
    /// The hook of leaves: see `leaves`.
    pub(crate) hook_of_leaves: PyOnceLock<Py<PyCFunction>>,
    /// Whether the Python part is loaded.
    pub(crate) loaded: PyOnceLock<()>,
}

/// That of this process.
pub(crate) static RUNTIME: ExecutorRuntime = ExecutorRuntime {
    executors: executors::State::new(),
    turns: executor_lock::State::new(),
    forks: inherited::State::new(),
    runs: Runs::new(),
    steady: AtomicU64::new(0),
    onednn_lent: AtomicU8::new(0),
    flags: PyOnceLock::new(),
    hook_of_leaves: PyOnceLock::new(),
    loaded: PyOnceLock::new(),
};
