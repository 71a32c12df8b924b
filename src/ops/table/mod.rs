//! The rows: names of functions, methods and layers of Paddle, and what is known of each.

mod functional;
mod indexing;
mod layers;
mod logic;
mod making;
mod math;
mod programs;
mod shapes;
mod views;

pub use making::TO_TENSOR;
pub use math::{ASSIGN, CLONE, FULL, FULL_LIKE, WHERE};
pub use views::{ASTYPE, CONTIGUOUS, DETACH, VIEW};

use super::{Fact, Unlike};

/// Names and facts.
type Rows = &'static [(&'static str, &'static [Fact])];

/// All rows, by name; see [`super::knows`].
pub fn rows() -> impl Iterator<Item = (&'static str, &'static [Fact])> {
    [
        views::ROWS,
        math::ROWS,
        indexing::ROWS,
        logic::ROWS,
        functional::ROWS,
        layers::ROWS,
        making::ROWS,
        programs::ROWS,
        shapes::ROWS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

// With these arguments a program does otherwise than eager mode.

/// Eager mode wants a list, programs take a tensor.
const OF_A_TENSOR: Fact = Fact::Differs(
    0,
    "x",
    Unlike::TensorForList,
    "of a tensor instead of a list",
);

/// A tensor for an exponent has other digits.
const EXPONENT: Fact = Fact::Differs(1, "y", Unlike::NumberOfGraph, "of a number of the graph");

/// Programs see no gaps.
const MAY_HAVE_GAPS: Fact = Fact::Differs(
    0,
    "x",
    Unlike::MayHaveGaps,
    "of a tensor that may have gaps",
);

/// Where programs take whole numbers only, Paddle reads a tensor as a sequence of them, and the
/// process ends.
const fn along(at: usize, axis: &'static str) -> Fact {
    let why = "along an axis that the graph makes";
    Fact::Differs(at, axis, Unlike::OfGraph, why)
}

/// Programs take whole numbers.
const fn tolerance(at: usize, name: &'static str) -> Fact {
    let why = "with a tolerance that is no float";
    Fact::Differs(at, name, Unlike::NoFloat, why)
}

/// Eager mode takes the dtype of such a bound for none.
const fn bound(at: usize, name: &'static str) -> Fact {
    let why = "with a bound of half precision";
    Fact::Differs(at, name, Unlike::Half, why)
}

/// Eager mode says that sizes want no gradient.
const fn sizes(name: &'static str) -> Fact {
    let why = "with sizes that want a gradient";
    Fact::Differs(1, name, Unlike::WantsGradient, why)
}
