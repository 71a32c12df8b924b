//! String formatting.

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString};

use crate::attributes::lookup;
use crate::call::call;
use crate::reason::BreakId;
use crate::texts::{ASCII, FORMAT, REPR};
use crate::variables::{Kind, VarId};

use crate::{Step, Tracer, attributes, exceptions, fold, provenance, texts};

/// `f'{value!conversion:spec}'`; conversion is 0 (none), 1 (str), 2 (repr), 3 (ascii).
pub fn format_value(
    t: &mut Tracer<'_>,
    value: VarId,
    conversion: u8,
    spec: Option<VarId>,
) -> Step<VarId> {
    if matches!(t.kind(value), Kind::Tensor(_)) {
        return t.stop(BreakId::TensorText, "a tensor is formatted");
    }
    let (mut value, mut conversion) = (value, conversion);
    let name = ["str", "str", REPR, ASCII][usize::from(conversion & 3)];
    if conversion != 0 || spec.is_none() {
        if let Some(text) = exceptions::shown(t, value, name)? {
            (value, conversion) = (text, 0);
        }
    }
    if conversion != 0 {
        let function = t.builtin(name)?;
        value = fold::call_object(t, &function, &[value], &[])?;
    }
    let format = t.builtin(FORMAT)?;
    match spec {
        Some(spec) => fold::call_object(t, &format, &[value, spec], &[]),
        None => fold::call_object(t, &format, &[value], &[]),
    }
}

/// What `str`, `repr` and `format` show of an instance by methods of Python code; `None` where the
/// function is another, or C code shows it.
pub fn of_instance(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let is = |name: &str| provenance::is_builtin(function, name);
    let methods: &[&str] = match args {
        [_] if is(REPR) => &["__repr__"],
        [_] if is("str") => &["__str__", "__repr__"],
        [_] | [_, _] if is(FORMAT) => &["__format__", "__str__", "__repr__"],
        _ => return Ok(None),
    };
    let Kind::Object(object) = t.kind(args[0]).clone() else {
        return Ok(None);
    };
    let Some(class) = t.type_of(args[0]) else {
        return Ok(None);
    };
    let object_class = t.py.get_type::<PyAny>();
    for name in methods {
        let found = lookup(&class, name);
        attributes::guard_type_attr(t, &object.class, name, found.as_ref());
        let Some(found) = found else {
            return Ok(None);
        };
        if found.is_exact_instance_of::<PyFunction>() {
            let method = attributes::get_special(t, args[0], name)?;
            let spec = match (*name, args) {
                ("__format__", [_, spec]) => vec![*spec],
                ("__format__", _) => vec![t.str("")],
                _ => Vec::new(),
            };
            let text = call(t, method, &spec, &[])?;
            let is_text = t.type_of(text);
            return match is_text.is_some_and(|class| class.is(t.py.get_type::<PyString>())) {
                true => Ok(Some(text)),
                false => t.unsupported(format!("{name}() that answers with something else")),
            };
        }
        // That of `object` asks the next one, but for a format of its own.
        let is_plain = object_class.getattr(name).is_ok_and(|own| own.is(&found));
        let has_format = match args {
            [_, spec] => !t.const_str(*spec).is_some_and(|spec| spec.is_empty()),
            _ => false,
        };
        if !is_plain || has_format {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Concatenates strings.
pub fn build_string(t: &mut Tracer<'_>, parts: &[VarId]) -> Step<VarId> {
    if let Some(joined) = texts::joined(t, parts) {
        return Ok(joined);
    }
    let mut text = String::new();
    for part in parts {
        match t.const_str(*part) {
            Some(part) => text.push_str(&part),
            None => return t.unsupported("a part of an f-string that is not constant"),
        }
    }
    let text = PyString::new(t.py, &text).into_any();
    Ok(t.constant(&text))
}
