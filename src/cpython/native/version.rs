//! Versions of dictionaries and types.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::containers::PyODict_Type;
use crate::frame::Modules;

use super::object::Ptr;

/// `ma_version_tag` of `PyDictObject`, after `ma_used`.
pub fn dict_version(dict: usize) -> u64 {
    // SAFETY: the caller knows the dict to be alive; the field lies at this offset in 3.11, 3.12
    // and 3.13.
    unsafe {
        (dict as *const u8)
            .add(std::mem::size_of::<ffi::PyObject>() + 8)
            .cast::<u64>()
            .read()
    }
}

/// What makes every write of an attribute change the version of the instance dictionary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Nothing more is needed.
    Always,
    /// The dictionary must hold the values itself: objects of 3.13 may keep them beside it, and
    /// writes there leave the version as it is.
    OwnValues,
    /// It cannot be relied on.
    Never,
}

static FOLLOWS: PyOnceLock<Follows> = PyOnceLock::new();

/// Tried on a class of our own.
fn follows(py: Python<'_>) -> Follows {
    let works = |own_values| writes_are_seen(py, own_values).unwrap_or(false);
    *FOLLOWS.get_or_init(py, || match (works(false), works(true)) {
        (true, _) => Follows::Always,
        (false, true) => Follows::OwnValues,
        (false, false) => Follows::Never,
    })
}

/// Tries what versions tell, which runs Python: before guards need it, whose values are borrowed.
pub fn try_versions(py: Python<'_>) {
    follows(py);
    orders_are_told(py);
}

/// How a write of an attribute is noticed: `version`, `version of a dictionary with values` or
/// `every guard runs`.
pub fn versions_name(py: Python<'_>) -> &'static str {
    match follows(py) {
        Follows::Always => "version",
        Follows::OwnValues => "version of a dictionary with values",
        Follows::Never => "every guard runs",
    }
}

fn writes_are_seen(py: Python<'_>, own_values: bool) -> PyResult<bool> {
    let source = c"
class Probe:
    def __init__(self):
        self.x = 0
        self.y = 0
def write(probe, value):
    probe.x = value
probe = Probe()
namespace = probe.__dict__
";
    let globals = PyDict::new(py);
    py.run(source, Some(&globals), None)?;
    let get = |name: &str| {
        globals
            .get_item(name)?
            .ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name.to_owned()))
    };
    let (write, probe) = (get("write")?, get("probe")?);
    let namespace = get("namespace")?.cast_into::<PyDict>()?;
    if own_values && !take_values(&namespace)? {
        return Ok(false);
    }
    let dict = namespace.as_ptr() as usize;
    for round in 1..200 {
        let before = dict_version(dict);
        write.call1((&probe, round))?;
        let between = dict_version(dict);
        namespace.set_item("y", round)?;
        if before == between || between == dict_version(dict) {
            return Ok(false);
        }
    }
    Ok(!own_values || has_values(dict))
}

/// Whether the values lie in the dictionary's own table: `ma_values`, the last word of
/// `PyDictObject`, is null.
fn has_values(dict: usize) -> bool {
    // SAFETY: the caller's dict is alive and is six words long.
    unsafe { (dict as *const usize).add(5).read() == 0 }
}

/// Moves the values into the dictionary's own table, for good, which taking out the last item does.
/// Nothing else runs before the item is back at its place.
fn take_values(dict: &Bound<'_, PyDict>) -> PyResult<bool> {
    if !dict.is_empty() && !has_values(dict.as_ptr() as usize) {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = dict
            .call_method0(pyo3::intern!(dict.py(), "popitem"))?
            .extract()?;
        dict.set_item(key, value)?;
    }
    Ok(has_values(dict.as_ptr() as usize))
}

/// Whether this living object is a dictionary whose version changes with every write from now on.
pub fn version_follows(py: Python<'_>, object: usize) -> bool {
    // SAFETY: the caller knows the object to be alive.
    let object = unsafe { Bound::from_borrowed_ptr(py, object as *mut ffi::PyObject) };
    let Ok(dict) = object.cast::<PyDict>() else {
        return false;
    };
    match follows(py) {
        Follows::Always => true,
        Follows::Never => false,
        Follows::OwnValues if dict.is_exact_instance_of::<PyDict>() => {
            take_values(dict).unwrap_or(false)
        }
        Follows::OwnValues => has_values(dict.as_ptr() as usize),
    }
}

