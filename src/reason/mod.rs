//! Why something was not captured: the taxonomy of graph breaks and fallbacks, and the statistics
//! that count them.

mod catalogue;
mod stats;

pub use catalogue::{Break, BreakCode, BreakKind, SourceLoc};
pub use stats::{Fallback, GraphBreakEvent, Recompile, Stats};
