//! What a computation depends on besides its operands. Names of classes are guarded. What belongs
//! to the process (the limit of digits, the locale, filters of warnings, how NumPy prints, the
//! context of `decimal`, clocks and time zones, codecs) may change between two calls without a
//! guard noticing: what asks for it is left to the interpreter.

use pyo3::exceptions::PyWarning;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyCFunction, PyDict, PyFrozenSet, PyInt, PyList, PyModule, PySet, PySlice, PyString,
    PyTuple, PyType,
};

use crate::frame::Modules;
use crate::native;
use crate::obj::is_named;
use crate::reason::BreakId;
use crate::texts::{ASCII, FORMAT, REPR};
use crate::variables::kinds::PARTS;

use crate::tracer::{asks_the_process, is_plain_constant};
use crate::{Step, Tracer, fold, repr_guards};

/// No limit of `sys.set_int_max_str_digits()` is lower.
const DIGITS: usize = 640;

/// Functions and methods that make a text of what they are given, besides `%`.
const SHOWING: &[&str] = &[
    REPR,
    ASCII,
    "str",
    FORMAT,
    "format_map",
    "__repr__",
    "__str__",
    "__format__",
];

/// Encodings and handlers of errors that Python does not look up by their names.
const CODECS: &[&str] = &[
    "utf-8",
    "utf8",
    "ascii",
    "latin-1",
    "latin1",
    "strict",
    "ignore",
    "replace",
    "surrogateescape",
];

/// What folding a call of `callable`, which is called `name`, depends on: guards it, or breaks the
/// graph.
pub fn check<'py>(
    t: &mut Tracer<'py>,
    callable: &Bound<'py, PyAny>,
    name: &str,
    args: &[Bound<'py, PyAny>],
) -> Step<()> {
    // A method has its text or number in front.
    let owner = callable.getattr("__self__").ok();
    let owner = owner.filter(|owner| !owner.is_instance_of::<PyModule>());
    let operands: Vec<_> = owner.iter().chain(args).cloned().collect();
    let template = owner.filter(|owner| owner.is_instance_of::<PyString>());
    let template = match (name, template) {
        (FORMAT | "format_map", Some(template)) => Some(template.extract::<String>()?),
        _ => None,
    };
    each(
        t,
        &operands,
        &mut |t, value| match asks_the_process(value) {
            true => t.stop(
                BreakId::ProcessState,
                "a computation with a date or a decimal number",
            ),
            false => Ok(()),
        },
    )?;
    if shows(name, &operands) {
        // A scalar of NumPy by itself is formatted as Python's number.
        let formats = match &template {
            Some(template) => !template.contains('!'),
            None => matches!(name, FORMAT | "__format__"),
        };
        let shown = operands.into_iter();
        let shown: Vec<_> = shown
            .filter(|value| !(formats && native::is_scalar(value)))
            .collect();
        texts(t, &shown)?;
    }
    if name == "int" && args.iter().any(has_many_digits) {
        return too_long(t);
    }
    if let Some(template) = &template {
        check_template(t, template, args)?;
    }
    let spec = match (name, &template) {
        (FORMAT, None) => args.get(1),
        ("__format__", _) => args.first(),
        _ => None,
    };
    if spec.is_some_and(ends_with_n) {
        return asks_locale(t);
    }
    if asks_codecs(name, args) {
        return t.stop(
            BreakId::ProcessState,
            "a codec, or a handler of its errors, that is looked up",
        );
    }
    Ok(())
}

/// What texts of these values depend on: guards it, or breaks the graph.
pub fn texts<'py>(t: &mut Tracer<'py>, values: &[Bound<'py, PyAny>]) -> Step<()> {
    each(t, values, &mut |t, value| {
        if is_long(value) {
            return too_long(t);
        }
        if native::is_scalar(value) {
            return t.stop(
                BreakId::ProcessState,
                "a scalar is shown as np.set_printoptions() says",
            );
        }
        match repr_guards::guard(t, value)? {
            Some(part) => match fold::deeper(t, |t| texts(t, &[part])) {
                Some(all) => all,
                None => t.stop(BreakId::ProcessState, "a member in too many others"),
            },
            None => Ok(()),
        }
    })
}

/// Calls it where what would warn raises. `None`: it would, which is for the interpreter to do, at
/// the user's line.
///
/// The filters are exchanged as an attribute: `catch_warnings()` has Python forget what it has
/// warned of. Meanwhile no other thread may run: only C code is called so.
pub fn call<'py>(
    t: &Tracer<'py>,
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Option<PyResult<Bound<'py, PyAny>>>> {
    static RAISE: PyOnceLock<Py<PyList>> = PyOnceLock::new();
    if !(is_c(callable) && is_plain(args)? && is_plain(kwargs)?) {
        return Ok(Some(callable.call(args, Some(kwargs))));
    }
    let raise = RAISE.get_or_try_init(t.py, || {
        let none = t.py.None();
        let filter = ("error", &none, t.py.get_type::<PyWarning>(), &none, 0);
        PyList::new(t.py, [filter]).map(Bound::unbind)
    })?;
    let run = run_apart(t.py)?;
    let warnings = t.py.module("warnings")?;
    let filters = warnings.getattr("filters")?;
    warnings.setattr("filters", raise)?;
    let made = run.call1((callable, args, kwargs));
    warnings.setattr("filters", filters)?;
    Ok(match made {
        Err(err) if err.is_instance_of::<PyWarning>(t.py) => None,
        made => Some(made),
    })
}

