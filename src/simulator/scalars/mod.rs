//! Numbers: those that differ between calls, those that only the graph knows, NumPy's.

pub mod dynamic_scalar;
pub mod item;
pub mod numpy_scalars;
pub(crate) mod scalar_arguments;
pub(crate) mod tensor_scalar;
