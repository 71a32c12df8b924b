//! The engine's side: a plug-in's table as a [`GraphBackend`], and what plug-ins delegate to.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyImportError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::graph::Callee;
use crate::obj::{self, Obj};
use crate::sync::lock;
use crate::{BackendError, CompileRequest, CompiledGraph, GraphBackend, TraceSession};

use super::codec::{decode_sir, encode_callee, encode_sir};
use super::table::{ABI_VERSION, BackendTable, CAPSULE, MAGIC};
use super::{CalledGraph, GraphObject};

/// The backend behind a plug-in's capsule.
///
/// # Errors
/// `TypeError` when the object is no such capsule, `ImportError` when it was built for another
/// version of the interface, and what the plug-in raises.
pub fn load(name: &str, capsule: &Bound<'_, PyAny>) -> PyResult<Arc<dyn GraphBackend>> {
    let py = capsule.py();
    // SAFETY: `capsule` is an object; its type and name are checked.
    let pointer = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), CAPSULE.as_ptr()) == 0 {
            return Err(PyTypeError::new_err(format!(
                "backend {name:?}: expected a callable, or the capsule that export_backend! makes, got {}",
                capsule.get_type().name()?
            )));
        }
        ffi::PyCapsule_GetPointer(capsule.as_ptr(), CAPSULE.as_ptr())
    };
    let table = check(name, pointer.cast())?;
    // SAFETY: the table is of this version.
    let state = unsafe { (table.make)() };
    let state = NonNull::new(state).ok_or_else(|| PyErr::fetch(py))?;
    Ok(Arc::new(PluginBackend {
        name: name.to_owned(),
        table,
        state: Ok(state),
    }))
}

/// Reads the fields that all versions have, and refuses other versions.
fn check(name: &str, table: *const BackendTable) -> PyResult<&'static BackendTable> {
    // SAFETY: whoever names a capsule like this says that it points to a table, of whatever
    // version; the fields read here come first in all of them. Extension modules are never
    // unloaded.
    unsafe {
        if (*table).magic != MAGIC {
            return Err(PyImportError::new_err(format!(
                "backend {name:?}: the capsule does not hold a table of paddle_sot_rs"
            )));
        }
        if (*table).version != ABI_VERSION {
            let engine = CStr::from_ptr((*table).engine).to_string_lossy();
            return Err(PyImportError::new_err(format!(
                "backend {name:?} was built for version {} of the plug-in interface (paddle-sot {engine}), and this \
                 paddle_sot_rs {} has version {ABI_VERSION}: build it again with that version of paddle-sot",
                (*table).version,
                env!("CARGO_PKG_VERSION"),
            )));
        }
        if (*table).size as usize != size_of::<BackendTable>() {
            return Err(PyImportError::new_err(format!(
                "backend {name:?}: its table has {} bytes instead of {}",
                (*table).size,
                size_of::<BackendTable>()
            )));
        }
        Ok(&*table)
    }
}

/// A backend of another extension module.
struct PluginBackend {
    name: String,
    table: &'static BackendTable,
    /// Its configuration, or why there is none.
    state: Result<NonNull<c_void>, String>,
}

// SAFETY: the state is a `Box<dyn GraphBackend>`, which is `Send` and `Sync`.
unsafe impl Send for PluginBackend {}
// SAFETY: as above.
unsafe impl Sync for PluginBackend {}

impl PluginBackend {
    fn state(&self) -> PyResult<*mut c_void> {
        match &self.state {
            Ok(state) => Ok(state.as_ptr()),
            Err(why) => Err(PyRuntimeError::new_err(why.clone())),
        }
    }

    fn why_refused(&self, py: Python<'_>, callee: &Callee) -> PyResult<Option<String>> {
        let callee = encode_callee(py, callee)?;
        let state = self.state()?;
        // SAFETY: the state is alive, and the answer is an owned reference or NULL.
        let why = unsafe {
            let answer = (self.table.refuses)(state, callee.as_ptr());
            Bound::from_owned_ptr_or_err(py, answer)?
        };
        why.extract()
    }

    fn compiled(&self, py: Python<'_>, request: CompileRequest) -> PyResult<CalledGraph> {
        let outputs = request.sir.outputs.len();
        let inputs = request.example_inputs.iter().map(|input| input.bind(py));
        let given = (
            encode_sir(py, &request.sir)?,
            PyTuple::new(py, inputs)?,
            request.grad_enabled,
            Bound::new(py, TraceObject(Mutex::new(Some(request.session))))?,
        )
            .into_pyobject(py)?;
        let state = self.state()?;
        // SAFETY: the state is alive, and the answer is an owned reference or NULL.
        let graph = unsafe {
            let answer = (self.table.compile)(state, given.as_ptr());
            Bound::from_owned_ptr_or_err(py, answer)?
        };
        CalledGraph::new(&self.name, &graph, outputs)
    }
}

