//! What Python's operations on objects do: attributes, comparisons, containers, iteration,
//! exceptions, text.

pub mod attributes;
pub(crate) mod classes;
pub mod comparisons;
pub mod containers;
pub mod exceptions;
pub mod format;
pub mod frame_introspection;
pub(crate) mod generators;
pub(crate) mod given_iterators;
pub mod groups;
pub mod iterate;
pub(crate) mod itertools;
pub mod keys;
pub(crate) mod list_texts;
pub mod matching;
pub(crate) mod namespaces;
pub mod objects;
pub mod operators;
pub(crate) mod printing;
pub(crate) mod provenance;
pub(crate) mod repr_guards;
pub mod sets;
pub(crate) mod text_keys;
pub mod texts;
pub mod truth;
