//! Backends from other extension modules.
//!
//! Rust has no stable ABI, so no Rust type crosses between the engine and a plug-in: each has its
//! own copy of this crate. What crosses is a versioned `#[repr(C)]` table of functions in a
//! `PyCapsule` (`table`), and Python objects: graphs as tuples (`codec`), compiled graphs as
//! callables (`graph`). A panic on one side reaches the other as a Python exception.
//!
//! - In the plug-in: [`crate::export_backend!`], [`Export`], [`host_backend`].
//! - In the engine: [`load`], [`delegate`].

mod codec;
mod graph;
mod guest;
mod host;
mod table;

pub use graph::{CalledGraph, GraphObject};
pub use guest::{Export, capsule, host_backend};
pub use host::{TraceObject, delegate, load};
pub use table::{ABI_VERSION, BackendTable, CAPSULE, MAGIC};

/// Exports a backend as an extension module: `export_backend!(module_name, constructor)`.
///
/// The module has one attribute, `backend`, for the entry point to name. The crate must be a
/// `cdylib` of the module's name and depend on `pyo3`.
#[macro_export]
macro_rules! export_backend {
    ($module:ident, $make:expr) => {
        struct ExportedBackend;

        impl $crate::plugin::Export for ExportedBackend {
            fn make() -> ::std::boxed::Box<dyn $crate::GraphBackend> {
                ::std::boxed::Box::new($make())
            }
        }

        #[::pyo3::pymodule]
        fn $module(module: &::pyo3::Bound<'_, ::pyo3::types::PyModule>) -> ::pyo3::PyResult<()> {
            let backend = $crate::plugin::capsule::<ExportedBackend>(module.py())?;
            ::pyo3::types::PyModuleMethods::add(module, "backend", backend)
        }
    };
}
