//! What a value is at the end of a way, after that was rolled back.

use pyo3::prelude::*;

use crate::frame::Modules;
use crate::graph::{BlockOutput, SymbolId, TensorMeta};
use crate::obj::Obj;
use crate::ops::FULL;
use crate::tracer::function_graph::Cut;
use crate::tracker::TrackerRef;
use crate::variables::{DictVar, Form, Key, Kind, VarId};

use crate::tracer::TraceMark;
use crate::{Step, Tracer, program_numbers, region};

/// A value that a way through the code ends with.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Nothing is bound.
    Unbound,
    /// It was there before.
    Same(VarId),
    /// A real object that was met on the way first, and where.
    Real(Obj, TrackerRef),
    /// A tensor, and the object that is it: of two pieces of one way, one object under two names is
    /// one.
    Tensor(SymbolId, Option<VarId>),
    /// A Python number that is a 0-d tensor of the graph.
    Number(SymbolId),
    /// A constant.
    Const(Obj),
    /// A new list, with its class.
    List(Vec<Piece>, Option<Obj>),
    /// A new tuple, with its class.
    Tuple(Vec<Piece>, Option<Obj>),
    /// A new dict.
    Dict(Vec<(Key, Obj, Piece)>),
    /// A tensor where a number holds, and `None` where not: the number and the tensor.
    Maybe(Box<(Piece, Piece)>),
    /// Something that cannot be chosen.
    Other(String),
}

const DEEP: usize = 32;

/// Describes a variable made since `mark`, or before.
///
/// `seen` are the lists and dicts that were described before: one that is found twice must stay one
/// object.
pub fn piece(
    t: &mut Tracer<'_>,
    id: Option<VarId>,
    mark: &TraceMark,
    seen: &mut Vec<VarId>,
) -> Piece {
    match id {
        None => Piece::Unbound,
        Some(id) => {
            let piece = describe(t, id, mark, seen);
            // Tuples do not change.
            seen.retain(|id| !matches!(t.vars.kind(*id), Kind::Tuple(..)));
            piece
        }
    }
}

/// What a list or dict from before `mark` holds now.
pub fn content(t: &mut Tracer<'_>, id: VarId, mark: &TraceMark, seen: &mut Vec<VarId>) -> Piece {
    match t.kind(id).form() {
        Form::List(items) => {
            let items = items.into_iter();
            Piece::List(
                items.map(|item| piece(t, Some(item), mark, seen)).collect(),
                None,
            )
        }
        Form::Dict(dict) => dict_piece(t, dict, |t, item| piece(t, Some(item), mark, seen)),
        Form::Tensor(..) | Form::Number(_) | Form::Const | Form::Tuple(..) | Form::Other => {
            Piece::Same(id)
        }
    }
}

/// What a list, dict or tensor is where it did not change.
pub fn unchanged(t: &mut Tracer<'_>, id: VarId) -> Piece {
    if let Kind::Rows(rows) = *t.kind(id) {
        return Piece::Same(region::tensor(t, rows.symbol));
    }
    match t.kind(id).form() {
        Form::List(items) => Piece::List(items.into_iter().map(Piece::Same).collect(), None),
        Form::Dict(dict) => dict_piece(t, dict, |_, item| Piece::Same(item)),
        Form::Tensor(..) | Form::Number(_) | Form::Const | Form::Tuple(..) | Form::Other => {
            Piece::Same(id)
        }
    }
}

/// A dict, where `of` describes its values.
fn dict_piece<'py>(
    t: &mut Tracer<'py>,
    dict: DictVar,
    mut of: impl FnMut(&mut Tracer<'py>, VarId) -> Piece,
) -> Piece {
    let mut items = Vec::with_capacity(dict.items.len());
    for (key, (name, value)) in dict.items {
        let Some(name) = t.value(name) else {
            return Piece::Other("a dict with such keys".into());
        };
        items.push((key, Obj::from(name), of(t, value)));
    }
    Piece::Dict(items)
}

fn describe(t: &mut Tracer<'_>, id: VarId, mark: &TraceMark, seen: &mut Vec<VarId>) -> Piece {
    if t.is_older(id, mark) {
        return Piece::Same(id);
    }
    if let Some((value, tracker)) = real(t, id) {
        return Piece::Real(value, tracker);
    }
    let Ok(id) = program_numbers::lowered(t, id) else {
        return Piece::Other("a number that a program does not compute".into());
    };
    if let Kind::Maybe(maybe) = *t.kind(id) {
        let tensor = describe(t, maybe.tensor, mark, seen);
        return Piece::Maybe(Box::new((Piece::Number(maybe.holds), tensor)));
    }
    let form = t.kind(id).form();
    let class = t.vars.get(id).class.clone();
    if let Form::List(_) | Form::Tuple(..) | Form::Dict(_) = form {
        // A container that is found twice must stay one object.
        if seen.contains(&id) || seen.len() > DEEP {
            return Piece::Other("a container that is found twice".into());
        }
        seen.push(id);
    }
    let many = |t: &mut Tracer<'_>, seen: &mut Vec<VarId>, items: &[VarId]| {
        items
            .iter()
            .map(|item| describe(t, *item, mark, seen))
            .collect()
    };
    match form {
        Form::Tensor(symbol, None) => Piece::Tensor(symbol, Some(id)),
        Form::Number(symbol) => Piece::Number(symbol),
        Form::Const => match t.value(id) {
            Some(value) => Piece::Const(Obj::from(value)),
            None => Piece::Other("a constant without a value".into()),
        },
        Form::List(items) => Piece::List(many(t, seen, &items), class),
        Form::Tuple(items, class) => Piece::Tuple(many(t, seen, &items), class),
        Form::Dict(dict) if dict.is_plain() => {
            dict_piece(t, dict, |t, item| describe(t, item, mark, seen))
        }
        Form::Tensor(..) | Form::Dict(_) | Form::Other => {
            let kind = t.kind(id).clone();
            Piece::Other(crate::call::describe(t, id, &kind))
        }
    }
}

