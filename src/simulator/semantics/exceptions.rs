//! Raising and matching exceptions.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use crate::frame::BUILTINS;
use crate::native;
use crate::obj::{Obj, is_attr, of_type};
use crate::reason::BreakKind;
use crate::texts::FORMAT;
use crate::tracker::Tracker;
use crate::variables::{Kind, ObjectVar, VarId};

use crate::builtins::own_new;
use crate::call::call;
use crate::{Kwargs, Step, Stop, Tracer};
use crate::{attributes, classes, fold, groups, process_state, repr_guards};

/// A new exception variable of a builtin class.
pub fn new(t: &mut Tracer<'_>, class: &Bound<'_, PyAny>, args: Vec<VarId>) -> VarId {
    let base = t.add(Kind::Tuple(args, None));
    t.add(Kind::Object(ObjectVar {
        base: Some(base),
        ..ObjectVar::of(Obj::from(class))
    }))
}

/// Whether instances of a class of exceptions have nothing from C code but their arguments.
pub(crate) fn is_simple(class: &Bound<'_, PyType>) -> bool {
    let size = |class: &Bound<'_, PyType>| {
        let size = of_type(class, "__basicsize__");
        size.and_then(|size| size.extract::<usize>().ok())
    };
    let plain = size(&class.py().get_type::<PyBaseException>());
    // Another size: fields of their own, which their constructors fill. `MemoryError` is made from
    // a list of them.
    native::mro(class).iter().all(|base| {
        let Ok(base) = base.cast::<PyType>() else {
            return false;
        };
        native::is_mutable(base)
            || base.is(class.py().get_type::<PyAny>())
            || is_exception_class(base)
                && size(base) == plain
                && !is_attr(base, BUILTINS, "MemoryError")
    })
}

/// `Exception.__init__(exception, *args)` of one that the frame makes; `None` for anything else.
pub(crate) fn init(
    t: &mut Tracer<'_>,
    base: &Bound<'_, PyAny>,
    exception: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Kind::Object(object) = t.kind(exception).clone() else {
        return Ok(None);
    };
    let is_simple = |class: &Bound<'_, PyAny>| class.cast::<PyType>().is_ok_and(is_simple);
    let is_new = t.source(exception).is_none() && object.base.is_some() && kwargs.is_empty();
    if !is_new || !is_simple(object.class.bind(t.py)) || !is_exception_class_object(base) {
        return Ok(None);
    }
    let args = t.add(Kind::Tuple(args.to_vec(), None));
    t.vars.mutate(exception, |var| {
        if let Kind::Object(object) = &mut var.kind {
            object.base = Some(args);
        }
    });
    Ok(Some(t.none()))
}

fn is_exception_class_object(class: &Bound<'_, PyAny>) -> bool {
    class.cast::<PyType>().is_ok_and(is_exception_class)
}

/// Stops with a builtin exception that C code raises. Its message differs between versions: where
/// anything looks at it, the exception is raised natively.
pub fn throw<T>(t: &mut Tracer<'_>, class: &str) -> Step<T> {
    let class = t.builtin(class)?;
    let message = t.made_natively();
    Err(Stop::Raise(new(t, &class, vec![message])))
}

/// Stops with `StopIteration(value)`, or `StopIteration()` for `None`.
pub fn stop_iteration<T>(t: &mut Tracer<'_>, value: VarId) -> Step<T> {
    let class = t.builtin("StopIteration")?;
    let args = if t.is_none(value) {
        Vec::new()
    } else {
        vec![value]
    };
    Err(Stop::Raise(new(t, &class, args)))
}

