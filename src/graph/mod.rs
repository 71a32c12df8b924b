//! Graphs as plain data: symbols, metadata, [`StatementIr`] and its printer.

mod alike;
mod autograd;
mod function_graph;
mod layer_ref;
mod meta;
mod multi_output_grad;
mod outlined_views;
mod partition;
mod passthrough_aliases;
mod pieces;
mod print;
mod region;
mod selected_rows;
mod sir;
mod split;
mod views;

pub use function_graph::{FunctionGraph, GraphInput, GraphMark};
pub use layer_ref::LayerRef;
pub use meta::{DType, TensorMeta};
pub use partition::Parted;
pub use region::{BlockOutput, Cut, Region};
pub use sir::{is_in_place, Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind};
pub use split::Part;
pub use views::picks;
