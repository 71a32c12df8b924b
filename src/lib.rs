//! The engine of paddle-sot-rs.
//!
//! A call enters through a [`frame::FrameSource`], its guards are looked up, and on a miss the byte
//! code of the frame is simulated ([`simulator::Simulator`]) into a [`graph::StatementIr`], guards,
//! side effects and a new code object. A [`backend::GraphBackend`] compiles the graph.
//!
//! Arrows go one way: `bytecode` <- `variables`/`tracker` <- `simulator` <- `codegen`; backends
//! know `graph` only. Nothing in here names a backend or a Paddle `Program`.

pub mod backend;
pub mod bytecode;
pub mod codegen;
pub mod frame;
pub mod graph;
pub mod guard;
pub mod obj;
pub mod ops;
pub mod paddle;
pub mod plugin;
pub mod reason;
pub mod simulator;
pub mod tracker;
pub mod translate;
pub mod variables;
