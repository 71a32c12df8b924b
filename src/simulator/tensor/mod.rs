//! Calls of Paddle: functions, methods and layers, changes in place, arrays, and who shares
//! storage with whom.

pub mod alias_analysis;
pub mod api;
pub mod arrays;
pub mod carried_aliases;
pub(crate) mod device;
pub(crate) mod differences;
pub mod escaping_aliases;
pub(crate) mod grown_lists;
pub(crate) mod inplace;
pub(crate) mod layer_call;
pub mod layers;
pub(crate) mod made_arrays;
pub(crate) mod rows;
pub mod shape_rules;
pub(crate) mod subclasses;
pub mod subscript;
pub mod tensors;
