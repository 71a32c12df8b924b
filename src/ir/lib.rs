//! Graphs as plain data: symbols, [`StatementIr`], its regions, its printer and the passes over it.

mod alike;
mod alike_layers;
mod autograd;
mod chained_uses;
mod layer_ref;
mod multi_output_grad;
mod ordered_sums;
mod outlined_views;
mod partition;
mod passthrough_aliases;
mod pieces;
mod places;
mod print;
mod region;
mod replaced_layers;
mod selected_rows;
mod sir;
mod split;
mod unmade;
mod views;

pub use chained_uses::Chained;
pub use layer_ref::LayerRef;
pub use ordered_sums::{Arrivals, Makers};
pub use paddle_sot_ops::meta::{DType, TensorMeta};
pub use partition::Parted;
pub use pieces::Cutter;
pub use region::{BlockOutput, Cut, Region};
pub use sir::{
    Arg, Callee, PYTHON_NUMBER, Statement, StatementIr, SymbolId, SymbolKind, is_in_place,
};
pub use split::Part;
pub use unmade::{is_unmade, unmade};
pub use views::picks;
