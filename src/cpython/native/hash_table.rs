//! Lookups in the hash tables of dictionaries and sets that run nothing of the user's: no
//! `__hash__`, and no `__eq__` of a key that has the hash of the one looked for.

use std::mem::offset_of;

use pyo3::ffi;
use pyo3::prelude::*;

/// An object of a table, which holds it.
type Raw = *mut ffi::PyObject;

/// A key to look for, with its hash, which is asked once.
pub struct HashedKey {
    object: Py<PyAny>,
    hash: ffi::Py_hash_t,
    is_text: bool,
}

impl HashedKey {
    /// No object has the hash -1: what cannot be hashed is not found.
    pub fn new(object: Bound<'_, PyAny>) -> Self {
        Self {
            hash: object.hash().unwrap_or(-1),
            is_text: object.is_exact_instance_of::<pyo3::types::PyString>(),
            object: object.unbind(),
        }
    }

    pub(super) fn as_ptr(&self) -> Raw {
        self.object.as_ptr()
    }

    /// Whether it is an exact `str`.
    pub(super) fn is_text(&self) -> bool {
        self.is_text
    }
}

/// The start of `PyDictKeysObject` of 3.11, 3.12 and 3.13: `Include/internal/pycore_dict.h`.
#[repr(C)]
struct Keys {
    references: isize,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    count: isize,
    indices: [u8; 0],
}

// `offsetof` of the C headers.
const _: () = {
    assert!(offset_of!(Keys, kind) == 10);
    assert!(offset_of!(Keys, indices) == 32);
};

/// `DICT_KEYS_GENERAL`: keys of any kind. The keys of the other tables are exact `str`.
const GENERAL: u8 = 0;
/// `DKIX_EMPTY`: a search ends here.
const EMPTY: isize = -1;

/// `PyDictKeyEntry`
#[repr(C)]
struct Entry {
    hash: ffi::Py_hash_t,
    key: Raw,
    value: Raw,
}

/// `ma_keys`, the fifth word of `PyDictObject`.
unsafe fn keys_of(dict: Raw) -> *const Keys {
    dict.cast::<*const Keys>().add(4).read()
}

/// Whether a dictionary has keys of any kind: comparing with them may run anything.
///
/// # Safety
/// The object must be a living dictionary.
pub(super) unsafe fn is_general(dict: Raw) -> bool {
    (*keys_of(dict)).kind == GENERAL
}

/// `DICT_KEYS_SPLIT`: the values lie beside the table.
const SPLIT: u8 = 2;

/// `PyDictUnicodeEntry`, of tables all of whose keys are exact `str`.
#[repr(C)]
struct TextEntry {
    key: Raw,
    value: Raw,
}

/// `dict[key]` of such a dictionary, or null; `None` when only code of the user's could tell.
///
/// # Safety
/// The object must be a living dictionary that [`is_general`].
pub(super) unsafe fn find_in_dict(dict: Raw, key: &HashedKey) -> Option<Raw> {
    let place = find_place(dict, key)?;
    match place.is_null() {
        true => Some(std::ptr::null_mut()),
        false => Some(place.read()),
    }
}

/// Where the table of a dictionary has the value of a key; null where it has none. A place stays
/// what it is until the version changes; what lies there may change in front of it: `x.a = b`
/// lets go of the old value first, on 3.11 and 3.12, whose destructor sees that.
///
/// # Safety
/// The object must be a living dictionary.
pub unsafe fn place_in_dict(dict: Raw, key: &HashedKey) -> Option<*const Raw> {
    match (*keys_of(dict)).kind {
        // Nothing writes these but the dictionary itself, which changes its version first.
        SPLIT => Some(std::ptr::null()),
        GENERAL => find_place(dict, key),
        _ if !key.is_text() => Some(std::ptr::null()),
        _ => find_place(dict, key),
    }
}

