//! What Python asks a value for: its truth, its length, and whether something is in it.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use crate::bytecode::CmpOp;
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Kind, VarId};

use crate::simulator::call::{call, describe};
use crate::simulator::operators::is_object;
use crate::simulator::{
    attributes, classes, comparisons, dynamic_scalar, exceptions, fold, keys, made_arrays,
    namespaces, program_numbers, sets, tensor_scalar,
};
use crate::simulator::{Step, Tracer};

/// `item in container`
pub fn contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<bool> {
    match t.kind(container).clone() {
        Kind::List(items) | Kind::Tuple(items, _) => {
            for candidate in items {
                if comparisons::equal_values(t, candidate, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Kind::Dict(dict) => {
            let key = keys::key_of(t, item)?;
            Ok(dict.items.contains_key(&key))
        }
        Kind::Set(set) => {
            let key = keys::key_of(t, item)?;
            Ok(set.items.contains_key(&key))
        }
        Kind::DictView(dict, 0) => contains(t, dict, item),
        Kind::Range(..) | Kind::Const => {
            let result = fold::operator(t, "contains", &[container, item])?;
            truth(t, result)
        }
        kind if is_object(&kind) => {
            let Some(method) = attributes::try_get_special(t, container, "__contains__")? else {
                return t.unsupported("in without __contains__");
            };
            let result = call(t, method, &[item], &[])?;
            truth(t, result)
        }
        kind => {
            if let Some(found) = namespaces::try_get(t, container, item)? {
                return Ok(found.is_some());
            }
            if let Some(answer) = sets::contains(t, container, item)? {
                return Ok(answer);
            }
            let what = describe(t, container, &kind);
            t.unsupported(format!("in on {what}"))
        }
    }
}

/// `item in container` where only the program knows it: one of them is a number that it computes.
pub fn computed_contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<Option<VarId>> {
    let items = match t.kind(container).clone() {
        Kind::List(items) | Kind::Tuple(items, _) => items,
        Kind::Const => match t.value(container) {
            Some(value) if value.is_exact_instance_of::<PyTuple>() => {
                let mut items = Vec::new();
                for item in value.try_iter()? {
                    items.push(t.constant(&item?));
                }
                items
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let pairs: Vec<_> = items.into_iter().map(|other| (other, item)).collect();
    let found = program_numbers::equal_items(t, &pairs, false)?;
    Ok(found.filter(|found| tensor_scalar::is_captured(t, *found)))
}

/// `bool(value)`
pub fn truth(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    match t.kind(value).clone() {
        Kind::Tensor(_) | Kind::SymNumber(_) => t.stop(
            BreakKind::TensorBranch,
            "the truth of a tensor decides what is executed next",
        ),
        Kind::Const => match t.value(value) {
            Some(object) if object.is(t.py.NotImplemented()) => {
                t.stop(BreakId::Truth, "the truth of NotImplemented, which warns")
            }
            Some(object) if crate::simulator::tracer::is_plain_constant(&object) => {
                Ok(object.is_truthy()?)
            }
            Some(object) => enum_truth(t, &object),
            None => t.stop(BreakId::Truth, "the truth of a name that has no value here"),
        },
        Kind::Int(_) | Kind::Float(_) => {
            let zero = t.int(0);
            if let Some(holds) = program_numbers::assumed(t, CmpOp::Ne, value, zero)? {
                return Ok(holds);
            }
            match dynamic_scalar::compare(t, CmpOp::Ne, value, zero)? {
                Some(holds) => Ok(holds),
                None => t.stop(
                    BreakId::Truth,
                    "the truth of a number that differs between calls",
                ),
            }
        }
        Kind::List(items) | Kind::Tuple(items, _) | Kind::Layers { items, .. } => {
            Ok(!items.is_empty())
        }
        Kind::Scalar => match t.value(value) {
            Some(object) => Ok(object.is_truthy()?),
            None => t.stop(BreakId::Truth, "the truth of a name that has no value here"),
        },
        Kind::Dict(dict) => Ok(!dict.items.is_empty()),
        Kind::Set(set) => Ok(!set.items.is_empty()),
        Kind::Range(..) | Kind::DictView(..) => Ok(len(t, value)? != 0),
        Kind::Function(_)
        | Kind::Method { .. }
        | Kind::BoundBuiltin { .. }
        | Kind::Module
        | Kind::Slice(_)
        | Kind::Cell(_)
        | Kind::Partial { .. }
        | Kind::Iter(_) => Ok(true),
        Kind::Callable => Ok(true),
        Kind::Class => classes::truth(t, value),
        Kind::Object(_) | Kind::Layer(_) => {
            if let Some(method) = attributes::try_get_special(t, value, "__bool__")? {
                let result = call(t, method, &[], &[])?;
                let bools = t.py.get_type::<PyBool>();
                return match t.type_of(result).is_some_and(|class| class.is(&bools)) {
                    true => truth(t, result),
                    false => t.stop(BreakKind::RaisesException, "__bool__ that is not a bool"),
                };
            }
            if let Some(method) = attributes::try_get_special(t, value, "__len__")? {
                let result = call(t, method, &[], &[])?;
                t.realize(result);
                return match is_length(t, result)? {
                    true => truth(t, result),
                    false => t.stop(BreakId::Truth, "__len__ that is not a length"),
                };
            }
            Ok(true)
        }
        // A traceback that nobody has made yet.
        Kind::Opaque if t.raised_at(value).is_some() => Ok(true),
        Kind::Opaque if is_always_true(t, value) => Ok(true),
        kind => {
            if let Some(filled) = sets::truth(t, value)? {
                return Ok(filled);
            }
            let what = describe(t, value, &kind);
            t.stop(BreakId::Truth, format!("the truth of {what}"))
        }
    }
}

/// Whether this is what `__len__` may answer with, under a guard where that differs between calls.
fn is_length(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    if let Kind::Int(_) = t.kind(value) {
        let zero = t.int(0);
        return Ok(dynamic_scalar::compare(t, CmpOp::Ge, value, zero)? == Some(true));
    }
    // Nothing is captured behind the truth of one of the graph.
    let of_graph = matches!(t.kind(value), Kind::SymNumber(_));
    Ok(of_graph || t.const_int(value).is_some_and(|len| len >= 0))
}

/// Whether its class, one of C code, which is guarded, says nothing about the truth of its instances.
fn is_always_true(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.type_of(value).is_some_and(|class| {
        let own = |name: &str| attributes::lookup(&class, name).is_some();
        !own("__bool__") && !own("__len__")
    })
}

fn enum_truth(t: &mut Tracer<'_>, object: &Bound<'_, PyAny>) -> Step<bool> {
    let class = object.get_type();
    let own = |name: &str| attributes::lookup(&class, name).is_some();
    if crate::native::is_mutable(&class) {
        classes::guard_names(t, &class, &["__bool__", "__len__"]);
    }
    if own("__bool__") || own("__len__") {
        return t.stop(BreakId::Truth, "the truth of this constant");
    }
    Ok(true)
}

/// `len(value)`
pub fn len(t: &mut Tracer<'_>, value: VarId) -> Step<i64> {
    match t.kind(value).clone() {
        Kind::List(items) | Kind::Tuple(items, _) | Kind::Layers { items, .. } => {
            Ok(items.len() as i64)
        }
        Kind::Dict(dict) => Ok(dict.items.len() as i64),
        Kind::DictView(dict, _) => len(t, dict),
        Kind::Array(_) => made_arrays::len(t, value),
        Kind::Set(set) => Ok(set.items.len() as i64),
        Kind::Const => {
            classes::check_member(t, value, &["__len__"])?;
            let object = t.value(value);
            match object.and_then(|object| object.len().ok()) {
                Some(len) => Ok(len as i64),
                None => exceptions::throw(t, "TypeError"),
            }
        }
        Kind::Range(start, stop, step) => {
            let span = if step > 0 {
                stop.saturating_sub(start)
            } else {
                start.saturating_sub(stop)
            };
            let step = step.saturating_abs();
            Ok(if span <= 0 { 0 } else { (span - 1) / step + 1 })
        }
        Kind::Tensor(tensor) => match t
            .graph
            .meta(tensor.symbol)
            .and_then(|meta| meta.shape.first().copied())
        {
            Some(dim) if dim >= 0 => Ok(dim),
            Some(_) => t.stop(
                BreakId::TensorLoop,
                "the length of a tensor with a dynamic first dim",
            ),
            None => t.stop(BreakKind::RaisesException, "the length of a 0-d tensor"),
        },
        kind if is_object(&kind) => {
            let method = attributes::get_special(t, value, "__len__")?;
            let result = call(t, method, &[], &[])?;
            match t.const_int(result) {
                Some(len) if len >= 0 => Ok(len),
                _ => t.stop(BreakId::Length, "__len__ that is not a length"),
            }
        }
        kind => {
            if let Some(len) = sets::len(t, value)? {
                return Ok(len as i64);
            }
            let what = describe(t, value, &kind);
            t.stop(BreakId::Length, format!("len() of {what}"))
        }
    }
}

/// Whether a Python value is a list or tuple object (used by folding).
pub fn is_sequence_object(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}
