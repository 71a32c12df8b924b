//! The few Paddle objects the engine itself must recognise: types, never programs.

use std::path::PathBuf;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};
use smallvec::SmallVec;

use crate::meta::{DType, TensorMeta};
use paddle_sot_cpython::frame::{self, Modules};
use paddle_sot_cpython::native;
use paddle_sot_cpython::obj::Obj;

/// Cached Paddle types.
pub struct Paddle {
    /// `paddle.Tensor`
    pub tensor: Obj,
    /// `paddle.base.framework.EagerParamBase`
    pub parameter: Obj,
    /// `paddle.nn.Layer`
    pub layer: Obj,
    /// The `paddle` module.
    pub module: Obj,
    /// The methods of tensors.
    methods: Py<PyDict>,
}

static PADDLE: PyOnceLock<Paddle> = PyOnceLock::new();

/// Whether a module of this name is one of Paddle's.
pub fn is_name_of_paddle(module: &str) -> bool {
    module.split('.').next() == Some(frame::PADDLE)
}

/// Paddle's library of tensors and kernels, which it has loaded.
///
/// # Errors
/// When Paddle cannot be imported.
pub fn core_library(py: Python<'_>) -> PyResult<PathBuf> {
    let file: PathBuf = py.paddle()?.getattr("__file__")?.extract()?;
    Ok(file.with_file_name("libs").join("libphi_core.so"))
}

impl Paddle {
    /// The cached types; imports Paddle at first use.
    pub fn get(py: Python<'_>) -> PyResult<&'static Paddle> {
        PADDLE.get_or_try_init(py, || {
            let module = py.paddle()?;
            let framework = py.module("paddle.base.framework")?;
            let tensor = module.getattr("Tensor")?;
            let methods = PyDict::new(py);
            methods.update(tensor.getattr("__dict__")?.cast()?)?;
            Ok(Paddle {
                methods: methods.unbind(),
                tensor: Obj::from(tensor),
                parameter: Obj::from(framework.getattr("EagerParamBase")?),
                layer: Obj::from(py.module("paddle.nn")?.getattr("Layer")?),
                module: Obj::from(module.into_any()),
            })
        })
    }

    /// What the method of tensors that had this name when the engine was imported answers for this
    /// one: a program may have put another in its place since.
    ///
    /// # Errors
    /// When there is none, or it raises.
    pub fn original<'py>(
        tensor: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = tensor.py();
        match Self::get(py)?.methods.bind(py).get_item(name)? {
            Some(method) => method.call1((tensor,)),
            None => tensor.call_method0(name),
        }
    }

    /// Whether `value` is a tensor (or parameter, or a user's subclass).
    pub fn is_tensor(&self, value: &Bound<'_, PyAny>) -> bool {
        is_instance(value, &self.tensor)
    }

    /// Whether `value` is a Layer.
    pub fn is_layer(&self, value: &Bound<'_, PyAny>) -> bool {
        is_instance(value, &self.layer)
    }
}

/// `isinstance` without `__instancecheck__`: a walk of the MRO.
fn is_instance(value: &Bound<'_, PyAny>, class: &Obj) -> bool {
    if value.get_type_ptr().cast() == class.as_ptr() {
        return true;
    }
    let class = class.bind(value.py());
    class.cast::<PyType>().is_ok_and(|class| {
        let of = value.get_type();
        native::mro(&of).iter().any(|base| base.is(class))
    })
}

/// The dtype that an object of Paddle's stands for. Its number is asked for: its name is made by
/// Python code of Paddle's, and takes ten times as long.
pub fn dtype_of(dtype: &Bound<'_, PyAny>) -> Option<DType> {
    let number = dtype.getattr_opt(intern!(dtype.py(), "value"));
    if let Ok(Some(number)) = number {
        return DType::from_code(number.extract().ok()?);
    }
    DType::from_name(&dtype.str().ok()?.to_string())
}

/// The metadata of an eager tensor; `None` when the engine does not support this tensor
/// (sparse, distributed, uninitialised, unknown dtype).
pub fn tensor_meta(value: &Bound<'_, PyAny>) -> Option<TensorMeta> {
    let py = value.py();
    let dense = value.call_method0(intern!(py, "is_dense")).ok()?;
    if !dense.is_truthy().ok()? {
        return None;
    }
    let shape: SmallVec<[i64; 6]> = value
        .getattr(intern!(py, "shape"))
        .ok()?
        .extract::<Vec<i64>>()
        .ok()?
        .into();
    let dtype = dtype_of(&value.getattr(intern!(py, "dtype")).ok()?)?;
    let stops = value.getattr(intern!(py, "stop_gradient")).ok()?;
    let stop_gradient = stops.is_truthy().ok()?;
    Some(TensorMeta {
        shape,
        dtype,
        stop_gradient,
    })
}
