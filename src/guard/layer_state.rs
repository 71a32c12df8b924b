//! [`LayerSnapshot`]: everything an opaque layer's `forward` may read, checked in one pass.
//!
//! Dictionaries carry a version that changes with every mutation (CPython 3.11 to 3.13). While a
//! dictionary's version is the recorded one its content is the recorded content, so what hangs
//! below it is alive and known, and the walk goes parents first without looking at values.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::abi;
use crate::obj::{Item, Obj};
use crate::paddle::{Paddle, tensor_meta};

use super::TensorGuard;
use crate::native::{self, Ptr, WeakOrStrong};

/// What lies at an address that was recorded.
fn at<'a>(address: usize) -> Ptr<'a> {
    // SAFETY: the layer keeps it while what lies in front of it is as recorded, which is looked at
    // first.
    unsafe { Ptr::new(address as *mut ffi::PyObject) }
}

enum Expected {
    Const(Obj),
    Same(WeakOrStrong),
    /// A list at this address, which cannot be held weakly: what it holds is compared apart.
    List(usize),
}

/// One dictionary of the tree.
struct Namespace {
    /// The layer whose `__dict__` it is; null for registries, which the parent's content pins.
    owner: usize,
    /// The class of that layer.
    class: usize,
    dict: usize,
    version: AtomicU64,
}

struct Items {
    items: Vec<(native::HashedKey, Expected)>,
    /// The order of a registry's keys, which a layer may walk through.
    keys: Vec<Py<PyAny>>,
}

struct Ordered {
    /// Which of the namespaces.
    namespace: usize,
    version: AtomicU64,
}

/// The state of a layer and of everything below it.
pub struct LayerSnapshot {
    namespaces: Vec<Namespace>,
    /// The items of each namespace; apart from them, so that the walk over versions is short.
    items: Vec<Items>,
    /// Ordered registries of several items, which move keys without a new version.
    orders: Vec<Ordered>,
    /// Items are referred to: at the address of one that is gone another may lie.
    lists: Vec<(usize, Vec<WeakOrStrong>)>,
    tensors: abi::Tensors,
    /// Whether a version that stays says that the dictionary does.
    versions_follow: bool,
}

impl LayerSnapshot {
    /// Records the state of `layer` now. `None` when it holds something that cannot be recorded.
    pub fn record(layer: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let mut this = Self {
            namespaces: Vec::new(),
            items: Vec::new(),
            orders: Vec::new(),
            lists: Vec::new(),
            tensors: abi::Tensors::default(),
            versions_follow: true,
        };
        Ok(this.add_layer(layer)?.then_some(this))
    }

