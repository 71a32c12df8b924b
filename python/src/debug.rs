//! `paddle_sot_rs.debug`: translating everything, and the tables of what is simulated.

use paddle_sot::sync::lock;
use paddle_sot::translate::{BackendChoice, CompileOptions, ForcedTranslation, Shared, Worth};
use paddle_sot::{TraceOptions, builtin_coverage, bytecode};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use paddle_sot_bindings_base::records::StatsRecord;

/// Every Python frame of this thread is translated until `stop` is called.
#[pyclass(frozen, unsendable, module = "paddle_sot_rs._core")]
pub struct Forced {
    inner: ForcedTranslation,
}

#[pymethods]
impl Forced {
    #[new]
    fn new(py: Python<'_>, backend: String) -> PyResult<Self> {
        let options = CompileOptions {
            backend: BackendChoice::new(backend, &PyDict::new(py), Worth::default(), Some(true))?,
            full_graph: false,
            trace: TraceOptions {
                max_depth: 20,
                max_steps: Some(5000),
                ..TraceOptions::default()
            },
        };
        let shared = Shared::new(options, true);
        Ok(Self {
            inner: ForcedTranslation::start(py, shared)?,
        })
    }

    /// Ends it; a second call does nothing.
    fn stop(&self) {
        self.inner.stop();
    }

    /// What became of the frames: (what, how many).
    fn frames(&self) -> Vec<(String, u64)> {
        self.inner.frames()
    }

    /// Counters.
    fn stats(&self) -> StatsRecord {
        let stats = &self.inner.shared().stats;
        (&*lock(stats)).into()
    }
}

/// Opcodes of the running interpreter: (name, whether it is simulated, the reason when it is not).
#[pyfunction]
pub fn opcode_table(py: Python<'_>) -> PyResult<Vec<(String, bool, &'static str)>> {
    bytecode::coverage(py)
}

/// Builtins and methods of builtin types that the engine has a row for: (owner, name, what it does,
/// why).
#[pyfunction]
pub fn builtin_table() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    builtin_coverage()
}
