//! `match` statements.

use crate::variables::{Kind, VarId};

use super::{Step, Tracer};

/// Whether a mapping pattern may match.
pub fn is_mapping(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    match t.kind(value) {
        Kind::Dict(_) => Ok(true),
        Kind::Object(_) | Kind::Opaque | Kind::Layer(_) => {
            t.unsupported("a mapping pattern on this object")
        }
        _ => Ok(false),
    }
}

/// Whether a sequence pattern may match.
pub fn is_sequence(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    match t.kind(value) {
        Kind::List(_) | Kind::Tuple(..) | Kind::Range(..) => Ok(true),
        Kind::Object(_) | Kind::Opaque | Kind::Layer(_) => {
            t.unsupported("a sequence pattern on this object")
        }
        _ => Ok(false),
    }
}
