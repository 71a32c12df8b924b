//! The rows: names of functions, methods and layers of Paddle, and what is known of each.

mod functional;
mod layers;
mod making;
mod math;
mod programs;
mod views;

pub use views::DETACH;

use super::Fact;

/// Names and facts.
type Rows = &'static [(&'static str, &'static [Fact])];

/// All rows, by name; see [`super::knows`].
pub fn rows() -> impl Iterator<Item = (&'static str, &'static [Fact])> {
    [
        views::ROWS,
        math::ROWS,
        functional::ROWS,
        layers::ROWS,
        making::ROWS,
        programs::ROWS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
