//! What is known of the operators of Paddle: one row for each name, one [`Fact`] for each question.
//!
//! A row names a function, a method (operators with their two underscores) or the class of a layer.
//! What a row does not say is not known, and everything that asks takes that for the worse answer.

pub mod abi;
pub mod meta;
pub mod paddle;
mod table;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub use table::RESHAPES;

/// One thing that is known of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Its result shares the storage of its argument, where it can, and costs next to nothing.
    CheapView,
    /// Another one whose result may share the storage of its argument (found by calling every
    /// function and method in eager mode and comparing addresses), or does in other versions. None
    /// of them draws random numbers.
    View,
    /// A view whose result has no gaps where the argument has none.
    KeepsOrder,
    /// A layer that makes a view.
    ViewLayer,
    /// It makes a tensor and does not keep it for its gradient.
    ForgetsResult,
    /// It keeps none of its arguments for its gradient.
    ForgetsArguments,
    /// Of those, it keeps the whole numbers that say where. Of a mask it keeps the places that it
    /// says.
    SavesPlaces,
    /// It keeps nothing next to a number.
    ForgetsBesideNumber,
    /// It never fails because of the numbers it is given. Of anything else nobody knows: labels and
    /// positions out of range, a matrix that cannot be inverted, an assertion. The row is named
    /// without the underscores of operators and of what is done in place.
    NeverFails,
    /// The same, as long as it is given no tensors but those that it puts together or takes apart.
    NeverFailsAlone,
    /// The same, of a layer of Paddle's.
    LayerNeverFails,
    /// Several results of one kernel, whose gradient is that with zeros for what did not arrive.
    /// Hooks of all results are called, too.
    OneKernel,
    /// Several results of one kernel. Its gradient in eager mode ends the process where one did not
    /// arrive, here there are zeros.
    AllOrNothing,
}

static BY_NAME: LazyLock<FxHashMap<&str, &[Fact]>> =
    LazyLock::new(|| table::ROWS.iter().copied().collect());

/// Whether the row of this name has this fact.
pub fn knows(name: &str, fact: Fact) -> bool {
    BY_NAME.get(name).is_some_and(|facts| facts.contains(&fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_row_and_each_row_says_something_once() {
        assert_eq!(BY_NAME.len(), table::ROWS.len());
        for (name, facts) in table::ROWS {
            assert!(!facts.is_empty(), "{name}");
            let twice = |fact| facts.iter().filter(|it| *it == fact).count() > 1;
            assert!(!facts.iter().any(twice), "{name}");
        }
    }

    #[test]
    fn facts_that_add_to_others_stand_beside_them() {
        for (name, facts) in table::ROWS {
            let has = |fact| facts.contains(&fact);
            assert!(
                !has(Fact::SavesPlaces) || has(Fact::ForgetsArguments),
                "{name}"
            );
            assert!(!has(Fact::KeepsOrder) || has(Fact::CheapView), "{name}");
            assert!(!(has(Fact::CheapView) && has(Fact::View)), "{name}");
            assert!(
                !(has(Fact::NeverFails) && has(Fact::NeverFailsAlone)),
                "{name}"
            );
            assert!(!(has(Fact::OneKernel) && has(Fact::AllOrNothing)), "{name}");
        }
    }

    #[test]
    fn reshapes_are_cheap_views() {
        assert!(RESHAPES.iter().all(|name| knows(name, Fact::CheapView)));
    }
}