/// `raise`, `raise x`, `raise x from y`: the exception variable.
///
/// Its cause and its context are not kept: nothing simulated reads them, and where it must be
/// rebuilt, the interpreter raises it (see [`Tracer::raised_at`]).
pub fn raise(t: &mut Tracer<'_>, handling: &[VarId], args: &[VarId]) -> Step<VarId> {
    match args {
        [] => match handling.last() {
            Some(current) => Ok(*current),
            None => t.stop(BreakKind::RaisesException, "nothing to re-raise"),
        },
        [what] => {
            let exception = instance(t, *what)?;
            match matches!(t.kind(exception), Kind::Object(object) if object.base.is_some()) {
                true => Ok(exception),
                false => t.stop(BreakKind::RaisesException, "raise"),
            }
        }
        [what, cause] => {
            let exception = raise(t, handling, &[*what])?;
            if !t.is_none(*cause) {
                let cause = instance(t, *cause)?;
                let class = t.type_of(cause);
                if !class.is_some_and(|class| is_exception_class(&class)) {
                    return t.stop(BreakKind::RaisesException, "raise ... from no exception");
                }
            }
            Ok(exception)
        }
        _ => t.stop(BreakKind::RaisesException, "raise"),
    }
}

fn instance(t: &mut Tracer<'_>, exception: VarId) -> Step<VarId> {
    if matches!(t.kind(exception), Kind::Class) {
        return call(t, exception, &[], &[]);
    }
    Ok(exception)
}

/// Whether a class is one of exceptions.
pub fn is_exception_class(class: &Bound<'_, PyType>) -> bool {
    let base = class.py().get_type::<PyBaseException>();
    native::mro(class).iter().any(|known| known.is(&base))
}

/// Stops where a clause, `except` or `except*`, has something else than classes of exceptions that
/// it takes: that is asked before anything matches (`_PyEval_CheckExceptTypeValid`,
/// `_PyEval_CheckExceptStarTypeValid`).
pub fn check_clause<'py>(
    t: &mut Tracer<'py>,
    clause: &str,
    class: VarId,
    takes: impl Fn(&Tracer<'py>, &Bound<'py, PyType>) -> Step<bool>,
) -> Step<()> {
    let classes = if let Kind::Tuple(classes, _) = t.kind(class).clone() {
        classes
    } else {
        vec![class]
    };
    for class in classes {
        t.realize(class);
        let class = t.value(class).map(|class| class.cast_into::<PyType>());
        let is_valid = match class {
            Some(Ok(class)) => is_exception_class(&class) && takes(t, &class)?,
            _ => false,
        };
        if !is_valid {
            return t.stop(
                BreakKind::RaisesException,
                format!("{clause} with this class"),
            );
        }
    }
    Ok(())
}

