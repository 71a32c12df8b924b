//! NumPy arrays that the function makes of what is known when it is translated
//! (`np.tril(np.ones((n, n)))`): they are computed then, as numbers are, and never by a program.
//!
//! Held arrays are read-only. A write replaces the one that is held: what was made of it keeps its
//! numbers, and a roll-back finds it. Where an array is needed as an object, that is a copy. Only
//! the interpreter makes one that may share memory with another (a view, and what it is of).
//!
//! In an export, an array that exists is one of them: the program has its numbers of now. Nothing
//! writes to it, as no program could do that.

mod table;
mod writes;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice, PyString, PyTuple};

use crate::abi;
use crate::bytecode::BinOp;
use crate::frame::{Modules, NUMPY};
use crate::native;
use crate::obj::{Obj, is_attr};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::TrackerRef;
use crate::variables::{ArrayVar, IterVar, Kind, VarId};

use crate::{Kwargs, Step, Tracer};
use crate::{arrays, fold, numpy_scalars, tracer};
pub(crate) use table::LIMITS;
use table::{ATTRIBUTES, METHODS, OF_SCALARS, REFUSED, WRITES, has};
use writes::write;

/// Most bytes of an array that a translation keeps.
const MOST_BYTES: usize = 1 << 24;

/// Most items of one that is gone over.
const MOST_ITEMS: i64 = 4096;

/// Arguments as real objects, and the arrays among them.
#[derive(Default)]
struct Given<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    named: Vec<(Arc<str>, Bound<'py, PyAny>)>,
    arrays: Vec<VarId>,
}

impl<'py> Given<'py> {
    /// `None` where one is not known.
    fn new(t: &mut Tracer<'py>, args: &[VarId], kwargs: &Kwargs) -> Option<Self> {
        let mut given = Self::default();
        for arg in args {
            let object = object(t, *arg, &mut given.arrays)?;
            given.objects.push(object);
        }
        for (name, value) in kwargs {
            let object = object(t, *value, &mut given.arrays)?;
            given.named.push((name.clone(), object));
        }
        Some(given)
    }
}

fn object<'py>(
    t: &mut Tracer<'py>,
    id: VarId,
    arrays: &mut Vec<VarId>,
) -> Option<Bound<'py, PyAny>> {
    fold::deeper(t, |t| convert(t, id, arrays))?
}

fn convert<'py>(
    t: &mut Tracer<'py>,
    id: VarId,
    arrays: &mut Vec<VarId>,
) -> Option<Bound<'py, PyAny>> {
    let py = t.py;
    let mut each = |t: &mut Tracer<'py>, items: &[VarId]| {
        let items = items.iter().map(|item| object(t, *item, arrays));
        items.collect::<Option<Vec<_>>>()
    };
    if let Kind::Tuple(items, None) = t.kind(id).clone() {
        return Some(PyTuple::new(py, each(t, &items)?).ok()?.into_any());
    }
    if let Kind::List(items) = t.kind(id).clone() {
        return Some(PyList::new(py, each(t, &items)?).ok()?.into_any());
    }
    if let Kind::Slice(parts) = *t.kind(id) {
        let parts = each(t, &parts)?;
        let slice = py.get_type::<PySlice>();
        return slice.call1((&parts[0], &parts[1], &parts[2])).ok();
    }
    if let Kind::Array(array) = t.kind(id).clone() {
        arrays.push(id);
        return Some(array.value.bind(py).clone());
    }
    if let Kind::Const | Kind::Scalar | Kind::Range(..) = t.kind(id) {
        return fold::to_object(t, id);
    }
    // Others may run the user's code where NumPy asks what they are.
    if let Kind::Class = t.kind(id) {
        return fold::to_object(t, id)
            .filter(|class| class.cast().is_ok_and(|class| !native::is_mutable(class)));
    }
    let value = t.value(id).filter(|value| is_dtype(py, value))?;
    t.guard_identity(id);
    Some(value)
}

fn is_dtype(py: Python<'_>, value: &Bound<'_, PyAny>) -> bool {
    let dtype = py.numpy().and_then(|numpy| numpy.getattr("dtype"));
    dtype.is_ok_and(|dtype| value.is_instance(&dtype).unwrap_or(false))
}

/// Whether it is such an array.
pub fn is_made(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Array(_))
}

