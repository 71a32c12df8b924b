//! Operations that have a form in place.

use crate::ops::{Fact, facts, knows};

/// Whether the form in place gives what the operation gives.
pub(super) fn is_form(form: &str) -> bool {
    let has_form = |fact: &Fact| {
        matches!(
            fact,
            Fact::InPlace
                | Fact::InPlaceForgets
                | Fact::InPlaceCopies
                | Fact::InPlaceApart
                | Fact::InPlaceCompares
                | Fact::InPlaceReforms
        )
    };
    facts(form).iter().any(has_form)
}

/// Whether its gradient needs nothing of what the tensor was, or has a copy of it.
pub(super) fn goes_back(form: &str) -> bool {
    knows(form, Fact::InPlaceForgets) || knows(form, Fact::InPlaceCopies) || reforms(form)
}

/// Whether the result may have another shape or dtype, and a gradient that needs no numbers.
pub(super) fn reforms(form: &str) -> bool {
    knows(form, Fact::InPlaceReforms)
}

/// Whether the result may be of another shape or dtype.
pub(super) fn changes_type(form: &str) -> bool {
    reforms(form) || knows(form, Fact::InPlaceCompares)
}

/// Whether it is captured as a function of `_graph/followed.py`.
pub(super) fn is_followed(form: &str) -> bool {
    knows(form, Fact::InPlaceFollowed) || draws(form)
}

/// Whether it draws new numbers, whatever the tensor holds.
pub(super) fn draws(form: &str) -> bool {
    knows(form, Fact::InPlaceDraws)
}
