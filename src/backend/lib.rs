//! What the engine of paddle-sot-rs asks of a backend, and the registry of backends.
//!
//! A crate of its own, so that a backend compiles without the engine, and is not built anew when
//! the engine changes. What a backend needs of the crates below is handed on from here.

mod error;
mod panics;
pub mod plugin;
mod registry;
mod retrace;
mod traits;
mod translating;

pub use error::BackendError;
pub use panics::{caught, is_panic};
pub use registry::{
    BackendHandle, BackendRegistration, DEFAULT, RegistryError, clone_backend, current,
    default_session, edits, get, list, named, register, swap, unregister,
};
pub use retrace::retrace;
pub use traits::{
    CallResult, Captured, ComparedDims, ComparedWith, CompileRequest, CompiledGraph, ExportInput,
    ExportRequest, GraphBackend, InferredOutput, TraceSession, ValueHandle,
};
pub use translating::{is_translating, set_translating};

pub use paddle_sot_cpython::{bytecode, frame, obj, sync};
pub use paddle_sot_ir as graph;
pub use paddle_sot_ops::{self as ops, abi, paddle};
