//! Objects that hold a list or a dict: deques, and instances of subclasses.

pub mod deques;
pub mod subclasses;
