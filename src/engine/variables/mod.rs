//! What the simulator's stack and locals hold.
//!
//! Variables live in an [`Arena`] and are named by [`VarId`]: two names for one object are one id,
//! so identity and aliasing are explicit. Every change goes through the arena's undo log, so a
//! checkpoint is a position and roll-back is exact. One file per family of kinds.

mod arena;
mod iterators;
mod key;
mod kinds;
mod tools;

pub use arena::{Arena, ArenaMark, VarId};
pub use iterators::{Item, IterVar};
pub use key::Key;
pub use kinds::{
    ArrayVar, AttrOp, CellVar, ContextVar, DictVar, FunctionVar, Kind, NewFunction, NumberVar,
    ObjectVar, SetVar, TensorVar, TextPart, Variable, View,
};
pub use tools::Tool;
