//! Functions and classes of NumPy that are called at translation.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::frame::{Modules, NUMPY};
use crate::made_arrays::LIMITS;
use crate::native;
use crate::obj::text_of;

use super::Action;

/// Functions that compute nothing but their result, which is of their arguments alone. So are
/// NumPy's ufuncs.
const FUNCTIONS: &str = "all amax amin any arange argmax argmin argsort array asarray ascontiguousarray atleast_1d \
    atleast_2d atleast_3d blackman broadcast_to clip concatenate cumprod cumsum diag diagflat \
    diagonal diff dot einsum expand_dims eye flip fliplr flipud full full_like geomspace \
    hamming hanning hstack identity indices inner kaiser kron linspace logspace max mean \
    meshgrid min moveaxis nonzero ones ones_like outer pad prod ravel repeat reshape roll \
    round sort split squeeze stack sum swapaxes take tile trace transpose tri tril \
    tril_indices triu triu_indices unique vstack where zeros zeros_like";

/// Those of them that answer with a scalar for numbers and lists of them.
const OF_NUMBERS: &[&str] = &["prod", "sum", "max", "min", "mean", "amax", "amin", "round"];

/// What is NumPy's, and what is done with calls of it.
pub(super) fn known(py: Python<'_>) -> PyResult<Vec<(Bound<'_, PyAny>, Action)>> {
    let numpy = py.numpy()?;
    let ufunc = numpy.getattr("ufunc")?;
    let mut found = Vec::new();
    let namespace = numpy.getattr("__dict__")?.cast_into::<PyDict>()?;
    for value in namespace.values() {
        let is_ufunc = value.get_type().is(&ufunc);
        if !is_ufunc && !native::is_scalar_class(&value) {
            continue;
        }
        // Those of Python functions have other names.
        let own = namespace.get_item(value.getattr("__name__")?)?;
        if own.is_some_and(|own| own.is(&value)) {
            let action = Action::NumPy {
                of_arrays: is_ufunc,
                of_numbers: true,
            };
            found.push((value, action));
        }
    }
    let names = FUNCTIONS
        .split_whitespace()
        .chain(LIMITS.split_whitespace());
    for name in names {
        let Some(value) = numpy.getattr_opt(name)? else {
            continue;
        };
        let module = text_of(&value, "__module__");
        // What a program has put in its place is not meant.
        if module.is_empty() || module.starts_with(NUMPY) {
            let is_function = value.get_type().name()? == "_ArrayFunctionDispatcher";
            let of_numbers = is_function && OF_NUMBERS.contains(&name);
            let action = Action::NumPy {
                of_arrays: true,
                of_numbers,
            };
            found.push((value, action));
        }
    }
    Ok(found)
}
