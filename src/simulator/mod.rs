//! Byte-code simulation.
//!
//! `executor` runs one frame's instructions and asks the families below; each family is a file (or a
//! folder, where it takes several) whose public functions take the [`Tracer`] and variables and answer with a [`Step`].

pub mod aliases;
mod ambient;
pub mod api;
pub mod arguments;
pub mod arrays;
pub mod attributes;
mod branches;
pub mod builtins;
pub mod call;
mod classes;
pub mod comparisons;
pub mod conditions;
pub mod contexts;
pub mod conversions;
mod coverage;
mod dispatch;
pub mod exceptions;
pub mod executor;
pub mod fold;
pub mod format;
pub mod frame;
mod generators;
mod graph_numbers;
pub mod groups;
pub mod inline;
mod inner;
mod inplace;
pub mod iterate;
mod itertools;
pub mod keys;
pub mod layers;
pub mod loops;
pub mod matching;
mod merge;
pub mod methods;
mod namespaces;
mod number_arguments;
pub mod numbers;
pub mod objects;
pub mod operators;
mod places;
mod printing;
pub mod pylayer;
pub mod recompute;
pub mod regions;
mod returns;
mod rows;
pub mod scalars;
pub mod sets;
pub mod shapes;
pub mod subscript;
pub mod survey;
pub mod tensors;
pub mod texts;
pub(crate) mod tracer;
mod trees;
pub mod truth;
pub mod views;

pub use coverage::builtin_coverage;
pub use dispatch::{cell_get, cell_get_raw};
pub use executor::{BreakPoint, OpcodeExecutor, Outcome, Simulation, Simulator};
pub use inner::InnerFrame;
pub use tracer::{Kwargs, Step, Stop, TraceMark, TraceOptions, Tracer};
