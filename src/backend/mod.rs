//! What the engine asks of a backend, and the registry of backends.

mod error;
mod registry;
mod traits;

pub use error::BackendError;
pub use registry::{
    clone_backend, current, get, list, register, swap, unregister, BackendHandle,
    BackendRegistration, RegistryError,
};
pub use traits::{
    CallResult, Captured, CompileRequest, CompiledGraph, ExportInput, ExportRequest, GraphBackend,
    InferredOutput, TraceSession, ValueHandle,
};
