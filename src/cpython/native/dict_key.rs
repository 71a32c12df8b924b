//! [`DictKey`]: what a dict is asked for by guards.

use std::fmt;
use std::sync::Arc;

use crate::obj::Obj;

/// A key that can be compared and hashed without running user code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DictKey {
    /// An exact `str`.
    Str(Arc<str>),
    /// An exact `int` that fits.
    Int(i64),
    /// Any other object, compared by identity.
    Identity(Obj),
}

impl fmt::Display for DictKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => write!(f, "{text:?}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Identity(_) => f.write_str("<key>"),
        }
    }
}
