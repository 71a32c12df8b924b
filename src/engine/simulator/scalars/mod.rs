//! Numbers: those that differ between calls, those that only the graph knows, NumPy's.

pub mod dynamic_scalar;
pub mod item;
pub mod numpy_scalars;
pub(in crate::simulator) mod scalar_arguments;
pub(in crate::simulator) mod tensor_scalar;
