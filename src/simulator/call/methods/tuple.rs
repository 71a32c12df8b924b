//! Methods of tuples.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{DictVar, Kind, VarId};
use crate::{Step, Tracer, objects, subscript};

use super::row::{MANY, MethodCall, MethodRow};
use super::sequence::{COUNT, INDEX};
use super::special::{CONTAINS, GET_ITEM, ITER, LEN};

/// Methods of tuples.
pub(crate) const TUPLE: &[MethodRow] = &[INDEX, COUNT, LEN, GET_ITEM, CONTAINS, ITER];

/// Methods that only a named tuple has, as `collections.namedtuple` writes them.
pub(crate) const NAMED_TUPLE: &[MethodRow] = &[
    MethodRow::new("_replace", (0, MANY), replace).named(),
    MethodRow::new("_asdict", (0, MANY), as_dict),
];

/// The items of a named tuple, its class and the names of its fields.
fn fields(
    t: &mut Tracer<'_>,
    call: MethodCall<'_>,
    name: &str,
) -> Step<(Vec<VarId>, Obj, Vec<String>)> {
    let Kind::Tuple(items, Some(class)) = t.kind(call.receiver).clone() else {
        return t.stop(BreakId::ContainerMethod, "a method of named tuples");
    };
    let fields: Vec<String> = class.bind(t.py).getattr("_fields")?.extract()?;
    if !call.args.is_empty() || fields.len() != items.len() {
        return t.stop(
            BreakId::ContainerMethod,
            format!("{name}() of a named tuple with these arguments"),
        );
    }
    Ok((items, class, fields))
}

fn as_dict(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (items, _, fields) = fields(t, call, "_asdict")?;
    let made = t.add(Kind::Dict(DictVar::default()));
    for (field, item) in fields.iter().zip(items) {
        let key = t.str(field);
        subscript::set(t, made, key, item)?;
    }
    Ok(made)
}

fn replace(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (mut items, class, fields) = fields(t, call, "_replace")?;
    objects::check_make(t, class.bind(t.py).cast::<PyType>().map_err(PyErr::from)?)?;
    for (given, value) in call.kwargs {
        match fields.iter().position(|field| **field == **given) {
            Some(at) => items[at] = *value,
            None => return t.stop(BreakKind::RaisesException, "_replace() of an unknown field"),
        }
    }
    Ok(t.add(Kind::Tuple(items, Some(class))))
}
