//! State outside of the frame that every translation relies on.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::obj::Obj;

use super::flags::records_gradients;
use super::numbers::is_cpu_place;

/// Grad mode, AMP state, default dtype, device and static mode at entry.
#[derive(Clone, Debug)]
pub struct GlobalState {
    dynamic: bool,
    /// Whether gradients are recorded.
    pub grad_enabled: bool,
    amp_level: i64,
    amp_dtype: String,
    on_cpu: bool,
    default_dtype: Obj,
    place: Obj,
}

struct Sources {
    variables: Obj,
    framework: Obj,
    helper: Obj,
}

static SOURCES: PyOnceLock<Sources> = PyOnceLock::new();

fn sources(py: Python<'_>) -> PyResult<&'static Sources> {
    SOURCES.get_or_try_init(py, || {
        let framework = py.module("paddle.base.framework")?;
        let helper = py
            .module("paddle.base.layer_helper_base")?
            .getattr("LayerHelperBase")?;
        Ok(Sources {
            variables: Obj::from(framework.getattr("global_var")?),
            framework: Obj::from(framework.into_any()),
            helper: Obj::from(helper),
        })
    })
}

/// The tracer of this thread; `None` inside of static mode.
///
/// # Errors
/// When Paddle cannot be asked.
pub fn tracer(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let variables = sources(py)?.variables.bind(py);
    let tracer = variables.getattr(pyo3::intern!(py, "_dygraph_tracer_"))?;
    Ok((!tracer.is_none()).then_some(tracer))
}

/// Has eager mode record gradients, or not, as `paddle.no_grad()` does: that takes as long as a
/// small graph, and may be replaced. Nothing in static mode.
///
/// # Errors
/// When Paddle cannot be told.
pub fn set_grad_enabled(py: Python<'_>, on: bool) -> PyResult<()> {
    match tracer(py)? {
        Some(tracer) => tracer.setattr(pyo3::intern!(py, "_has_grad"), on),
        None => Ok(()),
    }
}

/// Runs something that eager mode does not record, where it records.
///
/// # Errors
/// Those of the run, or when Paddle cannot be told.
pub fn without_gradients<T>(
    tracer: &Bound<'_, PyAny>,
    run: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let py = tracer.py();
    if !records_gradients(py) {
        return run();
    }
    let name = pyo3::intern!(py, "_has_grad");
    tracer.setattr(name, false)?;
    let answer = run();
    tracer.setattr(name, true)?;
    answer
}

impl GlobalState {
    /// The state now.
    ///
    /// # Errors
    /// When Paddle cannot be asked.
    pub fn capture(py: Python<'_>) -> PyResult<Self> {
        let sources = sources(py)?;
        let tracer = sources
            .variables
            .bind(py)
            .getattr(pyo3::intern!(py, "_dygraph_tracer_"))?;
        let dynamic = !tracer.is_none();
        let (mut grad_enabled, mut amp_level, mut amp_dtype) = (false, 0, String::new());
        if dynamic {
            (grad_enabled, amp_level) = by_attributes(&tracer)?;
            if amp_level != 0 {
                let lists = tracer.call_method0("_get_amp_op_list")?;
                amp_dtype = format!("{} {lists}", tracer.getattr("_amp_dtype")?);
            }
        }
        Ok(Self {
            dynamic,
            grad_enabled,
            amp_level,
            amp_dtype,
            on_cpu: is_cpu_place(
                &sources
                    .framework
                    .bind(py)
                    .call_method0("_current_expected_place")?,
            )?,
            default_dtype: Obj::from(default_dtype(py, sources)?),
            place: Obj::from(
                sources
                    .framework
                    .bind(py)
                    .getattr(pyo3::intern!(py, "_global_expected_place_"))?,
            ),
        })
    }

    /// Whether programs may be built and run: not inside of static mode.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Whether `auto_cast` is on and casts: on a CPU it does not.
    pub fn casts(&self) -> bool {
        self.amp_level != 0 && !self.on_cpu
    }

    /// Whether a translation made under this state may run now.
    pub fn matches(&self, py: Python<'_>) -> bool {
        Self::check(self, py).unwrap_or(false)
    }

    fn check(&self, py: Python<'_>) -> PyResult<bool> {
        let sources = sources(py)?;
        let tracer = sources
            .variables
            .bind(py)
            .getattr(pyo3::intern!(py, "_dygraph_tracer_"))?;
        if tracer.is_none() == self.dynamic {
            return Ok(false);
        }
        if self.dynamic {
            let (grad, level) = match super::flags::read(py) {
                Some(flags) => flags,
                None => by_attributes(&tracer)?,
            };
            if level != self.amp_level || grad != self.grad_enabled {
                return Ok(false);
            }
            if level != 0 && Self::capture(py)?.amp_dtype != self.amp_dtype {
                return Ok(false);
            }
        }
        let place = sources
            .framework
            .bind(py)
            .getattr(pyo3::intern!(py, "_global_expected_place_"))?;
        if place.as_ptr() != self.place.as_ptr() {
            return Ok(false);
        }
        self.has_default_dtype(py, sources)
    }

    /// Whether the default dtype is the one it was.
    pub fn keeps_default_dtype(&self, py: Python<'_>) -> bool {
        let same = sources(py).and_then(|sources| self.has_default_dtype(py, sources));
        same.unwrap_or(false)
    }

    fn has_default_dtype(&self, py: Python<'_>, sources: &Sources) -> PyResult<bool> {
        let dtype = default_dtype(py, sources)?;
        Ok(dtype.as_ptr() == self.default_dtype.as_ptr()
            || dtype.eq(self.default_dtype.bind(py))?)
    }
}

fn by_attributes(tracer: &Bound<'_, PyAny>) -> PyResult<(bool, i64)> {
    let py = tracer.py();
    let grad = tracer.getattr(pyo3::intern!(py, "_has_grad"))?;
    let level = tracer.getattr(pyo3::intern!(py, "_amp_level"))?;
    let level = level.call_method0(pyo3::intern!(py, "__int__"))?;
    Ok((grad.is_truthy()?, level.extract()?))
}

fn default_dtype<'py>(py: Python<'py>, sources: &Sources) -> PyResult<Bound<'py, PyAny>> {
    sources
        .helper
        .bind(py)
        .getattr(pyo3::intern!(py, "_LayerHelperBase__dtype"))
}
