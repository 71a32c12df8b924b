//! Objects that hold a list or a dict: deques, proxies, views, and instances of subclasses.

pub mod deques;
pub mod pairs;
pub mod proxies;
pub mod subclasses;
pub mod views;
