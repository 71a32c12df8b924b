//! The layout that this thread takes tensors for. Paddle keeps it from program to program: one that
//! computes in NHWC, by whatever backend, leaves it so for all that come after.

use libloading::Library;
use paddle_sot::paddle::core_library;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `common::DataLayout::NCHW`.
const NCHW: i32 = 2;

struct Layout {
    fetch: extern "C" fn() -> *mut u8,
    get: extern "C" fn(*mut u8) -> i32,
    set: extern "C" fn(*mut u8, i32),
    _library: Library,
}

static LAYOUT: PyOnceLock<Option<Layout>> = PyOnceLock::new();

/// Sets it to NCHW, which programs say where they want another. Whether Paddle lets us.
///
/// # Errors
/// When Paddle cannot be imported.
pub fn reset(py: Python<'_>) -> PyResult<bool> {
    let layout = LAYOUT.get_or_try_init(py, || Ok::<_, PyErr>(load(&core_library(py)?)))?;
    let Some(layout) = layout else {
        return Ok(false);
    };
    let body = (layout.fetch)();
    if (layout.get)(body) != NCHW {
        (layout.set)(body, NCHW);
    }
    Ok(true)
}

fn load(file: &std::path::Path) -> Option<Layout> {
    // SAFETY: Paddle has loaded the library and run its initialisers; these are functions and
    // methods of it, with the signatures that their names say.
    unsafe {
        let library = Library::new(file).ok()?;
        let body = "_ZN3phi25OneDNNContextThreadLocals";
        let named = |name: &str| format!("{body}{name}");
        let fetch = *library.get(named("5fetchEv").as_bytes()).ok()?;
        let get = *library
            .get(named("4Body26get_cur_paddle_data_layoutEv").as_bytes())
            .ok()?;
        let set = named("4Body26set_cur_paddle_data_layoutEN6common10DataLayoutE");
        let set = *library.get(set.as_bytes()).ok()?;
        Some(Layout {
            fetch,
            get,
            set,
            _library: library,
        })
    }
}
