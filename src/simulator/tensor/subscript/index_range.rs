//! `tensor[key]` where a number of the graph, or a tensor of no dims, says which place.
//!
//! The graph fails where there is no such place: a program's kernel gives an empty result then.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::graph::{Arg, DType, SymbolId};
use crate::obj::Obj;
use crate::variables::{Kind, NumberVar, VarId};

use crate::{Step, Tracer};
use crate::{tensor_scalar, tensors};

/// Fails in the graph where a place that only the graph knows is outside of its dim.
pub fn check(t: &mut Tracer<'_>, tensor: VarId, key: VarId) -> Step<()> {
    let items = t
        .kind(key)
        .exact_tuple()
        .map_or_else(|| vec![key], <[VarId]>::to_vec);
    let mut places = Vec::new();
    for item in &items {
        places.push(place(t, *item)?);
    }
    if places.iter().all(Option::is_none) {
        return Ok(());
    }
    let Some((symbol, meta)) = tensors::symbol_and_meta(t, tensor) else {
        return Ok(());
    };
    let taken: Vec<usize> = items.iter().map(|item| dims_of(t, *item)).collect();
    let Some(left_out) = meta.shape.len().checked_sub(taken.iter().sum()) else {
        return Ok(());
    };
    let mut axis = 0;
    for ((item, place), taken) in items.into_iter().zip(places).zip(taken) {
        if let Some(place) = place {
            inside(t, (symbol, axis), place)?;
        }
        axis += match t.value(item).is_some_and(|item| item.is(t.py.Ellipsis())) {
            true => left_out,
            false => taken,
        };
    }
    Ok(())
}

/// The symbol of a place that only the graph knows.
fn place(t: &mut Tracer<'_>, item: VarId) -> Step<Option<SymbolId>> {
    if let Kind::SymNumber(symbol) | Kind::Int(NumberVar::Graph(symbol)) = *t.kind(item) {
        return Ok(Some(symbol));
    }
    let Some(symbol) = t.kind(item).tensor().map(|tensor| tensor.symbol) else {
        return Ok(None);
    };
    let whole = |meta: &&crate::graph::TensorMeta| {
        let index = matches!(meta.dtype, DType::Int32 | DType::Int64);
        meta.shape.is_empty() && index
    };
    Ok(t.graph.meta(symbol).filter(whole).map(|_| symbol))
}

/// How many dims an item of a key takes.
fn dims_of(t: &mut Tracer<'_>, item: VarId) -> usize {
    let mask = tensors::meta_of(t, item).filter(|meta| meta.dtype == DType::Bool);
    let none = t.is_none(item) || t.value(item).is_some_and(|item| item.is(t.py.Ellipsis()));
    match mask {
        Some(mask) => mask.shape.len(),
        None => usize::from(!none),
    }
}

/// The graph fails where a place is not inside of a dim: one statement, also for an open dim.
fn inside(t: &mut Tracer<'_>, (of, axis): (SymbolId, usize), place: SymbolId) -> Step<()> {
    let axis = Arg::Const(Obj::from(PyInt::new(t.py, axis as i64).into_any()));
    let args = vec![Arg::Symbol(of), Arg::Symbol(place), axis];
    tensor_scalar::control(t, "check_place", args)
}
