//! The engine of paddle-sot-rs.
//!
//! A call enters through a [`frame::FrameSource`], its guards are looked up, and on a miss the byte
//! code of the frame is simulated ([`Simulator`]) into a [`graph::StatementIr`], guards,
//! side effects and a new code object. A [`backend::GraphBackend`] compiles the graph.
//!
//! Arrows go one way, from crate to crate: `paddle-sot-cpython` (objects, byte code, frames) <-
//! `paddle-sot-ops` (Paddle's memory and operators) <- `paddle-sot-ir` (graphs as plain data) <-
//! this one, which hands on what authors of backends need of them. Backends know `graph` only.
//! Nothing in here names a backend or a Paddle `Program`.

pub mod backend;
mod codegen;
pub mod guard;
pub mod plugin;
pub mod reason;
mod simulator;
pub mod tracker;
pub mod translate;

pub use paddle_sot_cpython::{bytecode, c_stack, frame, native, obj, sync};
pub use paddle_sot_ir as graph;
pub use paddle_sot_ops::{self as ops, abi, paddle};
pub use simulator::{Simulator, TraceOptions, builtin_coverage, variables};
