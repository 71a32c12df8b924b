//! Byte-code simulation.
//!
//! `executor` runs one frame's instructions and asks the families below; each family is a file whose
//! public functions take the [`Tracer`] and variables and answer with a [`Step`].

pub mod api;
pub mod attributes;
pub mod builtins;
pub mod call;
pub mod contexts;
pub mod format;
pub mod inline;
pub mod iterate;
pub mod layers;
pub mod methods;
pub mod objects;
pub mod operators;
pub mod subscript;
pub mod tensors;
mod tracer;

pub use tracer::{Kwargs, Step, Stop, TraceMark, TraceOptions, Tracer};
