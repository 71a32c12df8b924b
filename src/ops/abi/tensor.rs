//! Tensor metadata read from the C++ object.
//!
//! `paddle::Tensor` begins right after the `PyObject` header, and its accessors are exported by the
//! wheel's libraries. A self-test compares both ways of reading before the native one is used.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use smallvec::SmallVec;

use super::guards::TensorGuard;
use super::library::{libpaddle_core, opened};
use crate::paddle::tensor_meta;
use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::native::{Ptr, to_bound};

type DimsFn = unsafe extern "C" fn(*const c_void) -> *const i64;
type IntFn = unsafe extern "C" fn(*const c_void) -> i32;
type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type PointerFn = unsafe extern "C" fn(*const c_void) -> *const u8;

pub(super) struct Reader {
    dims: DimsFn,
    dtype: IntFn,
    dense: BoolFn,
    autograd: PointerFn,
    stop_gradient_at: usize,
    layout: Option<Layout>,
    // The functions live as long as the library.
    _library: libloading::Library,
}

/// Where a dense tensor keeps what the accessors answer, found by comparing with them.
struct Layout {
    /// The virtual table of a dense tensor: other kinds are read through the accessors.
    class: usize,
    /// `phi::DDim`, in the implementation object.
    dims: usize,
    /// The dtype, in the implementation object.
    dtype: usize,
    /// The pointer to the autograd object, in the `Tensor`.
    autograd: usize,
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

/// Most dims of a `phi::DDim`; its rank follows them.
const MAX_RANK: usize = 9;

fn reader(py: Python<'_>) -> Option<&'static Reader> {
    let without = "tensors are read through attributes";
    opened(py, &READER, open, ("paddle_sot_rs.guards", without))
}

/// Whether tensors are read without running any code.
pub fn reads_natively(py: Python<'_>) -> bool {
    reader(py).is_some()
}

/// How tensors are read: `native` or `attributes`.
pub fn reader_name(py: Python<'_>) -> &'static str {
    if reader(py).is_some() {
        "native"
    } else {
        "attributes"
    }
}

pub(super) fn open(py: Python<'_>) -> Result<Reader, String> {
    let text = |err: &dyn std::fmt::Display| err.to_string();
    let library = libpaddle_core(py)?;
    // SAFETY: the mangled names fix the signatures: const member functions of `paddle::Tensor`
    // without arguments; `dims()` returns a reference to a `phi::DDim`, `dtype()` an `int`-sized
    // enum.
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
            layout: None,
            _library: library,
        }
    };
    self_test(py, &mut reader)?;
    Ok(reader)
}

pub(super) fn tensor_of(object: *mut ffi::PyObject) -> *const c_void {
    object
        .cast::<u8>()
        .wrapping_add(std::mem::size_of::<ffi::PyObject>())
        .cast()
}

/// Finds where `stop_gradient` lies and compares every field with the attributes.
fn self_test(py: Python<'_>, reader: &mut Reader) -> Result<(), String> {
    let run = |reader: &mut Reader| -> PyResult<Option<String>> {
        let paddle = py.paddle()?;
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
        let candidates = (8..64).step_by(4).filter(|at| {
            samples.iter().all(|(tensor, stop)| {
                // SAFETY: the samples are live dense tensors; the autograd object has 64 bytes
                // (a vtable, two shared pointers, slot, rank and flags).
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
        let objects: Vec<_> = samples.iter().map(|(tensor, _)| tensor.as_ptr()).collect();
        // SAFETY: the samples are live, defined, dense tensors.
        reader.layout = unsafe { find_layout(reader, &objects) };
        if reader.layout.is_none() {
            log::info!(target: "paddle_sot_rs.guards", "tensors are read through their accessors");
        }
        for (tensor, _) in &samples {
            let Some(meta) = tensor_meta(tensor) else {
                return Ok(Some("a sample has no metadata".into()));
            };
            let guard = TensorGuard::of(&meta);
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

/// Looks for the answers of the accessors in the first words of the objects. Every sample must have
/// them at the same, only place.
///
/// # Safety
/// `samples` are live Python objects of defined dense tensors.
unsafe fn find_layout(reader: &Reader, samples: &[*mut ffi::PyObject]) -> Option<Layout> {
    // A `DenseTensor` has a virtual table and a meta with two `DDim`s (80 bytes each): more than
    // this.
    const SEARCHED: usize = 128;
    // A `Tensor` has two shared pointers and a name.
    const TENSOR: usize = 48;
    let tensors: Vec<*const c_void> = samples.iter().map(|sample| tensor_of(*sample)).collect();
    let only = |range: std::iter::StepBy<std::ops::Range<usize>>, fits: &dyn Fn(usize) -> bool| {
        let found: Vec<usize> = range.filter(|at| fits(*at)).collect();
        match found[..] {
            [at] => Some(at),
            _ => None,
        }
    };
    // SAFETY: the reads stay inside of objects of at least the sizes above.
    unsafe {
        let object = |tensor: &*const c_void| tensor.cast::<*const u8>().read();
        let class = object(tensors.first()?).cast::<usize>().read();
        if tensors
            .iter()
            .any(|tensor| object(tensor).cast::<usize>().read() != class)
        {
            return None;
        }
        let dims = only((8..SEARCHED).step_by(8), &|at| {
            tensors
                .iter()
                .all(|tensor| (reader.dims)(*tensor).cast::<u8>() == object(tensor).add(at))
        })?;
        let dtype = only((8..SEARCHED).step_by(4), &|at| {
            tensors.iter().all(|tensor| {
                object(tensor).add(at).cast::<i32>().read() == (reader.dtype)(*tensor)
            })
        })?;
        let autograd = only((16..TENSOR).step_by(8), &|at| {
            tensors.iter().all(|tensor| {
                let word = tensor.cast::<u8>().add(at).cast::<*const u8>().read();
                !word.is_null() && word == (reader.autograd)(*tensor)
            })
        })?;
        Some(Layout {
            class,
            dims,
            dtype,
            autograd,
        })
    }
}

/// A dynamic dim is none of those that broadcast or are empty: they may take another way.
pub(super) fn dim_matches(dim: i64, wanted: Option<i64>) -> bool {
    wanted.map_or(dim > 1, |wanted| dim == wanted)
}

/// A `DDim` against a guard.
///
/// # Safety
/// `dims` points to a `DDim`: nine dims and a rank.
unsafe fn dims_match(dims: *const i64, guard: &TensorGuard) -> bool {
    // SAFETY: by contract.
    unsafe {
        dims.add(MAX_RANK).cast::<i32>().read() == guard.dims.len() as i32
            && guard
                .dims
                .iter()
                .enumerate()
                .all(|(at, wanted)| dim_matches(dims.add(at).read(), *wanted))
    }
}

fn native_matches(reader: &Reader, object: *mut ffi::PyObject, guard: &TensorGuard) -> bool {
    let tensor = tensor_of(object);
    if let Some(layout) = &reader.layout {
        // SAFETY: the object is a `paddle.Tensor`, which begins with a pointer to its
        // implementation; one with the virtual table of the samples has their layout.
        unsafe {
            let dense = tensor.cast::<*const u8>().read();
            if !dense.is_null() && dense.cast::<usize>().read() == layout.class {
                let meta = tensor.cast::<u8>().add(layout.autograd);
                let meta = meta.cast::<*const u8>().read();
                let stop =
                    meta.is_null() || meta.add(reader.stop_gradient_at).cast::<i32>().read() != 0;
                return stop == guard.stop_gradient
                    && dense.add(layout.dtype).cast::<i32>().read() == guard.dtype as i32
                    && dims_match(dense.add(layout.dims).cast(), guard);
            }
        }
    }
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
        if !dims_match((reader.dims)(tensor), guard) {
            return false;
        }
        let meta = (reader.autograd)(tensor);
        // Without an autograd object the attribute reads True.
        let stop = meta.is_null() || meta.add(reader.stop_gradient_at).cast::<i32>().read() != 0;
        stop == guard.stop_gradient
    }
}

/// Dtype and dims of an object that is known to be a `paddle.Tensor`; `None` of what is not dense,
/// or cannot be read natively.
pub(super) fn dtype_and_dims(
    py: Python<'_>,
    object: *mut ffi::PyObject,
) -> Option<(i32, SmallVec<[i64; 4]>)> {
    let reader = reader(py)?;
    let tensor = tensor_of(object);
    // SAFETY: the caller knows the object to be a live tensor; its first word is null where it is
    // undefined, and the accessors take any other that is dense. A `DDim` is nine dims and a rank.
    unsafe {
        if tensor.cast::<*const c_void>().read().is_null() || !(reader.dense)(tensor) {
            return None;
        }
        let dims = (reader.dims)(tensor);
        let rank = usize::try_from(dims.add(MAX_RANK).cast::<i32>().read());
        let rank = rank.ok().filter(|rank| *rank <= MAX_RANK)?;
        let dims = (0..rank).map(|at| dims.add(at).read()).collect();
        Some(((reader.dtype)(tensor), dims))
    }
}

/// `stop_gradient` of an object that is known to be a `paddle.Tensor`; `None` where it cannot be
/// read natively.
pub(super) fn stops_gradient(py: Python<'_>, object: *mut ffi::PyObject) -> Option<bool> {
    let reader = reader(py)?;
    // SAFETY: the caller knows the object to be a tensor, and the accessor takes any.
    unsafe {
        let meta = (reader.autograd)(tensor_of(object));
        Some(meta.is_null() || meta.add(reader.stop_gradient_at).cast::<i32>().read() != 0)
    }
}

/// Where `stop_gradient` lies in what autograd knows of a tensor; `None` where that is not known.
pub(super) fn place_of_stop_gradient(py: Python<'_>) -> Option<usize> {
    reader(py).map(|reader| reader.stop_gradient_at)
}

/// Whether the object, known to be a `paddle.Tensor`, is a dense one; and with `stops`, one that no
/// gradient flows to.
pub fn is_dense(py: Python<'_>, object: *mut ffi::PyObject, stops: bool) -> bool {
    let Some(reader) = reader(py) else {
        return false;
    };
    let tensor = tensor_of(object);
    // SAFETY: the caller knows the object to be a live tensor; its first word is null where it is
    // undefined, and the accessor takes any other.
    let is_dense =
        unsafe { !tensor.cast::<*const c_void>().read().is_null() && (reader.dense)(tensor) };
    is_dense && (!stops || stops_gradient(py, object) == Some(true))
}

/// A dim of a tensor; `None` when the object is no dense tensor of such a rank.
pub fn dim(py: Python<'_>, object: Ptr<'_>, at: usize) -> Option<i64> {
    let object = object.as_ptr();
    let Some(reader) = reader(py) else {
        // SAFETY: the object is live.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        return tensor_meta(&object)?.shape.get(at).copied();
    };
    let tensor = tensor_of(object);
    // SAFETY: a guard before has found the object to be a defined dense `paddle.Tensor`, and it is
    // asked again; a `DDim` is nine dims and a rank.
    unsafe {
        if tensor.cast::<*const c_void>().read().is_null() || !(reader.dense)(tensor) {
            return None;
        }
        let dims = (reader.dims)(tensor);
        let rank = dims.add(MAX_RANK).cast::<i32>().read();
        (at < rank as usize).then(|| dims.add(at).read())
    }
}

/// Tensors known to be alive, with the metadata they must have; small ones fit a cache line.
#[derive(Default)]
pub struct Tensors {
    small: Vec<Small>,
    other: Vec<(usize, TensorGuard)>,
}

/// A tensor of static dims and a rank of up to 4.
struct Small {
    tensor: usize,
    dims: [i64; 4],
    dtype: i32,
    rank: i32,
    stop_gradient: bool,
}

impl Tensors {
    /// Adds a tensor.
    pub fn push(&mut self, tensor: usize, guard: TensorGuard) {
        let known: Option<SmallVec<[i64; 6]>> = guard.dims.iter().copied().collect();
        match known {
            Some(known) if known.len() <= 4 => {
                let mut dims = [0; 4];
                dims[..known.len()].copy_from_slice(&known);
                self.small.push(Small {
                    tensor,
                    dims,
                    dtype: guard.dtype as i32,
                    rank: known.len() as i32,
                    stop_gradient: guard.stop_gradient,
                });
            }
            _ => self.other.push((tensor, guard)),
        }
    }

    /// Whether all have their metadata, where that can be read without running Python.
    pub fn hold_natively(&self, py: Python<'_>) -> bool {
        let Some(reader) = reader(py) else {
            return false;
        };
        let small_hold = match &reader.layout {
            Some(layout) => self.small.iter().all(|small| small.holds(reader, layout)),
            None => self.small.is_empty(),
        };
        let native =
            |object: usize, guard| native_matches(reader, object as *mut ffi::PyObject, guard);
        small_hold
            && self
                .other
                .iter()
                .all(|(tensor, guard)| native(*tensor, guard))
    }

    /// Whether all have their metadata.
    pub fn hold(&self, py: Python<'_>) -> bool {
        if self.hold_natively(py) {
            return true;
        }
        // Attributes are code: another thread may let go of a tensor meanwhile.
        let small = self.small.iter().map(|small| small.tensor);
        let tensors = small.chain(self.other.iter().map(|(tensor, _)| *tensor));
        let _alive: Vec<Bound<'_, PyAny>> = tensors
            // SAFETY: the caller knows the tensors to be alive, and no code has run since.
            .map(|tensor| unsafe { Bound::from_borrowed_ptr(py, tensor as *mut ffi::PyObject) })
            .collect();
        self.small.iter().all(|small| small.holds_slowly(py))
            && self.other.iter().all(|(tensor, guard)| {
                // SAFETY: `_alive` has it.
                let tensor = unsafe { Ptr::new(*tensor as *mut ffi::PyObject) };
                matches(py, tensor, guard)
            })
    }
}

impl Small {
    fn holds(&self, reader: &Reader, layout: &Layout) -> bool {
        let tensor = tensor_of(self.tensor as *mut ffi::PyObject);
        // SAFETY: as in `native_matches`.
        unsafe {
            let dense = tensor.cast::<*const u8>().read();
            if dense.is_null() || dense.cast::<usize>().read() != layout.class {
                return false;
            }
            let dims = dense.add(layout.dims).cast::<i64>();
            let meta = tensor.cast::<u8>().add(layout.autograd);
            let meta = meta.cast::<*const u8>().read();
            let stop =
                meta.is_null() || meta.add(reader.stop_gradient_at).cast::<i32>().read() != 0;
            dims.add(MAX_RANK).cast::<i32>().read() == self.rank
                && dense.add(layout.dtype).cast::<i32>().read() == self.dtype
                && stop == self.stop_gradient
                && (0..self.rank as usize).all(|at| dims.add(at).read() == self.dims[at])
        }
    }

    fn holds_slowly(&self, py: Python<'_>) -> bool {
        let object = self.tensor as *mut ffi::PyObject;
        // SAFETY: the caller knows the tensor to be alive.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        tensor_meta(&object).is_some_and(|meta| {
            meta.dtype as i32 == self.dtype
                && meta.stop_gradient == self.stop_gradient
                && meta.shape[..] == self.dims[..self.rank as usize]
        })
    }
}

/// Whether a tensor lies in storage without gaps, in its own order.
///
/// # Errors
/// When Paddle raises.
pub fn lies_contiguous(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let method = pyo3::intern!(tensor.py(), "is_contiguous");
    tensor.call_method0(method)?.is_truthy()
}

/// The same of an object that is known to be a `paddle.Tensor`.
pub fn is_contiguous(py: Python<'_>, object: Ptr<'_>) -> bool {
    lies_contiguous(&to_bound(py, object)).unwrap_or(false)
}

/// Whether the object, known to be a `paddle.Tensor`, has this metadata.
pub fn matches(py: Python<'_>, object: Ptr<'_>, guard: &TensorGuard) -> bool {
    if let Some(reader) = reader(py) {
        return native_matches(reader, object.as_ptr(), guard);
    }
    tensor_meta(&to_bound(py, object)).is_some_and(|meta| {
        meta.dtype == guard.dtype
            && meta.stop_gradient == guard.stop_gradient
            && meta.shape.len() == guard.dims.len()
            && meta
                .shape
                .iter()
                .zip(&guard.dims)
                .all(|(dim, wanted)| dim_matches(*dim, *wanted))
    })
}
