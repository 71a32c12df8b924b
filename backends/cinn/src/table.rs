//! CDBL: calls whose results have unknown dims although everything they are given is static.
//!
//! The rows are what a probe of Paddle's public functions finds; `tests/python/test_cinn.py` runs it.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the function or tensor method.
    pub name: &'static str,
    /// Whether every call is refused, whatever its arguments. Otherwise the shapes of the result decide.
    pub always: bool,
}

const fn always(name: &'static str) -> Row {
    Row { name, always: true }
}

const fn by_result(name: &'static str) -> Row {
    Row {
        name,
        always: false,
    }
}

/// The table. Calls that are not in it are refused too when a dim of their result turns out to be unknown.
pub const CDBL: &[Row] = &[
    always("argwhere"),
    always("bincount"),
    always("masked_select"),
    always("nonzero"),
    always("unique"),
    always("unique_consecutive"),
    by_result("__getitem__"),
    by_result("where"),
];

/// Whether every call of `name` is refused.
pub fn is_listed(name: &str) -> bool {
    CDBL.iter().any(|row| row.always && row.name == name)
}
