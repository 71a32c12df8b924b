//! Builtins that ask what an object is, or for its attributes: `isinstance`, `getattr`, `super`.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frame::{COLLECTIONS, Modules, TYPES};
use crate::native;
use crate::obj::{Obj, is_attr, text_of};
use crate::variables::kinds::SUPER;
use crate::variables::protocol;
use crate::variables::{Kind, VarId};
use crate::{
    Kwargs, Step, Stop, Tracer, attributes, carried_aliases, classes, exceptions, provenance,
    tensors,
};

use super::wrong;

pub(crate) fn type_of(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    classes::guard_meta_of(t, value);
    if carried_aliases::other_class(t, value).is_some() {
        return t.unsupported(carried_aliases::CLASS);
    }
    match t.type_of(value) {
        Some(class) => Ok(t.constant(class.as_any())),
        None => t.unsupported("type() of this value"),
    }
}

pub(crate) fn isinstance(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([value, class], []) = (args, kwargs) else {
        return wrong(t, "isinstance");
    };
    let answer = is_instance(t, *value, *class)?;
    Ok(t.bool(answer))
}

/// `isinstance(value, class)`
pub fn is_instance(t: &mut Tracer<'_>, value: VarId, class: VarId) -> Step<bool> {
    let Some(of) = t.type_of(value) else {
        return t.unsupported("isinstance() of this value");
    };
    classes::guard_meta_of(t, value);
    let answer = subclass(t, &of, class, true)?;
    if let Some(other) = carried_aliases::other_class(t, value) {
        if subclass(t, &other, class, true)? != answer {
            return t.unsupported(carried_aliases::CLASS);
        }
    }
    // What a class is not, its instances may say they are: those of Python classes, and what stands
    // for others.
    let may_say = matches!(t.kind(value), Kind::Object(_) | Kind::Opaque);
    if !answer && (may_say || native::is_mutable(&of)) {
        attributes::own_class(t, &of)?;
    }
    Ok(answer)
}

pub(crate) fn is_subclass(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([value, class], []) = (args, kwargs) else {
        return wrong(t, "issubclass");
    };
    // Its identity is what the answer depends on.
    t.realize(*value);
    let Some(of) = t
        .value(*value)
        .and_then(|value| value.cast_into::<PyType>().ok())
    else {
        return wrong(t, "issubclass");
    };
    let answer = subclass(t, &of, *class, false)?;
    Ok(t.bool(answer))
}

