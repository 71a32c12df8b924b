//! Graphs as plain data: symbols, metadata, [`StatementIr`] and its printer.

mod alike;
mod autograd;
mod behind;
mod cut_up;
mod function_graph;
mod handed_on;
mod layer_ref;
mod meta;
mod parts;
mod pieces;
mod print;
mod region;
mod selected_rows;
mod several;
mod sir;
mod views;

pub use cut_up::Part;
pub use function_graph::{FunctionGraph, GraphInput, GraphMark};
pub use layer_ref::LayerRef;
pub use meta::{DType, TensorMeta};
pub use parts::Parted;
pub use region::{BlockOutput, Cut, Region};
pub use sir::{is_in_place, Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind};
pub use views::{picks, CHEAP_VIEWS, RESHAPES};
