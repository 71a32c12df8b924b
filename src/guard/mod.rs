//! Guards: what must still hold for a translation to be reused.

mod compile;
mod expression;
mod kinds;
mod layer_state;
pub mod native;
pub mod number;
mod version_fast_path;

pub use compile::{
    CompiledGuard, GuardCompiler, GuardInputs, NativeGuardCompiler, NativeGuards, Slots,
};
pub use expression::{path, ExpressionGuardCompiler};
pub use kinds::{open_dims, ArrayGuard, Guard, GuardKind, GuardSet, TensorGuard};
