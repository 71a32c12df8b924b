//! Versions of dictionaries and types.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

type Ptr = *mut ffi::PyObject;

/// `ma_version_tag` of `PyDictObject`, after `ma_used`.
pub(crate) fn dict_version(dict: usize) -> u64 {
    // SAFETY: the caller knows the dict to be alive; the field lies at this offset in 3.11, 3.12 and 3.13.
    unsafe {
        (dict as *const u8)
            .add(std::mem::size_of::<ffi::PyObject>() + 8)
            .cast::<u64>()
            .read()
    }
}

static VERSIONS_WORK: PyOnceLock<bool> = PyOnceLock::new();

/// Whether every way of writing an attribute changes the version: tried on a class of our own.
pub(crate) fn versions_work(py: Python<'_>) -> bool {
    *VERSIONS_WORK.get_or_init(py, || {
        let probe = || -> PyResult<bool> {
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
            let (write, probe, namespace) = (get("write")?, get("probe")?, get("namespace")?);
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
            Ok(true)
        };
        probe().unwrap_or(false)
    })
}

/// `tp_version_tag`: changes with every change of the type or of its bases; 0 when there is none.
pub(crate) fn type_version(class: Ptr) -> u32 {
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
pub(crate) fn managed_dict(object: Ptr) -> usize {
    // SAFETY: the object is live; the flag says that the words in front of it exist.
    unsafe {
        let flags = ffi::PyType_GetFlags(ffi::Py_TYPE(object)) as u64;
        if flags & MANAGED_DICT == 0 {
            return 0;
        }
        object.cast::<usize>().sub(3).read()
    }
}

/// The address of the instance dictionary.
pub(crate) fn owned_dict(py: Python<'_>, object: Ptr) -> usize {
    match managed_dict(object) {
        0 => super::instance_dict(py, object) as usize,
        found => found,
    }
}
