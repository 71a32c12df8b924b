//! Sets from outside stay objects of the interpreter: what is asked of one is answered under a
//! guard. What changes it breaks the graph, and so does what makes another set of it, whose order
//! depends on how it came about.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyFrozenSet, PyInt, PySet, PyString, PyTuple, PyType};

use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::variables::{Kind, VarId};
use crate::{Step, Tracer, fold, keys};

/// More elements are not looked at one by one in each call.
const MANY: usize = 256;

/// The set of the interpreter behind a variable.
fn real<'py>(t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    let outside = matches!(t.kind(id), Kind::Opaque);
    let object = t.value(id).filter(|_| outside)?;
    let is_set =
        object.is_exact_instance_of::<PySet>() || object.is_exact_instance_of::<PyFrozenSet>();
    (is_set && !t.is_closed(id)).then_some(object)
}

/// Whether a set from outside can be asked.
pub fn is_known(t: &mut Tracer<'_>, id: VarId) -> bool {
    real(t, id).is_some()
}

/// Whether a set made of this one takes its table over.
pub fn merges(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Set(_) | Kind::Dict(_)) || real(t, id).is_some()
}

/// Whether it is compared without code of the user's, and equal to nothing but what has its value.
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyBytes>()
        || object
            .cast_exact::<PyTuple>()
            .is_ok_and(|tuple| tuple.iter().all(|item| is_plain(&item)))
}

/// The same, or a class, which is itself only.
fn is_key(object: &Bound<'_, PyAny>) -> bool {
    is_plain(object) || object.is_exact_instance_of::<PyType>()
}

/// Whether comparing it with a key runs no code of the user's.
fn is_comparable(object: &Bound<'_, PyAny>) -> bool {
    is_key(object) || object.is_exact_instance_of::<PyFloat>()
}

/// `item in set`; `None`: it is no such set, or its elements say themselves what they are equal to.
pub fn contains(t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<Option<bool>> {
    let Some(set) = real(t, id) else {
        return Ok(None);
    };
    let Some(key) = fold::to_object(t, item).filter(is_key) else {
        return Ok(None);
    };
    for element in set.try_iter()? {
        if !is_comparable(&element?) {
            return Ok(None);
        }
    }
    keys::key_of(t, item)?;
    let answer = set.contains(&key)?;
    t.guard_class(id);
    t.guard(id, GuardKind::Holds(Obj::from(&key), answer));
    Ok(Some(answer))
}

/// Its elements, in its order; `None`: it is no such set, or they are more than constants.
pub fn elements(t: &mut Tracer<'_>, id: VarId) -> Step<Option<Vec<VarId>>> {
    let Some(set) = real(t, id) else {
        return Ok(None);
    };
    let found: Vec<_> = set.try_iter()?.collect::<PyResult<_>>()?;
    if found.len() > MANY || !found.iter().all(is_plain) {
        return Ok(None);
    }
    t.guard_class(id);
    let known = found.iter().map(Obj::from).collect();
    t.guard(id, GuardKind::Elements(known));
    Ok(Some(found.iter().map(|item| t.constant(item)).collect()))
}

/// `len(set)`; `None`: it is no such set.
pub fn len(t: &mut Tracer<'_>, id: VarId) -> Step<Option<usize>> {
    let Some(set) = real(t, id) else {
        return Ok(None);
    };
    let len = set.len()?;
    t.guard_class(id);
    t.guard(id, GuardKind::Len(len));
    Ok(Some(len))
}

/// Whether it has elements; `None`: it is no such set.
pub fn truth(t: &mut Tracer<'_>, id: VarId) -> Step<Option<bool>> {
    let Some(set) = real(t, id) else {
        return Ok(None);
    };
    let filled = !set.is_empty()?;
    t.guard_class(id);
    t.guard(id, GuardKind::Filled(filled));
    Ok(Some(filled))
}
