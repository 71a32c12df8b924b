//! Writes to arrays that the function made.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::abi;
use crate::frame::Modules;
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::variables::{Kind, VarId};

use super::{Given, Step, Tracer, held, numpy_scalars};

/// What a function that writes to a copy of the array makes of it; the answer is the array. All
/// that share the memory are in a copy of it then.
pub(super) fn write<'py>(
    t: &mut Tracer<'py>,
    id: VarId,
    function: &Bound<'py, PyAny>,
    given: Given<'py>,
) -> Step<VarId> {
    let (value, shares) = held(t, id)?;
    let whole = owner(&value)?;
    let copy = whole.call_method0("__copy__")?;
    if shares && !is_contiguous(&copy)? || !copy.getattr("strides")?.eq(whole.getattr("strides")?)?
    {
        return t.stop(
            BreakId::NumPyArray,
            "a write to an array that shares its memory",
        );
    }
    let sharing = if shares {
        sharing(t, &whole)?
    } else {
        vec![id]
    };
    let mut moved = Vec::with_capacity(sharing.len());
    for other in sharing {
        if t.source(other).is_some() {
            return t.unsupported("a write to an array that exists");
        }
        if matches!(t.kind(other), Kind::Array(array) if array.iterated) {
            return t.stop(
                BreakId::NumPyArray,
                "a write to an array that was gone over",
            );
        }
        let (value, _) = held(t, other)?;
        let same = if value.is(&whole) {
            copy.clone()
        } else {
            within(t.py, &value, &whole, &copy)?
        };
        if other == id {
            let mut objects = vec![same.clone()];
            objects.extend(given.objects.iter().cloned());
            let objects = PyTuple::new(t.py, objects)?;
            numpy_scalars::compute(t, function, &objects, &PyDict::new(t.py))?;
        }
        moved.push((other, same));
    }
    for (other, value) in moved {
        value.call_method1("setflags", (false,))?;
        t.vars.mutate(other, |var| {
            if let Kind::Array(array) = &mut var.kind {
                array.value = Obj::from(value);
            }
        });
    }
    Ok(id)
}

fn is_contiguous(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    array.getattr("flags")?.getattr("c_contiguous")?.is_truthy()
}

/// The array whose memory this one is in.
fn owner<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut owner = array.clone();
    loop {
        let base = owner.getattr("base")?;
        if !abi::is_array(base.py(), (&base).into()) {
            return Ok(owner);
        }
        owner = base;
    }
}

/// All that are in the memory of this array.
fn sharing<'py>(t: &mut Tracer<'py>, whole: &Bound<'py, PyAny>) -> PyResult<Vec<VarId>> {
    let mut found = Vec::new();
    for id in (0..t.vars.len() as u32).map(VarId) {
        if let Kind::Array(array) = t.vars.kind(id) {
            if owner(array.value.bind(t.py))?.is(whole) {
                found.push(id);
            }
        }
    }
    Ok(found)
}

/// What is in a copy where `part` is in the whole.
fn within<'py>(
    py: Python<'py>,
    part: &Bound<'py, PyAny>,
    whole: &Bound<'py, PyAny>,
    copy: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let address = |array: &Bound<'py, PyAny>| -> PyResult<isize> {
        let pointer = array.getattr("ctypes")?.getattr("_as_parameter_")?;
        pointer.getattr("value")?.extract()
    };
    let named = PyDict::new(py);
    named.set_item("shape", part.getattr("shape")?)?;
    named.set_item("dtype", part.getattr("dtype")?)?;
    named.set_item("strides", part.getattr("strides")?)?;
    named.set_item("offset", address(part)? - address(whole)?)?;
    named.set_item("buffer", copy)?;
    py.numpy()?.getattr("ndarray")?.call((), Some(&named))
}
