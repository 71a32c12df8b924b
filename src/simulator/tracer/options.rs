//! What a translation is made for.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::loops::LoopPlaces;
use crate::obj::Obj;
use crate::reason::{NoteOwnStep, SourceLoc};
use crate::tracker::TrackerRef;

/// What a translation is made for: what the user asked for, and what is known of the function.
#[derive(Clone, Default)]
pub struct TraceOptions {
    /// Callables that must not be captured (identity).
    pub black_list: FxHashSet<usize>,
    /// Names of Paddle functions, tensor methods and attributes that must not be captured.
    pub black_names: FxHashSet<String>,
    /// Callables marked with `allow_in_graph` (identity).
    pub allow_list: FxHashSet<usize>,
    /// Callables marked with `disable` (identity of the function and of its code).
    pub disabled: FxHashSet<usize>,
    /// A break in an inlined call is resumed inside of it.
    pub resume_inside: bool,
    /// Control flow on tensors becomes part of the graph.
    pub capture_control_flow: bool,
    /// Captured loops may carry gradients: nothing goes backwards through what is exported.
    pub forward_only: bool,
    /// A comparison of open dims that nobody guards is taken to answer as it does for the dims of
    /// this call: the program checks that.
    pub assumes_branches: bool,
    /// Loops that are captured where their rounds are known: they were with open dims.
    pub kept_open: LoopPlaces,
    /// What the user calls the tensors among the arguments, by address.
    pub names: FxHashMap<usize, String>,
    /// `print` of tensors becomes part of the graph.
    pub capture_print: bool,
    /// Deepest inlining.
    pub max_depth: usize,
    /// Most instructions one translation simulates, where it is not the usual bound.
    pub max_steps: Option<usize>,
    /// Told why a deferred step of an optimizer runs Paddle's own code.
    pub note_own_step: Option<NoteOwnStep>,
    /// What differs between calls.
    pub varies: Differing,
    /// Instructions that are followed in another way than others.
    pub detours: Detours,
}

/// What differs between calls of a function, and how that is answered.
#[derive(Clone, Default)]
pub struct Differing {
    /// Dims to trace as dynamic: tracker -> dim indices.
    pub dims: FxHashMap<TrackerRef, Vec<usize>>,
    /// Numbers that differ between calls, and what they are in this one.
    pub numbers: FxHashMap<TrackerRef, Obj>,
    /// Containers that are not looked into: what looks into one is left to the interpreter.
    pub closed: FxHashSet<TrackerRef>,
    /// A comparison of such numbers and of dynamic dims is answered, under a guard.
    pub guards_outcomes: bool,
}

/// What translations of a function have taught about its instructions: each is followed in another
/// way from then on.
#[derive(Clone, Default)]
pub struct Detours {
    /// Instructions of the outermost frame that the interpreter runs: they make generators that
    /// outlive a break.
    pub native: FxHashSet<usize>,
    /// Those in which no tensor begins to take gradients in place: it leaves the graph.
    pub filled: FxHashSet<usize>,
    /// Calls of the outermost frame that are not deferred: it computes behind them.
    pub not_deferred: FxHashSet<usize>,
    /// Calls of `backward()` whose gradients the graph does not compute: somebody looks at what it
    /// makes.
    pub apart: FxHashSet<usize>,
    /// Those whose changes in place the graph computes, since it goes on behind them.
    pub computed: FxHashSet<usize>,
    /// Whether steps of optimizers are part of the graph, since the frame computes behind them.
    pub steps_inside: Option<bool>,
    /// Whether gradients are cleared behind the graph, which computes behind that in the frame.
    pub clears_first: Option<bool>,
    /// Places of operations whose code runs again on the way back, and reads what changes until
    /// then.
    pub changed_later: FxHashSet<SourceLoc>,
}