/// `issubclass`, or `isinstance` of a value of class `of`, for classes whose metaclass does not
/// decide itself.
fn subclass(
    t: &mut Tracer<'_>,
    of: &Bound<'_, PyType>,
    class: VarId,
    instance: bool,
) -> Step<bool> {
    if let Kind::Tuple(classes, None) = t.kind(class).clone() {
        for class in classes {
            if subclass(t, of, class, instance)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let id = class;
    let Some(class) = t.value(class) else {
        return t.unsupported("isinstance() with this class");
    };
    if let Ok(class) = class.cast::<PyType>() {
        let inherits = classes::inherits(t, of, class.as_any());
        let meta = class.get_type();
        let plain = meta.is(t.py.get_type::<PyType>());
        // Only of its very class an object is an instance without asking the metaclass.
        if plain || inherits && instance && of.is(class) {
            return Ok(inherits);
        }
        classes::guard_meta(t, class.as_any());
        if inherits && is_always_true(class, &meta)? {
            return Ok(true);
        }
        let std = text_of(class, "__module__");
        if is_attr(&meta, "abc", "ABCMeta") && (std.starts_with(COLLECTIONS) || std == "numbers") {
            return classes::is_registered(t, of, class);
        }
        classes::guard_names(t, &meta, &["__instancecheck__", "__subclasscheck__"]);
        let own = |name: &str| -> PyResult<bool> {
            let default = t.py.get_type::<PyType>().getattr(name)?;
            Ok(!attributes::lookup(&meta, name).is_some_and(|found| found.is(&default)))
        };
        if !own("__instancecheck__")? && !own("__subclasscheck__")? {
            return Ok(of.is_subclass(class)?);
        }
        // In dynamic mode tensors are instances of static mode's classes, but no subclasses.
        const FRAMEWORK: &str = "paddle.base.framework";
        let stands_for = match meta {
            ref meta if is_attr(meta, FRAMEWORK, "VariableMetaClass") => {
                Some(t.paddle.tensor.bind(t.py).clone())
            }
            ref meta if is_attr(meta, FRAMEWORK, "ParameterMetaClass") => {
                Some(t.py.module(FRAMEWORK)?.getattr("EagerParamBase")?)
            }
            _ => None,
        };
        if let Some(stands_for) = stands_for.filter(|_| !own("__subclasscheck__").unwrap_or(true)) {
            let base = if instance {
                &stands_for
            } else {
                class.as_any()
            };
            return Ok(of.is_subclass(base)?);
        }
        return t.unsupported("isinstance() with a class that decides itself");
    }
    if is_attr(&class.get_type(), TYPES, "UnionType") {
        t.guard_identity(id);
        let args = class.getattr("__args__")?;
        for class in args.try_iter()? {
            let class = t.constant(&class?);
            if subclass(t, of, class, instance)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    // `typing.Sequence` without parameters stands for the class of `collections.abc`.
    if class
        .get_type()
        .is(&t.py.module("typing")?.getattr("_SpecialGenericAlias")?)
    {
        t.guard_identity(id);
        let origin = t.constant(&class.getattr("__origin__")?);
        return subclass(t, of, origin, instance);
    }
    t.unsupported("isinstance() with something that is not a class")
}

/// Whether a metaclass that decides itself says yes to all that inherits from the class: Python's
/// own and Paddle's do, where the class has no hook.
fn is_always_true(class: &Bound<'_, PyType>, meta: &Bound<'_, PyType>) -> PyResult<bool> {
    match text_of(meta, "__module__").as_str() {
        "abc" => {
            let Some(hook) = attributes::lookup(class, "__subclasshook__") else {
                return Ok(true);
            };
            let module: String = match hook.getattr("__func__") {
                Ok(function) => function.getattr("__module__")?.extract()?,
                Err(_) => return Ok(true),
            };
            Ok(module.starts_with(COLLECTIONS) || module == "_collections_abc")
        }
        "enum" => Ok(true),
        // Protocols look at what an object has, or may not be asked.
        "typing" => {
            let protocol = attributes::lookup(class, "_is_protocol");
            Ok(!protocol.is_some_and(|is| is.is_truthy().unwrap_or(true)))
        }
        _ => Ok(provenance::module_in_paddle(meta).is_some()),
    }
}

pub(crate) fn get_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name, rest @ ..], []) = (args, kwargs) else {
        return wrong(t, "getattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "getattr");
    };
    match rest {
        [] => attributes::get(t, *object, &name),
        [default] => match attribute_or_none(t, *object, &name)? {
            Some(value) => Ok(value),
            None => Ok(*default),
        },
        _ => wrong(t, "getattr"),
    }
}

/// An attribute, with `AttributeError` turned into `None`.
pub fn attribute_or_none(t: &mut Tracer<'_>, object: VarId, name: &str) -> Step<Option<VarId>> {
    if matches!(t.kind(object), Kind::Tensor(_)) && tensors::lacks(t, object, name)? {
        return Ok(None);
    }
    match attributes::try_get(t, object, name) {
        Err(Stop::Raise(exception)) => {
            let class = t.builtin("AttributeError")?;
            let class = t.constant(&class);
            if exceptions::matches(t, exception, class)? {
                Ok(None)
            } else {
                Err(Stop::Raise(exception))
            }
        }
        answer => answer,
    }
}

pub(crate) fn has_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name], []) = (args, kwargs) else {
        return wrong(t, "hasattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "hasattr");
    };
    let found = attribute_or_none(t, *object, &name)?;
    Ok(t.bool(found.is_some()))
}

pub(crate) fn set_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name, value], []) = (args, kwargs) else {
        return wrong(t, "setattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "setattr");
    };
    attributes::set(t, *object, &name, *value)?;
    Ok(t.none())
}

pub(crate) fn del_attr(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([object, name], []) = (args, kwargs) else {
        return wrong(t, "delattr");
    };
    let Some(name) = t.const_str(*name) else {
        return wrong(t, "delattr");
    };
    attributes::delete(t, *object, &name)?;
    Ok(t.none())
}

pub(crate) fn is_callable(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    let answer = protocol::is_callable(t, value)?;
    Ok(t.bool(answer))
}

pub(crate) fn super_(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([class, receiver], []) = (args, kwargs) else {
        return wrong(t, SUPER);
    };
    t.realize(*class);
    match (t.kind(*class).clone(), t.value(*class)) {
        (Kind::Class, Some(object)) => {
            let of = if let Kind::Class = t.kind(*receiver) {
                t.value(*receiver)
                    .and_then(|receiver| receiver.cast_into::<PyType>().ok())
            } else {
                t.type_of(*receiver)
            };
            let is_derived = of.is_some_and(|of| classes::inherits(t, &of, &object));
            // A method of a metaclass has a class for its receiver.
            let of = t.value(*receiver).map(|receiver| receiver.get_type());
            if !is_derived && !of.is_some_and(|of| classes::inherits(t, &of, &object)) {
                return wrong(t, SUPER);
            }
            Ok(t.add(Kind::Super {
                class: Obj::from(object),
                receiver: *receiver,
            }))
        }
        _ => wrong(t, SUPER),
    }
}
