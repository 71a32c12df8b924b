//! Calls of Paddle: functions, methods and layers, changes in place, arrays, and who shares
//! storage with whom.

pub mod alias_analysis;
pub mod api;
pub mod arrays;
pub mod carried_aliases;
pub(in crate::simulator) mod device;
pub(in crate::simulator) mod differences;
pub mod escaping_aliases;
pub(in crate::simulator) mod grown_lists;
pub(in crate::simulator) mod inplace;
pub(in crate::simulator) mod layer_call;
pub mod layers;
pub(in crate::simulator) mod made_arrays;
pub(in crate::simulator) mod rows;
pub mod shape_rules;
pub(in crate::simulator) mod subclasses;
pub mod subscript;
pub mod tensors;