/// What an array that exists is in an export; `None` elsewhere.
pub fn of_existing(
    t: &Tracer<'_>,
    value: &Bound<'_, PyAny>,
    source: Option<&TrackerRef>,
) -> Option<ArrayVar> {
    if !t.options.forward_only || source.is_none() || !abi::is_array(t.py, value.into()) {
        return None;
    }
    let copy = || -> PyResult<Option<Obj>> {
        let dtype: String = value.getattr("dtype")?.getattr("name")?.extract()?;
        let bytes: usize = value.getattr("nbytes")?.extract()?;
        if !arrays::is_taken(&dtype) || bytes > MOST_BYTES {
            return Ok(None);
        }
        let copy = value.call_method0("__copy__")?;
        copy.call_method1("setflags", (false,))?;
        Ok(Some(Obj::from(copy)))
    };
    Some(ArrayVar {
        value: copy().ok().flatten()?,
        at: t.frames.outermost,
        shares: false,
        iterated: false,
    })
}

fn held<'py>(t: &mut Tracer<'py>, id: VarId) -> Step<(Bound<'py, PyAny>, bool)> {
    if let Kind::Array(array) = t.kind(id).clone() {
        Ok((array.value.bind(t.py).clone(), array.shares))
    } else {
        t.stop(BreakId::NumPyArray, "an array that became something else")
    }
}

/// A call of a function of NumPy; `None` where an argument is not known.
pub fn call<'py>(
    t: &mut Tracer<'py>,
    (callable, function): (VarId, &Bound<'py, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(given) = Given::new(t, args, kwargs) else {
        return Ok(None);
    };
    t.guard_identity(callable);
    answer(t, function, given).map(Some)
}

/// Calls it, and makes a variable of the answer.
fn answer<'py>(
    t: &mut Tracer<'py>,
    function: &Bound<'py, PyAny>,
    given: Given<'py>,
) -> Step<VarId> {
    if given.named.iter().any(|(name, _)| has(REFUSED, name)) {
        return t.stop(
            BreakId::NumPyArray,
            "such an argument of a function of NumPy",
        );
    }
    let objects = PyTuple::new(t.py, &given.objects)?;
    let named = PyDict::new(t.py);
    for (name, value) in &given.named {
        named.set_item(&**name, value)?;
    }
    let value = numpy_scalars::compute(t, function, &objects, &named)?;
    made(t, &value, &given.arrays)
}

/// The variable for what was computed from these arrays.
fn made<'py>(t: &mut Tracer<'py>, value: &Bound<'py, PyAny>, from: &[VarId]) -> Step<VarId> {
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        let items = many(t, tuple.iter().collect(), from)?;
        return Ok(t.add(Kind::Tuple(items, None)));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        let items = many(t, list.iter().collect(), from)?;
        return Ok(t.add(Kind::List(items)));
    }
    if tracer::is_plain_constant(value) || native::is_scalar(value) {
        return Ok(t.constant(value));
    }
    if !abi::is_array(t.py, value.into()) {
        let class = value.get_type();
        if LIMITS
            .split_whitespace()
            .any(|name| is_attr(&class, NUMPY, name))
        {
            return Ok(t.constant(value));
        }
        return t.stop(
            BreakId::NumPyArray,
            "a computation of NumPy that gives no array",
        );
    }
    let dtype: String = value.getattr("dtype")?.getattr("name")?.extract()?;
    let bytes: usize = value.getattr("nbytes")?.extract()?;
    if !arrays::is_taken(&dtype) || bytes > MOST_BYTES {
        return t.stop(BreakId::NumPyArray, "an array of such a dtype or size");
    }
    let mut shares = !value.getattr("base")?.is_none();
    for id in from {
        let (other, _) = held(t, *id)?;
        if other.is(value) {
            return Ok(*id);
        }
        let numpy = t.py.numpy()?;
        if numpy
            .call_method1("may_share_memory", (value, &other))?
            .is_truthy()?
        {
            shares = true;
            share(t, *id);
        }
    }
    value.call_method1("setflags", (false,))?;
    let array = ArrayVar {
        value: Obj::from(value),
        at: t.frames.outermost,
        shares: false,
        iterated: false,
    };
    let id = t.add(Kind::Array(array));
    if shares {
        share(t, id);
    }
    Ok(id)
}

fn many<'py>(
    t: &mut Tracer<'py>,
    values: Vec<Bound<'py, PyAny>>,
    from: &[VarId],
) -> Step<Vec<VarId>> {
    // Parts of one answer may share memory with each other.
    let mut from = from.to_vec();
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        let item = made(t, &value, &from)?;
        if is_made(t, item) {
            from.push(item);
        }
        items.push(item);
    }
    Ok(items)
}

/// From now on only the interpreter makes it.
fn share(t: &mut Tracer<'_>, id: VarId) {
    let Kind::Array(array) = t.kind(id).clone() else {
        return;
    };
    if !array.shares {
        t.exceptions.raised.push((id, array.at));
        let kind = Kind::Array(ArrayVar {
            shares: true,
            ..array
        });
        t.vars.update(id, |var| var.kind = kind);
    }
}

