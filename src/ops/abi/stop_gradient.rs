//! `stop_gradient=False` of tensors that autograd has made, as its operators say it.
//!
//! The attribute's setter also makes a node for a leaf, which costs more than the call around it.
//! `egr::EagerUtils::autograd_meta` is how Paddle's operators get at the flag; it is exported.

use std::ffi::c_void;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::library::{libpaddle, opened};
use super::tensor;
use crate::paddle::Paddle;

/// `AutogradMeta* EagerUtils::autograd_meta(Tensor*)`, which makes what autograd knows of a tensor
/// where there is nothing.
pub(super) type MetaFn = unsafe extern "C" fn(*const c_void) -> *mut u8;

/// Finds it.
pub(super) fn meta_function(library: &libloading::Library) -> Result<MetaFn, libloading::Error> {
    // SAFETY: the mangled name fixes the signature.
    unsafe {
        let found = library.get(b"_ZN3egr10EagerUtils13autograd_metaEPN6paddle6TensorE\0")?;
        Ok(*found)
    }
}

pub(super) struct Writer {
    meta: MetaFn,
    /// Where the flag lies in what autograd knows of a tensor.
    flag: usize,
    // The function lives as long as the library.
    _library: libloading::Library,
}

static WRITER: PyOnceLock<Option<Writer>> = PyOnceLock::new();

/// Says `stop_gradient=False` of a tensor that is no operator's result.
///
/// # Errors
/// What it raises where it is no tensor.
pub fn let_gradients_through(made: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = made.py();
    let without = "`stop_gradient` is set through the attribute";
    let writer = opened(py, &WRITER, open, ("paddle_sot_rs.backend", without));
    match writer {
        Some(writer) if Paddle::get(py)?.is_tensor(made) => {
            writer.write(made);
            Ok(())
        }
        _ => made.setattr(pyo3::intern!(py, "stop_gradient"), false),
    }
}

impl Writer {
    fn write(&self, made: &Bound<'_, PyAny>) {
        // SAFETY: it is a live tensor, which is given what autograd knows of it where it has none;
        // `tensor` has learnt where the flag lies there.
        unsafe {
            let meta = (self.meta)(tensor::tensor_of(made.as_ptr()));
            meta.add(self.flag).cast::<i32>().write(0);
        }
    }
}

pub(super) fn open(py: Python<'_>) -> Result<Writer, String> {
    let flag = tensor::place_of_stop_gradient(py);
    let flag = flag.ok_or("tensors are not read natively")?;
    let library = libpaddle(py)?;
    let writer = Writer {
        meta: meta_function(&library).map_err(|err| err.to_string())?,
        flag,
        _library: library,
    };
    match self_test(py, &writer) {
        Ok(true) => Ok(writer),
        Ok(false) => Err("a flag that was written is not the one that is read".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// A tensor that autograd does not know is a leaf that gradients go through, and arrive at.
fn self_test(py: Python<'_>, writer: &Writer) -> PyResult<bool> {
    let names = PyDict::new(py);
    py.run(
        c"import paddle\nmade = paddle.to_tensor([1.0, 2.0], place=paddle.CPUPlace()).detach()",
        Some(&names),
        None,
    )?;
    let Some(made) = names.get_item("made")? else {
        return Ok(false);
    };
    writer.write(&made);
    let test = c"
is_leaf = made.is_leaf and not made.stop_gradient
with paddle.enable_grad():
    (made * 2).sum().backward()
passed = is_leaf and made.grad.tolist() == [2.0, 2.0]
";
    py.run(test, Some(&names), None)?;
    let passed = names.get_item("passed")?;
    passed.map_or(Ok(false), |passed| passed.is_truthy())
}
