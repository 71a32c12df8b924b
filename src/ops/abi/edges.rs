//! Edges of autograd's graph, moved to where nobody looks.
//!
//! A node notes at its making which tensors its gradients go to.
//! `egr::GradNodeBase::SetGradOutMeta` is what notes them, and it is exported: called once more
//! with a tensor that nobody holds, it makes a gradient go nowhere, and what was computed before is
//! not walked to. A self-test goes backward through a node with a moved edge first.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use smallvec::SmallVec;

use super::library::{libpaddle, opened};
use super::shared_ptr::Shared;
use super::tensor;
use crate::paddle::Paddle;

/// `std::vector` of pointers to tensors.
#[repr(C)]
struct Vector {
    begin: *const *const c_void,
    end: *const *const c_void,
    capacity: *const *const c_void,
}

type NodeFn = unsafe extern "C" fn(*mut Shared, *const c_void) -> *mut c_void;
type NoteFn = unsafe extern "C" fn(*mut c_void, *const Vector, usize);

pub(super) struct Edges {
    node: NodeFn,
    note: NoteFn,
    // The functions live as long as the library.
    _library: libloading::Library,
}

static EDGES: PyOnceLock<Option<Edges>> = PyOnceLock::new();

fn edges(py: Python<'_>) -> Option<&'static Edges> {
    let without = "edges of autograd stay where they are";
    opened(py, &EDGES, open, ("paddle_sot_rs.backend", without))
}

/// Whether edges can be moved.
pub fn can_move_edges(py: Python<'_>) -> bool {
    edges(py).is_some()
}

/// Says anew which tensors the gradients of one input of a node go to: the node that made `output`,
/// and the tensors of its input number `slot`, all of them.
///
/// # Errors
/// Where edges cannot be moved, or a tensor is none.
pub fn move_edges(
    output: &Bound<'_, PyAny>,
    tensors: &[Bound<'_, PyAny>],
    slot: usize,
) -> PyResult<()> {
    let py = output.py();
    let Some(edges) = edges(py) else {
        return Err(PyRuntimeError::new_err("edges of autograd cannot be moved"));
    };
    edges.note(output, tensors, slot)
}

/// Which node gradients of a tensor come to, by address; `None` where that cannot be seen. The node
/// lives as long as the tensor has it.
pub fn node_of(tensor: &Bound<'_, PyAny>) -> Option<usize> {
    with_node(tensor, |node, _| node as usize).ok().flatten()
}

/// Looks at the node that gradients of a tensor come to, and at what counts its owners.
///
/// # Errors
/// Where nodes cannot be looked at, or it is no tensor.
pub(super) fn with_node<R>(
    tensor: &Bound<'_, PyAny>,
    look: impl FnOnce(*const c_void, *const c_void) -> R,
) -> PyResult<Option<R>> {
    with_shared_node(tensor, |node| look(node.object, node.owners.cast()))
}

/// The same, with the pointer to it.
///
/// # Errors
/// Where nodes cannot be looked at, or it is no tensor.
pub(super) fn with_shared_node<R>(
    tensor: &Bound<'_, PyAny>,
    look: impl FnOnce(&Shared) -> R,
) -> PyResult<Option<R>> {
    let py = tensor.py();
    let Some(edges) = edges(py) else {
        return Err(PyRuntimeError::new_err("nodes cannot be looked at"));
    };
    if !tensor.is_instance(Paddle::get(py)?.tensor.bind(py))? {
        return Err(PyRuntimeError::new_err("not a tensor"));
    }
    Ok(edges.at_node(tensor, look))
}

impl Edges {
    fn note(
        &self,
        output: &Bound<'_, PyAny>,
        tensors: &[Bound<'_, PyAny>],
        slot: usize,
    ) -> PyResult<()> {
        let class = Paddle::get(output.py())?.tensor.bind(output.py());
        for tensor in tensors.iter().chain([output]) {
            if !tensor.is_instance(class)? {
                return Err(PyRuntimeError::new_err("not a tensor"));
            }
        }
        let pointers: SmallVec<[*const c_void; 16]> = tensors
            .iter()
            .map(|tensor| tensor::tensor_of(tensor.as_ptr()))
            .collect();
        let range = pointers.as_ptr_range();
        let vector = Vector {
            begin: range.start,
            end: range.end,
            capacity: range.end,
        };
        self.at_node(output, |node| {
            // SAFETY: the node is alive, as its output holds it; the tensors are alive, and read
            // only.
            unsafe { (self.note)(node.object, &vector, slot) };
        });
        Ok(())
    }

    /// Looks at the node that gradients of a tensor come to, if it has one. The tensor is Paddle's.
    fn at_node<R>(&self, tensor: &Bound<'_, PyAny>, look: impl FnOnce(&Shared) -> R) -> Option<R> {
        let mut node = Shared {
            object: std::ptr::null_mut(),
            owners: std::ptr::null(),
        };
        // SAFETY: it is a live tensor; the answer is a shared pointer, written where the first
        // argument points.
        unsafe { (self.node)(&mut node, tensor::tensor_of(tensor.as_ptr())) };
        if node.object.is_null() {
            return None;
        }
        let seen = look(&node);
        if !node.owners.is_null() {
            // SAFETY: the tensor is an owner of the node too: this one is not the last.
            unsafe { (*node.owners).uses.fetch_sub(1, Ordering::AcqRel) };
        }
        Some(seen)
    }
}

pub(super) fn open(py: Python<'_>) -> Result<Edges, String> {
    if tensor::reader_name(py) != "native" {
        return Err("tensors are not where they are known to be".into());
    }
    let library = libpaddle(py)?;
    let text = |err: libloading::Error| err.to_string();
    // SAFETY: the mangled names fix the signatures:
    // `shared_ptr<GradNodeBase> EagerUtils::grad_node(const Tensor&)` and
    // `void GradNodeBase::SetGradOutMeta(const vector<const Tensor*>&, size_t)`.
    let edges = unsafe {
        Edges {
            node: *library
                .get::<NodeFn>(b"_ZN3egr10EagerUtils9grad_nodeERKN6paddle6TensorE\0")
                .map_err(text)?,
            note: *library
                .get::<NoteFn>(
                    b"_ZN3egr12GradNodeBase14SetGradOutMetaERKSt6vectorIPKN6paddle6TensorESaIS5_EEm\0",
                )
                .map_err(text)?,
            _library: library,
        }
    };
    match self_test(py, &edges) {
        Ok(true) => Ok(edges),
        Ok(false) => Err("a moved edge was walked along".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// A tensor that gradients go to and that nobody holds, in place of this one.
///
/// # Errors
/// What Paddle raises.
pub fn stand_in<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let detached = detached(tensor)?;
    detached.setattr(pyo3::intern!(tensor.py(), "stop_gradient"), false)?;
    Ok(detached)
}

/// A tensor with the storage and the count of changes of this one, that autograd does not know.
///
/// # Errors
/// What Paddle raises.
pub fn detached<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Paddle::original(tensor, pyo3::intern!(tensor.py(), "detach"))
}

/// Gives one tensor the storage of another and its count of changes. What autograd knows of both
/// stays.
///
/// # Errors
/// What Paddle raises.
pub fn share_tensor(from: &Bound<'_, PyAny>, with: &Bound<'_, PyAny>) -> PyResult<()> {
    if !from.is(with) {
        from.call_method1(
            pyo3::intern!(from.py(), "_share_underline_tensor_to"),
            (with,),
        )?;
    }
    Ok(())
}

fn self_test(py: Python<'_>, edges: &Edges) -> PyResult<bool> {
    let test = c"
import paddle
def leaf():
    return paddle.to_tensor([1.0, 2.0], stop_gradient=False, place=paddle.CPUPlace())
with paddle.enable_grad():
    one, other, before = leaf(), leaf(), leaf()
    middle = before * 2
    made = paddle.concat([one, other, middle])
    end = made.sum()
";
    let names = PyDict::new(py);
    py.run(test, Some(&names), None)?;
    let get = |name: &str| {
        names
            .get_item(name)?
            .ok_or_else(|| PyRuntimeError::new_err("no such name"))
    };
    let (one, other, middle) = (get("one")?, get("other")?, get("middle")?);
    let tensors = [one.clone(), stand_in(&other)?, stand_in(&middle)?];
    edges.note(&get("made")?, &tensors, 0)?;
    drop(tensors);
    get("end")?.call_method0("backward")?;
    let has =
        |tensor: &Bound<'_, PyAny>| -> PyResult<bool> { Ok(!tensor.getattr("grad")?.is_none()) };
    Ok(has(&one)? && !has(&other)? && !has(&get("before")?)?)
}
