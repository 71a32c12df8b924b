//! The guard program on real Python objects.

mod changes;
mod program;
mod world;