/// What tells that the order of a dictionary's keys has changed.
pub enum Order {
    /// The version of the dictionary.
    OfDict,
    /// An `OrderedDict`: this number beside it.
    Version(u64),
    /// Nothing does.
    Unknown,
}

/// `od_state` of `PyODictObject`: after the dictionary (six words), the ends of the order, its
/// index (two words) and a mark.
pub fn order_version(dict: usize) -> u64 {
    // SAFETY: the caller got a version for this dictionary from `order_of`, so it is an
    // `OrderedDict`, and knows it to be alive.
    unsafe { (dict as *const u64).add(11).read() }
}

static ORDERS_WORK: PyOnceLock<bool> = PyOnceLock::new();

fn orders_are_told(py: Python<'_>) -> bool {
    *ORDERS_WORK.get_or_init(py, || orders_work(py).unwrap_or(false))
}

/// What tells that the keys of this living dictionary are in another order.
pub fn order_of(py: Python<'_>, dict: usize) -> Order {
    // SAFETY: the object is live.
    let class = unsafe { ffi::Py_TYPE(dict as *mut ffi::PyObject) };
    if class == &raw mut ffi::PyDict_Type {
        return Order::OfDict;
    }
    // SAFETY: both are live types.
    let is_ordered = unsafe { ffi::PyType_IsSubtype(class, &raw mut PyODict_Type) } != 0;
    if !is_ordered || !orders_are_told(py) {
        return Order::Unknown;
    }
    Order::Version(order_version(dict))
}

/// Whether the number changes with every change of the order, and only then: tried.
fn orders_work(py: Python<'_>) -> PyResult<bool> {
    let ordered = py.collections()?.getattr("OrderedDict")?.call0()?;
    let version = || order_version(ordered.as_ptr() as usize);
    ordered.set_item("moved", 0)?;
    for round in 0..40 {
        let before = version();
        ordered.set_item(round, 0)?;
        let inserted = version();
        ordered.call_method1("move_to_end", ("moved",))?;
        let moved = version();
        ordered.set_item(round, 1)?;
        ordered.get_item(round)?;
        ordered.try_iter()?.count();
        let read = version();
        if round % 3 == 0 {
            ordered.del_item(round)?;
        }
        let deleted = version();
        if before == inserted || inserted == moved || moved != read {
            return Ok(false);
        }
        if (round % 3 == 0) == (read == deleted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `tp_version_tag`: changes with every change of the type or of its bases; 0 when there is none.
pub fn type_version(class: Ptr<'_>) -> u32 {
    let class = class.as_ptr();
    // SAFETY: the caller's object is a live type: types reached from guards are kept by them.
    unsafe {
        if ffi::PyType_Check(class) == 0 {
            return 0;
        }
        (*class.cast::<ffi::PyTypeObject>()).tp_version_tag
    }
}

/// `Py_TPFLAGS_MANAGED_DICT`
const MANAGED_DICT: u64 = 1 << 4;

/// The dictionary pointer in front of an object with a managed dictionary (three words before it in
/// 3.11 to 3.13); 0 for other objects. While no dictionary was made the word may hold something
/// else: it is only ever compared with the address of a dictionary.
pub fn managed_dict(object: Ptr<'_>) -> usize {
    let object = object.as_ptr();
    // SAFETY: the object is live; the flag says that the words in front of it exist.
    unsafe {
        let flags = (*ffi::Py_TYPE(object)).tp_flags as u64;
        if flags & MANAGED_DICT == 0 {
            return 0;
        }
        object.cast::<usize>().sub(3).read()
    }
}

/// The address of the instance dictionary.
pub fn owned_dict(py: Python<'_>, object: Ptr<'_>) -> usize {
    match managed_dict(object) {
        0 => super::instance_dict(py, object).address(),
        found => found,
    }
}
