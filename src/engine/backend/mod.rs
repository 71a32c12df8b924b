//! What the engine asks of a backend, and the registry of backends.

mod error;
mod panics;
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
pub use translating::is_translating;
pub(crate) use translating::set_translating;
