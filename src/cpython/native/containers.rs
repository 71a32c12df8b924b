//! Reads of containers.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use super::dict_key::DictKey;
use crate::frame::Modules;
use crate::obj::Obj;

use super::constants::const_equal;
use super::hash_table::{self, HashedKey};
use super::object::{Ptr, to_bound};
use super::references::WeakOrStrong;

unsafe extern "C" {
    pub(super) static mut PyODict_Type: ffi::PyTypeObject;
}

/// `dict[key]`; `None` when a key of the dict says itself what it is equal to.
pub fn dict_item<'a>(dict: Ptr<'a>, key: &HashedKey) -> Option<Ptr<'a>> {
    let dict = dict.as_ptr();
    // SAFETY: both are live and the type is checked. Where the keys of the dict are exact strings,
    // as those of namespaces are, the interpreter compares them with another without user code.
    unsafe {
        if ffi::PyDict_Check(dict) == 0 {
            return Some(Ptr::NULL);
        }
        if hash_table::is_general(dict) {
            return hash_table::find_in_dict(dict, key).map(|value| Ptr::new(value));
        }
        if !key.is_text() {
            return Some(Ptr::NULL);
        }
        let value = ffi::PyDict_GetItemWithError(dict, key.as_ptr());
        if value.is_null() && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
        }
        Some(Ptr::new(value))
    }
}

/// The key object for a [`DictKey`].
pub fn key_object(py: Python<'_>, key: &DictKey) -> Py<PyAny> {
    match key {
        DictKey::Str(text) => pyo3::types::PyString::intern(py, text).into_any().unbind(),
        DictKey::Int(number) => pyo3::types::PyInt::new(py, *number).into_any().unbind(),
        DictKey::Identity(object) => object.py(py),
    }
}

/// `list[index]` from its storage.
pub fn list_item<'a>(list: Ptr<'a>, index: usize) -> Ptr<'a> {
    let list = list.as_ptr();
    // SAFETY: the index is checked against the live list's length.
    unsafe {
        if ffi::PyList_Check(list) == 0 || index >= ffi::PyList_GET_SIZE(list) as usize {
            return Ptr::NULL;
        }
        Ptr::new(ffi::PyList_GET_ITEM(list, index as isize))
    }
}

/// The address of `collections.deque`, once guards look into one.
static DEQUE: OnceLock<usize> = OnceLock::new();

/// Makes deques known to the guards.
pub fn know_deques(py: Python<'_>) -> PyResult<()> {
    if DEQUE.get().is_none() {
        let class = py.collections()?.getattr("deque")?;
        // The class lives as long as the process.
        DEQUE.get_or_init(|| class.into_ptr() as usize);
    }
    Ok(())
}

fn is_deque(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the object is live.
    DEQUE.get() == Some(&(unsafe { ffi::Py_TYPE(object) } as usize))
}

/// `deque.maxlen`; `None` for anything else.
pub fn max_len(py: Python<'_>, deque: Ptr<'_>) -> Option<Option<usize>> {
    if !is_deque(deque.as_ptr()) {
        return None;
    }
    to_bound(py, deque)
        .getattr(pyo3::intern!(py, "maxlen"))
        .ok()?
        .extract()
        .ok()
}

/// `deque[index]`.
pub fn deque_item<'a>(deque: Ptr<'a>, index: usize) -> Ptr<'a> {
    let deque = deque.as_ptr();
    // SAFETY: the index is checked against the live deque's length; reading an item of an exact
    // deque runs no user code, and the deque goes on holding it.
    unsafe {
        if !is_deque(deque) || index >= ffi::Py_SIZE(deque) as usize {
            return Ptr::NULL;
        }
        let item = ffi::PySequence_GetItem(deque, index as isize);
        ffi::Py_XDECREF(item);
        Ptr::new(item)
    }
}

/// Whether this is the class `mappingproxy`.
pub fn is_class_of_proxies(class: &Bound<'_, PyAny>) -> bool {
    class.as_ptr() == (&raw mut ffi::PyDictProxy_Type).cast()
}

/// The dict that a `mappingproxy` shows; null where it shows something else.
pub fn proxied<'a>(proxy: Ptr<'a>) -> Ptr<'a> {
    #[repr(C)]
    struct Proxy {
        head: ffi::PyObject,
        mapping: *mut ffi::PyObject,
    }
    let proxy = proxy.as_ptr();
    // SAFETY: the type says what the layout is (`Objects/descrobject.c`), and the proxy keeps its
    // mapping.
    unsafe {
        if ffi::Py_TYPE(proxy) != &raw mut ffi::PyDictProxy_Type {
            return Ptr::NULL;
        }
        let mapping = (*proxy.cast::<Proxy>()).mapping;
        match mapping.is_null() || ffi::PyDict_CheckExact(mapping) == 0 {
            true => Ptr::NULL,
            false => Ptr::new(mapping),
        }
    }
}

/// The same, for a live proxy.
pub fn shown_by_proxy<'py>(proxy: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let dict = proxied(proxy.into());
    // SAFETY: null, or an object that the proxy holds.
    unsafe { Bound::from_borrowed_ptr_or_opt(proxy.py(), dict.as_ptr()) }
}

/// Whether the list holds exactly these objects.
pub fn list_is(list: Ptr<'_>, items: &[WeakOrStrong]) -> bool {
    let list = list.as_ptr();
    // SAFETY: the list is live; its storage holds as many items as its length says.
    unsafe {
        if ffi::PyList_Check(list) == 0 || ffi::PyList_GET_SIZE(list) as usize != items.len() {
            return false;
        }
        let storage = (*list.cast::<ffi::PyListObject>()).ob_item;
        let mut items = items.iter().enumerate();
        items.all(|(at, known)| known.is(Ptr::new(storage.add(at).read())))
    }
}