    fn add_layer(&mut self, layer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = layer.py();
        let Ok(dict) = layer.getattr("__dict__")?.cast_into::<PyDict>() else {
            return Ok(false);
        };
        let Some(items) = self.add_dict(layer.as_ptr() as usize, &dict)? else {
            return Ok(false);
        };
        for (_, value) in items {
            if let Ok(list) = value.cast::<PyList>() {
                self.lists.push((
                    list.as_ptr() as usize,
                    list.iter()
                        .map(|item| WeakOrStrong::new(py, &Obj::from(&item)))
                        .collect(),
                ));
            }
        }
        for which in [
            "_parameters",
            "_buffers",
            "_sub_layers",
            "_forward_pre_hooks",
            "_forward_post_hooks",
        ] {
            let Some(found) = dict.get_item(which)? else {
                return Ok(false);
            };
            let Ok(registry) = found.cast_into::<PyDict>() else {
                return Ok(false);
            };
            let Some(items) = self.add_dict(0, &registry)? else {
                return Ok(false);
            };
            if which == "_sub_layers" {
                for (_, child) in items {
                    let plain = child.is_none()
                        || (Paddle::get(py)?.is_layer(&child) && self.add_layer(&child)?);
                    if !plain {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Records a dictionary; the answer is a copy of its items, `None` where it cannot be recorded.
    fn add_dict<'py>(
        &mut self,
        owner: usize,
        dict: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Vec<Item<'py>>>> {
        let py = dict.py();
        let address = dict.as_ptr() as usize;
        // Versions are read before the content: recording runs code, and another thread may write
        // meanwhile. Such a snapshot is of an older version, and its items are compared.
        self.versions_follow &= native::version_follows(py, address);
        let version = native::dict_version(address);
        let order = native::order_of(py, address);
        // A copy: who goes over it may run code that writes the dictionary.
        let content: Vec<Item<'py>> = (dict.items().iter())
            .map(|item| item.extract())
            .collect::<PyResult<_>>()?;
        let mut items = Vec::with_capacity(content.len());
        for (key, value) in &content {
            if Paddle::get(py)?.is_tensor(value) {
                let Some(meta) = tensor_meta(value) else {
                    return Ok(None);
                };
                self.tensors
                    .push(value.as_ptr() as usize, TensorGuard::of(&meta));
            }
            let object = Obj::from(value);
            let plain = crate::obj::is_plain_constant(value);
            let expected = if plain {
                Expected::Const(object)
            } else if owner != 0 && value.is_exact_instance_of::<PyList>() {
                Expected::List(value.as_ptr() as usize)
            } else {
                Expected::Same(WeakOrStrong::new(py, &object))
            };
            items.push((native::HashedKey::new(key.clone()), expected));
        }
        let mut keys = Vec::new();
        if owner == 0 && content.len() > 1 {
            match order {
                native::Order::OfDict => {}
                native::Order::Version(version) => self.orders.push(Ordered {
                    namespace: self.namespaces.len(),
                    version: AtomicU64::new(version),
                }),
                native::Order::Unknown => return Ok(None),
            }
            for key in dict.try_iter()? {
                keys.push(key?.unbind());
            }
        }
        let class = match owner {
            0 => 0,
            layer => native::type_of(at(layer)).address(),
        };
        self.namespaces.push(Namespace {
            owner,
            class,
            dict: address,
            version: AtomicU64::new(version),
        });
        self.items.push(Items { items, keys });
        Ok(Some(content))
    }

    fn keeps(&self, order: &Ordered) -> bool {
        let dict = self.namespaces[order.namespace].dict;
        let version = native::order_version(dict);
        if version != order.version.load(Ordering::Relaxed) {
            if !native::dict_keys_are(at(dict), &self.items[order.namespace].keys) {
                return false;
            }
            order.version.store(version, Ordering::Relaxed);
        }
        true
    }

    /// Whether everything is as recorded.
    pub fn holds(&self, py: Python<'_>) -> bool {
        for (namespace, items) in self.namespaces.iter().zip(&self.items) {
            if !namespace.is_in_place(py) {
                return false;
            }
            let version = native::dict_version(namespace.dict);
            if self.versions_follow && version == namespace.version.load(Ordering::Relaxed) {
                continue;
            }
            if !unchanged(py, at(namespace.dict), items) {
                return false;
            }
            namespace.version.store(version, Ordering::Relaxed);
        }
        self.orders.iter().all(|order| self.keeps(order))
            && self.lists_hold()
            && self.tensors.hold(py)
    }

    /// Whether versions alone say that everything is as recorded: no Python runs where they are
    /// asked.
    pub fn is_of_known_versions(&self, py: Python<'_>) -> bool {
        let known = |address, version: &AtomicU64| address == version.load(Ordering::Relaxed);
        self.versions_follow
            && self.namespaces.iter().all(|namespace| {
                namespace.is_in_place(py)
                    && known(native::dict_version(namespace.dict), &namespace.version)
            })
            && self.orders.iter().all(|order| {
                let dict = self.namespaces[order.namespace].dict;
                known(native::order_version(dict), &order.version)
            })
            && self.lists_hold()
            && self.tensors.hold_natively(py)
    }

    fn lists_hold(&self) -> bool {
        let mut lists = self.lists.iter();
        lists.all(|(list, items)| native::list_is(at(*list), items))
    }
}

impl Namespace {
    /// Whether it is the dictionary of a layer of its class, where it is one of a layer.
    fn is_in_place(&self, py: Python<'_>) -> bool {
        self.owner == 0
            || (native::owned_dict(py, at(self.owner)) == self.dict
                && native::type_of(at(self.owner)).address() == self.class)
    }
}

fn unchanged(py: Python<'_>, dict: Ptr<'_>, known: &Items) -> bool {
    native::length(dict) == Some(known.items.len())
        && (known.keys.is_empty() || native::dict_keys_are(dict, &known.keys))
        && known.items.iter().all(|(key, expected)| {
            let value = native::dict_item(dict, key).filter(|value| !value.is_null());
            value.is_some_and(|value| match expected {
                Expected::Const(constant) => native::const_equal(py, value, constant.into()),
                Expected::Same(object) => object.is(value),
                Expected::List(address) => value.address() == *address,
            })
        })
}
