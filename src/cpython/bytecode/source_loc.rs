//! [`SourceLoc`]: a place in the user's code.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Which part of its lines a place is, as far as the compiler tells. It says where to point, and
/// not which place it is: all are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns {
    /// The last line.
    pub end_line: u32,
    /// The first column, in UTF-8 bytes.
    pub start: u32,
    /// One past the last column; 0 when unknown.
    pub end: u32,
}

impl PartialEq for Columns {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Columns {}

impl Hash for Columns {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A place in the user's code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SourceLoc {
    /// File name as in `co_filename`.
    pub file: Arc<str>,
    /// Line, 1-based; 0 when unknown.
    pub line: u32,
    /// Qualified name of the function.
    pub function: Arc<str>,
    /// The part of the line.
    pub columns: Columns,
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}