unsafe fn find_place(dict: Raw, key: &HashedKey) -> Option<*const Raw> {
    let keys = keys_of(dict);
    let indices = (&raw const (*keys).indices).cast::<u8>();
    let entries = indices.add(1 << (*keys).log2_index_bytes);
    let is_general = (*keys).kind == GENERAL;
    for at in places(key.hash, (1 << (*keys).log2_size) - 1) {
        let index = match (*keys).log2_size {
            0..=7 => indices.cast::<i8>().add(at).read() as isize,
            8..=15 => indices.cast::<i16>().add(at).read() as isize,
            16..=31 => indices.cast::<i32>().add(at).read() as isize,
            _ => indices.cast::<isize>().add(at).read(),
        };
        if index == EMPTY {
            return Some(std::ptr::null());
        }
        // Other negative ones are of items that were taken out.
        let Ok(index) = usize::try_from(index) else {
            continue;
        };
        let (known, may_be, value) = match is_general {
            true => {
                let entry = entries.cast::<Entry>().add(index);
                let may_be = (*entry).hash == key.hash;
                ((*entry).key, may_be, &raw const (*entry).value)
            }
            false => {
                let entry = entries.cast::<TextEntry>().add(index);
                ((*entry).key, true, &raw const (*entry).value)
            }
        };
        let wanted = key.as_ptr();
        if known == wanted || may_be && are_equal(known, wanted)? {
            return Some(value);
        }
    }
    None
}

/// `key in set` for a key with this hash; `None` when only code of the user's could tell.
///
/// # Safety
/// `set` must be a living set or frozen set, and the key alive.
pub(super) unsafe fn find_in_set(set: Raw, key: Raw, hash: ffi::Py_hash_t) -> Option<bool> {
    /// `LINEAR_PROBES` of `Objects/setobject.c`
    const NEIGHBOURS: usize = 9;
    let set = set.cast::<ffi::PySetObject>();
    let mask = (*set).mask as usize;
    for at in places(hash, mask) {
        let more = match at + NEIGHBOURS <= mask {
            true => NEIGHBOURS,
            false => 0,
        };
        for at in at..=at + more {
            let entry = (*set).table.add(at);
            let known = (*entry).key;
            if known.is_null() {
                return Some(false);
            }
            if (*entry).hash == hash && (known == key || are_equal(known, key)?) {
                return Some(true);
            }
        }
    }
    None
}

/// Where both kinds of tables look for a hash, one after the other, until they find an empty place;
/// there always is one.
fn places(hash: ffi::Py_hash_t, mask: usize) -> impl Iterator<Item = usize> {
    /// `PERTURB_SHIFT` of `Objects/dictobject.c` and `Objects/setobject.c`
    const SHIFT: u32 = 5;
    let hash = hash as usize;
    let next = move |(rest, at): &(usize, usize)| {
        let rest = rest >> SHIFT;
        let at = at.wrapping_mul(5).wrapping_add(rest).wrapping_add(1);
        Some((rest, at & mask))
    };
    std::iter::successors(Some((hash, hash & mask)), next).map(|(_, at)| at)
}

/// Whether two objects are equal; `None` when code of the user's says so.
unsafe fn are_equal(known: Raw, wanted: Raw) -> Option<bool> {
    if !compares_itself(known) || !compares_itself(wanted) {
        return None;
    }
    match ffi::PyObject_RichCompareBool(known, wanted, ffi::Py_EQ) {
        0 => Some(false),
        1 => Some(true),
        _ => {
            ffi::PyErr_Clear();
            None
        }
    }
}

/// Whether `==` of an object is that of a builtin immutable class or of `object`, inherited or not.
unsafe fn compares_itself(object: Raw) -> bool {
    let slot = |class: *mut ffi::PyTypeObject| (*class).tp_richcompare.map(|slot| slot as usize);
    let own = slot(ffi::Py_TYPE(object));
    if own == slot(&raw mut ffi::PyTuple_Type) {
        let mut items = 0..ffi::PyTuple_GET_SIZE(object);
        return items.all(|at| compares_itself(ffi::PyTuple_GET_ITEM(object, at)));
    }
    [
        &raw mut ffi::PyUnicode_Type,
        &raw mut ffi::PyLong_Type,
        &raw mut ffi::PyBaseObject_Type,
        &raw mut ffi::PyFloat_Type,
        &raw mut ffi::PyBytes_Type,
    ]
    .into_iter()
    .any(|class| own == slot(class))
}
