//! [`BreakId`]: what users can look up of a break. The rows are in `table.rs`.

use std::fmt;

use super::{BreakId, BreakKind};

/// The page that is made from the table.
const PAGE: &str = "docs/user/breaks.md";

/// Code that breaks so, by id.
const EXAMPLES: &str = include_str!("examples.md");

/// What is known of one id.
pub struct BreakInfo {
    /// Its number: never given to another reason.
    pub number: u16,
    /// The kind that it belongs to.
    pub kind: BreakKind,
    /// A few words.
    pub title: &'static str,
    /// What happens, and why.
    pub explanation: &'static str,
    /// What the user can do.
    pub advice: &'static str,
}

impl BreakId {
    /// As users see it: `PSR0101`.
    pub fn code(self) -> String {
        format!("PSR{:04}", self.info().number)
    }

    /// Where to read about it.
    pub fn link(self) -> String {
        format!("{PAGE}#psr{:04}", self.info().number)
    }

    /// Code that breaks so; empty where no program of a few lines does.
    pub fn example(self) -> &'static str {
        let head = format!("## {}\n\n```python\n", self.code());
        let found = EXAMPLES.split_once(&head);
        found
            .and_then(|(_, behind)| behind.split_once("```"))
            .map_or("", |(example, _)| example)
    }

    /// The kind that it belongs to.
    pub fn kind(self) -> BreakKind {
        self.info().kind
    }

    /// The class that it belongs to, in a word. To be compiled anew is none of the four.
    pub fn class(self) -> &'static str {
        if self == Self::Recompile {
            return "recompile";
        }
        self.kind().code().as_str()
    }
}

impl fmt::Display for BreakId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in the order in which they were given out: what stands here stays.
    const GIVEN: &[u16] = &[
        101, 102, 103, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 301, 303, 304, 305, 306,
        307, 308, 309, 310, 311, 312, 313, 314, 315, 401, 402, 403, 404, 405, 406, 407, 408, 409,
        410, 411, 412, 413, 414, 415, 416, 417, 418, 501, 601, 602, 603, 604, 605, 606, 607, 608,
        609, 701, 702, 703, 704, 705, 706, 707, 708, 801, 802, 803, 804, 805, 806, 807,
    ];

    #[test]
    fn numbers_are_never_given_twice_or_taken_back() {
        let mut numbers: Vec<u16> = BreakId::ALL.iter().map(|id| id.info().number).collect();
        numbers.sort_unstable();
        let count = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "a number stands twice");
        assert_eq!(numbers, GIVEN);
    }

    #[test]
    fn each_kind_has_an_id_of_its_own() {
        for kind in BreakKind::ALL {
            assert_eq!(BreakId::from(*kind).kind(), *kind, "{kind:?}");
        }
    }

    #[test]
    fn ids_are_written_with_four_digits() {
        assert_eq!(BreakId::TensorBranch.to_string(), "PSR0101");
        assert_eq!(BreakId::TensorBranch.link(), "docs/user/breaks.md#psr0101");
    }
}
