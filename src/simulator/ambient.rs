//! What texts of numbers depend on besides the numbers: the limit of digits, and the locale.
//!
//! Both may change between two calls, and no guard looks at them: such texts are left to the interpreter.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyInt, PySet, PyString};

use super::fold::MAX_NESTING;
use super::truth::is_sequence_object;
use super::{Step, Tracer};

/// No limit of `sys.set_int_max_str_digits()` is lower.
const DIGITS: usize = 640;

/// Breaks the graph where folding a call of `callable`, which is called `name`, depends on either.
pub fn refuse(
    t: &Tracer<'_>,
    callable: &Bound<'_, PyAny>,
    name: &str,
    args: &[Bound<'_, PyAny>],
) -> Step<()> {
    // A method has its text or number in front.
    let owner = callable.getattr("__self__").ok();
    if converts_many_digits(owner.as_ref(), name, args) {
        return t.unsupported("text of more digits than sys.set_int_max_str_digits() may allow");
    }
    if asks_locale(owner.as_ref(), name, args) {
        return t.unsupported("a number is formatted as the locale says");
    }
    Ok(())
}

fn converts_many_digits(
    owner: Option<&Bound<'_, PyAny>>,
    name: &str,
    args: &[Bound<'_, PyAny>],
) -> bool {
    match name {
        "int" => args
            .iter()
            .any(|arg| !arg.is_instance_of::<PyInt>() && arg.len().is_ok_and(|n| n > DIGITS)),
        // Of two numbers, `%` is another operation.
        "mod" | "imod" => args
            .split_first()
            .is_some_and(|(first, rest)| !first.is_instance_of::<PyInt>() && has_long(rest, 0)),
        "__mod__" => {
            owner.is_some_and(|owner| !owner.is_instance_of::<PyInt>()) && has_long(args, 0)
        }
        "str" | "repr" | "ascii" | "format" | "format_map" | "__format__" | "__repr__"
        | "__str__" => has_long(args, 0) || owner.is_some_and(is_long),
        _ => false,
    }
}

/// Whether there is a number among these, or in them, whose text depends on the limit.
fn has_long(values: &[Bound<'_, PyAny>], nesting: usize) -> bool {
    values.iter().any(|value| {
        let inside = match value.cast_exact::<PyDict>() {
            Ok(dict) => dict
                .call_method0(pyo3::intern!(value.py(), "items"))
                .and_then(|items| items.try_iter()),
            Err(_) if is_sequence_object(value) || is_set(value) => value.try_iter(),
            Err(_) => return is_long(value),
        };
        let inside = inside.and_then(|items| items.collect::<PyResult<Vec<_>>>());
        inside.is_ok_and(|items| nesting > MAX_NESTING || has_long(&items, nesting + 1))
    })
}

fn is_long(value: &Bound<'_, PyAny>) -> bool {
    // Each digit takes more than three bits.
    let bits = || {
        value
            .call_method0(pyo3::intern!(value.py(), "bit_length"))?
            .extract::<usize>()
    };
    value.is_instance_of::<PyInt>() && bits().map_or(true, |bits| bits > DIGITS * 3)
}

fn is_set(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>()
}

/// Whether a format specification, or one in a template, is of type `n`.
fn asks_locale(owner: Option<&Bound<'_, PyAny>>, name: &str, args: &[Bound<'_, PyAny>]) -> bool {
    let template = owner.filter(|owner| owner.is_instance_of::<PyString>());
    let ends = |text: Option<&Bound<'_, PyAny>>| {
        text.and_then(|text| text.extract::<String>().ok())
            .is_some_and(|text| text.ends_with('n'))
    };
    match (name, template) {
        ("format" | "format_map", Some(template)) => {
            template.extract::<String>().is_ok_and(|text| {
                text.split('}')
                    .any(|field| field.ends_with('n') && field.contains(':'))
            })
        }
        ("format", None) => ends(args.get(1)),
        ("__format__", _) => ends(args.first()),
        _ => false,
    }
}
