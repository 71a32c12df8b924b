//! Classes and their instances.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyTuple, PyType};

use crate::frame::COLLECTIONS;
use crate::guard::GuardKind;
use crate::native;
use crate::obj::{
    Obj, is_attr, is_enumeration, is_named, is_slot_wrapper, locals_of_code, of_type,
};
use crate::reason::BreakKind;
use crate::tracker::{DictKey, FunctionField, Tracker};
use crate::variables::{Kind, VarId};

use crate::attributes::{self, lookup};
use crate::builtins::own_new;
use crate::call::call;
use crate::containers::subclasses;
use crate::exceptions::is_exception_class;
use crate::tracer::{is_enum_member, is_plain_constant};
use crate::{Kwargs, Step, Tracer};
use crate::{classes, device, groups, inline, iterate, layers, provenance};

/// `class(*args, **kwargs)` for Python classes.
pub fn instantiate(
    t: &mut Tracer<'_>,
    class: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let object = guarded_class(t, class)?;
    if let Some(place) = device::made(t, &object, args, kwargs)? {
        return Ok(place);
    }
    let name = object.name()?.to_string();
    classes::guard_meta(t, object.as_any());
    if let Some(member) = enum_member(t, &object, args, kwargs)? {
        return Ok(member);
    }
    if !own_new::is_called_plainly(t, &object) {
        let called = lookup(&object.get_type(), "__call__");
        if called.is_some_and(|called| called.is_exact_instance_of::<PyFunction>()) {
            if let Some(method) = attributes::method_of_meta(t, class, "__call__")? {
                return call(t, method, args, kwargs);
            }
        }
        return t.stop(
            BreakKind::UnsupportedCall,
            format!("{name} has a metaclass"),
        );
    }
    instance(t, (class, &object), args, kwargs)
}

/// The class, which stays what it is.
fn guarded_class<'py>(t: &mut Tracer<'py>, class: VarId) -> Step<Bound<'py, PyType>> {
    let Some(object) = t
        .value(class)
        .and_then(|class| class.cast_into::<PyType>().ok())
    else {
        return t.unsupported("a class without an object");
    };
    t.guard_identity(class);
    Ok(object)
}

/// `type.__call__(class, *args, **kwargs)`
pub(crate) fn make_instance(
    t: &mut Tracer<'_>,
    class: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let object = guarded_class(t, class)?;
    classes::guard_meta(t, object.as_any());
    instance(t, (class, &object), args, kwargs)
}

/// An instance of a guarded class.
fn instance<'py>(
    t: &mut Tracer<'py>,
    (class, object): (VarId, &Bound<'py, PyType>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let name = object.name()?.to_string();
    if let Some(layers) = layers::instantiate(t, object, args, kwargs)? {
        return Ok(layers);
    }
    if native::mro(object)
        .iter()
        .any(|base| base.is(t.paddle.layer.bind(t.py)) || base.is(t.paddle.tensor.bind(t.py)))
    {
        return t.stop(
            BreakKind::UnsupportedCall,
            format!("{name} is created inside of the compiled function"),
        );
    }
    if lookup(object, "__del__").is_some() {
        return t.stop(
            BreakKind::UnsupportedCall,
            format!("{name} has a destructor, which runs when the object is gone"),
        );
    }
    classes::guard_names(t, object, &["__del__"]);
    if is_exception_class(object) {
        return exception(t, object, args, kwargs);
    }
    if object.is_subclass_of::<PyTuple>()? {
        return match fields_of(t, object) {
            Some(fields) => named_tuple(t, object, &fields, args, kwargs),
            None => t.stop(
                BreakKind::UnsupportedCall,
                format!("{name} is a tuple with methods of its own"),
            ),
        };
    }
    classes::guard_names(t, object, &["__init__", "__abstractmethods__"]);
    if native::is_abstract(object) {
        return t.stop(
            BreakKind::RaisesException,
            format!("{name} has abstract methods"),
        );
    }
    let new = lookup(object, "__new__");
    let base = subclasses::base_of(t, object)?;
    let default_new = lookup(&base, "__new__");
    attributes::guard_type_attr(t, &Obj::from(object), "__new__", new.as_ref());
    if let Some(maker) = new.as_ref().and_then(own_new::in_python) {
        if !own_new::inherits_from_type(t, &object.get_type(), "__getattribute__") {
            return t.stop(
                BreakKind::UnsupportedCall,
                format!("{name} has a metaclass that looks up its __new__"),
            );
        }
        let maker = t.constant(&maker);
        let given: Vec<VarId> = [class].iter().chain(args).copied().collect();
        let instance = call(t, maker, &given, kwargs)?;
        return match t.type_of(instance) {
            Some(made) if made.is_subclass(object)? => {
                t.guard_class(instance);
                own_new::initialise(t, instance, (&made, true), args, kwargs)?;
                Ok(instance)
            }
            Some(_) => {
                t.guard_class(instance);
                Ok(instance)
            }
            None => t.unsupported("__new__() that answers with something of no known class"),
        };
    }
    let plain = matches!((new, default_new), (Some(new), Some(default)) if new.is(&default));
    if !plain || !native::is_made_like(object, &base) {
        return t.stop(
            BreakKind::UnsupportedCall,
            format!("{name} has its own __new__"),
        );
    }
    let instance = subclasses::new(t, object, &base);
    own_new::initialise(t, instance, (object, false), args, kwargs)?;
    Ok(instance)
}

