//! The guard program on real Python objects.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod changes;
mod program;
mod world;
