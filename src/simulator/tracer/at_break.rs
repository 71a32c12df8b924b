//! [`AtBreak`]: what a break leaves for the code that is generated for it, and for another attempt.

use crate::inlined_frame::Unwound;

/// What is known where the simulation ends in front of an instruction that the interpreter runs.
#[derive(Debug, Default)]
pub struct AtBreak {
    /// The inlined frames of a break on its way.
    pub unwound: Unwound,
    /// What the code generator could not build, but the interpreter could: this instruction made
    /// it.
    pub native_next: Option<usize>,
    /// Whether the tensor that breaks the graph because it changes in place has views in it:
    /// gradients of what was computed with them read its storage, which is another one in a
    /// program.
    pub changes_views: bool,
    /// Whether what is rebuilt goes on to native code that may change it.
    pub hands_on: bool,
}
