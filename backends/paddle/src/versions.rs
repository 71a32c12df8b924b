//! Tensors that a backward reads and that were changed in place since the run: see
//! `backward_reads.py`.

use paddle_sot_backend::abi;
use paddle_sot_backend::frame::Modules;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A result and its version. The result itself may be gone while others have views of it, and would
/// never go if what its gradient needs held it: so it is a detached one.
pub struct ResultState {
    result: Py<PyAny>,
    version: u32,
}

impl ResultState {
    /// The one that the tensor has now.
    pub fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            result: abi::detached(tensor)?.unbind(),
            version: abi::inplace_version(tensor)?,
        })
    }

    /// The tensor itself.
    pub fn tensor(&self, py: Python<'_>) -> Py<PyAny> {
        self.result.clone_ref(py)
    }

    /// Refuses a tensor that was changed, with eager mode's words: results are new there, and count
    /// from 0.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        match abi::inplace_version(self.result.bind(py))?.wrapping_sub(self.version) {
            0 => Ok(()),
            changes => Err(refusal(changes, 0)),
        }
    }
}

/// Refuses a tensor that has another version than this one, with eager mode's words.
pub fn check(tensor: &Bound<'_, PyAny>, expected: u32) -> PyResult<()> {
    match abi::inplace_version(tensor)? {
        version if version == expected => Ok(()),
        version => Err(refusal(version, expected)),
    }
}

/// Why a gradient does not see what becomes of a tensor that control flow is computed again from,
/// or handed on: see `aliases.py`.
pub const COMPUTED_AGAIN: &str = "the gradient of a captured branch or loop, or of einsum(), does not see them: call backward() before \
    they change, or let the graph break there (no capture_control_flow, no full_graph; graph_break())";
/// The same of one that goes into a program, whose numbers do not lie one after the other.
pub const COPIED: &str = "the program has a copy of it, as a view with gaps or in another order: call backward() before they \
    change, or hand over what contiguous() makes of it";

/// The same of a result that gradients of gradients have computed again.
pub const DIFFERENTIATED: &str = "gradients of gradients have computed it again: call backward() before they change, or use \
    backend='eager'";

/// What the numbers of a tensor were that a gradient should see, and does not.
pub struct Numbers {
    sample: Option<u64>,
    /// Where only changes matter that no version counts.
    version: Option<u32>,
}

impl Numbers {
    /// Those that the tensor has now; `ever`: every change matters.
    pub fn of(tensor: &Bound<'_, PyAny>, ever: bool) -> PyResult<Self> {
        let version = match ever {
            true => None,
            false => Some(abi::inplace_version(tensor)?),
        };
        let sample = abi::sampled(tensor)?;
        Ok(Self { sample, version })
    }

    /// Refuses the tensor where it has others; `why` is one of the reasons above.
    pub fn check(&self, tensor: &Bound<'_, PyAny>, why: &str) -> PyResult<()> {
        if self.sample.is_none() || abi::sampled(tensor)? == self.sample {
            return Ok(());
        }
        if let Some(version) = self.version {
            if abi::inplace_version(tensor)? != version {
                return Ok(());
            }
        }
        let name = tensor.getattr("name")?;
        Err(PyRuntimeError::new_err(format!(
            "the tensor {name} has other numbers than when the translated function ran (an optimizer's step?), and {why}"
        )))
    }
}

/// The same of a result.
pub struct ResultNumbers {
    result: Py<PyAny>,
    numbers: Numbers,
}

impl ResultNumbers {
    /// Those that it has now.
    pub fn of(tensor: &Bound<'_, PyAny>, ever: bool) -> PyResult<Self> {
        Ok(Self {
            result: abi::detached(tensor)?.unbind(),
            numbers: Numbers::of(tensor, ever)?,
        })
    }

    /// Refuses it where it has others.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.numbers.check(self.result.bind(py), COMPUTED_AGAIN)
    }
}

/// What autograd calls with the gradient of a result, before it computes those of what made it.
#[pyclass(frozen)]
struct Watch {
    tensors: Vec<(Py<PyAny>, Numbers)>,
    why: &'static str,
}

#[pymethods]
impl Watch {
    fn __call__(&self, py: Python<'_>, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        if gradient.is_none() {
            return Ok(());
        }
        let mut all = self.tensors.iter();
        all.try_for_each(|(tensor, numbers)| numbers.check(tensor.bind(py), self.why))
            .or_else(|refused| refuse(py, refused))
    }
}

/// Refuses gradients of these results where the tensors have other numbers than now; `ever`: every
/// change matters.
pub fn watch(
    py: Python<'_>,
    tensors: Vec<Bound<'_, PyAny>>,
    (ever, why): (bool, &'static str),
    results: &[Py<PyAny>],
) -> PyResult<()> {
    // Held: others may have the storage, and change it.
    let numbers = |tensor: Bound<'_, PyAny>| {
        let numbers = Numbers::of(&tensor, ever)?;
        Ok((tensor.unbind(), numbers))
    };
    let tensors = tensors.into_iter().map(numbers).collect::<PyResult<_>>()?;
    let watch = Bound::new(py, Watch { tensors, why })?;
    for result in results {
        let result = result.bind(py);
        let stops = result.getattr(pyo3::intern!(py, "stop_gradient"))?;
        if !stops.is_truthy()? {
            result.call_method1(pyo3::intern!(py, "_register_grad_hook"), (&watch,))?;
        }
    }
    Ok(())
}

/// Paddle makes an error of its own of what a hook raises: the one that it is to be is remembered.
pub fn refuse<T>(py: Python<'_>, refused: PyErr) -> PyResult<T> {
    let again = py.module("paddle_sot_rs._paddle.gradients.double_backward")?;
    again.call_method1("refuse", (refused.value(py),))?;
    Err(refused)
}

fn refusal(version: u32, expected: u32) -> PyErr {
    PyRuntimeError::new_err(format!(
        "(PermissionDenied) Tensor '' used in gradient computation has been modified by an inplace operation. \
         Its version is {version} but the expected version is {expected}. Please fix your code to void calling an \
         inplace operator after using the Tensor which will used in gradient computation."
    ))
}
