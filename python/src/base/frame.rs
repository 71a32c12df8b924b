//! `paddle_sot_rs.frame`: the evaluation hook, from Python.

use paddle_sot_cpython::frame::{self, FrameDecision, FrameView, Listening};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};
use pyo3::{PyTraverseError, PyVisit};

/// What to evaluate instead of a frame.
#[pyclass(frozen, module = "paddle_sot_rs.frame")]
pub struct CustomCode {
    #[pyo3(get)]
    code: Option<Py<PyCode>>,
    #[pyo3(get)]
    disable_eval_frame: bool,
}

#[pymethods]
impl CustomCode {
    #[new]
    #[pyo3(signature = (code, disable_eval_frame))]
    fn new(code: Option<Py<PyCode>>, disable_eval_frame: bool) -> Self {
        Self {
            code,
            disable_eval_frame,
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let code = match &self.code {
            Some(code) => code.bind(py).repr()?.to_string(),
            None => "None".to_owned(),
        };
        let disable = if self.disable_eval_frame {
            "True"
        } else {
            "False"
        };
        Ok(format!("CustomCode({code}, {disable})"))
    }
}

/// A call that is about to start.
#[pyclass(frozen, module = "paddle_sot_rs.frame")]
pub struct Frame {
    #[pyo3(get)]
    f_code: Py<PyCode>,
    #[pyo3(get)]
    f_globals: Py<PyAny>,
    #[pyo3(get)]
    f_builtins: Py<PyAny>,
    #[pyo3(get)]
    f_locals: Py<PyDict>,
    /// The function called, when there is one.
    #[pyo3(get)]
    function: Option<Py<PyAny>>,
}

#[pymethods]
impl Frame {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let code = self.f_code.bind(py);
        Ok(format!(
            "<frame of {} about to start, file {}, line {}>",
            code.getattr("co_qualname")?,
            code.getattr("co_filename")?.repr()?,
            code.getattr("co_firstlineno")?
        ))
    }
}

/// One thread's callback. It lives in the thread's state dict, which dies with the thread.
#[pyclass(frozen, unsendable)]
struct Listener {
    callback: Py<PyAny>,
    listening: Listening,
}

#[pymethods]
impl Listener {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callback)
    }
}

const KEY: &str = "paddle_sot_rs.frame";

fn thread_dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // SAFETY: the GIL is held; the answer is borrowed, null without an exception set.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyThreadState_GetDict()) }
        .ok_or_else(|| PyRuntimeError::new_err("this thread has no state dict"))?
        .cast_into()
        .map_err(PyErr::from)
}

fn listener(py: Python<'_>) -> PyResult<Option<Bound<'_, Listener>>> {
    Ok(match thread_dict(py)?.get_item(KEY)? {
        Some(known) => Some(known.cast_into()?),
        None => None,
    })
}

/// Sets this thread's callback (or removes it with `None`); the answer is the one before.
#[pyfunction]
pub fn set_eval_frame(
    py: Python<'_>,
    callback: Option<Bound<'_, PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    if let Some(callback) = callback.as_ref().filter(|callback| !callback.is_callable()) {
        return Err(PyTypeError::new_err(format!(
            "set_eval_frame: a callable or None is needed, not {}",
            callback.get_type().name()?
        )));
    }
    let dict = thread_dict(py)?;
    let mut before = None;
    if let Some(known) = listener(py)? {
        // A callback that is running keeps its listener alive.
        known.borrow().listening.stop();
        before = Some(known.borrow().callback.clone_ref(py));
        dict.del_item(KEY)?;
    }
    if let Some(callback) = callback {
        let listener = Listener {
            callback: callback.unbind(),
            listening: frame::listen(py, ask)?,
        };
        dict.set_item(KEY, Bound::new(py, listener)?)?;
    }
    Ok(before)
}

/// Whether the interpreter's evaluation hook is this package's at the moment.
#[pyfunction]
pub fn hook_is_installed(py: Python<'_>) -> bool {
    frame::is_installed(py)
}

fn ask(py: Python<'_>, view: &FrameView<'_>) -> FrameDecision {
    call_back(py, view).unwrap_or_else(FrameDecision::Raise)
}

fn call_back(py: Python<'_>, view: &FrameView<'_>) -> PyResult<FrameDecision> {
    let as_it_is = FrameDecision::Run(frame::CustomCode::LOOK_AT_CALLEES);
    let Some(listener) = listener(py)? else {
        return Ok(as_it_is);
    };
    let shown = Frame {
        f_code: view.code(py).unbind(),
        f_globals: view.globals(py).unbind(),
        f_builtins: view.builtins(py).unbind(),
        f_locals: view.locals(py)?.unbind(),
        function: view.function(py).map(Bound::unbind),
    };
    let answer = listener.borrow().callback.bind(py).call1((shown,))?;
    if answer.is_none() {
        return Ok(as_it_is);
    }
    let answer = answer.cast::<CustomCode>().map_err(|_| {
        PyTypeError::new_err("an eval-frame callback must return a CustomCode or None")
    })?;
    let answer = answer.get();
    Ok(FrameDecision::Run(frame::CustomCode {
        code: answer.code.as_ref().map(|code| code.clone_ref(py)),
        disable_eval_frame: answer.disable_eval_frame,
    }))
}
