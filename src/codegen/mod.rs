//! From the end of a simulation to something that runs.
//!
//! The driver runs the graph and then calls the generated function with the guard's slots and the
//! graph's outputs. The function rebuilds values, replays side effects, and either returns or runs
//! the instruction that broke the graph and hands over to a resume function.

mod alive;
mod continuation;
mod direct;
mod effects;
mod iterators;
mod native;
mod objects;
mod reconstruct;
mod reduce;
mod tools;
mod views;

pub use direct::OutTree;
pub use effects::any as has_effects;
pub use native::effect as stack_effect;
pub use reconstruct::Emitter;
pub use reduce::{function, generate, Emission, Plan, ResumeFactory};
