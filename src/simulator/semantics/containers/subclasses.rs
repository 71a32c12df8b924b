//! New instances of subclasses of `dict`, `OrderedDict` and `list`. What one holds is a dict or
//! list of its own, which no other variable names: it is filled where the instance is made for
//! others.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};

use crate::methods::names::{CLEAR, EXTEND, UPDATE};
use crate::native;
use crate::obj::{Obj, ordered_dict};
use crate::reason::BreakKind;
use crate::variables::{DictVar, Kind, ObjectVar, VarId};

use crate::attributes::lookup;
use crate::{Kwargs, Step, Tracer};
use crate::{classes, methods};

/// The built-in class that makes the instances of a class: `object`, or the one that says what they
/// hold.
pub fn base_of<'py>(t: &Tracer<'py>, class: &Bound<'py, PyType>) -> Step<Bound<'py, PyType>> {
    let ordered = ordered_dict(t.py)?.cast_into::<PyType>();
    let bases = [
        ordered.map_err(PyErr::from)?,
        t.py.get_type::<PyDict>(),
        t.py.get_type::<PyList>(),
    ];
    let mro = native::mro(class);
    // Other classes in C hold something else, or act in their own way (`defaultdict`).
    let is_known = |of: &Bound<'_, PyAny>| {
        let own = of.cast::<PyType>().is_ok_and(native::is_mutable);
        own || bases.iter().any(|base| of.is(base))
    };
    let object = t.py.get_type::<PyAny>();
    let known = mro.iter().all(|of| of.is(&object) || is_known(&of));
    let base = bases.iter().find(|base| mro.iter().any(|of| of.is(*base)));
    Ok(base.filter(|_| known).cloned().unwrap_or(object))
}

/// An instance that holds nothing yet.
pub fn new(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, base: &Bound<'_, PyType>) -> VarId {
    let held = if base.is(t.py.get_type::<PyAny>()) {
        None
    } else if base.is(t.py.get_type::<PyList>()) {
        Some(Kind::List(Vec::new()))
    } else {
        let plain = base.is(t.py.get_type::<PyDict>());
        Some(Kind::Dict(DictVar {
            class: (!plain).then(|| Obj::from(base)),
            ..DictVar::default()
        }))
    };
    let contents = held.map(|held| {
        classes::guard_order(t, class);
        t.add(held)
    });
    let instance = t.add(Kind::Object(ObjectVar {
        contents,
        ..ObjectVar::of(Obj::from(class))
    }));
    if let Some(contents) = contents {
        t.vars.update(contents, |var| var.owner = Some(instance));
    }
    instance
}

/// `base.__init__(instance, *args, **kwargs)` for one of those classes; `None` for other objects.
pub fn init(
    t: &mut Tracer<'_>,
    base: &Bound<'_, PyAny>,
    instance: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Kind::Object(object) = t.kind(instance).clone() else {
        return Ok(None);
    };
    let (Some(contents), true) = (object.contents, t.source(instance).is_none()) else {
        return Ok(None);
    };
    // The one that the instance is of: that of a plain dict does not keep the order of an
    // `OrderedDict`.
    if !t.type_of(contents).is_some_and(|own| own.is(base)) {
        return Ok(None);
    }
    if args.is_empty() && kwargs.is_empty() {
        return if let Kind::List(_) = t.kind(contents) {
            // A list begins anew.
            methods::call(t, contents, CLEAR, args, kwargs).map(Some)
        } else {
            Ok(Some(t.none()))
        };
    }
    let kind = t.kind(contents);
    let method = if let Kind::List(items) = kind {
        match items.is_empty() && kwargs.is_empty() {
            true => EXTEND,
            false => return Ok(None),
        }
    } else if let Kind::Dict(dict) = kind {
        if dict.class.is_none() {
            UPDATE
        } else if dict.items.is_empty() {
            // It sets one item after the other through `self[key] = value`.
            let class = object.class.bind(t.py).cast::<PyType>().cloned();
            let class = class.map_err(PyErr::from)?;
            let own = lookup(&class, "__setitem__");
            classes::guard_names(t, &class, &["__setitem__"]);
            let plain = base.getattr("__setitem__")?;
            match own.is_some_and(|own| own.is(&plain)) {
                true => UPDATE,
                false => return Ok(None),
            }
        } else {
            return Ok(None);
        }
    } else {
        return Ok(None);
    };
    if args.len() > 1 {
        let why = "a container that is made of more than one argument";
        return t.stop(BreakKind::RaisesException, why);
    }
    methods::call(t, contents, method, args, kwargs).map(Some)
}
