//! The driver: from a call to a cached translation and its run.

mod arguments;
mod automatic_dynamic;
mod backward_guard;
mod callable;
mod callees;
mod check_dims;
mod choice;
mod declared_dynamic;
mod export;
mod finish;
mod forced;
mod freeze;
mod function;
mod graph_inputs;
mod in_front;
mod inner_steps;
mod paddle_sot_hook;
mod pin;
mod pipeline;
mod random;
pub mod record;
mod resumes;
mod statistics;
mod step_graph;
mod totals;

pub use callable::{CalleeFunction, Continuation, ResumeFunction};
pub use choice::{BackendChoice, Configured, Worth};
pub use export::Exported;
pub use forced::ForcedTranslation;
pub use freeze::FrozenGraph;
pub use function::tiered::compile_at_once;
pub use function::{
    CompileOptions, Entry, GraphInfo, Shared, Stance, Translated, UnaskedCall, note_hooked_saves,
    set_stance, switch_off, take_turns_anew,
};
pub use totals::{register, reset_all, totals};
