//! Guards: what must still hold for a translation to be reused.

mod kinds;

pub use kinds::{Guard, GuardKind, GuardSet, TensorGuard};
