//! Where the tensors are that a layer and those below it hold.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rustc_hash::FxHashMap;

use crate::frame::Modules;
use crate::obj::Obj;
use crate::tracker::{Tracker, TrackerRef};

use super::{dict_item, layer_dict, registry};

/// How to load the parameters, buffers and other tensors below a real layer, by address: found in
/// one walk, as a block has many.
#[derive(Default)]
pub(super) struct TensorsBelow(FxHashMap<usize, TrackerRef>);

impl TensorsBelow {
    /// Those of `layer`, which `source` loads.
    pub(super) fn of(layer: &Bound<'_, PyAny>, source: &TrackerRef) -> Self {
        let mut this = Self::default();
        // What cannot be read has no place.
        let _ = this.add(layer, source);
        this
    }

    /// How to load one of them.
    pub(super) fn tracker(&self, tensor: &Obj) -> Option<TrackerRef> {
        self.0.get(&(tensor.as_ptr() as usize)).cloned()
    }

    /// The first place of each counts.
    fn add(&mut self, layer: &Bound<'_, PyAny>, source: &TrackerRef) -> PyResult<()> {
        let tensor = layer.py().paddle()?.getattr("Tensor")?;
        let mut note = |value: &Bound<'_, PyAny>, tracker: &dyn Fn() -> TrackerRef| {
            let address = value.as_ptr() as usize;
            self.0.entry(address).or_insert_with(tracker);
        };
        let dict = layer_dict(source);
        for which in ["_parameters", "_buffers"] {
            let Some(found) = registry(layer, which) else {
                continue;
            };
            for (key, value) in found.iter() {
                let key = key.extract::<&str>()?;
                note(&value, &|| dict_item(dict_item(dict.clone(), which), key));
            }
        }
        for (key, value) in layer.getattr("__dict__")?.cast::<PyDict>()?.iter() {
            let key = key.extract::<&str>()?;
            if value.is_instance(&tensor)? {
                note(&value, &|| dict_item(dict.clone(), key));
            }
            // Flattened weights of the recurrent layers.
            if let Ok(list) = value.cast::<PyList>() {
                for (at, item) in list.iter().enumerate() {
                    if item.is_instance(&tensor)? {
                        note(&item, &|| {
                            Tracker::ListItem(dict_item(dict.clone(), key), at).into()
                        });
                    }
                }
            }
        }
        let Some(children) = registry(layer, "_sub_layers") else {
            return Ok(());
        };
        for (key, child) in children.iter() {
            if !child.is_none() {
                let parts = dict_item(dict.clone(), "_sub_layers");
                self.add(&child, &dict_item(parts, key.extract::<&str>()?))?;
            }
        }
        Ok(())
    }
}
