//! What of NumPy is computed at translation.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use crate::frame::Modules;
use crate::obj::Obj;

/// Functions that compute nothing but their result, which is of their arguments alone. So are
/// NumPy's ufuncs.
pub(super) const FUNCTIONS: &str =
    "all amax amin any arange argmax argmin argsort array asarray ascontiguousarray atleast_1d \
    atleast_2d atleast_3d blackman broadcast_to clip concatenate cumprod cumsum diag diagflat \
    diagonal diff dot einsum expand_dims eye flip fliplr flipud full full_like geomspace \
    hamming hanning hstack identity indices inner kaiser kron linspace logspace max mean \
    meshgrid min moveaxis nonzero ones ones_like outer pad prod ravel repeat reshape roll \
    round sort split squeeze stack sum swapaxes take tile trace transpose tri tril \
    tril_indices triu triu_indices unique vstack where zeros zeros_like";

/// Classes of what is known of a dtype, which does not change.
pub(super) const LIMITS: &str = "finfo iinfo";

/// Arguments that are written to, leave numbers of the result as they were in memory, or warn.
pub(super) const REFUSED: &str = "out where newshape";

/// Methods of arrays of which the same is true.
pub(super) const METHODS: &str =
    "all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot flatten item \
    max mean min nonzero prod ravel repeat reshape round squeeze sum swapaxes take tolist \
    trace transpose";

/// Those that scalars of NumPy have, too.
pub(super) const OF_SCALARS: &str = "astype item tolist";

/// Methods that write to the array and answer with nothing.
pub(super) const WRITES: &str = "fill sort";

/// What an array says of itself.
pub(super) const ATTRIBUTES: &str = "T dtype itemsize nbytes ndim shape size";

static KNOWN: PyOnceLock<FxHashMap<usize, Obj>> = PyOnceLock::new();

/// Those functions by address. They are held, so that nothing else has it.
pub(super) fn known(py: Python<'_>) -> PyResult<&'static FxHashMap<usize, Obj>> {
    KNOWN.get_or_try_init(py, || {
        let numpy = py.module("numpy")?;
        let ufunc = numpy.getattr("ufunc")?;
        let mut found = FxHashMap::default();
        let namespace = numpy.getattr("__dict__")?.cast_into::<PyDict>()?;
        for value in namespace.values() {
            if !value.get_type().is(&ufunc) {
                continue;
            }
            // Those of Python functions have other names.
            let own = namespace.get_item(value.getattr("__name__")?)?;
            if own.is_some_and(|own| own.is(&value)) {
                found.insert(value.as_ptr() as usize, Obj::from(value));
            }
        }
        for name in FUNCTIONS
            .split_whitespace()
            .chain(LIMITS.split_whitespace())
        {
            let Some(value) = numpy.getattr_opt(name)? else {
                continue;
            };
            let module = crate::obj::text_of(&value, "__module__");
            // What a program has put in its place is not meant.
            if module.is_empty() || module.starts_with("numpy") {
                found.insert(value.as_ptr() as usize, Obj::from(value));
            }
        }
        Ok(found)
    })
}

/// Whether a table has this name.
pub(super) fn has(table: &str, name: &str) -> bool {
    table.split_whitespace().any(|known| known == name)
}