/// The real object of a variable and where it was found, where only that object will do: tensors,
/// numbers and tuples are as good as new ones.
pub fn real(t: &mut Tracer<'_>, id: VarId) -> Option<(Obj, TrackerRef)> {
    t.realize(id);
    let free = matches!(
        t.kind(id),
        Kind::Tensor(_) | Kind::SymNumber(_) | Kind::Const | Kind::Tuple(..)
    );
    let source = t.source(id).filter(|_| !free)?;
    Some((Obj::from(t.value(id)?), source))
}

/// The tensor of a piece in a block, and whether Python sees it as a number. Constant numbers are
/// added to the block.
pub fn symbol(
    t: &mut Tracer<'_>,
    cut: &mut Cut,
    piece: &Piece,
) -> Step<Option<(BlockOutput, TensorMeta, bool)>> {
    let inner = |cut: &Cut, symbol: SymbolId, number: bool| {
        let meta = cut.meta(symbol)?.clone();
        Some((BlockOutput::Inner(symbol), meta, number))
    };
    Ok(match piece {
        Piece::Tensor(symbol, _) => inner(cut, *symbol, false),
        Piece::Number(symbol) => inner(cut, *symbol, true),
        Piece::Same(id) => {
            t.realize(*id);
            let id = program_numbers::lowered(t, *id)?;
            let form = t.kind(id).form();
            match (form.symbol(), form, t.value(id)) {
                (Some((symbol, number)), ..) => {
                    let meta = t.graph.meta(symbol).cloned();
                    meta.map(|meta| (BlockOutput::Outer(symbol), meta, number))
                }
                (None, Form::Const, Some(value)) => constant(t, cut, &Obj::from(value))?,
                _ => None,
            }
        }
        Piece::Const(value) => constant(t, cut, value)?,
        Piece::Unbound
        | Piece::Real(..)
        | Piece::List(..)
        | Piece::Tuple(..)
        | Piece::Dict(_)
        | Piece::Maybe(_)
        | Piece::Other(_) => None,
    })
}

fn constant(
    t: &mut Tracer<'_>,
    cut: &mut Cut,
    value: &Obj,
) -> Step<Option<(BlockOutput, TensorMeta, bool)>> {
    let Some((dtype, meta)) = crate::tensor_scalar::number_meta(t, value)? else {
        return Ok(None);
    };
    let full = Obj::from(t.py.paddle()?.getattr(FULL)?);
    let symbol = cut.constant(&full, value.clone(), dtype, meta.clone());
    Ok(Some((BlockOutput::Inner(symbol), meta, true)))
}

/// What Python knows of a piece without the graph: a constant.
pub fn constant_of<'py>(t: &mut Tracer<'py>, piece: &Piece) -> Option<Bound<'py, PyAny>> {
    match piece {
        Piece::Const(value) => Some(value.bind(t.py).clone()),
        Piece::Same(id) => t.const_value(*id),
        Piece::Unbound
        | Piece::Real(..)
        | Piece::Tensor(..)
        | Piece::Number(_)
        | Piece::List(..)
        | Piece::Tuple(..)
        | Piece::Dict(_)
        | Piece::Maybe(_)
        | Piece::Other(_) => None,
    }
}

pub(crate) fn shown(t: &mut Tracer<'_>, piece: &Piece) -> String {
    match piece {
        Piece::Unbound => "not bound".into(),
        Piece::Same(id) => {
            t.realize(*id);
            let kind = t.kind(*id).clone();
            match (&kind, t.value(*id)) {
                (Kind::Const, Some(value)) => value
                    .repr()
                    .map_or_else(|_| "a constant".into(), |text| text.to_string()),
                (Kind::Tensor(_), _) => "a tensor".into(),
                _ => crate::call::describe(t, *id, &kind),
            }
        }
        Piece::Real(value, _) => {
            format!("{} from outside", crate::obj::shown(value.bind(t.py)))
        }
        Piece::Tensor(..) => "a tensor".into(),
        Piece::Number(_) => "a number".into(),
        Piece::Const(value) => value
            .bind(t.py)
            .repr()
            .map_or_else(|_| "a constant".into(), |text| text.to_string()),
        Piece::List(items, _) => format!("a list of {}", items.len()),
        Piece::Tuple(items, _) => format!("a tuple of {}", items.len()),
        Piece::Dict(items) => format!("a dict of {}", items.len()),
        Piece::Maybe(_) => "a tensor or None".into(),
        Piece::Other(what) => what.clone(),
    }
}
