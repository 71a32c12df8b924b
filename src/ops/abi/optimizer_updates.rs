//! What a step of an optimizer updates: parameters with gradients, and their states.
//!
//! Kernels that update all parameters at once look at less than those of one: here all is checked
//! that they rely on, class, dtype and dims.

use std::ffi::c_void;
use std::ops::Range;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};
use smallvec::SmallVec;

use super::library::libpaddle_core;
use super::plain_optimizer::{attributes, is_parameter};
use super::tensor::{stops_gradient, tensor_of};
use crate::meta::DType;

type DimsFn = unsafe extern "C" fn(*const c_void) -> *const i64;
type IntFn = unsafe extern "C" fn(*const c_void) -> i32;
type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type PointerFn = unsafe extern "C" fn(*const c_void) -> *const u8;

/// Accessors of `paddle::Tensor`.
struct Reader {
    dims: DimsFn,
    strides: DimsFn,
    dtype: IntFn,
    dense: BoolFn,
    initialized: BoolFn,
    data: PointerFn,
    // The functions live as long as the library.
    _library: libloading::Library,
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

/// Most dims of a `phi::DDim`; its rank follows them.
const MAX_RANK: usize = 9;

/// Sizes of the dtypes that are updated.
const DTYPES: &[(DType, usize)] = &[(DType::Float32, 4), (DType::Float64, 8)];

/// Parameters that a step updates, and what it takes for them, each list in their order.
pub struct Updates<'py> {
    /// Those with a gradient.
    pub parameters: Bound<'py, PyList>,
    /// Their gradients.
    pub gradients: Bound<'py, PyList>,
    /// States, a list for each table.
    pub states: Vec<Bound<'py, PyList>>,
    /// Factors of the learning rate, where one is not 1.
    pub rates: Option<Bound<'py, PyList>>,
    /// Regularizers of their own, where one has any.
    pub regularizers: Option<Bound<'py, PyList>>,
}

/// Dtype and dims of a dense tensor with memory.
#[derive(PartialEq)]
struct Metadata {
    dtype: i32,
    dims: SmallVec<[i64; 4]>,
}

/// What a step updates, or why it is not known. The first `shaped` of the `tables`, by the names of
/// parameters, hold states of a parameter's dims, the others of one number.
///
/// # Errors
/// What Paddle raises where a tensor is read.
pub fn updates<'py>(
    parameters: &Bound<'py, PyList>,
    created: Option<&Bound<'py, PySet>>,
    tables: &Bound<'py, PyTuple>,
    shaped: usize,
) -> PyResult<Result<Updates<'py>, &'static str>> {
    let py = parameters.py();
    let Some(reader) = reader(py) else {
        return Ok(Err("its tensors cannot be read natively"));
    };
    let mut rates = Vec::new();
    let mut regularizers = Vec::new();
    let found = Updates {
        parameters: PyList::empty(py),
        gradients: PyList::empty(py),
        states: tables.iter().map(|_| PyList::empty(py)).collect(),
        rates: None,
        regularizers: None,
    };
    for parameter in parameters {
        if !is_parameter(&parameter)? {
            return Ok(Err("a parameter is of another class"));
        }
        if stops_gradient(py, parameter.as_ptr()) != Some(false) {
            continue;
        }
        let gradient = parameter.call_method0(intern!(py, "_grad_ivar"))?;
        if gradient.is_none() {
            continue;
        }
        let Some(Own { rate, regularizer }) = own(&parameter)? else {
            return Ok(Err("a parameter has settings of its own"));
        };
        let metadata = reader.metadata(parameter.as_ptr());
        let is_usual = metadata
            .as_ref()
            .is_some_and(|it| DTYPES.iter().any(|(dtype, _)| *dtype as i32 == it.dtype));
        if !is_usual || metadata != reader.metadata(gradient.as_ptr()) {
            return Ok(Err(
                "a parameter or its gradient is sparse or of another dtype",
            ));
        }
        let name = parameter.getattr(intern!(py, "name"))?;
        if let Some(created) = created {
            if !created.contains(&name)? {
                return Ok(Err("states are made"));
            }
        }
        for (at, (table, states)) in tables.iter().zip(&found.states).enumerate() {
            let Some(state) = state(&table, &name)? else {
                return Ok(Err("states are made"));
            };
            let own = reader.metadata(state.as_ptr());
            let fits = match (&own, &metadata) {
                (Some(own), Some(wanted)) if at < shaped => own == wanted,
                (Some(own), Some(wanted)) => {
                    own.dtype == wanted.dtype && own.dims.iter().product::<i64>() == 1
                }
                _ => false,
            };
            if !fits {
                return Ok(Err("a state is of other dims or of another dtype"));
            }
            states.append(state)?;
        }
        found.parameters.append(&parameter)?;
        found.gradients.append(gradient)?;
        rates.push(rate);
        regularizers.push(regularizer);
    }
    let is_one = |rate: &Bound<'_, PyAny>| rate.extract::<f64>().is_ok_and(|rate| rate == 1.0);
    let any = |listed: bool, values: Vec<Bound<'py, PyAny>>| -> PyResult<_> {
        listed.then(|| PyList::new(py, values)).transpose()
    };
    Ok(Ok(Updates {
        rates: any(!rates.iter().all(is_one), rates)?,
        regularizers: any(!regularizers.iter().all(|it| it.is_none()), regularizers)?,
        ..found
    }))
}

/// What a parameter has of its own that a step asks for.
struct Own<'py> {
    rate: Bound<'py, PyAny>,
    regularizer: Bound<'py, PyAny>,
}