/// `function(*args, **kwargs)` in a module of its own: C code asks the module of the Python code
/// that runs first whether it has warned of the same in that line before.
fn run_apart(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static RUN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let run = RUN.get_or_try_init(py, || {
        let module = py.own("paddle_sot_rs._codegen.apart")?;
        module.getattr("run").map(Bound::unbind)
    })?;
    Ok(run.bind(py))
}

fn is_c(callable: &Bound<'_, PyAny>) -> bool {
    let is_class = || {
        let class = callable.cast::<PyType>();
        class.is_ok_and(|class| !native::is_mutable(class))
    };
    callable.is_exact_instance_of::<PyCFunction>()
        || is_class()
        || ["method-wrapper", "ufunc"]
            .iter()
            .any(|kind| is_named(callable, kind))
}

/// Whether no operation of it is written in Python, as those of enumerations are.
fn is_plain(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(parts) = parts(value)? else {
        return Ok(is_plain_constant(value) || native::is_scalar(value));
    };
    for part in &parts {
        if !is_plain(part)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a call of this name makes a text.
fn shows(name: &str, operands: &[Bound<'_, PyAny>]) -> bool {
    // Of two numbers, `%` is another operation.
    let is_remainder = matches!(name, "mod" | "imod" | "__mod__" | "__rmod__");
    let is_text = |value: &Bound<'_, PyAny>| {
        value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
    };
    SHOWING.contains(&name) || is_remainder && operands.iter().any(is_text)
}

/// Whether the number that a text gives has more digits than may be allowed.
fn has_many_digits(text: &Bound<'_, PyAny>) -> bool {
    !text.is_instance_of::<PyInt>() && text.len().is_ok_and(|len| len > DIGITS)
}

fn is_long(value: &Bound<'_, PyAny>) -> bool {
    // Each digit takes more than three bits.
    let bits = || {
        let int = value.py().get_type::<PyInt>();
        int.call_method1("bit_length", (value,))?.extract::<usize>()
    };
    value.is_instance_of::<PyInt>() && bits().map_or(true, |bits| bits > DIGITS * 3)
}

fn too_long<T>(t: &Tracer<'_>) -> Step<T> {
    t.stop(
        BreakId::ProcessState,
        "text of more digits than sys.set_int_max_str_digits() may allow",
    )
}

fn ends_with_n(text: &Bound<'_, PyAny>) -> bool {
    text.extract::<String>()
        .is_ok_and(|text| text.ends_with('n'))
}

fn asks_locale<T>(t: &Tracer<'_>) -> Step<T> {
    t.stop(
        BreakId::ProcessState,
        "a number is formatted as the locale says",
    )
}

/// Stops where a template of `str.format` has fields of type `n`, also one that an argument says,
/// or reads attributes and items of classes, members and the like.
fn check_template<'py>(
    t: &mut Tracer<'py>,
    template: &str,
    values: &[Bound<'py, PyAny>],
) -> Step<()> {
    let specs = || {
        template
            .split('}')
            .filter_map(|field| field.split_once(':'))
    };
    let is_nested = specs().any(|(_, spec)| spec.contains('{'));
    // Behind a nested one the rest of a specification has no colon.
    let may_end = |field: &str| field.ends_with('n');
    if specs().any(|(_, spec)| may_end(spec)) || is_nested && template.split('}').any(may_end) {
        return asks_locale(t);
    }
    let reads_parts = reads_parts(template);
    each(t, values, &mut |t, value| {
        if is_nested && ends_with_n(value) {
            return asks_locale(t);
        }
        match reads_parts && !is_plain_constant(value) {
            true => t.stop(BreakId::ProcessState, "a template that reads attributes"),
            false => Ok(()),
        }
    })
}

/// Whether a field of a template names an attribute or an item.
fn reads_parts(template: &str) -> bool {
    let mut is_name = false;
    for letter in template.chars() {
        match letter {
            '{' => is_name = true,
            '}' | ':' | '!' => is_name = false,
            '.' | '[' if is_name => return true,
            _ => {}
        }
    }
    false
}

/// Whether a text is made of bytes, or bytes of a text, by functions that a program may register.
fn asks_codecs(name: &str, args: &[Bound<'_, PyAny>]) -> bool {
    let names = match name {
        "encode" | "decode" => args,
        "str" | "bytes" => args.get(1..).unwrap_or_default(),
        _ => return false,
    };
    let is_known = |name: &Bound<'_, PyAny>| {
        let text = name.extract::<String>();
        text.is_ok_and(|text| CODECS.contains(&&*text.to_lowercase()))
    };
    !names.iter().all(is_known)
}

/// Looks at what is no container among these values, and in them.
fn each<'py>(
    t: &mut Tracer<'py>,
    values: &[Bound<'py, PyAny>],
    look: &mut dyn FnMut(&mut Tracer<'py>, &Bound<'py, PyAny>) -> Step<()>,
) -> Step<()> {
    for value in values {
        let Some(parts) = parts(value)? else {
            look(t, value)?;
            continue;
        };
        match fold::deeper(t, |t| each(t, &parts, look)) {
            Some(all) => all?,
            None => return t.stop(BreakId::ProcessState, "containers in too many others"),
        }
    }
    Ok(())
}

fn parts<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let pairs = dict.iter().flat_map(|(key, value)| [key, value]);
        return Ok(Some(pairs.collect()));
    }
    if value.is_exact_instance_of::<PySlice>() {
        let parts = PARTS.iter().map(|name| value.getattr(*name));
        return parts.collect::<PyResult<_>>().map(Some);
    }
    let is_container = value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PySet>()
        || value.is_exact_instance_of::<PyFrozenSet>();
    match is_container {
        true => value.try_iter()?.collect::<PyResult<_>>().map(Some),
        false => Ok(None),
    }
}
