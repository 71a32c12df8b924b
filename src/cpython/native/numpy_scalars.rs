//! Scalars of NumPy: immutable values, which are compared by class and bytes.

use pyo3::prelude::*;

use super::is_mutable;
use crate::frame::NUMPY;
use crate::obj::of_type;

/// Their classes.
const CLASSES: &[&str] = &[
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool", "bool_",
];

/// Whether this is one of them.
pub fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    is_scalar_class(value.get_type().as_any())
}

/// Whether this is the class of such scalars.
pub fn is_scalar_class(class: &Bound<'_, PyAny>) -> bool {
    // What a class of the user's says of itself is its own.
    if class.cast().is_ok_and(is_mutable) {
        return false;
    }
    let text = |name: &str| of_type(class.cast().ok()?, name)?.extract().ok();
    let is_named = |name: String| CLASSES.contains(&&*name);
    text("__module__").is_some_and(|module: String| module == NUMPY)
        && text("__name__").is_some_and(is_named)
}

/// Whether two of one class are the same number to the last bit.
pub fn are_equal(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    match (a.call_method0("tobytes"), b.call_method0("tobytes")) {
        (Ok(a), Ok(b)) => a.eq(b).unwrap_or(false),
        _ => false,
    }
}
