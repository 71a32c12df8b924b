//! What the simulator's stack and locals hold.
//!
//! Variables live in an [`Arena`] and are named by [`VarId`]: two names for one object are one id,
//! so identity and aliasing are explicit. Every change goes through the arena's undo log, so a
//! checkpoint is a position and roll-back is exact. `kinds` has one file a kind.

#![deny(clippy::wildcard_enum_match_arm)]

mod answers;
mod arena;
mod ask;
mod key;
pub mod kinds;
pub mod protocol;
mod rebuild;

pub use answers::{Exports, Finalizer, Form, Precedence, Snapshot};
pub use arena::{Arena, ArenaMark, VarId};
pub use key::Key;
pub use kinds::{
    ArrayVar, AttrOp, CellVar, ContextVar, DictVar, FunctionVar, Item, IterVar, Kind, MaybeVar,
    NewFunction, NumberVar, ObjectVar, RowsVar, SetVar, StandIn, TensorVar, TextPart, Tool,
    Variable, View,
};
pub use protocol::Protocol;
pub use rebuild::{Emit, Rebuild};
