//! Numbers: those that differ between calls, those that only the graph knows, NumPy's.

pub mod conversions;
pub(in crate::simulator) mod graph_numbers;
pub mod numbers;
pub mod numpy_scalars;
pub(in crate::simulator) mod scalar_arguments;
