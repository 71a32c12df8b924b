//! A frozen graph, as Python calls it.

use std::sync::{Arc, RwLock};

use paddle_sot::abi::{self, TensorGuard};
use paddle_sot::frame::Modules;
use paddle_sot::paddle::tensor_meta;
use paddle_sot::translate::FrozenGraph;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

/// Takes the tensors of a call, and answers with those of the result.
#[pyclass(frozen, name = "FrozenGraph", module = "paddle_sot_rs._core")]
pub struct Frozen(pub FrozenGraph);

#[pymethods]
impl Frozen {
    #[pyo3(signature = (*tensors))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        tensors: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        let tensors: Vec<_> = tensors.iter().collect();
        PyList::new(py, self.0.call(py, &tensors)?)
    }

    /// What the backend says of it, line by line.
    #[getter]
    fn report(&self) -> Vec<String> {
        self.0.report()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut answer = Ok(());
        self.0.traverse(&mut |object| {
            if answer.is_ok() {
                answer = visit.call(object);
            }
        });
        answer
    }
}

/// Kinds of calls whose arguments and result are a tensor each, the arguments without gradients:
/// they are found without Python.
#[pyclass(frozen, module = "paddle_sot_rs._core")]
#[derive(Default)]
pub struct TensorKinds {
    kinds: RwLock<Vec<Arc<TensorKind>>>,
}

struct TensorKind {
    arguments: Vec<TensorGuard>,
    graph: Py<Frozen>,
}

/// So many are compared with a call.
const MOST: usize = 16;

/// `paddle.Tensor`: none of its subclasses has another layout, but they may do something else.
static TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn tensor_class(py: Python<'_>) -> PyResult<*mut pyo3::ffi::PyTypeObject> {
    let class = TENSOR.get_or_try_init(py, || {
        let class = py.paddle()?.getattr("Tensor")?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py).as_type_ptr())
}

impl TensorKinds {
    fn find(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<Option<Arc<TensorKind>>> {
        let class = tensor_class(py)?;
        let kinds = self.kinds.read().map(|kinds| kinds.clone());
        let fits = |kind: &Arc<TensorKind>| {
            kind.arguments.len() == args.len()
                && (args.iter().zip(&kind.arguments)).all(|(given, guard)| {
                    given.get_type_ptr() == class && abi::tensor_matches(py, (&given).into(), guard)
                })
        };
        Ok(kinds.unwrap_or_default().into_iter().find(fits))
    }
}

#[pymethods]
impl TensorKinds {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Lets calls with such arguments run this graph, if they are all tensors without gradients.
    fn add(&self, args: &Bound<'_, PyTuple>, graph: Py<Frozen>) -> PyResult<()> {
        let py = args.py();
        let class = tensor_class(py)?;
        let guard = |given: Bound<'_, PyAny>| {
            let is_plain = given.get_type_ptr() == class && abi::is_dense(py, given.as_ptr(), true);
            let meta = is_plain.then(|| tensor_meta(&given)).flatten();
            meta.map(|meta| TensorGuard::of(&meta))
        };
        let arguments: Option<Vec<TensorGuard>> = args.iter().map(guard).collect();
        let known = self.find(py, args)?.is_some();
        if let (Some(arguments), false) = (arguments, known || args.is_empty()) {
            if let Ok(mut kinds) = self.kinds.write() {
                if kinds.len() < MOST {
                    kinds.push(Arc::new(TensorKind { arguments, graph }));
                }
            }
        }
        Ok(())
    }

    /// The result of a call; `None` where it is of no kind that is known here.
    fn call<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Option<Py<PyAny>>> {
        let py = args.py();
        let Some(kind) = self.find(py, args)? else {
            return Ok(None);
        };
        // In static mode there is none.
        let Some(tracer) = abi::tracer(py)? else {
            return Ok(None);
        };
        let tensors: Vec<_> = args.iter().collect();
        let made = abi::without_gradients(&tracer, || kind.graph.get().0.call(py, &tensors))?;
        Ok(made.into_iter().next())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let kinds = self.kinds.try_read();
        let mut kinds = kinds.iter().flat_map(|kinds| kinds.iter());
        kinds.try_for_each(|kind| visit.call(&kind.graph))
    }
}
