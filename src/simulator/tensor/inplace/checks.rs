//! What the form in place of an operation takes, in eager mode: less than the operation itself.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::frame::Modules;
use crate::ops::{Fact, facts, knows, said};
use crate::variables::{Kind, VarId};

use crate::{Kwargs, Tracer, arguments, differences, tensors};

/// Whether the form in place may fail, or give something else, where the operation does not.
pub(super) fn takes_less(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let Some(dtype) = tensors::meta_of(t, tensor).map(|meta| meta.dtype) else {
        return true;
    };
    if takes_other_arguments(t, form, args, kwargs) {
        return true;
    }
    if knows(form, Fact::InPlaceBoundedByFloat) && !dtype.is_floating() {
        let named = kwargs.iter().find(|(name, _)| &**name == "max");
        let most = args.get(1).or(named.map(|(_, most)| most)).copied();
        if most.is_none_or(|most| t.is_none(most)) {
            return true;
        }
    }
    let (one_dtype, of_tensors) = (
        knows(form, Fact::InPlaceOneDType),
        knows(form, Fact::InPlaceOfTensors),
    );
    if !one_dtype && !of_tensors {
        return false;
    }
    let given = arguments::parts_of_call(t, args, kwargs);
    given.into_iter().any(|arg| match tensors::meta_of(t, arg) {
        Some(meta) => one_dtype && meta.dtype != dtype,
        None => of_tensors && !t.is_none(arg),
    })
}

/// Whether the form in place may not take these arguments: it has a signature of its own.
fn takes_other_arguments(t: &mut Tracer<'_>, form: &str, args: &[VarId], kwargs: &Kwargs) -> bool {
    if let Some(place) = said!(facts(form), Fact::InPlaceListAt(place) => *place) {
        if let Some(list) = args.get(place).copied() {
            t.realize(list);
            if !matches!(t.kind(list), Kind::List(_) | Kind::Tuple(..)) || args.len() > place + 1 {
                return true;
            }
        }
    }
    kwargs
        .iter()
        .any(|(name, _)| !is_named(t.py, form, name).unwrap_or(false))
}

/// Whether the form in place has an argument of this name, or another name for one.
fn is_named(py: Python<'_>, form: &str, name: &str) -> PyResult<bool> {
    let owner = py.paddle()?.getattr("Tensor")?;
    let method = owner.getattr(format!("{form}_"))?;
    let signature = py
        .module("inspect")?
        .call_method1("signature", (&method,))?;
    let given = PyDict::new(py);
    given.set_item(name, py.None())?;
    if signature
        .call_method("bind_partial", (), Some(&given))
        .is_ok()
    {
        return Ok(true);
    }
    // What makes it work in place is one decorator, what knows other names another.
    let wrapped = pyo3::intern!(py, "__wrapped__");
    let inner = method.getattr_opt(wrapped)?;
    let knows_others = match inner {
        Some(inner) => inner.getattr_opt(wrapped)?.is_some(),
        None => false,
    };
    Ok(knows_others && name != "out")
}

/// Whether the form in place takes numbers where the other takes tensors too, or this is a number
/// of the graph where it takes tensors alone.
pub(super) fn takes_numbers(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    if differences::is_number_for_tensor(t, form, &[&[tensor], args].concat(), kwargs) {
        return true;
    }
    let place = said!(facts(form), Fact::InPlaceNumberAt(place) => *place);
    let number = place.and_then(|place| {
        let named = kwargs.last().map(|(_, number)| number);
        args.get(place).or(named).copied()
    });
    number.is_some_and(|number| tensors::meta_of(t, number).is_some())
}