/// Whether `except class:` catches the exception.
pub fn matches(t: &mut Tracer<'_>, exception: VarId, class: VarId) -> Step<bool> {
    if let Kind::Tuple(classes, None) = t.kind(class).clone() {
        for class in classes {
            if matches(t, exception, class)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let (Some(of), Some(wanted)) = (t.type_of(exception), t.value(class)) else {
        return t.unsupported("an except clause that is not a class");
    };
    match wanted.cast::<PyType>() {
        Ok(wanted) => Ok(classes::inherits(t, &of, wanted.as_any())),
        Err(_) => t.unsupported("an except clause that is not a class"),
    }
}

/// Whether `except name:` with a builtin class catches the exception.
pub fn is_a(t: &mut Tracer<'_>, exception: VarId, name: &str) -> Step<bool> {
    let class = t.builtin(name)?;
    let class = t.constant(&class);
    matches(t, exception, class)
}

/// What `__exit__` of a `with` block answers for the exception that passes it.
pub fn leaves_with(t: &mut Tracer<'_>, exit: VarId, exception: VarId) -> Step<VarId> {
    let Some(class) = t.type_of(exception) else {
        return t.unsupported("an exception without a class");
    };
    let class = t.constant(class.as_any());
    let known = t
        .exceptions
        .groups
        .iter()
        .find(|group| group.id == exception);
    let untraced = known.map_or(t.value(exception).is_some(), |group| group.by_interpreter);
    if untraced && groups::is_group(t, exception)? {
        return t.unsupported("a group that may have no traceback passes a with block");
    }
    let traceback = traceback_of(t, exception);
    call(t, exit, &[class, exception, traceback], &[])
}

/// The traceback of an exception that was raised. It can be handed on and compared with `None`, no
/// more: to rebuild it means to raise natively.
fn traceback_of(t: &mut Tracer<'_>, exception: VarId) -> VarId {
    let traceback = t.add(Kind::Opaque);
    let at = raised_at(t, exception);
    t.exceptions.raised.push((traceback, at));
    traceback
}

/// `sys.exception()`: what the innermost frame handles that handles one, or the function's caller.
pub fn handled(t: &mut Tracer<'_>) -> VarId {
    let mut handled = t
        .frames
        .simulated
        .iter()
        .rev()
        .filter_map(|frame| frame.handled);
    if let Some(exception) = handled.next() {
        return exception;
    }
    let outside = native::to_bound(t.py, native::handled_exception(t.py));
    t.wrap(&outside, Tracker::Handled.into())
}

/// `sys.exc_info()`.
pub fn handled_parts(t: &mut Tracer<'_>) -> Step<VarId> {
    let exception = handled(t);
    if t.is_none(exception) {
        let none = t.none();
        return Ok(t.add(Kind::Tuple(vec![none; 3], None)));
    }
    let made = t.raised_at(exception).is_some() && t.value(exception).is_none();
    let (true, Some(class)) = (made, t.type_of(exception)) else {
        return t.unsupported("sys.exc_info() of an exception that exists");
    };
    let class = t.constant(class.as_any());
    let traceback = traceback_of(t, exception);
    Ok(t.add(Kind::Tuple(vec![class, exception, traceback], None)))
}

/// The value of the `StopIteration` that ended what a generator delegates to; any other exception
/// goes on.
pub fn stop_value(t: &mut Tracer<'_>, exception: VarId) -> Step<VarId> {
    if !is_a(t, exception, "StopIteration")? {
        return Err(Stop::Raise(exception));
    }
    // The interpreter reads the field, whatever a derived class says.
    const READ: [&str; 2] = ["value", "__getattribute__"];
    let plain = t.builtin("StopIteration")?;
    let (Some(class), Ok(plain)) = (t.type_of(exception), plain.cast::<PyType>()) else {
        return t.unsupported("a StopIteration without a class");
    };
    classes::guard_names(t, &class, &READ);
    if !READ
        .iter()
        .all(|name| attributes::inherits(&class, plain, name))
    {
        return t.unsupported("a StopIteration with a value of its own");
    }
    attributes::get(t, exception, "value")
}

/// The instruction of the outermost frame that raised an exception first.
pub fn raised_at(t: &Tracer<'_>, exception: VarId) -> usize {
    t.raised_at(exception).unwrap_or(t.frames.outermost)
}

/// Whether this is the traceback that a raised exception has, as far as anyone can tell: neither
/// can be read, and where one is rebuilt, the exception is raised natively.
pub fn is_own_traceback(t: &Tracer<'_>, exception: VarId, traceback: VarId) -> bool {
    let raised = |id: VarId| t.raised_at(id).is_some();
    let opaque = matches!(t.vars.kind(traceback), Kind::Opaque);
    opaque && raised(exception) && raised(traceback)
}

/// `str(exception)`, or `repr` or `ascii` of it, of an exception that the frame made; `None` for
/// anything else.
pub fn shown(t: &mut Tracer<'_>, exception: VarId, function: &str) -> Step<Option<VarId>> {
    let Some(object) = real(t, exception)? else {
        return Ok(None);
    };
    let text = t.builtin(function)?.call1((object,))?;
    Ok(Some(t.constant(&text)))
}

/// The arguments of `template % argument` and `template.format(*arguments)`: exceptions that the
/// frame made are the texts that all fields of the template ask them for.
pub fn as_texts(
    t: &mut Tracer<'_>,
    template: &Bound<'_, PyAny>,
    method: &str,
    args: &[VarId],
) -> Step<Vec<VarId>> {
    let asks = match template.cast::<PyString>().map(|text| text.to_str()) {
        Ok(Ok(text)) => match method {
            "__mod__" => asks_percent(text),
            FORMAT => asks_braces(text),
            _ => false,
        },
        _ => false,
    };
    let mut texts = args.to_vec();
    for arg in texts.iter_mut().filter(|_| asks) {
        if let Kind::Tuple(items, None) = t.kind(*arg).clone() {
            if method == "__mod__" {
                let items = as_texts(t, template, method, &items)?;
                *arg = t.add(Kind::Tuple(items, None));
            }
        } else if let Some(text) = shown(t, *arg, "str")? {
            *arg = text;
        }
    }
    Ok(texts)
}

/// Whether all conversions of a template are `%s`.
fn asks_percent(template: &str) -> bool {
    let mut parts = template
        .replace("%%", "")
        .split('%')
        .map(str::to_owned)
        .skip(1)
        .collect::<Vec<_>>();
    parts.retain(|part| !part.starts_with('s'));
    parts.is_empty()
}

/// Whether all fields of a template are bare: `{}`, `{0}`, `{name}`.
fn asks_braces(template: &str) -> bool {
    let plain = template.replace("{{", "").replace("}}", "");
    let mut fields = plain.split('{').skip(1);
    fields.all(|field| {
        field.split_once('}').is_some_and(|(name, _)| {
            name.chars()
                .all(|char| char.is_alphanumeric() || char == '_')
        })
    })
}

/// An exception like this one, where making and showing it runs no code of the user.
fn real<'py>(t: &mut Tracer<'py>, id: VarId) -> Step<Option<Bound<'py, PyAny>>> {
    let Kind::Object(object) = t.kind(id).clone() else {
        return Ok(None);
    };
    let (Some(args), Ok(class)) = (object.base, object.class.bind(t.py).cast::<PyType>()) else {
        return Ok(None);
    };
    let has_own_init = attributes::lookup(class, "__init__")
        .is_some_and(|init| !crate::obj::is_builtin_method(&init));
    // Its texts say nothing of what else is written to such a one.
    let is_plain = object.writes.is_empty() || is_simple(class);
    if !is_exception_class(class) || !is_plain || has_own_init && !is_simple(class) {
        return Ok(None);
    }
    for name in ["__str__", "__repr__", "__format__", "__del__", "__init__"] {
        let found = attributes::lookup(class, name);
        attributes::guard_type_attr(t, &object.class, name, found.as_ref());
        let plain = found.is_none_or(|found| crate::obj::is_builtin_method(&found));
        if !plain && name != "__init__" {
            return Ok(None);
        }
    }
    if groups::stale(t, id).is_some() {
        return Ok(None);
    }
    let Some(mut args) = real_all(t, args)? else {
        return Ok(None);
    };
    repr_guards::guard_class(t, class)?;
    process_state::texts(t, &args)?;
    if has_own_init {
        // Made without the constructor, which is code of the user's.
        args.insert(0, class.clone().into_any());
        return Ok(own_new::exception(t.py, args));
    }
    Ok(class.call1(PyTuple::new(t.py, args)?).ok())
}

/// The values in a list or tuple, constants and exceptions.
fn real_all<'py>(t: &mut Tracer<'py>, of: VarId) -> Step<Option<Vec<Bound<'py, PyAny>>>> {
    fold::deeper(t, |t| real_items(t, of)).unwrap_or(Ok(None))
}

fn real_items<'py>(t: &mut Tracer<'py>, of: VarId) -> Step<Option<Vec<Bound<'py, PyAny>>>> {
    let (Kind::Tuple(items, None) | Kind::List(items)) = t.kind(of).clone() else {
        return Ok(None);
    };
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let is_list = matches!(t.kind(item), Kind::List(_)) && t.vars.get(item).class.is_none();
        let value = if let Kind::Object(_) = t.kind(item) {
            real(t, item)?
        } else if is_list {
            match real_all(t, item)? {
                Some(values) => Some(PyList::new(t.py, values)?.into_any()),
                None => None,
            }
        } else if let Kind::Tuple(_, None) = t.kind(item) {
            match real_all(t, item)? {
                Some(values) => Some(PyTuple::new(t.py, values)?.into_any()),
                None => None,
            }
        } else {
            fold::to_object(t, item)
        };
        match value {
            Some(value) => values.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}
