//! String formatting.

use pyo3::types::PyString;

use crate::reason::BreakId;
use crate::simulator::texts::{ASCII, FORMAT, REPR};
use crate::variables::{Kind, VarId};

use crate::simulator::{Step, Tracer, exceptions, fold, texts};

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
