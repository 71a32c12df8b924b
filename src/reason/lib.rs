//! Why something was not captured: the taxonomy of graph breaks and fallbacks, and the statistics
//! that count them.

mod break_id;
mod catalogue;
mod excerpt;
mod own_steps;
mod phases;
mod stats;
mod table;

pub use crate::bytecode::{Columns, SourceLoc};
pub use break_id::BreakInfo;
pub use catalogue::{Break, BreakCode, BreakKind};
pub use own_steps::NoteOwnStep;
pub use phases::{Clock, Phase, Seconds, show_progress, timed};
pub use stats::{Fallback, GraphBreakEvent, Recompile, Stats};
pub use table::BreakId;

use paddle_sot_backend as backend;
use paddle_sot_cpython::{bytecode, frame};
