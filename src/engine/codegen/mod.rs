//! From the end of a simulation to something that runs.
//!
//! The driver runs the graph and then calls the generated function with the guard's slots and the
//! graph's outputs. The function rebuilds values, replays side effects, and either returns or runs
//! the instruction that broke the graph and hands over to a resume function.

mod arm;
mod break_point;
mod continuation;
mod effects;
mod iterators;
mod live_locals;
mod numbers;
mod open_contexts;
mod output_tree;
mod plan;
mod reconstruct;
mod tools;
mod views;

pub use plan::{Emission, Plan, function, generate};
