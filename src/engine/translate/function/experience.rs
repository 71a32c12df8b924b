//! [`Experience`]: what the translations of a function have taught. It is what the next one is
//! given; calls that a translation is ready for do not ask it.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use crate::obj::Obj;
use crate::reason::Break;
use crate::simulator::Detours;
use crate::tracker::Place;
use crate::translate::automatic_dynamic::Seen;

use super::recurrence::Recurrence;
use super::skip_policy::Attempts;

/// What the translations of one function have taught.
#[derive(Default)]
pub struct Experience {
    /// Dims seen and found to change.
    pub dims: Mutex<FxHashMap<Place, Vec<Option<i64>>>>,
    /// Numbers that were relied on.
    pub numbers: Mutex<FxHashMap<Place, Seen>>,
    /// About single instructions.
    pub detours: Mutex<Detours>,
    /// Under `full_graph`: every reason of the last attempt.
    pub reasons: Mutex<Vec<Break>>,
    /// What the last arguments were that it was translated for; see `observed` in
    /// `specification.py`.
    pub(super) observed: Mutex<Option<Obj>>,
    /// The call of the user's that it was last translated in, and how often it was in that.
    pub(super) rounds: Mutex<(Option<u64>, usize)>,
    /// Whether it was translated for round after round of a loop.
    pub(super) loops: AtomicBool,
    /// Sizes that no translation was ready for.
    pub(super) recurrence: Mutex<Recurrence>,
    /// Translations that failed.
    pub(super) attempts: Attempts,
}