/// `tuple[index]` from its storage.
pub fn tuple_item<'a>(tuple: Ptr<'a>, index: usize) -> Ptr<'a> {
    let tuple = tuple.as_ptr();
    // SAFETY: as for lists.
    unsafe {
        if ffi::PyTuple_Check(tuple) == 0 || index >= ffi::PyTuple_GET_SIZE(tuple) as usize {
            return Ptr::NULL;
        }
        Ptr::new(ffi::PyTuple_GET_ITEM(tuple, index as isize))
    }
}

/// `len(x)` of the builtin containers; `None` for other kinds.
pub fn length(object: Ptr<'_>) -> Option<usize> {
    let object = object.as_ptr();
    // SAFETY: the object is live; sizes of builtin containers are read without user code.
    unsafe {
        let size = if ffi::PyList_Check(object) != 0 {
            ffi::PyList_GET_SIZE(object)
        } else if ffi::PyTuple_Check(object) != 0 {
            ffi::PyTuple_GET_SIZE(object)
        } else if ffi::PyDict_Check(object) != 0 {
            ffi::PyDict_Size(object)
        } else if ffi::PyAnySet_Check(object) != 0 {
            ffi::PySet_Size(object)
        } else if is_deque(object) {
            ffi::Py_SIZE(object)
        } else {
            return None;
        };
        usize::try_from(size).ok()
    }
}

/// Whether the keys of a dict are these, in order: strings and ints by value, others by identity.
pub fn dict_keys_are(dict: Ptr<'_>, keys: &[Py<PyAny>]) -> bool {
    let dict = dict.as_ptr();
    // SAFETY: the type is checked; `PyDict_Next` borrows, and comparing exact strings and ints runs
    // no user code.
    unsafe {
        if ffi::PyDict_Check(dict) == 0 || ffi::PyDict_Size(dict) as usize != keys.len() {
            return false;
        }
        if ffi::PyObject_TypeCheck(dict, &raw mut PyODict_Type) != 0 {
            return ordered_keys_are(dict, keys);
        }
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut wanted = keys.iter();
        while ffi::PyDict_Next(dict, &raw mut position, &raw mut key, &raw mut value) != 0 {
            let Some(wanted) = wanted.next() else {
                return false;
            };
            if !same_key(key, wanted.as_ptr()) {
                return false;
            }
        }
        true
    }
}

/// Whether a set has this element; `None` for what is no set, or when an element says itself what
/// it is equal to.
pub fn set_holds(set: Ptr<'_>, key: Ptr<'_>) -> Option<bool> {
    let (set, key) = (set.as_ptr(), key.as_ptr());
    // SAFETY: both are live and the type is checked. The key is a constant or a class, which hash
    // without user code.
    unsafe {
        if key.is_null() || ffi::PyAnySet_CheckExact(set) == 0 {
            return None;
        }
        match ffi::PyObject_Hash(key) {
            -1 => {
                ffi::PyErr_Clear();
                None
            }
            hash => hash_table::find_in_set(set, key, hash),
        }
    }
}

/// Whether a set has these constants as elements, in this order.
pub fn elements_are(py: Python<'_>, set: Ptr<'_>, elements: &[Obj]) -> bool {
    let set = set.as_ptr();
    // SAFETY: the type is checked.
    let (size, iter) = unsafe {
        if ffi::PyAnySet_CheckExact(set) == 0 {
            return false;
        }
        (ffi::PySet_Size(set) as usize, (*ffi::Py_TYPE(set)).tp_iter)
    };
    size == elements.len()
        && are_all(set, iter, elements, |item, wanted| {
            // SAFETY: the iterator has given it to `are_all`.
            const_equal(py, unsafe { Ptr::new(item) }, wanted.into())
        })
}

/// The order of an `OrderedDict` is kept beside the dict and read through its iterator.
fn ordered_keys_are(dict: *mut ffi::PyObject, keys: &[Py<PyAny>]) -> bool {
    // SAFETY: the class is live for ever.
    let iter = unsafe { PyODict_Type.tp_iter };
    are_all(dict, iter, keys, |key, wanted| {
        same_key(key, wanted.as_ptr())
    })
}

/// Whether a set or `OrderedDict` of as many items gives the wanted ones, in this order, through
/// the iterator of the built-in class.
fn are_all<T>(
    container: *mut ffi::PyObject,
    iter: Option<ffi::getiterfunc>,
    wanted: &[T],
    same: impl Fn(*mut ffi::PyObject, &T) -> bool,
) -> bool {
    let Some(iter) = iter else { return false };
    // SAFETY: iterating these runs no user code, and fails where a finalizer changes them; every
    // new reference is given back.
    unsafe {
        let iterator = iter(container);
        if iterator.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let all = wanted.iter().all(|wanted| {
            let item = ffi::PyIter_Next(iterator);
            if item.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            let is_it = same(item, wanted);
            ffi::Py_DECREF(item);
            is_it
        });
        ffi::Py_DECREF(iterator);
        all
    }
}

fn same_key(key: *mut ffi::PyObject, wanted: *mut ffi::PyObject) -> bool {
    if key == wanted {
        return true;
    }
    // SAFETY: both are live; only exact strings and ints are compared by value.
    unsafe {
        let class = ffi::Py_TYPE(key);
        let plain = class == &raw mut ffi::PyUnicode_Type || class == &raw mut ffi::PyLong_Type;
        if !plain || class != ffi::Py_TYPE(wanted) {
            return false;
        }
        let answer = ffi::PyObject_RichCompareBool(key, wanted, ffi::Py_EQ);
        if answer < 0 {
            ffi::PyErr_Clear();
        }
        answer == 1
    }
}
