//! Names that are a tensor on one way and `None` on the other: the tensor with a flag beside it.

use pyo3::prelude::*;

use crate::branches::tails;
use crate::graph::SymbolId;
use crate::phi::Piece;
use crate::variables::{Kind, MaybeVar, VarId};
use crate::{Step, Tracer, carried_aliases, tensor_scalar};

/// The value that is `tensor` where `flag` holds, and `None` where not.
pub fn variable(t: &mut Tracer<'_>, flag: VarId, tensor: VarId) -> VarId {
    if let Some(known) = t.const_value(flag) {
        return match known.is_truthy().unwrap_or(true) {
            true => tensor,
            false => t.none(),
        };
    }
    let Some(holds) = t.kind(flag).graph_number() else {
        return tensor;
    };
    if let Kind::Tensor(var) = t.kind(tensor) {
        // A name that has it may change it in place, and others that have it too would not see it.
        let symbol = var.symbol;
        carried_aliases::note(t, symbol, holds);
    }
    t.add(Kind::Maybe(MaybeVar { holds, tensor }))
}

/// What a value is on this way, where a test has decided it.
pub fn decided(t: &mut Tracer<'_>, id: VarId) -> VarId {
    // Nothing is looked into: most values are others.
    let Kind::Maybe(maybe) = *t.vars.kind(id) else {
        return id;
    };
    match tails::decided_symbol(t, maybe.holds) {
        Some(true) => maybe.tensor,
        Some(false) => t.none(),
        None => id,
    }
}

/// Whether a value is a tensor, as a number of the graph; `None` where that is known.
pub fn is_there(t: &mut Tracer<'_>, id: VarId) -> Option<VarId> {
    let id = decided(t, id);
    let holds = symbol(t, id)?;
    Some(t.add(Kind::SymNumber(holds)))
}

fn symbol(t: &Tracer<'_>, id: VarId) -> Option<SymbolId> {
    if let Kind::Maybe(maybe) = t.vars.kind(id) {
        Some(maybe.holds)
    } else {
        None
    }
}

/// Whether `value is None` (or is not, unless `holds`).
pub fn tested(t: &mut Tracer<'_>, value: VarId, holds: bool) -> Step<VarId> {
    if let Some(there) = is_there(t, value) {
        return match holds {
            true => tensor_scalar::negation(t, there),
            false => Ok(there),
        };
    }
    let value = decided(t, value);
    let is_none = t.is_none(value);
    Ok(t.bool(is_none == holds))
}

/// `value is None` where the graph decides it.
pub fn is_none(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let value = match (t.is_none(a), t.is_none(b)) {
        (true, false) => b,
        (false, true) => a,
        _ => return Ok(None),
    };
    match is_there(t, value) {
        Some(holds) => tensor_scalar::negation(t, holds).map(Some),
        None => Ok(None),
    }
}

/// A piece as a flag and a tensor: that is none where it is `None`.
pub fn parts(t: &mut Tracer<'_>, piece: &Piece) -> Option<(Piece, Option<Piece>)> {
    let is_none = if let Piece::Same(id) = piece {
        t.is_none(*id)
    } else if let Piece::Const(value) = piece {
        value.bind(t.py).is_none()
    } else {
        false
    };
    let flag = |t: &mut Tracer<'_>, holds| Piece::Same(t.bool(holds));
    if is_none {
        return Some((flag(t, false), None));
    }
    if let Piece::Maybe(parts) = piece {
        let (flag, tensor) = (**parts).clone();
        return Some((flag, Some(tensor)));
    }
    if let Piece::Tensor(..) = piece {
        return Some((flag(t, true), Some(piece.clone())));
    }
    let Piece::Same(id) = piece else {
        return None;
    };
    t.realize(*id);
    if let Kind::Maybe(maybe) = *t.kind(*id) {
        let flag = t.add(Kind::SymNumber(maybe.holds));
        return Some((Piece::Same(flag), Some(Piece::Same(maybe.tensor))));
    }
    let is_tensor = matches!(t.kind(*id), Kind::Tensor(_));
    is_tensor.then(|| (flag(t, true), Some(piece.clone())))
}
