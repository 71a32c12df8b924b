//! Guards: what must still hold for a translation to be reused. [`tracker`] says where the values
//! that they look at come from.

mod checks;
mod compile;
mod difference;
mod expression;
mod failure;
mod held;
mod kinds;
mod layer_state;
pub mod tracker;
mod version_fast_path;

pub use compile::{
    CompiledGuard, GuardCompiler, GuardInputs, NativeGuardCompiler, NativeGuards, Slots,
};
pub use expression::{ExpressionGuardCompiler, path};
pub use failure::GuardFailure;
pub use kinds::{Guard, GuardKind, GuardSet};
pub use paddle_sot_ops::abi::{ArrayGuard, TensorGuard, open_dims};

use paddle_sot_cpython::{bytecode, frame, native, obj, sync};
use paddle_sot_ops::{self as ops, abi, paddle};
