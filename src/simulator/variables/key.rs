//! [`Key`]: dict and set keys compared without running user code.

use std::sync::Arc;

use super::VarId;

/// A key with Python's equality: `1 == 1.0 == True`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `str`
    Str(Arc<str>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// `int`, `bool`, and floats with an integral value.
    Int(i128),
    /// A whole number made of dims, or a text that shows such: the first variable that is equal.
    Open(VarId),
    /// Other floats, by bits.
    Float(u64),
    /// A tuple.
    Tuple(Vec<Key>),
    /// A frozenset, items sorted by their debug form.
    FrozenSet(Vec<Key>),
    /// A real object hashed by identity (`None`, types, functions, enum members, dtypes, layers),
    /// by address.
    Identity(usize),
    /// A variable hashed by identity that has no real object yet (tensors, new objects).
    Var(VarId),
}
