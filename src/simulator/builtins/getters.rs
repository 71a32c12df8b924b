//! `operator.itemgetter` and `operator.attrgetter`: what they take from an object is read as the
//! program reads it.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::obj::is_named;
use crate::tracer::is_plain_constant;
use crate::variables::{Kind, VarId};
use crate::{Kwargs, Step, Tracer, attributes, subscript};

use super::wrong;

/// A new one of constants: where it leaves the graph, the interpreter makes it.
pub(crate) fn new(
    t: &mut Tracer<'_>,
    name: &'static str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let mut parts = Vec::with_capacity(args.len());
    for arg in args {
        match t.const_value(*arg).filter(is_plain_constant) {
            Some(part) => parts.push(part),
            None => return wrong(t, name),
        }
    }
    let class = t.operator(name)?;
    let made = class.call1(PyTuple::new(t.py, parts)?);
    let (Ok(made), []) = (made, kwargs) else {
        return wrong(t, name);
    };
    let made = t.constant(&made);
    t.only_the_interpreter_makes(made);
    Ok(made)
}

/// `getter(object)`; `None` where it is no such getter.
pub(crate) fn call<'py>(
    t: &mut Tracer<'py>,
    (callable, getter): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let of_items = is_named(getter, "itemgetter");
    let ([from], [], true) = (args, kwargs, of_items || is_named(getter, "attrgetter")) else {
        return Ok(None);
    };
    t.guard_identity(callable);
    let parts = getter.call_method0("__reduce__")?.get_item(1)?;
    let mut found = Vec::new();
    for part in parts.cast::<PyTuple>().map_err(PyErr::from)? {
        found.push(match of_items {
            true => {
                let key = t.constant(&part);
                subscript::get(t, *from, key)?
            }
            false => {
                let path: String = part.extract()?;
                let mut names = path.split('.');
                names.try_fold(*from, |from, name| attributes::get(t, from, name))?
            }
        });
    }
    match found[..] {
        [one] => Ok(Some(one)),
        _ => Ok(Some(t.add(Kind::Tuple(found, None)))),
    }
}
