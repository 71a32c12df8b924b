//! The engine of paddle-sot-rs.
//!
//! A call enters through a [`frame::FrameSource`], its guards are looked up, and on a miss the byte
//! code of the frame is simulated ([`Simulator`]) into a [`graph::StatementIr`], guards,
//! side effects and a new code object. A [`backend::GraphBackend`] compiles the graph.
//!
//! Arrows go one way, from crate to crate: `paddle-sot-cpython` (objects, byte code, frames) <-
//! `paddle-sot-ops` (Paddle's memory and operators) <- `paddle-sot-ir` (graphs as plain data) <-
//! `paddle-sot-backend` (what a backend is asked) <- `paddle-sot-reason` (why graphs break) and
//! `paddle-sot-guard` (guards, trackers) <- `paddle-sot-simulator` (byte code to graphs) <- this
//! one (new byte code, caches), which hands all of them on.
//! Backends know nothing of it, and nothing in here names a backend or a Paddle `Program`.

mod codegen;
pub mod translate;

pub use paddle_sot_backend::{self as backend, export_backend, plugin};
pub use paddle_sot_cpython::{bytecode, c_stack, frame, native, obj, sync};
pub use paddle_sot_guard::{self as guard, tracker};
pub use paddle_sot_ir as graph;
pub use paddle_sot_ops::{self as ops, abi, paddle};
pub use paddle_sot_reason as reason;
use paddle_sot_simulator as simulator;
pub use paddle_sot_simulator::{Simulator, TraceOptions, builtin_coverage, variables};
