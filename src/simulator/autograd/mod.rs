//! What gradients need of the trace: calls that are deferred behind it, PyLayers, recomputation,
//! what backward reads.

pub mod deferred;
pub(crate) mod partial_gradients;
pub mod pylayer;
pub mod recompute;
pub mod replay_reads;
pub(crate) mod saved_for_backward;
