//! Methods and attributes of arrays that are computed at translation.

/// Classes of what is known of a dtype, which does not change.
pub(crate) const LIMITS: &str = "finfo iinfo";

/// Arguments that are written to, leave numbers of the result as they were in memory, or warn.
pub(super) const REFUSED: &str = "out where newshape";

/// Methods of arrays of which the same is true.
pub(super) const METHODS: &str = "all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot flatten item \
    max mean min nonzero prod ravel repeat reshape round squeeze sum swapaxes take tolist \
    trace transpose";

/// Those that scalars of NumPy have, too.
pub(super) const OF_SCALARS: &str = "astype item tolist";

/// Methods that write to the array and answer with nothing.
pub(super) const WRITES: &str = "fill sort";

/// What an array says of itself.
pub(super) const ATTRIBUTES: &str = "T dtype itemsize nbytes ndim shape size";

/// Whether a table has this name.
pub(super) fn has(table: &str, name: &str) -> bool {
    table.split_whitespace().any(|known| known == name)
}
