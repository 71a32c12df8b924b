//! Operators on any kinds.
