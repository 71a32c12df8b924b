//! Steps of optimizers that run Paddle's own code, where the engine has a shorter way: they are
//! counted with a reason, as fallbacks are.

use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;

/// Told by generated code why a step runs Paddle's own code.
#[pyclass(frozen)]
#[derive(Clone)]
pub struct NoteOwnStep(Arc<dyn Fn(&str) + Send + Sync>);

impl NoteOwnStep {
    /// Calls `note` with the reason.
    pub fn new(note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(note))
    }
}

impl fmt::Debug for NoteOwnStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoteOwnStep")
    }
}

#[pymethods]
impl NoteOwnStep {
    fn __call__(&self, reason: &str) {
        (self.0)(reason);
    }
}