/// `None` where it has something else too.
fn own<'py>(parameter: &Bound<'py, PyAny>) -> PyResult<Option<Own<'py>>> {
    let py = parameter.py();
    let Some(held) = attributes(parameter) else {
        return Ok(None);
    };
    for name in [intern!(py, "main_grad"), intern!(py, "_need_shard_auto")] {
        if held.contains(name)? {
            return Ok(None);
        }
    }
    let settings = held.get_item(intern!(py, "optimize_attr"))?;
    let rate = match settings.map(|it| it.cast_into_exact::<PyDict>()) {
        Some(Ok(settings)) => settings.get_item(intern!(py, "learning_rate"))?,
        _ => None,
    };
    let regularizer = held.get_item(intern!(py, "regularizer"))?;
    Ok(match (rate, regularizer) {
        (Some(rate), Some(regularizer)) => Some(Own { rate, regularizer }),
        _ => None,
    })
}

/// The state of a parameter in a table.
fn state<'py>(
    table: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (Ok(table), true) = (
        table.cast::<PyDict>(),
        name.is_exact_instance_of::<PyString>(),
    ) else {
        return Ok(None);
    };
    let state = table.get_item(name)?;
    Ok(match state {
        Some(state) if is_parameter(&state)? => Some(state),
        _ => None,
    })
}

/// Whether tensors of these lists surely have no memory in common, so that they may be updated in
/// any order.
pub fn are_in_any_order(lists: &[Bound<'_, PyList>]) -> bool {
    let Some(reader) = lists.first().and_then(|list| reader(list.py())) else {
        return false;
    };
    let tensors = lists.iter().flat_map(|list| list.iter());
    let places: Option<Vec<Range<usize>>> = tensors.map(|it| reader.memory(it.as_ptr())).collect();
    let Some(mut places) = places else {
        return false;
    };
    places.sort_unstable_by_key(|place| place.start);
    places
        .windows(2)
        .all(|pair| matches!(pair, [one, other] if one.end <= other.start))
}

impl Reader {
    /// `None` of what is not dense, or has no memory. The object is known to be a tensor.
    fn metadata(&self, object: *mut ffi::PyObject) -> Option<Metadata> {
        let tensor = tensor_of(object);
        // SAFETY: callers know it to be a live `paddle::Tensor`. It begins with a pointer to its
        // implementation, null for an undefined one; the accessors take any other. A `DDim` is nine
        // dims and a rank.
        unsafe {
            let is_defined = !tensor.cast::<*const c_void>().read().is_null();
            if !is_defined || !(self.dense)(tensor) || !(self.initialized)(tensor) {
                return None;
            }
            Some(Metadata {
                dtype: (self.dtype)(tensor),
                dims: dims((self.dims)(tensor))?,
            })
        }
    }

    /// Where the numbers of a dense tensor without gaps lie.
    fn memory(&self, object: *mut ffi::PyObject) -> Option<Range<usize>> {
        let found = self.metadata(object)?;
        let tensor = tensor_of(object);
        // SAFETY: as above, and it has memory.
        let (strides, start) = unsafe {
            let strides = dims((self.strides)(tensor))?;
            (strides, (self.data)(tensor) as usize)
        };
        let mut size: i64 = 1;
        for (dim, stride) in found.dims.iter().zip(&strides).rev() {
            if *dim != 1 && *stride != size {
                return None;
            }
            size = size.checked_mul(*dim)?;
        }
        let (_, each) = DTYPES.iter().find(|(it, _)| *it as i32 == found.dtype)?;
        let bytes = usize::try_from(size).ok()?.checked_mul(*each)?;
        Some(start..start.checked_add(bytes)?)
    }
}

/// The dims of a `DDim`.
///
/// # Safety
/// `read` points to one: nine dims and a rank.
unsafe fn dims(read: *const i64) -> Option<SmallVec<[i64; 4]>> {
    // SAFETY: by contract.
    let rank = unsafe { read.add(MAX_RANK).cast::<i32>().read() };
    let rank = usize::try_from(rank).ok().filter(|it| *it <= MAX_RANK)?;
    // SAFETY: by contract.
    Some((0..rank).map(|at| unsafe { read.add(at).read() }).collect())
}

fn reader(py: Python<'_>) -> Option<&'static Reader> {
    let reader = READER.get_or_init(py, || match open(py) {
        Ok(reader) => Some(reader),
        Err(err) => {
            log::info!(target: "paddle_sot_rs.guards", "optimizers run Paddle's own steps: {err}");
            None
        }
    });
    reader.as_ref()
}

fn open(py: Python<'_>) -> Result<Reader, String> {
    if !super::reads_natively(py) {
        return Err("tensors are read through attributes".into());
    }
    let library = libpaddle_core(py)?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures: const member functions of `paddle::Tensor`
    // without arguments; `dims()` and `strides()` return references to a `phi::DDim`, `dtype()` an
    // `int`-sized enum.
    unsafe {
        Ok(Reader {
            dims: *library
                .get::<DimsFn>(b"_ZNK6paddle6Tensor4dimsEv\0")
                .map_err(text)?,
            strides: *library
                .get::<DimsFn>(b"_ZNK6paddle6Tensor7stridesEv\0")
                .map_err(text)?,
            dtype: *library
                .get::<IntFn>(b"_ZNK6paddle6Tensor5dtypeEv\0")
                .map_err(text)?,
            dense: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor15is_dense_tensorEv\0")
                .map_err(text)?,
            initialized: *library
                .get::<BoolFn>(b"_ZNK6paddle6Tensor11initializedEv\0")
                .map_err(text)?,
            data: *library
                .get::<PointerFn>(b"_ZNK6paddle6Tensor4dataEv\0")
                .map_err(text)?,
            _library: library,
        })
    }
}
