//! Reads of containers.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

use super::dict_key::DictKey;
use crate::frame::Modules;
use crate::obj::Obj;

use super::constants::const_equal;
use super::hash_table::{self, HashedKey};
use super::object::Ptr;
use super::references::WeakOrStrong;

unsafe extern "C" {
    pub(super) static mut PyODict_Type: ffi::PyTypeObject;
}

/// `dict[key]`; `None` when a key of the dict says itself what it is equal to.
pub fn dict_item(dict: Ptr, key: &HashedKey) -> Option<Ptr> {
    // SAFETY: both are live and the type is checked. Where the keys of the dict are exact strings,
    // as those of namespaces are, the interpreter compares them with another without user code.
    unsafe {
        if ffi::PyDict_Check(dict) == 0 {
            return Some(std::ptr::null_mut());
        }
        if hash_table::is_general(dict) {
            return hash_table::find_in_dict(dict, key);
        }
        if !key.is_text() {
            return Some(std::ptr::null_mut());
        }
        let value = ffi::PyDict_GetItemWithError(dict, key.as_ptr());
        if value.is_null() && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
        }
        Some(value)
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
pub fn list_item(list: Ptr, index: usize) -> Ptr {
    // SAFETY: the index is checked against the live list's length.
    unsafe {
        if ffi::PyList_Check(list) == 0 || index >= ffi::PyList_GET_SIZE(list) as usize {
            return std::ptr::null_mut();
        }
        ffi::PyList_GET_ITEM(list, index as isize)
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

fn is_deque(object: Ptr) -> bool {
    // SAFETY: the object is live.
    DEQUE.get() == Some(&(unsafe { ffi::Py_TYPE(object) } as usize))
}

/// `deque.maxlen`; `None` for anything else.
pub fn max_len(py: Python<'_>, deque: Ptr) -> Option<Option<usize>> {
    if !is_deque(deque) {
        return None;
    }
    // SAFETY: the object is live.
    let deque = unsafe { Bound::from_borrowed_ptr(py, deque) };
    deque
        .getattr(pyo3::intern!(py, "maxlen"))
        .ok()?
        .extract()
        .ok()
}

/// `deque[index]`.
pub fn deque_item(deque: Ptr, index: usize) -> Ptr {
    // SAFETY: the index is checked against the live deque's length; reading an item of an exact
    // deque runs no user code, and the deque goes on holding it.
    unsafe {
        if !is_deque(deque) || index >= ffi::Py_SIZE(deque) as usize {
            return std::ptr::null_mut();
        }
        let item = ffi::PySequence_GetItem(deque, index as isize);
        ffi::Py_XDECREF(item);
        item
    }
}

/// Whether this is the class `mappingproxy`.
pub fn is_class_of_proxies(class: &Bound<'_, PyAny>) -> bool {
    class.as_ptr() == (&raw mut ffi::PyDictProxy_Type).cast()
}

/// The dict that a `mappingproxy` shows; null where it shows something else.
pub fn proxied(proxy: Ptr) -> Ptr {
    #[repr(C)]
    struct Proxy {
        head: ffi::PyObject,
        mapping: Ptr,
    }
    // SAFETY: the type says what the layout is (`Objects/descrobject.c`), and the proxy keeps its
    // mapping.
    unsafe {
        if ffi::Py_TYPE(proxy) != &raw mut ffi::PyDictProxy_Type {
            return std::ptr::null_mut();
        }
        let mapping = (*proxy.cast::<Proxy>()).mapping;
        match mapping.is_null() || ffi::PyDict_CheckExact(mapping) == 0 {
            true => std::ptr::null_mut(),
            false => mapping,
        }
    }
}

/// The same, for a live proxy.
pub fn shown_by_proxy<'py>(proxy: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let dict = proxied(proxy.as_ptr());
    // SAFETY: null, or an object that the proxy holds.
    unsafe { Bound::from_borrowed_ptr_or_opt(proxy.py(), dict) }
}

/// Whether the list holds exactly these objects.
pub fn list_is(list: Ptr, items: &[WeakOrStrong]) -> bool {
    // SAFETY: the list is live; its storage holds as many items as its length says.
    unsafe {
        if ffi::PyList_Check(list) == 0 || ffi::PyList_GET_SIZE(list) as usize != items.len() {
            return false;
        }
        let storage = (*list.cast::<ffi::PyListObject>()).ob_item;
        let mut items = items.iter().enumerate();
        items.all(|(at, known)| known.is(storage.add(at).read()))
    }
}

/// `tuple[index]` from its storage.
pub fn tuple_item(tuple: Ptr, index: usize) -> Ptr {
    // SAFETY: as for lists.
    unsafe {
        if ffi::PyTuple_Check(tuple) == 0 || index >= ffi::PyTuple_GET_SIZE(tuple) as usize {
            return std::ptr::null_mut();
        }
        ffi::PyTuple_GET_ITEM(tuple, index as isize)
    }
}

/// `len(x)` of the builtin containers; `None` for other kinds.
pub fn length(object: Ptr) -> Option<usize> {
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
pub fn dict_keys_are(dict: Ptr, keys: &[Py<PyAny>]) -> bool {
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
pub fn set_holds(set: Ptr, key: Ptr) -> Option<bool> {
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
pub fn elements_are(py: Python<'_>, set: Ptr, elements: &[Obj]) -> bool {
    // SAFETY: the type is checked.
    let (size, iter) = unsafe {
        if ffi::PyAnySet_CheckExact(set) == 0 {
            return false;
        }
        (ffi::PySet_Size(set) as usize, (*ffi::Py_TYPE(set)).tp_iter)
    };
    size == elements.len()
        && are_all(set, iter, elements, |item, wanted| {
            const_equal(py, item, wanted.as_ptr())
        })
}

/// The order of an `OrderedDict` is kept beside the dict and read through its iterator.
fn ordered_keys_are(dict: Ptr, keys: &[Py<PyAny>]) -> bool {
    // SAFETY: the class is live for ever.
    let iter = unsafe { PyODict_Type.tp_iter };
    are_all(dict, iter, keys, |key, wanted| {
        same_key(key, wanted.as_ptr())
    })
}

/// Whether a set or `OrderedDict` of as many items gives the wanted ones, in this order, through
/// the iterator of the built-in class.
fn are_all<T>(
    container: Ptr,
    iter: Option<ffi::getiterfunc>,
    wanted: &[T],
    same: impl Fn(Ptr, &T) -> bool,
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

fn same_key(key: Ptr, wanted: Ptr) -> bool {
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
