//! `tensor[key] = value` of a tensor that the frame made.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::bytecode::CmpOp;
use crate::frame::Modules;
use crate::graph::{Arg, DType, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::ops::TO_TENSOR;
use crate::subscript::index_range;
use crate::tensors;
use crate::variables::{Kind, NumberVar, VarId};
use crate::{Step, Tracer};
use crate::{alias_analysis, arguments, dynamic_scalar, scalar_arguments, tensor_scalar};

use super::{fits, is_captured, replace, through_views};

/// The operation without side effect.
pub(super) const SET: &str = "set_item";

/// `tensor[key] = value`; whether it was captured.
pub fn set_item(t: &mut Tracer<'_>, tensor: VarId, key: VarId, value: VarId) -> Step<bool> {
    let key = as_places(t, tensor, key)?;
    let key = of_graph(t, key)?;
    let basic = is_basic(t, key);
    if basic && !is_in_range(t, tensor, key)? {
        return Ok(false);
    }
    if basic {
        index_range::check(t, tensor, key)?;
    }
    let through = match basic && through_views::is_view(t, tensor) {
        true => match through_views::chain(t, tensor, &[value]) {
            Some(chain) => Some(chain),
            None => return Ok(false),
        },
        false => None,
    };
    if through.is_none()
        && (!basic && !is_advanced(t, tensor, key, value)? || !is_captured(t, tensor, SET)?)
    {
        return Ok(false);
    }
    let value = match scalar_arguments::of_item(t, tensor, value)? {
        Some(number) => number,
        None if fits(t, tensor, value) => value,
        None => return Ok(false),
    };
    // Eager mode lets gradients flow to the tensor even without gradients: it becomes a leaf.
    if !t.grad.enabled && tensors::meta_of(t, value).is_some_and(|meta| !meta.stop_gradient) {
        return Ok(false);
    }
    if t.goes_backward() && alias_analysis::root(&t.vars, value) == tensor {
        let mut flows = |id| tensors::meta_of(t, id).is_some_and(|meta| !meta.stop_gradient);
        // Eager mode keeps the value for the gradient, sees that it changes with the tensor, and
        // refuses.
        if flows(tensor) || flows(value) {
            return Ok(false);
        }
    }
    let operation = if basic { SET } else { "put_items" };
    let result = tensors::control(t, operation, &[tensor, key, value])?;
    if let Some(chain) = through {
        return through_views::write_back(t, &chain, result);
    }
    Ok(replace(t, tensor, result)?.is_some())
}

/// Most places in a list.
const MOST_PLACES: usize = 64;

/// A list of different places along the first dim is a tensor of them, for the operation; other
/// keys stay.
fn as_places(t: &mut Tracer<'_>, tensor: VarId, key: VarId) -> Step<VarId> {
    let Kind::List(items) = t.kind(key).clone() else {
        return Ok(key);
    };
    let size = tensors::meta_of(t, tensor).and_then(|meta| meta.shape.first().copied());
    let mut places: Vec<i64> = Vec::new();
    for item in items {
        let place = is_whole(t, item).then(|| t.const_int(item)).flatten();
        match place {
            Some(at) if at >= 0 && Some(at) < size && !places.contains(&at) => places.push(at),
            _ => return Ok(key),
        }
    }
    if places.is_empty() || places.len() > MOST_PLACES {
        return Ok(key);
    }
    let made = t.py.paddle()?.getattr(TO_TENSOR)?;
    let made = made.call1((places,))?;
    Ok(t.constant(&made))
}

/// The key with numbers made of open dims, and slices of those, as numbers of the graph.
fn of_graph(t: &mut Tracer<'_>, key: VarId) -> Step<VarId> {
    let kind = t.kind(key).clone();
    if let Kind::Int(_) = kind {
        let symbol = dynamic_scalar::place(t, key)?;
        return Ok(symbol.map_or(key, |symbol| t.add(Kind::SymNumber(symbol))));
    }
    if let Kind::Slice(parts) = kind {
        let [start, stop, step] = parts;
        let new = [of_graph(t, start)?, of_graph(t, stop)?, step];
        return Ok(if new == parts {
            key
        } else {
            t.add(Kind::Slice(new))
        });
    }
    let Kind::Tuple(items, None) = kind else {
        return Ok(key);
    };
    let mut new = Vec::with_capacity(items.len());
    for item in &items {
        let inner = matches!(t.kind(*item), Kind::Tuple(..));
        new.push(if inner { *item } else { of_graph(t, *item)? });
    }
    Ok(if new == items {
        key
    } else {
        t.add(Kind::Tuple(new, None))
    })
}

/// Whole numbers, slices of them, `...` and `None`: other keys have rules of their own.
fn is_basic(t: &mut Tracer<'_>, key: VarId) -> bool {
    if let Kind::Tuple(items, None) = t.kind(key).clone() {
        return items
            .into_iter()
            .all(|item| !matches!(t.kind(item), Kind::Tuple(..)) && is_basic(t, item));
    }
    if let Kind::Slice(parts) = *t.kind(key) {
        return parts
            .into_iter()
            .all(|part| t.is_none(part) || is_whole(t, part) || is_number_of_graph(t, part));
    }
    let selects = |value: Bound<'_, PyAny>| value.is_none() || value.is(value.py().Ellipsis());
    is_place_of_graph(t, key)
        || matches!(t.kind(key), Kind::Const)
            && (is_whole(t, key) || t.value(key).is_some_and(selects))
}

/// Whether each whole number of such a key is a place along its dim, guarded where that is open:
/// eager mode raises for another one, a program looks at some of them only.
fn is_in_range(t: &mut Tracer<'_>, tensor: VarId, key: VarId) -> Step<bool> {
    let Some((symbol, meta)) = tensors::symbol_and_meta(t, tensor) else {
        return Ok(false);
    };
    let items = t
        .kind(key)
        .exact_tuple()
        .map_or_else(|| vec![key], <[VarId]>::to_vec);
    let rank = meta.shape.len();
    let of_graph: Vec<bool> = items.iter().map(|id| is_place_of_graph(t, *id)).collect();
    let of_graph = of_graph.contains(&true);
    let mut takes = |id: &VarId| {
        matches!(t.kind(*id), Kind::Slice(_)) || is_whole(t, *id) || is_place_of_graph(t, *id)
    };
    if of_graph && !items.iter().all(&mut takes) {
        return Ok(false);
    }
    let Some(left_out) = rank.checked_sub(items.iter().filter(|id| takes(id)).count()) else {
        return Ok(false);
    };
    let mut axis = 0;
    for item in items {
        if let Some(at) = t.const_int(item) {
            if !is_place(t, (symbol, axis), meta.shape[axis], at)? {
                return Ok(false);
            }
        } else if !matches!(t.kind(item), Kind::Slice(_)) && !is_place_of_graph(t, item) {
            // The ellipsis, or a new axis.
            axis += if t.is_none(item) { 0 } else { left_out };
            continue;
        }
        axis += 1;
    }
    Ok(true)
}

/// Whether it is a whole number of no dims that only the graph knows, of control flow that is
/// captured.
fn is_place_of_graph(t: &mut Tracer<'_>, id: VarId) -> bool {
    if is_number_of_graph(t, id) {
        return true;
    }
    let meta = if let Kind::Tensor(_) = t.kind(id) {
        tensors::meta_of(t, id)
    } else {
        None
    };
    let whole = meta.is_some_and(|meta| {
        meta.shape.is_empty() && matches!(meta.dtype, DType::Int32 | DType::Int64)
    });
    whole && t.options.capture_control_flow
}

/// Whether it is a whole number that the graph makes.
fn is_number_of_graph(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::SymNumber(symbol) = *t.kind(id) {
        let meta = t.graph.meta(symbol);
        return meta.is_some_and(|meta| matches!(meta.dtype, DType::Int32 | DType::Int64));
    }
    false
}

/// Whether there is such a place along a dim.
fn is_place(t: &mut Tracer<'_>, dim: (SymbolId, usize), known: i64, at: i64) -> Step<bool> {
    let least = match at {
        0.. => at.saturating_add(1),
        _ => at.saturating_neg(),
    };
    // Nobody guards what is exported.
    if known >= 0 || !t.options.varies.guards_outcomes {
        return Ok(known < 0 || known >= least);
    }
    let open = NumberVar::Dim(dim.0, dim.1);
    let (dim, least) = (t.add(Kind::Int(open)), t.int(least));
    if let Some(holds) = dynamic_scalar::compare(t, CmpOp::Ge, dim, least)? {
        return Ok(holds);
    }
    // A dim that differs from round to round: the graph fails where there is no such place.
    if !t.flow.is_captured() {
        return Ok(false);
    }
    let now = arguments::number_statement(t, open)?;
    let least = arguments::to_arg(t, least)?;
    let fits = tensor_scalar::method(t, "__ge__", now, vec![least])?;
    let fits = t.add(Kind::SymNumber(fits));
    tensor_scalar::statement(t, "check", &[fits])?;
    Ok(true)
}

/// A mask for the first dims, or tensors of whole numbers for them, and one number or exactly what
/// they select for a value. Keys of no dims are numbers, in eager mode.
fn is_advanced(t: &mut Tracer<'_>, tensor: VarId, key: VarId, value: VarId) -> Step<bool> {
    let Some((of, shape)) = tensors::symbol_and_meta(t, tensor).map(|(of, meta)| (of, meta.shape))
    else {
        return Ok(false);
    };
    let keys = t
        .kind(key)
        .exact_tuple()
        .map_or_else(|| vec![key], <[VarId]>::to_vec);
    let behind = leading_slices(t, &keys);
    let keys = keys[behind..].to_vec();
    let shares = |id: &VarId| alias_analysis::root(&t.vars, *id) == tensor;
    let (key_shares, value_shares) = (keys.iter().any(shares), shares(&value));
    let keys: Option<Vec<(SymbolId, TensorMeta)>> = keys
        .into_iter()
        .map(|key| tensors::symbol_and_meta(t, key).filter(|(_, meta)| !meta.shape.is_empty()))
        .collect();
    let value = tensors::meta_of(t, value);
    // Eager mode computes a gradient of its own for it, of memory that nobody has written.
    if t.goes_backward() && value.as_ref().is_some_and(|value| !value.stop_gradient) {
        return Ok(false);
    }
    let is_number = value
        .as_ref()
        .is_none_or(|value| value.shape.iter().all(|dim| *dim == 1));
    match keys.as_deref() {
        Some([(mask, meta)]) if meta.dtype == DType::Bool => {
            if !is_number || behind > 0 || meta.shape.len() > shape.len() {
                return Ok(false);
            }
            // A program would take one row for all.
            for at in 0..meta.shape.len() {
                if !is_same_dim(t, (*mask, meta.shape[at]), (of, shape[at]), at)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some([(index, first), rest @ ..]) => {
            let whole = |key: &TensorMeta| matches!(key.dtype, DType::Int32 | DType::Int64);
            let keys = || [first].into_iter().chain(rest.iter().map(|(_, key)| key));
            let alike = keys().all(|key| key.shape == first.shape);
            let whole_dims = shape.iter().take(behind);
            let selected = whole_dims.chain(first.shape.iter());
            let selected = selected.chain(shape.iter().skip(behind + rest.len() + 1));
            if behind > 0 && (!rest.is_empty() || first.shape.len() != 1) {
                return Ok(false);
            }
            // Where nothing is selected, eager mode raises for a number.
            let fits = match is_number {
                true => is_filled(t, *index, &first.shape)?,
                false => value.is_some_and(|value| value.shape.iter().eq(selected)),
            };
            // Eager mode's kernel goes from one place to the next, and reads what it has written to
            // those before.
            let apart = !key_shares && (is_number || !value_shares);
            Ok(keys().all(whole) && alike && fits && apart && behind + rest.len() < shape.len())
        }
        _ => Ok(false),
    }
}

/// How many keys take all of a dim, in front of others.
fn leading_slices(t: &mut Tracer<'_>, keys: &[VarId]) -> usize {
    let mut is_whole = |key: &&VarId| {
        if let Kind::Slice(parts) = *t.kind(**key) {
            parts.iter().all(|part| t.is_none(*part))
        } else {
            false
        }
    };
    keys.iter().take_while(|key| is_whole(key)).count()
}

/// Whether a tensor holds something, where its dims are open too.
fn is_filled(t: &mut Tracer<'_>, symbol: SymbolId, shape: &[i64]) -> Step<bool> {
    for (at, dim) in shape.iter().enumerate() {
        if *dim >= 0 {
            if *dim == 0 {
                return Ok(false);
            }
            continue;
        }
        let (number, zero) = (NumberVar::Dim(symbol, at), t.int(0));
        if t.options.varies.guards_outcomes {
            let dim = t.add(Kind::Int(number));
            let holds = dynamic_scalar::compare(t, CmpOp::Gt, dim, zero)?;
            if holds == Some(true) {
                continue;
            }
            if holds.is_some() || !t.options.capture_control_flow {
                return Ok(false);
            }
        }
        // Nobody guards it: the program fails where it is empty, as eager mode does.
        let dim = arguments::number_statement(t, number)?;
        let zero = t.value(zero).map(Obj::from);
        let zero = zero.into_iter().map(Arg::Const).collect();
        let holds = tensor_scalar::method(t, "__gt__", dim, zero)?;
        let holds = t.add(Kind::SymNumber(holds));
        tensor_scalar::statement(t, "check", &[holds])?;
    }
    Ok(true)
}

/// Whether two tensors have the same dim at a place, where those are open too.
fn is_same_dim(
    t: &mut Tracer<'_>,
    a: (SymbolId, i64),
    b: (SymbolId, i64),
    at: usize,
) -> Step<bool> {
    if a.1 >= 0 && b.1 >= 0 {
        return Ok(a.1 == b.1);
    }
    let numbers = [a.0, b.0].map(|symbol| NumberVar::Dim(symbol, at));
    let [a, b] = numbers.map(|number| t.add(Kind::Int(number)));
    if t.options.varies.guards_outcomes {
        return Ok(dynamic_scalar::compare(t, CmpOp::Eq, a, b)? == Some(true));
    }
    match dynamic_scalar::outcome_now(t, CmpOp::Eq, a, b) {
        Some(now) if !now.holds => return Ok(false),
        Some(now) if now.left == now.right => return Ok(true),
        _ => {}
    }
    // Nobody guards what is exported: the program fails where they differ.
    let one = arguments::number_statement(t, numbers[0])?;
    let other = arguments::number_statement(t, numbers[1])?;
    let fits = tensor_scalar::method(t, "__eq__", one, vec![Arg::Symbol(other)])?;
    let fits = t.add(Kind::SymNumber(fits));
    tensor_scalar::statement(t, "check", &[fits])?;
    Ok(true)
}

/// Whether it is a whole number, and no bool: as a key that is a mask.
pub(super) fn is_whole(t: &mut Tracer<'_>, id: VarId) -> bool {
    t.const_value(id)
        .is_some_and(|value| value.is_exact_instance_of::<PyInt>())
}
