//! The backend of a translated function: configured for it, and replaced when the registry's is.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::backend::{self, BackendHandle, GraphBackend};
use crate::obj::Obj;
use crate::sync::lock;

/// A backend with the user's options.
pub struct Configured {
    /// The backend.
    pub backend: Box<dyn GraphBackend>,
    /// The generation of the registry's backend that it is a copy of.
    pub generation: u64,
    /// Fewest operations worth compiling; smaller graphs run call by call.
    pub min_graph_size: usize,
    /// The same where gradients flow: the backward is another run of a program.
    pub min_training_size: usize,
    /// The call of a graph at which it becomes a program; before that it runs call by call.
    pub compile_at_call: usize,
    /// Whether the user wants programs in first calls: of sizes that come once, too.
    pub compiles_at_once: bool,
    /// Whether what differs between calls may become symbolic.
    pub dynamic: bool,
}

impl Configured {
    /// Whether the backend says from where on programs pay: then a function that they do not pay
    /// for may run as it is.
    pub fn counts_gains(&self) -> bool {
        self.min_graph_size > 0 && self.min_training_size > 1
    }
}

/// From where on a program pays; `None` asks the backend.
#[derive(Clone, Copy, Default)]
pub struct Worth {
    /// See [`Configured::min_graph_size`].
    pub min_graph_size: Option<usize>,
    /// See [`Configured::compile_at_call`].
    pub compile_at_call: Option<usize>,
}

/// Which backend the user asked for.
pub struct BackendChoice {
    name: String,
    options: Obj,
    worth: Worth,
    dynamic: Option<bool>,
    current: Mutex<Arc<Configured>>,
}

fn configured(
    py: Python<'_>,
    handle: &BackendHandle,
    options: &Bound<'_, PyDict>,
    worth: Worth,
    dynamic: Option<bool>,
) -> PyResult<Arc<Configured>> {
    let mut backend = backend::clone_backend(&*handle.backend);
    backend.configure(py, options)?;
    let dynamic = backend.dims_may_vary(dynamic);
    let min_graph_size = worth.min_graph_size;
    // Who wants programs of any size wants them now.
    let waits = min_graph_size != Some(0);
    let asked = || if waits { backend.compile_at_call() } else { 1 };
    Ok(Arc::new(Configured {
        compile_at_call: worth.compile_at_call.unwrap_or_else(asked),
        compiles_at_once: worth.compile_at_call == Some(1),
        min_graph_size: min_graph_size.unwrap_or_else(|| backend.min_graph_size()),
        min_training_size: min_graph_size.unwrap_or_else(|| 2 * backend.min_graph_size()),
        backend,
        dynamic,
        generation: handle.generation,
    }))
}

impl BackendChoice {
    /// Looks the backend up and configures it.
    ///
    /// # Errors
    /// `ValueError` when there is no backend of that name; whatever the backend says about its
    /// options.
    pub fn new(
        name: String,
        options: &Bound<'_, PyDict>,
        worth: Worth,
        dynamic: Option<bool>,
    ) -> PyResult<Self> {
        let handle =
            backend::get(&name).map_err(|err| PyValueError::new_err(format!("backend: {err}")))?;
        let current = configured(options.py(), &handle, options, worth, dynamic)?;
        Ok(Self {
            name,
            options: Obj::from(options),
            worth,
            dynamic,
            current: Mutex::new(current),
        })
    }

    /// The registered name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The registered backend of that name now; the last one known when it was removed.
    ///
    /// # Errors
    /// When a new backend does not take the options of the old one.
    pub fn current(&self, py: Python<'_>) -> PyResult<Arc<Configured>> {
        let known = lock(&self.current).clone();
        let Ok(handle) = backend::get(&self.name) else {
            return Ok(known);
        };
        if handle.generation == known.generation {
            return Ok(known);
        }
        let options = self.options.bind(py).cast::<PyDict>()?;
        let next = configured(py, &handle, options, self.worth, self.dynamic)?;
        let before = std::mem::replace(&mut *lock(&self.current), next.clone());
        drop(before);
        Ok(next)
    }
}