pub(crate) fn is_abc(class: &Bound<'_, PyType>) -> bool {
    is_attr(&class.get_type(), "abc", "ABCMeta") && !native::is_abstract(class)
}

fn exception(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let plain = |name: &str| {
        lookup(class, name).is_none_or(|found| {
            is_slot_wrapper(&found) || is_named(&found, "builtin_function_or_method")
        })
    };
    classes::guard_names(t, class, &["__init__", "__new__"]);
    if !plain("__init__") && plain("__new__") && crate::exceptions::is_simple(class) {
        // `BaseException.__new__` keeps what it is given, and so does its `__init__`.
        let made = crate::exceptions::new(t, class.as_any(), args.to_vec());
        t.only_the_interpreter_makes(made);
        own_new::initialise(t, made, (class, false), args, kwargs)?;
        return Ok(made);
    }
    if !plain("__init__") || !plain("__new__") || !kwargs.is_empty() {
        return t.stop(
            BreakKind::UnsupportedCall,
            "an exception class with its own constructor",
        );
    }
    if groups::is_group_class(t, class)? {
        return groups::new(t, class, args);
    }
    if has_base(class, &PICKIEST) || args.len() > 1 && has_base(class, &PICKY) {
        return t.stop(
            BreakKind::UnsupportedCall,
            "an exception class that looks at its arguments",
        );
    }
    Ok(crate::exceptions::new(t, class.as_any(), args.to_vec()))
}

/// Classes whose constructors refuse some arguments, or answer with an instance of another class
/// for some.
const PICKY: [&str; 3] = ["OSError", "SyntaxError", "UnicodeError"];
/// Those that refuse all but one number of arguments.
const PICKIEST: [&str; 3] = [
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "UnicodeTranslateError",
];

fn has_base(class: &Bound<'_, PyType>, names: &[&str]) -> bool {
    let mut bases = native::mro(class).iter();
    bases.any(|base| {
        let named = base.cast::<PyType>().ok().and_then(|base| base.name().ok());
        named.is_some_and(|named| names.iter().any(|name| named == *name))
    })
}

/// What makes a named tuple act otherwise.
const OWN: &[&str] = &[
    "__add__",
    "__bool__",
    "__contains__",
    "__eq__",
    "__ge__",
    "__getattr__",
    "__getattribute__",
    "__getitem__",
    "__gt__",
    "__hash__",
    "__iadd__",
    "__imul__",
    "__init__",
    "__iter__",
    "__le__",
    "__len__",
    "__lt__",
    "__mul__",
    "__ne__",
    "__radd__",
    "__reversed__",
    "__rmul__",
];

