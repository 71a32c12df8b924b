//! The plug-in's side: a [`GraphBackend`] as a table, and the engine's backends to delegate to.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bytecode::SourceLoc;
use crate::frame::Modules;
use crate::graph::{Arg, Callee, StatementIr, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::{
    BackendError, CallResult, CompileRequest, CompiledGraph, GraphBackend, TraceSession,
    ValueHandle,
};

use super::codec::{decode_callee, decode_sir, encode_sir};
use super::table::{ABI_VERSION, BackendTable, CAPSULE, MAGIC};
use super::{CalledGraph, GraphObject};
use crate::caught;

/// What [`crate::export_backend!`] implements.
pub trait Export {
    /// The default configuration.
    fn make() -> Box<dyn GraphBackend>;
}

type State = Box<dyn GraphBackend>;

struct TableOf<E>(std::marker::PhantomData<E>);

impl<E: Export + 'static> TableOf<E> {
    const TABLE: BackendTable = BackendTable {
        magic: MAGIC,
        version: ABI_VERSION,
        size: size_of::<BackendTable>() as u32,
        engine: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
        make: make::<E>,
        clone,
        drop,
        name,
        configure,
        refuses,
        compile,
        min_graph_size,
    };
    const REFERENCE: &'static BackendTable = &Self::TABLE;
}

