//! CPython as the engine sees it: objects, reads that run no user code, byte code and frames.
//!
//! What differs between versions of CPython is in [`bytecode`]'s and [`frame`]'s `version` modules.
//! Nothing in here knows Paddle, graphs or translations.

pub mod bytecode;
pub mod c_stack;
pub mod frame;
pub mod native;
pub mod obj;
pub mod sync;
