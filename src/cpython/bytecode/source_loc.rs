//! [`SourceLoc`]: a line of the user's.

use std::fmt;
use std::sync::Arc;

/// A place in the user's code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SourceLoc {
    /// File name as in `co_filename`.
    pub file: Arc<str>,
    /// Line, 1-based; 0 when unknown.
    pub line: u32,
    /// Qualified name of the function.
    pub function: Arc<str>,
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in {}", self.file, self.line, self.function)
    }
}