/// The capsule of an exported backend.
///
/// # Errors
/// Only when memory runs out.
pub fn capsule<E: Export + 'static>(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let table = std::ptr::from_ref(TableOf::<E>::REFERENCE).cast_mut();
    // SAFETY: the table and the name are constants of a module that is never unloaded.
    unsafe {
        let made = ffi::PyCapsule_New(table.cast(), CAPSULE.as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// Runs `body` for the engine: errors and panics are left as Python exceptions.
fn answer<R>(
    backend: &str,
    doing: &str,
    failed: R,
    body: impl FnOnce(Python<'_>) -> PyResult<R>,
) -> R {
    Python::attach(|py| {
        let panicked = format_args!("the backend {backend:?} panicked in {doing}");
        caught(py, panicked, || body(py)).unwrap_or_else(|err| {
            err.restore(py);
            failed
        })
    })
}

/// # Safety
/// `state` came from `make` or `clone` and was not dropped.
unsafe fn own<'a>(state: *const c_void) -> &'a State {
    // SAFETY: promised by the caller.
    unsafe { &*state.cast::<State>() }
}

/// The name, for messages; it runs outside of `answer`.
fn label(state: &State) -> String {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| state.name().to_owned()))
        .unwrap_or_else(|_| "?".to_owned())
}

fn into_state(state: State) -> *mut c_void {
    Box::into_raw(Box::new(state)).cast()
}

unsafe extern "C" fn make<E: Export>() -> *mut c_void {
    answer("?", "its constructor", std::ptr::null_mut(), |_| {
        Ok(into_state(E::make()))
    })
}

unsafe extern "C" fn clone(state: *const c_void) -> *mut c_void {
    // SAFETY: the engine hands back what `make` or `clone` answered.
    let state = unsafe { own(state) };
    answer(&label(state), "clone", std::ptr::null_mut(), |_| {
        Ok(into_state(state.clone()))
    })
}

unsafe extern "C" fn drop(state: *mut c_void) {
    answer("?", "drop", (), |_| {
        // SAFETY: the engine drops each state once.
        std::mem::drop(unsafe { Box::from_raw(state.cast::<State>()) });
        Ok(())
    });
}

unsafe extern "C" fn name(state: *const c_void) -> *mut PyObject {
    // SAFETY: as in `clone`.
    let state = unsafe { own(state) };
    answer("?", "name", std::ptr::null_mut(), |py| {
        Ok(state.name().into_pyobject(py)?.into_ptr())
    })
}

unsafe extern "C" fn configure(state: *mut c_void, options: *mut PyObject) -> c_int {
    // SAFETY: as in `clone`; the engine configures a state before anything else uses it.
    let state = unsafe { &mut *state.cast::<State>() };
    answer(&label(state), "configure", -1, |py| {
        // SAFETY: the engine lends a dict.
        let options = unsafe { Bound::from_borrowed_ptr(py, options) };
        state.configure(py, options.cast::<PyDict>()?)?;
        Ok(0)
    })
}

unsafe extern "C" fn refuses(state: *const c_void, callee: *mut PyObject) -> *mut PyObject {
    // SAFETY: as in `clone`.
    let state = unsafe { own(state) };
    answer(&label(state), "refuses", std::ptr::null_mut(), |py| {
        // SAFETY: the engine lends a tuple.
        let callee = unsafe { Bound::from_borrowed_ptr(py, callee) };
        let why = state.refuses(py, &decode_callee(&callee)?);
        Ok(why.into_pyobject(py)?.into_ptr())
    })
}

unsafe extern "C" fn compile(state: *const c_void, request: *mut PyObject) -> *mut PyObject {
    // SAFETY: as in `clone`.
    let state = unsafe { own(state) };
    answer(&label(state), "compile", std::ptr::null_mut(), |py| {
        // SAFETY: the engine lends a tuple.
        let request = unsafe { Bound::from_borrowed_ptr(py, request) };
        let (sir, inputs, grad_enabled, trace): (
            Bound<'_, PyAny>,
            Vec<Bound<'_, PyAny>>,
            bool,
            Bound<'_, PyAny>,
        ) = request.extract()?;
        let sir = Arc::new(decode_sir(&sir)?);
        let request = CompileRequest {
            session: Box::new(HostTrace {
                trace: Obj::from(trace),
                sir: sir.clone(),
            }),
            sir,
            example_inputs: inputs.into_iter().map(Obj::from).collect(),
            grad_enabled,
            least: state.min_graph_size(),
        };
        let graph = state
            .compile(py, request)
            .map_err(|err| PyRuntimeError::new_err(err.to_string()))?;
        Ok(Bound::new(py, GraphObject::new(graph))?.into_ptr())
    })
}

unsafe extern "C" fn min_graph_size(state: *const c_void) -> isize {
    // SAFETY: as in `clone`.
    let state = unsafe { own(state) };
    answer(&label(state), "min_graph_size", -1, |_| {
        Ok(isize::try_from(state.min_graph_size()).unwrap_or(isize::MAX))
    })
}

/// The engine's trace of a graph, in a plug-in's hands: it can be handed on, not used.
struct HostTrace {
    trace: Obj,
    sir: Arc<StatementIr>,
}

fn refused<T>() -> Result<T, BackendError> {
    Err(BackendError::Refused(
        "the trace of a graph belongs to the engine; hand the request to host_backend()".into(),
    ))
}

impl TraceSession for HostTrace {
    fn add_input(
        &mut self,
        _py: Python<'_>,
        _symbol: SymbolId,
        _tensor: &Obj,
        _meta: &TensorMeta,
    ) -> Result<(), BackendError> {
        refused()
    }

    fn set_grad_enabled(&mut self, _enabled: bool) {}

    fn call(
        &mut self,
        _py: Python<'_>,
        _sir: &StatementIr,
        _callee: &Callee,
        _args: &[Arg],
        _kwargs: &[(Arc<str>, Arg)],
        _loc: &SourceLoc,
    ) -> Result<CallResult, BackendError> {
        refused()
    }

    fn bind_captured(&mut self, _symbol: SymbolId, _tensor: &Obj) -> Result<(), BackendError> {
        refused()
    }

    fn bind_output(&mut self, _symbol: SymbolId, _value: ValueHandle) -> Result<(), BackendError> {
        refused()
    }

    fn mark(&self) -> usize {
        0
    }

    fn rollback(&mut self, _py: Python<'_>, _mark: usize, _first_dead: SymbolId) {}

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A backend of the engine, for a plug-in to delegate to while it compiles; one in the tree has
/// [`named`](crate::named).
///
/// A request whose `sir` is still the one the plug-in was given is compiled from the engine's own
/// trace. A new one is traced again: its statements may differ, and its inputs may be more
/// (`example_inputs` with them).
pub fn host_backend(name: &str) -> Box<dyn GraphBackend> {
    Box::new(HostBackend {
        name: name.to_owned(),
        options: None,
    })
}

const IN_THE_TREE: &str =
    "`host_backend` is for plug-ins: a backend in the tree hands on to `backend::named`";

#[derive(Clone)]
struct HostBackend {
    name: String,
    options: Option<Obj>,
}

impl GraphBackend for HostBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        self.options = Some(Obj::from(options));
        Ok(())
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        let trace = request
            .session
            .into_any()
            .downcast::<HostTrace>()
            .map_err(|_| BackendError::Compile(IN_THE_TREE.into()))?;
        let unchanged = Arc::ptr_eq(&trace.sir, &request.sir);
        let inputs = PyTuple::new(
            py,
            request.example_inputs.iter().map(|input| input.bind(py)),
        )?;
        let given = (
            encode_sir(py, &request.sir)?,
            inputs,
            request.grad_enabled,
            unchanged.then(|| trace.trace.bind(py)),
        );
        let options = self.options.as_ref().map(|options| options.bind(py));
        let graph = py
            .module("paddle_sot_rs._core")?
            .getattr("delegate")?
            .call1((&self.name, options, given))
            .map_err(|err| BackendError::Compile(err.to_string()))?;
        let graph = CalledGraph::new(&self.name, &graph, request.sir.outputs.len())?;
        Ok(Box::new(graph))
    }
}
