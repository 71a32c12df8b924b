//! Histories of tensors that autograd has gone back through.
//!
//! A backward frees what its nodes hold, and whoever goes through one of them again is told so.
//! What a graph computes together with its gradients has no nodes: its results get such a node
//! behind it, of an operation that was made and gone through for them.
//! `egr::EagerUtils::SetHistory` is how Paddle's operations note what they made; it is exported.

use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use smallvec::SmallVec;

use super::edges;
use super::library::{libpaddle, opened};
use super::shared_ptr::Shared;
use super::stop_gradient::{MetaFn, let_gradients_through, meta_function};
use super::tensor;
use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::sync::lock;

type PlaceFn = unsafe extern "C" fn(*mut u8, usize);
type NoteFn = unsafe extern "C" fn(*mut u8, *const Shared);

pub(super) struct History {
    meta: MetaFn,
    place: PlaceFn,
    note: NoteFn,
    /// What the operation that is made copies.
    copied: Py<PyAny>,
    /// Tensors that a backward has gone through, each of an operation of its own.
    ready: Mutex<Vec<Py<PyAny>>>,
    // The functions live as long as the library.
    _library: libloading::Library,
}

/// How many operations are made at once: a backward costs more than they do.
const AT_ONCE: usize = 16;

static HISTORY: PyOnceLock<Option<History>> = PyOnceLock::new();

fn history(py: Python<'_>) -> Option<&'static History> {
    let without = "backward runs behind graphs";
    opened(py, &HISTORY, open, ("paddle_sot_rs.backend", without))
}

/// Whether histories can be given.
pub fn can_spend(py: Python<'_>) -> bool {
    history(py).is_some()
}

/// Tensors that a backward has gone through, each of an operation of its own.
///
/// # Errors
/// Where histories cannot be given, or Paddle raises.
pub fn gone_through(py: Python<'_>, count: usize) -> PyResult<SmallVec<[Py<PyAny>; 2]>> {
    let Some(history) = history(py) else {
        return Err(PyRuntimeError::new_err("histories cannot be given"));
    };
    let one = || history.gone_through(py).map(Bound::unbind);
    (0..count).map(|_| one()).collect()
}

/// Gives a tensor the history of another one, that a backward has gone through.
///
/// # Errors
/// Where one of them is no tensor, or histories cannot be given.
pub fn spend(tensor: &Bound<'_, PyAny>, spent: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(history) = history(tensor.py()) else {
        return Err(PyRuntimeError::new_err("histories cannot be given"));
    };
    history.spend(tensor, spent)
}

impl History {
    fn spend(&self, tensor: &Bound<'_, PyAny>, spent: &Bound<'_, PyAny>) -> PyResult<()> {
        let_gradients_through(tensor)?;
        edges::with_shared_node(spent, |node| {
            // SAFETY: `with_shared_node` has looked whether `spent` is a tensor, and `tensor` took
            // an attribute of one: see `take`.
            unsafe { self.take(tensor, node) };
        })?
        .ok_or_else(|| PyRuntimeError::new_err("an operation without a node"))
    }

    /// A tensor that a backward has gone through, of an operation of its own. One backward goes
    /// through many of them.
    fn gone_through<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(ready) = lock(&self.ready).pop() {
            return Ok(ready.into_bound(py));
        }
        let copy = || {
            let leaf = edges::stand_in(self.copied.bind(py))?;
            leaf.call_method0(pyo3::intern!(py, "clone"))
        };
        let first = copy()?;
        let mut all = vec![first.clone()];
        for _ in 1..AT_ONCE {
            all.push(copy()?);
        }
        py.module("paddle.autograd")?
            .call_method1(pyo3::intern!(py, "backward"), (&all,))?;
        lock(&self.ready).extend(all.into_iter().skip(1).map(Bound::unbind));
        Ok(first)
    }

    /// # Safety
    /// It is one of Paddle's tensors.
    unsafe fn take(&self, tensor: &Bound<'_, PyAny>, node: &Shared) {
        // SAFETY: it is a live tensor, which is given what autograd knows of it where it has
        // none; the node is alive, and gets one more owner.
        unsafe {
            let meta = (self.meta)(tensor::tensor_of(tensor.as_ptr()));
            (self.place)(meta, 0);
            (self.note)(meta, node);
        }
    }
}

pub(super) fn open(py: Python<'_>) -> Result<History, String> {
    if !edges::can_move_edges(py) {
        return Err("nodes cannot be looked at".into());
    }
    let library = libpaddle(py)?;
    let text = |err: libloading::Error| err.to_string();
    let paddle = py.module("paddle").map_err(|err| err.to_string())?;
    let copied = paddle.call_method1("to_tensor", (0.0,));
    let copied = copied.map_err(|err| err.to_string())?.unbind();
    // SAFETY: the mangled names fix the signatures:
    // `void EagerUtils::SetOutRankWithSlot(AutogradMeta*, size_t)` and
    // `void EagerUtils::SetHistory(AutogradMeta*, const shared_ptr<GradNodeBase>&)`.
    let history = unsafe {
        History {
            meta: meta_function(&library).map_err(text)?,
            place: *library
                .get::<PlaceFn>(
                    b"_ZN3egr10EagerUtils18SetOutRankWithSlotEPNS_12AutogradMetaEm\0",
                )
                .map_err(text)?,
            note: *library
                .get::<NoteFn>(
                    b"_ZN3egr10EagerUtils10SetHistoryEPNS_12AutogradMetaERKSt10shared_ptrINS_12GradNodeBaseEE\0",
                )
                .map_err(text)?,
            copied,
            ready: Mutex::default(),
            _library: library,
        }
    };
    match self_test(py, &history) {
        Ok(true) => Ok(history),
        Ok(false) => Err("a history that was given is not what autograd goes through".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// A tensor that is given a history has gradients, is no leaf, and no backward goes through it;
/// what is computed from it has gradients up to it.
fn self_test(py: Python<'_>, history: &History) -> PyResult<bool> {
    let paddle = py.module("paddle")?;
    let enabled = paddle.call_method0("enable_grad")?;
    enabled.call_method0("__enter__")?;
    let tested = (|| {
        let tensor = paddle.call_method1("ones", ((2,),))?;
        history.spend(&tensor, &history.gone_through(py)?)?;
        let is_spent = tensor.call_method0("backward").is_err();
        let is_leaf = tensor.getattr("is_leaf")?.is_truthy()?;
        let stops = tensor.getattr("stop_gradient")?.is_truthy()?;
        let twice = tensor
            .call_method1("__mul__", (2.0,))?
            .call_method0("sum")?;
        let found = paddle.call_method1("grad", (twice, &tensor))?;
        let found: Vec<f64> = found.get_item(0)?.call_method0("tolist")?.extract()?;
        Ok(is_spent && !is_leaf && !stops && found == [2.0, 2.0])
    })();
    enabled.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    tested
}
