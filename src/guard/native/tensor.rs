//! Tensor metadata read from the C++ object.
//!
//! `paddle::Tensor` begins right after the `PyObject` header, and its accessors are exported by the
//! wheel's libraries. A self-test compares both ways of reading before the native one is used.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::guard::TensorGuard;
use crate::paddle::tensor_meta;

type DimsFn = unsafe extern "C" fn(*const c_void) -> *const i64;
type IntFn = unsafe extern "C" fn(*const c_void) -> i32;
type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type PointerFn = unsafe extern "C" fn(*const c_void) -> *const u8;

struct Reader {
    dims: DimsFn,
    dtype: IntFn,
    dense: BoolFn,
    autograd: PointerFn,
    stop_gradient_at: usize,
    // The functions live as long as the library.
    _library: libloading::Library,
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

/// Most dims of a `phi::DDim`; its rank follows them.
const MAX_RANK: usize = 9;

fn reader(py: Python<'_>) -> Option<&'static Reader> {
    READER
        .get_or_init(py, || match open(py) {
            Ok(reader) => Some(reader),
            Err(err) => {
                log::info!(target: "paddle_sot_rs.guards", "tensors are read through attributes: {err}");
                None
            }
        })
        .as_ref()
}

/// How tensors are read: `native` or `attributes`.
pub fn reader_name(py: Python<'_>) -> &'static str {
    if reader(py).is_some() {
        "native"
    } else {
        "attributes"
    }
}

fn open(py: Python<'_>) -> Result<Reader, String> {
    let text = |err: &dyn std::fmt::Display| err.to_string();
    let paddle = py.import("paddle").map_err(|err| text(&err))?;
    let file: String = paddle
        .getattr("__file__")
        .and_then(|file| file.extract())
        .map_err(|err| text(&err))?;
    let path = std::path::Path::new(&file)
        .with_file_name("libs")
        .join("libphi_core.so");
    // SAFETY: Paddle is imported, so the library is loaded and its initialisers have run.
    let library = unsafe { libloading::Library::new(path) }.map_err(|err| text(&err))?;
    // SAFETY: the mangled names fix the signatures: const member functions of `paddle::Tensor` without
    // arguments; `dims()` returns a reference to a `phi::DDim`, `dtype()` an `int`-sized enum.
    let mut reader = unsafe {
        Reader {
            dims: *library
                .get::<DimsFn>(b"_ZNK6paddle6Tensor4dimsEv\0")
                .map_err(|err| text(&err))?,
            dtype: *library
                .get::<IntFn>(b"_ZNK6paddle6Tensor5dtypeEv\0")
                .map_err(|err| text(&err))?,
            dense: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor15is_dense_tensorEv\0")
                .map_err(|err| text(&err))?,
            autograd: *library
                .get::<PointerFn>(b"_ZNK6paddle6Tensor17get_autograd_metaEv\0")
                .map_err(|err| text(&err))?,
            stop_gradient_at: 0,
            _library: library,
        }
    };
    self_test(py, &mut reader)?;
    Ok(reader)
}

fn tensor_of(object: *mut ffi::PyObject) -> *const c_void {
    object
        .cast::<u8>()
        .wrapping_add(std::mem::size_of::<ffi::PyObject>())
        .cast()
}

/// Finds where `stop_gradient` lies and compares every field with the attributes.
fn self_test(py: Python<'_>, reader: &mut Reader) -> Result<(), String> {
    let run = |reader: &mut Reader| -> PyResult<Option<String>> {
        let paddle = py.import("paddle")?;
        let mut samples = Vec::new();
        for (shape, dtype, stop) in [
            (vec![], "float32", true),
            (vec![3], "int64", true),
            (vec![2, 5], "float64", false),
            (vec![1, 2, 3, 4, 5, 6], "float32", false),
            (vec![0, 4], "bool", true),
            (vec![7, 1, 2], "float16", false),
        ] {
            let tensor = paddle.call_method1("zeros", (shape, dtype))?;
            tensor.setattr("stop_gradient", stop)?;
            samples.push((tensor, stop));
        }
        let candidates = (8..96).step_by(4).filter(|at| {
            samples.iter().all(|(tensor, stop)| {
                // SAFETY: the samples are live dense tensors; the autograd object is at least 96 bytes
                // (two shared pointers, a vtable, slot, rank and flags).
                unsafe {
                    let meta = (reader.autograd)(tensor_of(tensor.as_ptr()));
                    !meta.is_null() && meta.add(*at).cast::<i32>().read() == i32::from(*stop)
                }
            })
        });
        let candidates: Vec<usize> = candidates.collect();
        let [at] = candidates[..] else {
            return Ok(Some(format!(
                "{} places for stop_gradient",
                candidates.len()
            )));
        };
        reader.stop_gradient_at = at;
        for (tensor, _) in &samples {
            let Some(meta) = tensor_meta(tensor) else {
                return Ok(Some("a sample has no metadata".into()));
            };
            let guard = TensorGuard {
                dims: meta.shape.iter().map(|dim| Some(*dim)).collect(),
                dtype: meta.dtype,
                stop_gradient: meta.stop_gradient,
            };
            if !native_matches(reader, tensor.as_ptr(), &guard) {
                return Ok(Some(format!("the native reader disagrees on {tensor}")));
            }
        }
        Ok(None)
    };
    match run(reader) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(why),
        Err(err) => Err(err.to_string()),
    }
}

fn native_matches(reader: &Reader, object: *mut ffi::PyObject, guard: &TensorGuard) -> bool {
    let tensor = tensor_of(object);
    // SAFETY: callers check that the object is a `paddle.Tensor`; `Tensor` begins with a
    // `shared_ptr`, whose first word is null for an undefined tensor, and the accessors are only
    // called on defined dense tensors. A `DDim` is nine dims and a rank.
    unsafe {
        if tensor.cast::<*const c_void>().read().is_null() || !(reader.dense)(tensor) {
            return false;
        }
        if (reader.dtype)(tensor) != guard.dtype as i32 {
            return false;
        }
        let dims = (reader.dims)(tensor);
        let rank = dims.add(MAX_RANK).cast::<i32>().read();
        if rank != guard.dims.len() as i32 {
            return false;
        }
        let same = guard
            .dims
            .iter()
            .enumerate()
            .all(|(at, wanted)| wanted.is_none_or(|wanted| dims.add(at).read() == wanted));
        if !same {
            return false;
        }
        let meta = (reader.autograd)(tensor);
        // Without an autograd object the attribute reads True.
        let stop = meta.is_null() || meta.add(reader.stop_gradient_at).cast::<i32>().read() != 0;
        stop == guard.stop_gradient
    }
}

/// Whether the object, known to be a `paddle.Tensor`, has this metadata.
pub(crate) fn matches(py: Python<'_>, object: *mut ffi::PyObject, guard: &TensorGuard) -> bool {
    if let Some(reader) = reader(py) {
        return native_matches(reader, object, guard);
    }
    // SAFETY: the caller's slot holds a live object.
    let object = unsafe { Bound::from_borrowed_ptr(py, object) };
    tensor_meta(&object).is_some_and(|meta| {
        meta.dtype == guard.dtype
            && meta.stop_gradient == guard.stop_gradient
            && meta.shape.len() == guard.dims.len()
            && meta
                .shape
                .iter()
                .zip(&guard.dims)
                .all(|(dim, wanted)| wanted.is_none_or(|wanted| *dim == wanted))
    })
}
