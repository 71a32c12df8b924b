//! Whether `reshape` is called with the shape that a tensor has: eager mode answers with the same
//! tensor.

use crate::graph::TensorMeta;
use crate::variables::{Kind, VarId};
use crate::{Kwargs, Step, Tracer};

use super::meta_of;

/// The tensor that `reshape` is called with, where that has nothing to do: eager mode answers with
/// the same tensor. The receiver of a method is the first argument.
pub fn keeps_shape(
    t: &mut Tracer<'_>,
    name: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if name != "reshape" {
        return Ok(None);
    }
    let (mut tensor, mut shape, mut rest, mut has_name) = (None, None, args, false);
    for (name, value) in kwargs {
        let place = match &**name {
            "x" | "input" => &mut tensor,
            "shape" => &mut shape,
            "name" => {
                has_name = true;
                continue;
            }
            _ => return Ok(None),
        };
        if place.replace(*value).is_some() {
            return Ok(None);
        }
    }
    let tensor = match (tensor, rest) {
        (None, [first, others @ ..]) => {
            rest = others;
            *first
        }
        (Some(tensor), []) => tensor,
        _ => return Ok(None),
    };
    let is_list = |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::List(_) | Kind::Tuple(..));
    let shape = match (shape, rest) {
        (Some(shape), []) => shape,
        (None, [shape]) if is_list(t, *shape) => *shape,
        (None, [shape, _name]) if !has_name && is_list(t, *shape) => *shape,
        (None, [_, ..]) => t.add(Kind::Tuple(rest.to_vec(), None)),
        _ => return Ok(None),
    };
    let Some(meta) = meta_of(t, tensor) else {
        return Ok(None);
    };
    Ok(is_shape(t, &meta, shape)?.then_some(tensor))
}

/// Whether these are the dims of a tensor.
fn is_shape(t: &mut Tracer<'_>, meta: &TensorMeta, shape: VarId) -> Step<bool> {
    let (Kind::List(dims) | Kind::Tuple(dims, _)) = t.kind(shape).clone() else {
        return Ok(false);
    };
    if !meta.is_static() || dims.len() != meta.shape.len() {
        return Ok(false);
    }
    for (dim, known) in dims.iter().zip(&meta.shape) {
        if t.const_int(*dim) != Some(*known) {
            return Ok(false);
        }
    }
    Ok(true)
}
