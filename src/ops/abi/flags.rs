//! Grad mode and AMP level read from the C++ side.
//!
//! Both are thread-local variables behind exported member functions that do not look at their
//! object. A self-test sets them through Python and reads them back before the functions are used.

use std::ffi::c_void;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use paddle_sot_cpython::frame::Modules;

use super::library::{libpaddle, opened};

type BoolFn = unsafe extern "C" fn(*const c_void) -> bool;
type IntFn = unsafe extern "C" fn(*const c_void) -> i32;

pub(super) struct Reader {
    has_grad: BoolFn,
    amp_level: IntFn,
    // The functions live as long as the library.
    _library: libloading::Library,
}

/// Stands in for the objects: a function that looked at its object would read zeros and fail the
/// test.
static NOTHING: [u64; 64] = [0; 64];

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

fn reader(py: Python<'_>) -> Option<&'static Reader> {
    let without = "grad mode and AMP level are read through attributes";
    opened(py, &READER, open, ("paddle_sot_rs.guards", without))
}

/// Grad mode and AMP level of this thread; `None` where they must be read through attributes.
pub(super) fn read(py: Python<'_>) -> Option<(bool, i64)> {
    reader(py).map(Reader::read)
}

/// Whether operations of this thread may be recorded for autograd; `true` where that cannot be
/// seen.
pub fn records_gradients(py: Python<'_>) -> bool {
    reader(py).is_none_or(Reader::has_grad)
}

/// Whether operations of this thread may cast what they are given: `auto_cast`.
pub fn may_cast(py: Python<'_>) -> bool {
    read(py).is_none_or(|(_, level)| level != 0)
}

impl Reader {
    fn has_grad(&self) -> bool {
        // SAFETY: the self-test showed that it answers without looking at its object.
        unsafe { (self.has_grad)(NOTHING.as_ptr().cast()) }
    }

    fn read(&self) -> (bool, i64) {
        // SAFETY: as above.
        let level = unsafe { (self.amp_level)(NOTHING.as_ptr().cast()) };
        (self.has_grad(), i64::from(level))
    }
}

pub(super) fn open(py: Python<'_>) -> Result<Reader, String> {
    let library = libpaddle(py)?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures: const member functions without arguments; the
    // level is an `int`-sized enum.
    let reader = unsafe {
        Reader {
            has_grad: *library
                .get::<BoolFn>(b"_ZNK6paddle10imperative6Tracer7HasGradEv\0")
                .map_err(text)?,
            amp_level: *library
                .get::<IntFn>(b"_ZNK6paddle10imperative8AmpAttrs11GetAmpLevelEv\0")
                .map_err(text)?,
            _library: library,
        }
    };
    match self_test(py, &reader) {
        Ok(true) => Ok(reader),
        Ok(false) => Err("they differ from what was set".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// Sets every combination and reads it back; the state before is restored.
fn self_test(py: Python<'_>, reader: &Reader) -> PyResult<bool> {
    let core = py.module("paddle.base.core")?;
    let tracer = py
        .module("paddle.base.framework")?
        .call_method0("_dygraph_tracer")?;
    if tracer.is_none() {
        return Ok(false);
    }
    let levels = core.getattr("AmpLevel")?;
    let (grad, level) = (tracer.getattr("_has_grad")?, tracer.getattr("_amp_level")?);
    let mut agrees = true;
    for name in ["O1", "O2", "O0"] {
        let number: i64 = levels.getattr(name)?.call_method0("__int__")?.extract()?;
        for on in [false, true] {
            tracer.setattr("_has_grad", on)?;
            tracer.setattr("_amp_level", levels.getattr(name)?)?;
            agrees &= reader.read() == (on, number);
        }
    }
    tracer.setattr("_has_grad", grad)?;
    tracer.setattr("_amp_level", level)?;
    Ok(agrees)
}
