//! Instances of classes with a `__new__` or a metaclass of their own.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple, PyType};

use crate::attributes::lookup;
use crate::call::call;
use crate::containers::subclasses;
use crate::native;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::VarId;
use crate::{Kwargs, Step, Tracer, attributes, classes, objects};

/// Calls `__init__` of a new instance of a class. That of `object` takes no arguments, unless they
/// are those of a `__new__` in Python.
pub(crate) fn initialise(
    t: &mut Tracer<'_>,
    instance: VarId,
    (class, own_new): (&Bound<'_, PyType>, bool),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<()> {
    let init = lookup(class, "__init__");
    let default_init = t.py.get_type::<PyAny>().getattr("__init__")?;
    match init {
        Some(init) if init.is(&default_init) => {
            classes::guard_names(t, class, &["__init__"]);
            if !own_new && (!args.is_empty() || !kwargs.is_empty()) {
                let name = class.name()?;
                return t.stop(
                    BreakKind::RaisesException,
                    format!("{name}() takes no arguments"),
                );
            }
        }
        _ => {
            let init = attributes::get_special(t, instance, "__init__")?;
            let result = call(t, init, args, kwargs)?;
            if !t.is_none(result) {
                return t.stop(BreakKind::RaisesException, "__init__() should return None");
            }
        }
    }
    Ok(())
}

/// Whether a call of a class is one of `type`: its metaclass has no `__call__` of its own.
pub(crate) fn is_called_plainly(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> bool {
    let meta = class.get_type();
    let is_known = native::is_mutable(&meta) || meta.is(t.py.get_type::<PyType>());
    objects::is_abc(class) || is_known && inherits_from_type(t, &meta, "__call__")
}

/// Whether a metaclass has a method as `type` has it.
pub(crate) fn inherits_from_type(t: &mut Tracer<'_>, meta: &Bound<'_, PyType>, name: &str) -> bool {
    let plain = t.py.get_type::<PyType>();
    if meta.is(&plain) {
        return true;
    }
    let found = lookup(meta, name);
    attributes::guard_type_attr(t, &Obj::from(meta), name, found.as_ref());
    match (found, lookup(&plain, name)) {
        (Some(found), Some(own)) => found.is(&own),
        _ => false,
    }
}

/// The function of a `__new__` that is one of Python code.
pub(crate) fn in_python<'py>(new: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let function = match attributes::is_static(new) {
        true => new.getattr("__func__").ok()?,
        false => new.clone(),
    };
    function
        .is_exact_instance_of::<PyFunction>()
        .then_some(function)
}

/// `BaseException.__new__(class, *args)`
pub(crate) fn exception<'py>(
    py: Python<'py>,
    args: Vec<Bound<'py, PyAny>>,
) -> Option<Bound<'py, PyAny>> {
    let new = lookup(&py.get_type::<PyBaseException>(), "__new__")?;
    new.call1(PyTuple::new(py, args).ok()?).ok()
}

/// `object.__new__(class)`, as a `__new__` in Python calls it.
pub(crate) fn new_object(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([class], []) = (args, kwargs) else {
        return t.unsupported("object.__new__() with these arguments");
    };
    let class_of = t.value(*class).map(|class| class.cast_into::<PyType>());
    let Some(Ok(object)) = class_of else {
        return t.unsupported("object.__new__() of a class without an object");
    };
    t.guard_identity(*class);
    let base = t.py.get_type::<PyAny>();
    let mro = native::mro(&object);
    // What C code knows of its instances is not made here.
    let is_of_python = |of: &Bound<'_, PyAny>| of.cast::<PyType>().is_ok_and(native::is_mutable);
    let is_plain = mro.iter().all(|of| of.is(&base) || is_of_python(&of));
    let is_of_paddle = mro
        .iter()
        .any(|of| of.is(t.paddle.layer.bind(t.py)) || of.is(t.paddle.tensor.bind(t.py)));
    let names = ["__del__", "__abstractmethods__"];
    classes::guard_names(t, &object, &names);
    let has_own = lookup(&object, "__del__").is_some() || native::is_abstract(&object);
    if !is_plain || is_of_paddle || has_own {
        return t.unsupported("object.__new__() of a class that is not plain");
    }
    Ok(subclasses::new(t, &object, &base))
}
