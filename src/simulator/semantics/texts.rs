//! Texts of which only the type is known, because they differ between calls: from outside, numbers
//! that differ shown by a pure function, and what is joined of such.
//!
//! Generated code makes them. Python never needs their value as long as they are only shown again,
//! joined, and handed on.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFloat, PyInt, PyString, PyTuple};

use crate::bytecode::BinOp;
use crate::frame::OPERATOR;
use crate::graph::{DType, TensorMeta};
use crate::tracker::number::Type;
use crate::variables::{Kind, TextPart, VarId};

use crate::tracer::is_plain_constant;
use crate::{Step, Tracer, dynamic_scalar, fold, item, operators, program_numbers, provenance};

/// A builtin that shows a value.
pub const REPR: &str = "repr";

/// The same in ASCII.
pub const ASCII: &str = "ascii";

/// A builtin, and a method of texts.
pub const FORMAT: &str = "format";

/// Functions of `builtins` that show numbers and texts.
const SHOW: &[&str] = &["str", REPR, ASCII, FORMAT, "hex", "oct", "bin"];

/// What stands in for what differs between calls: an int, a float, and a text.
type StandIn = (i64, f64, &'static str);

/// A function that shows all of these does not depend on which value there is.
const STAND_INS: [StandIn; 3] = [
    (1, 1.5, "a"),
    (-1, f64::NAN, ""),
    (1 << 62, f64::NEG_INFINITY, "{%\n\u{e9}"),
];

/// The text that a pure function makes of what differs between calls; `None` where it is no such
/// function, or whether it raises depends on the values.
pub fn shown(
    t: &mut Tracer<'_>,
    function: &Bound<'_, PyAny>,
    args: &[VarId],
) -> Step<Option<VarId>> {
    if !args.iter().any(|arg| is_open(t, *arg)) || !is_pure(t, function, args)? {
        return Ok(None);
    }
    for stand_in in STAND_INS {
        let mut objects = Vec::with_capacity(args.len());
        for arg in args {
            match instead(t, *arg, stand_in) {
                Some(object) => objects.push(object),
                None => return Ok(None),
            }
        }
        match function.call1(PyTuple::new(t.py, objects)?) {
            Ok(text) if text.is_exact_instance_of::<PyString>() => {}
            _ => return Ok(None),
        }
    }
    for arg in args {
        if !stays_short(t, function, *arg)? {
            return Ok(None);
        }
    }
    let function = t.constant(function);
    let part = TextPart::Shown(function, args.into());
    Ok(Some(t.add(Kind::Text([part].into()))))
}

/// Whether whole numbers have no more digits than Python shows, and are no larger than floats: 64
/// bits, under a guard.
fn stays_short(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, id: VarId) -> Step<bool> {
    const UNLIMITED: [&str; 3] = ["hex", "oct", "bin"];
    if matches!(t.kind(id), Kind::Int(_)) && dynamic_scalar::is_given(t, id) {
        let of_python = |name: &&str| provenance::is_builtin(function, name);
        return Ok(UNLIMITED.iter().any(of_python) || dynamic_scalar::is_computed(t, id)?);
    }
    let items = t.kind(id).exact_tuple().map(<[VarId]>::to_vec);
    for item in items.into_iter().flatten() {
        let short = fold::deeper(t, |t| stays_short(t, function, item));
        if !short.unwrap_or(Ok(false))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `len()` of a text that shows whole numbers, of which the program computes some or which differ
/// between calls; `None` where it has other parts.
pub fn len_of(t: &mut Tracer<'_>, text: VarId) -> Step<Option<VarId>> {
    let Kind::Text(parts) = t.kind(text).clone() else {
        return Ok(None);
    };
    let mut known = 0;
    let mut total = None;
    for part in parts.iter() {
        let number = match part {
            TextPart::Text(text) => match t.const_str(*text) {
                Some(text) => {
                    known += text.chars().count() as i64;
                    continue;
                }
                None => return Ok(None),
            },
            TextPart::Shown(function, args) => match args[..] {
                [number] if shows_plainly(t, *function) => number,
                _ => return Ok(None),
            },
        };
        let is_whole = program_numbers::numbers_class(t, number) == Some(Type::Int);
        if !is_whole {
            return Ok(None);
        }
        let len = match program_numbers::is_of_graph(t, number) {
            true => match program_numbers::as_tensor(t, number, DType::Int64)? {
                Some(symbol) => Some(program_numbers::apply(t, "text_length", &[symbol])?),
                None => None,
            },
            false => {
                let length = dynamic_scalar::helper(t, "text_length")?;
                dynamic_scalar::of_function(t, &length, (number, None))?
            }
        };
        let Some(len) = len else {
            return Ok(None);
        };
        total = Some(match total {
            Some(total) => operators::binary(t, BinOp::Add, false, total, len)?,
            None => len,
        });
    }
    let known = t.int(known);
    match total {
        Some(total) => operators::binary(t, BinOp::Add, false, total, known).map(Some),
        None => Ok(None),
    }
}

/// Whether a function shows a whole number in decimal.
pub fn shows_plainly(t: &mut Tracer<'_>, function: VarId) -> bool {
    let plain = ["str", REPR, ASCII, FORMAT];
    let function = t.value(function);
    function.is_some_and(|function| {
        plain
            .iter()
            .any(|name| provenance::is_builtin(&function, name))
    })
}

/// Exact texts in a row, of which some differ between calls; `None` where none does, or one is
/// something else.
pub fn joined(t: &mut Tracer<'_>, texts: &[VarId]) -> Option<VarId> {
    let mut parts = Vec::with_capacity(texts.len());
    for text in texts {
        let is_open = matches!(t.kind(*text), Kind::Text(_));
        if let Kind::Text(made) = t.kind(*text) {
            parts.extend(made.iter().cloned());
            if !made.is_empty() {
                continue;
            }
        }
        if !is_open {
            t.const_str(*text)?;
        }
        parts.push(TextPart::Text(*text));
    }
    let differs = texts
        .iter()
        .any(|text| matches!(t.vars.kind(*text), Kind::Text(_)));
    differs.then(|| t.add(Kind::Text(parts.into())))
}

/// `a + b` where one of them differs between calls; `None` where the other is no text.
pub fn sum(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Option<VarId> {
    // CPython answers with the operand itself where there is nothing to add.
    for (text, other) in [(a, b), (b, a)] {
        if t.const_str(other).is_some_and(|other| other.is_empty()) {
            return Some(text);
        }
    }
    joined(t, &[a, b])
}

/// Whether this is, or holds, a number or a text that differs between calls and that Python has.
fn is_open(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Text(_) = t.kind(id) {
        return true;
    }
    if let Kind::Tuple(items, None) = t.kind(id).clone() {
        let any = |t: &mut Tracer<'_>| items.into_iter().any(|item| is_open(t, item));
        return fold::deeper(t, any).unwrap_or(false);
    }
    is_whole_of_graph(t, id) || dynamic_scalar::is_open(t, id) && !item::is_float(t, id)
}

/// Whether it is a whole number that the graph computes: Python has it behind the graph.
fn is_whole_of_graph(t: &mut Tracer<'_>, id: VarId) -> bool {
    let Kind::SymNumber(symbol) = *t.kind(id) else {
        return false;
    };
    let is_whole = |meta: &TensorMeta| meta.dtype == DType::Int64 && meta.shape.is_empty();
    t.graph.meta(symbol).is_some_and(is_whole)
}

fn is_pure(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, args: &[VarId]) -> PyResult<bool> {
    if SHOW
        .iter()
        .any(|name| provenance::is_builtin(function, name))
    {
        return Ok(true);
    }
    // `"%d" % number`
    if provenance::is_of_python(function, OPERATOR, "mod") {
        return Ok(args
            .first()
            .is_some_and(|text| t.const_str(*text).is_some()));
    }
    let Ok(method) = function.cast_exact::<PyCFunction>() else {
        return Ok(false);
    };
    let receiver = method.getattr("__self__")?;
    Ok(receiver.is_exact_instance_of::<PyString>() && method.getattr("__name__")?.eq(FORMAT)?)
}

fn instead<'py>(t: &mut Tracer<'py>, id: VarId, stand_in: StandIn) -> Option<Bound<'py, PyAny>> {
    let py = t.py;
    if item::is_float(t, id) {
        return None;
    }
    if is_whole_of_graph(t, id) || matches!(t.kind(id), Kind::Int(_)) {
        return Some(PyInt::new(py, stand_in.0).into_any());
    }
    if let Kind::Float(_) = t.kind(id) {
        return Some(PyFloat::new(py, stand_in.1).into_any());
    }
    if let Kind::Text(_) = t.kind(id) {
        return Some(PyString::new(py, stand_in.2).into_any());
    }
    if let Kind::Tuple(items, None) = t.kind(id).clone() {
        let objects = fold::deeper(t, |t| {
            let objects = items.into_iter().map(|item| instead(t, item, stand_in));
            objects.collect::<Option<Vec<_>>>()
        })??;
        return Some(PyTuple::new(py, objects).ok()?.into_any());
    }
    let Kind::Const = t.kind(id) else {
        return None;
    };
    fold::to_object(t, id).filter(is_plain_constant)
}
