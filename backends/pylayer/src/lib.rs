//! `paddle.autograd.PyLayer` in graphs: the operator `static_pylayer`, and the backend named
//! `pylayer`.
//!
//! The operator is what the default backend, and every backend that builds on it, appends for a
//! captured PyLayer. The backend makes sure that there is a program to hold it, however small the
//! graph, and lets another backend compile that program: `options={"around": "cinn"}`, by default
//! `paddle`.

use paddle_sot_backend::frame::Modules;
use paddle_sot_backend::graph::Callee;
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{
    self as backend, BackendError, BackendRegistration, CompileRequest, CompiledGraph,
    ExportRequest, GraphBackend, TraceSession,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

static OPERATION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A callable that appends the operator to the current program: it takes the inputs, then the
/// values that both blocks use. `blocks` are forward and backward; `gradients` says which result of
/// the latter is the gradient of each of the `inputs`, and `outputs` how many results of the former
/// the user sees.
///
/// # Errors
/// When the Python part cannot be loaded; that of the default backend has to be there.
pub fn operation<'py>(
    py: Python<'py>,
    blocks: (Bound<'py, PyAny>, Bound<'py, PyAny>),
    inputs: usize,
    outputs: usize,
    gradients: &[Option<usize>],
) -> PyResult<Bound<'py, PyAny>> {
    let module = OPERATION.get_or_try_init(py, || {
        py.own("paddle_sot_rs._pylayer.operation")
            .map(Bound::unbind)
    })?;
    let (forward, backward) = blocks;
    let given = (forward, backward, inputs, outputs, gradients.to_vec());
    module.bind(py).getattr("Operation")?.call1(given)
}

/// The backend named `pylayer`.
#[derive(Clone)]
pub struct PyLayerBackend {
    /// What compiles the program around the operators.
    around: Option<Box<dyn GraphBackend>>,
}

impl PyLayerBackend {
    fn around(&self) -> Result<Box<dyn GraphBackend>, BackendError> {
        match &self.around {
            Some(around) => Ok(around.clone()),
            None => Ok(backend::named(backend::DEFAULT)?),
        }
    }
}

impl GraphBackend for PyLayerBackend {
    fn name(&self) -> &str {
        "pylayer"
    }

    fn configure(&mut self, py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        let rest = options.copy()?;
        let name = match options.get_item("around")? {
            None => backend::DEFAULT.to_owned(),
            Some(name) => {
                rest.del_item("around")?;
                let name = name.cast_into::<PyString>().map_err(|err| {
                    PyTypeError::new_err(format!(
                        "options: around: expected the name of a backend, got {}",
                        err.into_inner()
                    ))
                })?;
                name.extract()?
            }
        };
        if name == self.name() {
            return Err(PyValueError::new_err(
                "options: around: a backend other than pylayer",
            ));
        }
        let mut around =
            backend::named(&name).map_err(|err| PyValueError::new_err(err.to_string()))?;
        around.configure(py, &rest)?;
        self.around = Some(around);
        Ok(())
    }

    fn dims_may_vary(&mut self, asked: Option<bool>) -> bool {
        match &mut self.around {
            Some(around) => around.dims_may_vary(asked),
            None => asked.unwrap_or(true),
        }
    }

    fn refuses(&self, py: Python<'_>, callee: &Callee) -> Option<String> {
        self.around.as_ref()?.refuses(py, callee)
    }

    fn takes_graphs_apart(&self) -> bool {
        self.around()
            .is_ok_and(|around| around.takes_graphs_apart())
    }

    fn takes_gradients(&self) -> bool {
        self.around().is_ok_and(|around| around.takes_gradients())
    }

    fn begin(&self, py: Python<'_>) -> Result<Box<dyn TraceSession>, BackendError> {
        self.around()?.begin(py)
    }

    fn compile(
        &self,
        py: Python<'_>,
        request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        self.around()?.compile(py, request)
    }

    fn export(&self, py: Python<'_>, request: ExportRequest) -> Result<Obj, BackendError> {
        self.around()?.export(py, request)
    }
}

inventory::submit! {
    BackendRegistration { name: "pylayer", make: || Box::new(PyLayerBackend { around: None }) }
}

/// Makes sure that the linker keeps this crate's registration.
pub fn link() {}
