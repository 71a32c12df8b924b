//! Where the numbers of tensors lie: two that share storage change together.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::library::{libpaddle, libpaddle_core, opened};
use super::shared_ptr::Shared;
use super::tensor::tensor_of;
use crate::paddle::Paddle;
use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::native::{self, Ptr};

type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type PointerFn = unsafe extern "C" fn(*const c_void) -> *const u8;
type DimsFn = unsafe extern "C" fn(*const c_void) -> *const i64;
type SizeFn = unsafe extern "C" fn(*const c_void) -> usize;
type TensorFn = unsafe extern "C" fn(*const c_void) -> *const c_void;

pub(super) struct Reader {
    dense: BoolFn,
    initialized: BoolFn,
    data: PointerFn,
    strides: DimsFn,
    /// Of a `phi::DenseTensor`: the bytes from its first number to the end of its memory.
    size: SizeFn,
    /// The gradient of a tensor; null where it has none.
    gradient: TensorFn,
    // The functions live as long as the libraries.
    _libraries: [libloading::Library; 2],
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

pub(super) fn open(py: Python<'_>) -> Result<Reader, String> {
    let library = libpaddle_core(py)?;
    let bindings = libpaddle(py)?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures: const member functions without arguments, of
    // `paddle::Tensor` and of `phi::DenseTensor`, of which `strides()` returns a reference to a
    // `phi::DDim`, and a static one of a tensor that answers with a pointer to another.
    let reader = unsafe {
        Reader {
            dense: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor15is_dense_tensorEv\0")
                .map_err(text)?,
            initialized: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor11initializedEv\0")
                .map_err(text)?,
            data: *library
                .get::<PointerFn>(b"_ZNK6paddle6Tensor4dataEv\0")
                .map_err(text)?,
            strides: *library
                .get::<DimsFn>(b"_ZNK6paddle6Tensor7stridesEv\0")
                .map_err(text)?,
            size: *library
                .get::<SizeFn>(b"_ZNK3phi11DenseTensor11memory_sizeEv\0")
                .map_err(text)?,
            gradient: *bindings
                .get::<TensorFn>(b"_ZN3egr10EagerUtils12mutable_gradERKN6paddle6TensorE\0")
                .map_err(text)?,
            _libraries: [library, bindings],
        }
    };
    match self_test(py, &reader) {
        Ok(true) => Ok(reader),
        Ok(false) => Err("two tensors lie elsewhere than they say".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// A row lies inside of what it is a row of, another tensor elsewhere.
fn self_test(py: Python<'_>, reader: &Reader) -> PyResult<bool> {
    let make = |dtype: &str| {
        let paddle = py.paddle()?;
        paddle.call_method1("full", (vec![4, 6], 0, dtype))
    };
    let (one, other) = (make("float32")?, make("int64")?);
    let row = one.get_item(2)?;
    let places = [&one, &other, &row].map(|tensor| reader.memory(tensor.as_ptr()));
    let [Some(one), Some(other), Some(row)] = places else {
        return Ok(false);
    };
    let holds = one.len() >= 96 && other.len() >= 192 && row.len() >= 24;
    let lies_inside = row.start == one.start + 48;
    let lie_right = holds && lies_inside && overlap(&one, &row) && !overlap(&one, &other);
    Ok(lie_right && finds_gradients(py, reader)?)
}

/// A leaf has no gradient, and then the one that it says.
fn finds_gradients(py: Python<'_>, reader: &Reader) -> PyResult<bool> {
    let paddle = py.paddle()?;
    let leaf = paddle.call_method1("full", (vec![4], 1.0, "float32"))?;
    let had = reader.place_of_gradient(leaf.as_ptr());
    leaf.setattr("stop_gradient", false)?;
    leaf.setattr(
        "grad",
        paddle.call_method1("full", (vec![4], 2.0, "float32"))?,
    )?;
    let gradient = leaf.getattr("grad")?;
    let found = reader.place_of_gradient(leaf.as_ptr());
    Ok(match (had, reader.memory(gradient.as_ptr()), found) {
        (Place::Nowhere, Some(real), Place::Memory(found)) => real == found,
        _ => false,
    })
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Where the numbers of a tensor lie.
enum Place {
    /// It has none.
    Nowhere,
    /// From its first number to the end of what was allocated.
    Memory(Range<usize>),
    /// Nobody knows.
    Unknown,
}

impl Place {
    fn is_apart(&self, memory: &Range<usize>) -> bool {
        match self {
            Self::Nowhere => true,
            Self::Memory(other) => !overlap(memory, other),
            Self::Unknown => false,
        }
    }
}

impl Reader {
    /// The memory from the first number of a tensor to the end of what was allocated.
    fn memory(&self, object: *mut ffi::PyObject) -> Option<Range<usize>> {
        match self.place(tensor_of(object)) {
            Place::Memory(memory) => Some(memory),
            Place::Nowhere | Place::Unknown => None,
        }
    }

    fn place(&self, tensor: *const c_void) -> Place {
        // SAFETY: callers know it to be a live `paddle::Tensor`. It begins with a pointer to its
        // implementation, null for an undefined one. The accessors raise for one without memory.
        unsafe {
            let dense = tensor.cast::<*const c_void>().read();
            if dense.is_null() {
                return Place::Nowhere;
            }
            if !(self.dense)(tensor) {
                return Place::Unknown;
            }
            if !(self.initialized)(tensor) {
                return Place::Nowhere;
            }
            let start = (self.data)(tensor) as usize;
            let end = start.checked_add((self.size)(dense));
            end.map_or(Place::Unknown, |end| Place::Memory(start..end))
        }
    }

    /// Where the gradient of a tensor lies.
    fn place_of_gradient(&self, object: *mut ffi::PyObject) -> Place {
        // SAFETY: callers know the object to be a `paddle.Tensor`. It owns its gradient.
        let gradient = unsafe { (self.gradient)(tensor_of(object)) };
        match gradient.is_null() {
            true => Place::Nowhere,
            false => self.place(gradient),
        }
    }

    /// Whether memory is apart from all tensors in an object, and from their gradients.
    fn is_apart_from_all(
        &self,
        memory: &Range<usize>,
        object: &Bound<'_, PyAny>,
        depth: usize,
    ) -> PyResult<bool> {
        let py = object.py();
        let is_apart = |value: &Bound<'_, PyAny>| match depth.checked_sub(1) {
            Some(depth) => self.is_apart_from_all(memory, value, depth),
            None => Ok(false),
        };
        if is_tensor(object)? {
            let object = object.as_ptr();
            return Ok(self.place(tensor_of(object)).is_apart(memory)
                && self.place_of_gradient(object).is_apart(memory));
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return all(dict.iter().map(|(_, value)| value), is_apart);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return all(list.iter(), is_apart);
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return all(tuple.iter(), is_apart);
        }
        if depth < MOST_NESTED {
            return Ok(true);
        }
        let own = native::instance_dict(py, object.into());
        match own.is_null() {
            true => Ok(false),
            false => is_apart(&native::to_bound(py, own)),
        }
    }
}

/// How deep tensors lie in an optimizer: its attributes, groups, a group, its parameters, one.
const MOST_NESTED: usize = 6;

fn is_tensor(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let class = Paddle::get(py)?.tensor.bind(py).as_ptr().cast();
    // SAFETY: both are live types; nothing but their own tables is read.
    Ok(unsafe { ffi::PyType_IsSubtype(ffi::Py_TYPE(object.as_ptr()), class) } != 0)
}

fn all<T>(
    items: impl Iterator<Item = T>,
    mut holds: impl FnMut(&T) -> PyResult<bool>,
) -> PyResult<bool> {
    for item in items {
        if !holds(&item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn reader(py: Python<'_>) -> Option<&'static Reader> {
    let without = "nobody knows where tensors lie";
    opened(py, &READER, open, ("paddle_sot_rs.guards", without))
}

/// Whether it is known that an object, which is a `paddle.Tensor`, has memory.
pub(super) fn has_memory(py: Python<'_>, object: *mut ffi::PyObject) -> bool {
    reader(py).is_some_and(|reader| reader.memory(object).is_some())
}

/// What a leaf keeps its gradient in, by address, and how many share that; `None` where it has no
/// gradient. An address says nothing once the gradient is gone.
pub(super) fn gradient_object(py: Python<'_>, leaf: *mut ffi::PyObject) -> Option<(usize, i32)> {
    let reader = reader(py)?;
    // SAFETY: callers know the object to be a `paddle.Tensor`, which owns its gradient. A tensor
    // begins with a shared pointer to its implementation, which has owners where it is not null.
    unsafe {
        let gradient = (reader.gradient)(tensor_of(leaf));
        let shared = gradient.cast::<Shared>().as_ref()?;
        let owners = shared.owners.as_ref()?;
        Some((shared.object as usize, owners.uses.load(Ordering::Relaxed)))
    }
}

/// Whether all bits of the numbers of such an object are zero: see [`numbers`].
pub(super) fn is_all_zero(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    dims: &[i64],
    each: usize,
) -> bool {
    let Some(numbers) = numbers(py, object, dims, each) else {
        return false;
    };
    // SAFETY: a contiguous tensor on a CPU has so many bytes there; `numbers` has compared strides.
    let bytes = unsafe { std::slice::from_raw_parts(numbers.start as *const u8, numbers.len()) };
    // SAFETY: any bytes are a number of this kind.
    let (front, words, end) = unsafe { bytes.align_to::<[u64; 8]>() };
    let are_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let any_bit = |words: &[u64; 8]| words.iter().fold(0, |any, word| any | word);
    are_zero(front) && words.iter().all(|words| any_bit(words) == 0) && are_zero(end)
}

/// Where the numbers of such an object lie, of these dims and so many bytes each; `None` where
/// there are gaps between them.
pub(super) fn numbers(
    py: Python<'_>,
    object: *mut ffi::PyObject,
    dims: &[i64],
    each: usize,
) -> Option<Range<usize>> {
    let reader = reader(py)?;
    let start = reader.memory(object)?.start;
    // SAFETY: it is a dense tensor with memory, which has as many strides as dims.
    let strides = unsafe { (reader.strides)(tensor_of(object)) };
    let mut size: i64 = 1;
    for (at, dim) in dims.iter().enumerate().rev() {
        // SAFETY: as above.
        if *dim != 1 && unsafe { strides.add(at).read() } != size {
            return None;
        }
        size = size.checked_mul(*dim)?;
    }
    let bytes = usize::try_from(size).ok()?.checked_mul(each)?;
    Some(start..start.checked_add(bytes)?)
}

/// Whether tensors that are updated surely have no memory in common with each other, nor with any
/// that is read.
pub fn are_updated_apart<'a, 'py: 'a>(
    updated: impl Iterator<Item = &'a Bound<'py, PyAny>>,
    read: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) -> bool {
    let all = updated
        .map(|it| (it, true))
        .chain(read.map(|it| (it, false)));
    let memory = |(tensor, is_updated): (&Bound<'py, PyAny>, bool)| {
        let memory = reader(tensor.py())?.memory(tensor.as_ptr())?;
        Some((memory.start, memory.end, is_updated))
    };
    let Some(mut places) = all.map(memory).collect::<Option<Vec<_>>>() else {
        return false;
    };
    places.sort_unstable();
    // Where those end that came before: of both kinds, and what is updated.
    let (mut end, mut end_updated) = (0, 0);
    places.into_iter().all(|(start, its_end, is_updated)| {
        let apart = start >= if is_updated { end } else { end_updated };
        end = end.max(its_end);
        if is_updated {
            end_updated = end_updated.max(its_end);
        }
        apart
    })
}

/// Whether two objects, known to be `paddle.Tensor`s, surely have no memory in common. Their memory
/// counts up to the end of what was allocated, so that two rows of one tensor are not apart.
pub fn are_apart(py: Python<'_>, one: Ptr<'_>, other: Ptr<'_>) -> bool {
    let memory = |object: Ptr<'_>| reader(py)?.memory(object.as_ptr());
    match (memory(one), memory(other)) {
        (Some(one), Some(other)) => !overlap(&one, &other),
        _ => false,
    }
}

/// Whether a tensor surely has no memory in common with another and its gradient; or, of an object
/// that is none, with all tensors in its attributes and in the containers there.
pub fn is_apart_from_all(py: Python<'_>, tensor: Ptr<'_>, holder: &Bound<'_, PyAny>) -> bool {
    let found = reader(py).and_then(|reader| Some((reader, reader.memory(tensor.as_ptr())?)));
    found.is_some_and(|(reader, memory)| {
        let is_apart = reader.is_apart_from_all(&memory, holder, MOST_NESTED);
        is_apart.unwrap_or(false)
    })
}