/// `array.name(...)`, also of a scalar.
pub fn method(
    t: &mut Tracer<'_>,
    id: VarId,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let mut all = vec![id];
    all.extend_from_slice(args);
    let writes = has(WRITES, name) && kwargs.is_empty();
    let given = Given::new(t, if writes { args } else { &all }, kwargs);
    let (Some(given), true) = (given, writes || has(METHODS, name)) else {
        return t.stop(BreakId::NumPyArray, format!("call of ndarray.{name}"));
    };
    let Some(class) = t.type_of(id) else {
        return t.stop(BreakId::NumPyArray, "an array of an unknown class");
    };
    let function = class.getattr(name)?;
    if writes {
        write(t, id, &function, given)?;
        return Ok(t.none());
    }
    answer(t, &function, given)
}

/// Whether an array, or a scalar, has a method that is simulated.
pub fn has_method(kind: &Kind, name: &str) -> bool {
    if let Kind::Array(_) = kind {
        return has(METHODS, name) || has(WRITES, name);
    }
    matches!(kind, Kind::Scalar) && has(OF_SCALARS, name)
}

/// Whether they have an attribute that is.
pub fn has_attribute(name: &str) -> bool {
    has(ATTRIBUTES, name)
}

/// `array.name` of one of those.
pub fn attribute(t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<VarId> {
    let (value, _) = held(t, id)?;
    let found = value.getattr(name)?;
    match is_dtype(t.py, &found) {
        true => Ok(t.constant(&found)),
        false => made(t, &found, &[id]),
    }
}

/// An operator of which one side is such an array, or the dtype of one; `None` where none is, or
/// the other side is not known.
pub fn binary(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    let name = op.function(inplace);
    if !inplace {
        return operator(t, &name, &[a, b]);
    }
    if !is_made(t, a) {
        // A list would be extended.
        return match is_made(t, b) && matches!(t.kind(a), Kind::Const | Kind::Scalar) {
            true => operator(t, op.stem(), &[a, b]),
            false => Ok(None),
        };
    }
    let Some(given) = Given::new(t, &[b], &[]) else {
        return Ok(None);
    };
    if !are_numbers(&given) {
        return Ok(None);
    }
    let function = t.operator(&name)?;
    write(t, a, &function, given).map(Some)
}

/// The same for any function of `operator`.
pub fn operator(t: &mut Tracer<'_>, name: &str, args: &[VarId]) -> Step<Option<VarId>> {
    let mut is_one = |id: &VarId| {
        let is_opaque = matches!(t.kind(*id), Kind::Opaque);
        is_opaque && t.value(*id).is_some_and(|value| is_dtype(t.py, &value))
            || matches!(t.kind(*id), Kind::Array(_))
    };
    if !args.iter().any(&mut is_one) {
        return Ok(None);
    }
    let Some(given) = Given::new(t, args, &[]) else {
        return Ok(None);
    };
    // `"%s" % array` shows it as the process says.
    if !given.arrays.is_empty() && !are_numbers(&given) {
        return Ok(None);
    }
    let function = t.operator(name)?;
    answer(t, &function, given).map(Some)
}

fn are_numbers(given: &Given<'_>) -> bool {
    let is_text = |value: &Bound<'_, PyAny>| {
        value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
    };
    !given.objects.iter().any(is_text)
}

/// `array[key]`
pub fn get_item(t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
    let Some(given) = Given::new(t, &[id, key], &[]) else {
        return t.stop(
            BreakId::NumPyArray,
            "an index of an array that is not known",
        );
    };
    let function = t.operator("getitem")?;
    answer(t, &function, given)
}

/// `array[key] = value`
pub fn set_item(t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
    let Some(given) = Given::new(t, &[key, value], &[]) else {
        return t.stop(BreakId::NumPyArray, "an item of an array that is not known");
    };
    let function = t.operator("setitem")?;
    write(t, id, &function, given).map(drop)
}

/// `iter(array)`: over its items of now, so that nothing writes to it any more.
pub fn iterate(t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
    if len(t, id)? > MOST_ITEMS {
        return t.stop(BreakId::NumPyArray, "iteration over an array of many items");
    }
    let (value, _) = held(t, id)?;
    let items = PyList::new(t.py, value.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let over = made(t, items.as_any(), &[id])?;
    t.vars.update(id, |var| {
        if let Kind::Array(array) = &mut var.kind {
            array.iterated = true;
        }
    });
    let iterator = t.add(Kind::Iter(IterVar::Sequence { over, index: 0 }));
    // It is of another class than that of a list.
    t.only_the_interpreter_makes(iterator);
    Ok(iterator)
}

/// `len(array)`
pub fn len(t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
    let (value, _) = held(t, id)?;
    match value.len() {
        Ok(len) => Ok(len as i64),
        Err(_) => t.stop(BreakKind::RaisesException, "len() of an array without dims"),
    }
}