impl Clone for PluginBackend {
    fn clone(&self) -> Self {
        let copy = |py: Python<'_>| -> PyResult<NonNull<c_void>> {
            let state = self.state()?;
            // SAFETY: the state is alive.
            NonNull::new(unsafe { (self.table.clone)(state) }).ok_or_else(|| PyErr::fetch(py))
        };
        Self {
            name: self.name.clone(),
            table: self.table,
            state: Python::attach(|py| copy(py).map_err(|err| err.to_string())),
        }
    }
}

impl Drop for PluginBackend {
    fn drop(&mut self) {
        let Ok(state) = self.state else {
            return;
        };
        // Without an interpreter there is nothing left to free.
        Python::try_attach(|py| {
            obj::aside(py, || {
                // SAFETY: the state is dropped once.
                unsafe { (self.table.drop)(state.as_ptr()) };
                if let Some(err) = PyErr::take(py) {
                    log::error!(target: "paddle_sot_rs.backend", "{err}");
                }
            });
        });
    }
}

impl GraphBackend for PluginBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn configure(&mut self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let state = self.state()?;
        // SAFETY: the state is alive, and nothing else uses it while it is borrowed mutably.
        match unsafe { (self.table.configure)(state, options.as_ptr()) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }

    fn refuses(&self, py: Python<'_>, callee: &Callee) -> Option<String> {
        self.why_refused(py, callee)
            .unwrap_or_else(|err| Some(err.to_string()))
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        match self.compiled(py, request) {
            Ok(graph) => Ok(Box::new(graph)),
            Err(err) => Err(BackendError::Compile(err.to_string())),
        }
    }

    fn min_graph_size(&self) -> usize {
        let Ok(state) = self.state() else {
            return 0;
        };
        // SAFETY: the state is alive.
        let size = unsafe { (self.table.min_graph_size)(state) };
        usize::try_from(size).unwrap_or_else(|_| {
            Python::attach(|py| {
                log::error!(target: "paddle_sot_rs.backend", "{}", PyErr::fetch(py));
            });
            0
        })
    }
}

/// The trace of a graph while a plug-in compiles it.
#[pyclass(frozen, name = "Trace", module = "paddle_sot_rs._core")]
pub struct TraceObject(Mutex<Option<Box<dyn TraceSession>>>);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Backends that may delegate to one another, one inside the other.
const MAX_DEPTH: usize = 8;

/// Compiles a graph for a plug-in with a registered backend; the answer is a callable.
///
/// `request` is (graph, example inputs, whether gradients may be asked for, the trace or `None`).
#[pyfunction]
pub fn delegate<'py>(
    py: Python<'py>,
    name: &str,
    options: Option<&Bound<'py, PyDict>>,
    request: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    if !crate::is_translating() {
        return Err(PyRuntimeError::new_err(
            "delegate: a backend can delegate only while it compiles",
        ));
    }
    if DEPTH.get() >= MAX_DEPTH {
        return Err(PyRuntimeError::new_err(format!(
            "delegate: {MAX_DEPTH} backends wait for one another"
        )));
    }
    DEPTH.set(DEPTH.get() + 1);
    let graph = compile(py, name, options, request);
    DEPTH.set(DEPTH.get() - 1);
    Ok(Bound::new(py, GraphObject::new(graph?))?.into_any())
}

/// (graph, example inputs, whether gradients may be asked for, the trace)
type Request<'py> = (
    Bound<'py, PyAny>,
    Vec<Bound<'py, PyAny>>,
    bool,
    Option<Bound<'py, TraceObject>>,
);

fn compile(
    py: Python<'_>,
    name: &str,
    options: Option<&Bound<'_, PyDict>>,
    request: &Bound<'_, PyTuple>,
) -> PyResult<Box<dyn CompiledGraph>> {
    let handle = crate::get(name).map_err(|err| PyRuntimeError::new_err(err.to_string()))?;
    let mut chosen = crate::clone_backend(&*handle.backend);
    if let Some(options) = options {
        chosen.configure(py, options)?;
    }
    let (sir, inputs, grad_enabled, trace): Request<'_> = request.extract()?;
    let sir = Arc::new(decode_sir(&sir)?);
    let inputs: Vec<Obj> = inputs.into_iter().map(Obj::from).collect();
    let known = trace.and_then(|trace| lock(&trace.get().0).take());
    let failed = |err: BackendError| PyRuntimeError::new_err(err.to_string());
    let session = match known {
        Some(session) => session,
        None => crate::retrace(py, &*chosen, &sir, &inputs).map_err(failed)?,
    };
    let request = CompileRequest {
        sir,
        session,
        example_inputs: inputs,
        grad_enabled,
        least: chosen.min_graph_size(),
    };
    chosen.compile(py, request).map_err(failed)
}
