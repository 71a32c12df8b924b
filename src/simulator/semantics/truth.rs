//! What Python asks a value for: its truth, its length, and whether something is in it.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::variables::{Kind, VarId};
use crate::{Step, Tracer};
use crate::{program_numbers, tensor_scalar};

pub use crate::variables::protocol::{contains, len, truth};

/// `item in container` where only the program knows it: one of them is a number that it computes.
pub fn computed_contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<Option<VarId>> {
    let kind = t.kind(container);
    let items = if let Some(items) = kind.items() {
        items.to_vec()
    } else if matches!(kind, Kind::Const) {
        match t.value(container) {
            Some(value) if value.is_exact_instance_of::<PyTuple>() => {
                let mut items = Vec::new();
                for item in value.try_iter()? {
                    items.push(t.constant(&item?));
                }
                items
            }
            _ => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    let pairs: Vec<_> = items.into_iter().map(|other| (other, item)).collect();
    let found = program_numbers::equal_items(t, &pairs, false)?;
    Ok(found.filter(|found| tensor_scalar::is_captured(t, *found)))
}

/// Whether a Python value is a list or tuple object (used by folding).
pub fn is_sequence_object(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}
