//! Branches and loops on tensors that become nested graphs.

pub(crate) mod attributes;
pub(crate) mod branches;
pub mod captured_flow;
pub mod conditions;
pub(crate) mod loop_return;
pub mod loops;
pub(crate) mod maybe;
pub(crate) mod own_containers;
pub(crate) mod phi;
pub mod region;
pub(crate) mod tuple_carry;
pub(crate) mod way_out;
