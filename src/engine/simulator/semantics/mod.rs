//! What Python's operations on objects do: attributes, comparisons, containers, iteration,
//! exceptions, text.

pub mod attributes;
pub(in crate::simulator) mod classes;
pub mod comparisons;
pub mod containers;
pub mod exceptions;
pub mod format;
pub mod frame_introspection;
pub(in crate::simulator) mod generators;
pub(in crate::simulator) mod given_iterators;
pub mod groups;
pub mod iterate;
pub(in crate::simulator) mod itertools;
pub mod keys;
pub(in crate::simulator) mod list_texts;
pub mod matching;
pub(in crate::simulator) mod namespaces;
pub mod objects;
pub mod operators;
pub(in crate::simulator) mod printing;
pub(in crate::simulator) mod provenance;
pub(in crate::simulator) mod repr_guards;
pub mod sets;
pub(in crate::simulator) mod text_keys;
pub mod texts;
pub mod truth;
