//! Methods of tuples, and those that lists have too.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{DictVar, Kind, VarId};

use crate::simulator::{Kwargs, Step, Tracer};
use crate::simulator::{comparisons, objects, subscript};

pub(in crate::simulator) fn sequence(
    t: &mut Tracer<'_>,
    items: &[VarId],
    name: &str,
    args: &[VarId],
) -> Step<VarId> {
    match (name, args) {
        ("index", [wanted]) => {
            for (at, item) in items.iter().enumerate() {
                if comparisons::equal_values(t, *item, *wanted)? {
                    return Ok(t.int(at as i64));
                }
            }
            t.stop(
                BreakKind::RaisesException,
                "the value is not in the sequence",
            )
        }
        ("count", [wanted]) => {
            let mut count = 0;
            for item in items {
                count += i64::from(comparisons::equal_values(t, *item, *wanted)?);
            }
            Ok(t.int(count))
        }
        _ => t.stop(BreakId::ContainerMethod, format!("sequence method {name}")),
    }
}

/// `_replace()` and `_asdict()`, as `collections.namedtuple` writes them.
pub(in crate::simulator) fn named_tuple(
    t: &mut Tracer<'_>,
    mut items: Vec<VarId>,
    class: &Obj,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let fields: Vec<String> = class.bind(t.py).getattr("_fields")?.extract()?;
    if !args.is_empty() || fields.len() != items.len() {
        return t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of a named tuple with these arguments"),
        );
    }
    if name == "_asdict" {
        let made = t.add(Kind::Dict(DictVar::default()));
        for (field, item) in fields.iter().zip(items) {
            let key = t.str(field);
            subscript::set(t, made, key, item)?;
        }
        return Ok(made);
    }
    objects::check_make(t, class.bind(t.py).cast::<PyType>().map_err(PyErr::from)?)?;
    for (given, value) in kwargs {
        match fields.iter().position(|field| **field == **given) {
            Some(at) => items[at] = *value,
            None => return t.stop(BreakKind::RaisesException, "_replace() of an unknown field"),
        }
    }
    Ok(t.add(Kind::Tuple(items, Some(class.clone()))))
}