/// Whether a named tuple is made, and acts, as those of `collections.namedtuple` do.
fn is_plain_named_tuple(class: &Bound<'_, PyType>) -> bool {
    let tuple = class.py().get_type::<PyTuple>();
    for base in native::mro(class).iter() {
        if base.is(&tuple) {
            return true;
        }
        let dict = match base.cast::<PyType>() {
            Ok(base) => of_type(base, "__dict__"),
            Err(_) => None,
        };
        let Some(dict) = dict else { return false };
        let has = |name: &str| dict.contains(name).unwrap_or(true);
        if OWN.iter().any(|name| has(name)) || has("__new__") && !has("_make") {
            return false;
        }
    }
    false
}

/// `Enumeration(value)` of a value that a member has.
fn enum_member(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let ([value], []) = (args, kwargs) else {
        return Ok(None);
    };
    if !is_enumeration(class) {
        return Ok(None);
    }
    let Some(value) = t.const_value(*value) else {
        return Ok(None);
    };
    // Its own, which is a dict: `_missing_` and programs add to it.
    let Some(known) = lookup(class, MEMBERS).and_then(|known| known.cast_into_exact().ok()) else {
        return Ok(None);
    };
    let Some((key, member)) = member_of(&known, &value)? else {
        return Ok(None);
    };
    let of_enum = |new: Bound<'_, PyAny>| attributes::is_of_enum_module(&new);
    if !is_enum_member(&member) || !lookup(class, "__new__").is_some_and(of_enum) {
        return Ok(None);
    }
    classes::guard_names(t, class, &["__new__"]);
    let members = attributes::guard_type_attr(t, &Obj::from(class), MEMBERS, Some(&known));
    let place = Tracker::DictItem(members, DictKey::Identity(Obj::from(key)));
    let kind = GuardKind::Is(Obj::from(&member));
    t.guards.add(&Arc::new(place), kind);
    Ok(Some(t.constant(&member)))
}

/// The members of an enumeration by their values.
const MEMBERS: &str = "_value2member_map_";

/// The key of a dict that is equal to this constant, itself a constant, and its item.
fn member_of<'py>(
    known: &Bound<'py, PyDict>,
    value: &Bound<'py, PyAny>,
) -> Step<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let Some(member) = known.get_item(value)? else {
        return Ok(None);
    };
    for (key, item) in known.iter() {
        if item.is(&member) && is_plain_constant(&key) && key.eq(value)? {
            return Ok(Some((key, item)));
        }
    }
    Ok(None)
}

/// A named tuple that exists, where all that can be done with it is what tuples do.
pub fn as_named_tuple<'a, 'py>(
    t: &mut Tracer<'py>,
    value: &'a Bound<'py, PyAny>,
) -> Option<&'a Bound<'py, PyTuple>> {
    let tuple = value.cast::<PyTuple>().ok()?;
    let class = value.get_type();
    // A derived class may let its instances have more.
    let dict = of_type(&class, "__dictoffset__")?.extract::<isize>().ok()?;
    if dict != 0 {
        return None;
    }
    let fields = fields_of(t, &class)?;
    (fields.len().ok()? == tuple.len()).then_some(tuple)
}

/// The fields of a named tuple that acts as those of `collections.namedtuple` do; guarded.
fn fields_of<'py>(t: &mut Tracer<'py>, class: &Bound<'py, PyType>) -> Option<Bound<'py, PyAny>> {
    let fields = lookup(class, "_fields")?;
    if !is_plain_named_tuple(class) || !takes(class, &fields) {
        return None;
    }
    classes::guard_names(t, class, OWN);
    classes::guard_names(t, class, &["_fields"]);
    Some(fields)
}

/// Whether the constructor of a named tuple takes its fields, in their order: a derived class may
/// say that it has others.
fn takes(class: &Bound<'_, PyType>, fields: &Bound<'_, PyAny>) -> bool {
    let names = || -> PyResult<Vec<String>> {
        let new = lookup(class, "__new__").map(|new| new.getattr("__func__"));
        let Some(new) = new.transpose()? else {
            return Ok(Vec::new());
        };
        locals_of_code(&new.getattr("__code__")?)?.extract()
    };
    let fields = fields.extract::<Vec<String>>();
    match (names(), fields) {
        (Ok(names), Ok(fields)) => names.get(1..) == Some(&*fields),
        _ => false,
    }
}

