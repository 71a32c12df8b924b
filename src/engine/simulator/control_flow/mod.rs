//! Branches and loops on tensors that become nested graphs.

pub(in crate::simulator) mod attributes;
pub(in crate::simulator) mod branches;
pub mod captured_flow;
pub mod conditions;
pub(in crate::simulator) mod loop_return;
pub mod loops;
pub(in crate::simulator) mod maybe;
pub(in crate::simulator) mod own_containers;
pub(in crate::simulator) mod phi;
pub mod region;
pub(in crate::simulator) mod tuple_carry;
pub(in crate::simulator) mod way_out;
