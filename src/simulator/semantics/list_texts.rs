//! Texts of lists and of `paddle.Size` whose whole numbers differ between calls: `f"{x.shape}"`.
//!
//! What is shown is what is in the list then, so that the text is made of the items.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyList, PyString};

use crate::bytecode::BinOp;
use crate::frame::OPERATOR;
use crate::obj::text_of;
use crate::texts::{ASCII, FORMAT, REPR};
use crate::variables::{Kind, VarId};

use crate::{Step, Tracer, dynamic_scalar, fold, provenance, texts};

/// What `str()` and `repr()` of a list of whole numbers answer, of which some differ between calls;
/// `None` of others.
fn text(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    let Kind::List(items) = t.kind(id).clone() else {
        return Ok(None);
    };
    let whole = |t: &mut Tracer<'_>, item: &VarId| {
        matches!(t.kind(*item), Kind::Int(_)) || t.const_int(*item).is_some()
    };
    let open = items.iter().any(|item| dynamic_scalar::is_open(t, *item));
    if !open || !items.iter().all(|item| whole(t, item)) {
        return Ok(None);
    }
    let empty = PyList::empty(t.py).into_any();
    let empty = match t.type_of(id) {
        Some(class) if class.is(t.py.get_type::<PyList>()) => empty,
        Some(class) => match class.call1((empty,)) {
            Ok(size) if t.is_size(&size) => size,
            _ => return Ok(None),
        },
        None => return Ok(None),
    };
    let around = empty.repr()?.to_string();
    let Some((before, behind)) = around.split_once("[]") else {
        return Ok(None);
    };
    let show = t.builtin(REPR)?;
    let mut parts = vec![t.str(&format!("{before}["))];
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            parts.push(t.str(", "));
        }
        parts.push(fold::call_object(t, &show, &[*item], &[])?);
    }
    parts.push(t.str(&format!("]{behind}")));
    Ok(texts::joined(t, &parts))
}

/// The same of what is in a tuple.
fn texts_in(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    if let Some(text) = text(t, id)? {
        return Ok(Some(text));
    }
    let Kind::Tuple(mut items, None) = t.kind(id).clone() else {
        return Ok(None);
    };
    let mut found = false;
    for item in &mut items {
        if let Some(text) = text(t, *item)? {
            (*item, found) = (text, true);
        }
    }
    Ok(found.then(|| t.add(Kind::Tuple(items, None))))
}

/// Whether `pattern % values` shows each value by `str()`, or as a whole number.
fn is_plain_percent(pattern: &str) -> bool {
    // `%r` shows texts otherwise, and `%5s` as it does.
    let rest = pattern.replace("%s", "").replace("%d", "");
    !rest.contains('%')
}

/// Whether `pattern.format(...)` shows each value by `str()`.
fn is_plain_format(pattern: &str) -> bool {
    pattern.split('{').skip(1).all(|field| {
        let end = field.trim_start_matches(|letter: char| letter.is_ascii_digit());
        end.starts_with('}')
    })
}

/// The text that a pure function makes of such lists; `None` where it is no such function.
pub fn shown<'py>(
    t: &mut Tracer<'py>,
    function: &Bound<'py, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    let of_builtins = |name: &str| provenance::is_builtin(function, name);
    if let [value] = *args {
        if ["str", REPR, ASCII, FORMAT].into_iter().any(of_builtins) {
            return text(t, value);
        }
    }
    let modulo = provenance::is_of_python(function, OPERATOR, BinOp::Rem.stem());
    if let (true, [pattern, values]) = (modulo, args) {
        let plain = t.const_str(*pattern);
        if !plain.is_some_and(|plain| is_plain_percent(&plain)) {
            return Ok(None);
        }
        return match texts_in(t, *values)? {
            Some(values) => fold::call_object(t, function, &[*pattern, values], &[]).map(Some),
            None => Ok(None),
        };
    }
    let Ok(method) = function.cast_exact::<PyCFunction>() else {
        return Ok(None);
    };
    let receiver = method.getattr("__self__")?;
    let Ok(pattern) = receiver.cast_exact::<PyString>() else {
        return Ok(None);
    };
    if text_of(function, "__name__") != FORMAT || !is_plain_format(pattern.to_str()?) {
        return Ok(None);
    }
    let mut given = args.to_vec();
    let mut found = false;
    for arg in &mut given {
        if let Some(text) = text(t, *arg)? {
            (*arg, found) = (text, true);
        }
    }
    match found {
        true => fold::call_object(t, function, &given, &[]).map(Some),
        false => Ok(None),
    }
}