/// Stops where a named tuple has a `_make` of its own, which `_replace()` calls.
pub fn check_make(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> Step<()> {
    let make = lookup(class, "_make").filter(|make| attributes::is_of_class(make));
    let Some(make) = make else {
        return t.unsupported("a named tuple with its own _make()");
    };
    let tracker = attributes::guard_type_attr(t, &Obj::from(class), "_make", Some(&make));
    let function = attributes::wrapped_function(t, &make, tracker)?;
    t.guard_identity(function);
    let function = t.value(function);
    match function.is_some_and(|function| provenance::is_from(&function, COLLECTIONS)) {
        true => Ok(()),
        false => t.unsupported("a named tuple with its own _make()"),
    }
}

/// The defaults of the function that makes a named tuple.
fn named_tuple_defaults(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> Step<Vec<VarId>> {
    let Some(new) = lookup(class, "__new__") else {
        return t.unsupported("a named tuple without __new__");
    };
    let tracker = attributes::guard_type_attr(t, &Obj::from(class), "__new__", Some(&new));
    let function = attributes::wrapped_function(t, &new, tracker)?;
    if !matches!(t.kind(function), Kind::Function(_)) {
        return t.unsupported("a named tuple with its own __new__");
    }
    t.guard_identity(function);
    match inline::real_field(t, function, "__defaults__", FunctionField::Defaults)? {
        Some(defaults) if t.is_none(defaults) => Ok(Vec::new()),
        Some(defaults) => iterate::collect(t, defaults),
        None => t.unsupported("a named tuple without defaults"),
    }
}

/// `tuple.__new__(class, iterable)`, as `_make()` of a named tuple calls it.
pub(crate) fn new_tuple(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([class, items], []) = (args, kwargs) else {
        return t.unsupported("tuple.__new__() with these arguments");
    };
    let class_of = t.value(*class).map(|class| class.cast_into::<PyType>());
    let Some(Ok(object)) = class_of else {
        return t.unsupported("tuple.__new__() of a class without an object");
    };
    t.guard_identity(*class);
    classes::guard_names(t, &object, &["__del__"]);
    let fields = match lookup(&object, "__del__") {
        None => fields_of(t, &object),
        Some(_) => None,
    };
    let Some(fields) = fields else {
        return t.unsupported("tuple.__new__() of a class that is no named tuple");
    };
    let items = iterate::collect_for_list(t, *items)?;
    match items.len() == fields.len()? {
        true => Ok(t.add(Kind::Tuple(items, Some(Obj::from(object))))),
        false => t.unsupported("a named tuple of another length than its fields"),
    }
}

fn named_tuple(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    fields: &Bound<'_, PyAny>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let fields: Vec<String> = fields.extract()?;
    let names: Vec<&str> = fields.iter().map(|name| &**name).collect();
    classes::guard_names(t, class, &names);
    let defaults = named_tuple_defaults(t, class)?;
    // They are those of the last fields.
    let first = fields.len().saturating_sub(defaults.len());
    let mut items = args.to_vec();
    if items.len() > fields.len()
        || kwargs.iter().any(|(name, _)| {
            !fields
                .iter()
                .skip(args.len())
                .any(|field| **field == **name)
        })
    {
        return t.stop(
            BreakKind::RaisesException,
            "a named tuple called with wrong arguments",
        );
    }
    for (at, field) in fields.iter().enumerate().skip(args.len()) {
        if let Some((_, value)) = kwargs.iter().find(|(name, _)| **name == **field) {
            items.push(*value);
        } else if let Some(default) = at.checked_sub(first).and_then(|at| defaults.get(at)) {
            items.push(*default);
        } else {
            return t.stop(
                BreakKind::RaisesException,
                "a named tuple called with too few arguments",
            );
        }
    }
    Ok(t.add(Kind::Tuple(items, Some(Obj::from(class)))))
}
