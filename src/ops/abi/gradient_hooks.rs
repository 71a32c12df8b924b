//! Hooks on the gradients of leaves: whether code of the user's runs when a gradient comes.
//!
//! A leaf's node of autograd counts its hooks, and keeps a vector of those that reduce. Where both
//! lie in a node is learnt from a leaf that gets hooks and loses one; where that is not as it is
//! known to be, every leaf counts as one with hooks.

use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

use paddle_sot_cpython::sync::lock;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefReference};
use rustc_hash::FxHashMap;

use super::{edges, tensor};

/// The leaves that have the hook of this package, by address.
static OWN: LazyLock<Mutex<Own>> = LazyLock::new(Mutex::default);

/// Dead leaves are looked for when there are twice as many as last time, and this many.
const FEW: usize = 64;

#[derive(Default)]
struct Own {
    leaves: FxHashMap<usize, Py<PyWeakrefReference>>,
    alive: usize,
}

impl Own {
    /// The answer is to be dropped when nothing is locked: weak references have destructors.
    fn add(
        &mut self,
        tensor: &Bound<'_, PyAny>,
        weak: Bound<'_, PyWeakrefReference>,
    ) -> Vec<Py<PyWeakrefReference>> {
        let py = tensor.py();
        let key = tensor.as_ptr() as usize;
        let mut gone: Vec<_> = self.leaves.insert(key, weak.unbind()).into_iter().collect();
        if self.leaves.len() > 2 * self.alive + FEW {
            let leaves = std::mem::take(&mut self.leaves).into_iter();
            let (alive, dead): (FxHashMap<_, _>, FxHashMap<_, _>) =
                leaves.partition(|(_, weak)| is_alive(py, weak));
            gone.extend(dead.into_values());
            self.alive = alive.len();
            self.leaves = alive;
        }
        gone
    }
}

/// Addresses are used again, but not while there is an object that the reference leads to.
fn is_alive(py: Python<'_>, weak: &Py<PyWeakrefReference>) -> bool {
    weak.bind(py).upgrade().is_some()
}

/// Whether a leaf has the hook of this package.
pub fn has_own_hook(leaf: &Bound<'_, PyAny>) -> bool {
    let own = lock(&OWN);
    let known = own.leaves.get(&(leaf.as_ptr() as usize));
    known.is_some_and(|weak| is_alive(leaf.py(), weak))
}

/// Notes that a leaf has got the hook of this package.
///
/// # Errors
/// Where it takes no weak references.
pub fn know_own_hook(leaf: &Bound<'_, PyAny>) -> PyResult<()> {
    let weak = PyWeakrefReference::new(leaf)?;
    let gone = lock(&OWN).add(leaf, weak);
    drop(gone);
    Ok(())
}

/// Where things lie in the node of a leaf, in bytes.
pub(super) struct Layout {
    /// What nodes of leaves begin with: the address of their virtual functions.
    class: usize,
    /// How many hooks there are.
    count: usize,
    /// The begin of the vector of hooks that reduce, and behind it its end.
    reducing: usize,
}

static LAYOUT: PyOnceLock<Option<Layout>> = PyOnceLock::new();

/// Whether an object is a tensor that stops gradients, or a leaf whose gradient no hook sees but
/// that of this package.
pub fn is_unhooked(tensor: &Bound<'_, PyAny>) -> bool {
    let py = tensor.py();
    let layout = LAYOUT.get_or_init(py, || match learn(py) {
        Ok(layout) => layout,
        Err(err) => {
            log::info!(target: "paddle_sot_rs.guards", "hooks of gradients cannot be counted: {err}");
            None
        }
    });
    let Some(layout) = layout else {
        return false;
    };
    let counted = edges::with_node(tensor, |node, _| {
        let word = |at: usize| {
            // SAFETY: the node is alive for as long as it is looked at, and `learn` has seen that
            // nodes of leaves, which `class` tells, are longer than both places.
            unsafe { node.cast::<u8>().add(at).cast::<usize>().read_unaligned() }
        };
        let is_leaf = word(0) == layout.class;
        let reduces = || word(layout.reducing) != word(layout.reducing + 8);
        (is_leaf && !reduces()).then(|| word(layout.count))
    });
    match counted {
        // What is no tensor.
        Err(_) => false,
        // A leaf that nothing was computed from has no node.
        Ok(None) => true,
        Ok(_) if tensor::stops_gradient(py, tensor.as_ptr()) == Some(true) => true,
        Ok(Some(Some(count))) => count == 0 || count == 1 && has_own_hook(tensor),
        Ok(Some(None)) => false,
    }
}

unsafe extern "C" {
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

/// `std::make_shared` puts what counts the owners of an object in front of it.
const OWNERS: usize = 16;

/// The words of the node of a leaf.
fn words(leaf: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let read = edges::with_node(leaf, |node, owners| {
        if owners as usize + OWNERS != node as usize {
            return Vec::new();
        }
        // SAFETY: the object that is counted lies in one block of the heap, which begins with what
        // counts its owners.
        let length = unsafe { malloc_usable_size(owners.cast_mut()) }.saturating_sub(OWNERS) / 8;
        // SAFETY: all of it lies in that block, which is the node's own.
        unsafe { std::slice::from_raw_parts(node.cast::<usize>(), length) }.to_vec()
    })?;
    Ok(read.unwrap_or_default())
}

pub(super) fn learn(py: Python<'_>) -> PyResult<Option<Layout>> {
    let names = PyDict::new(py);
    let leaf = c"
import paddle
def leaf():
    made = paddle.to_tensor([1.0], stop_gradient=False, place=paddle.CPUPlace())
    with paddle.enable_grad():
        made * 2
    return made
";
    py.run(leaf, Some(&names), Some(&names))?;
    let Some(make) = names.get_item("leaf")? else {
        return Ok(None);
    };
    let (one, other) = (make.call0()?, make.call0()?);
    let hook = py.eval(c"lambda gradient: None", None, None)?;
    let mut counted = vec![words(&one)?];
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(one.call_method1("_register_grad_hook", (&hook,))?);
        counted.push(words(&one)?);
    }
    if let Some(first) = ids.first() {
        one.call_method1("_remove_grad_hook", (first,))?;
    }
    counted.push(words(&one)?);
    let mut reduced = vec![words(&other)?];
    for _ in 0..2 {
        other.call_method1("_register_backward_hook", (&hook,))?;
        reduced.push(words(&other)?);
    }
    // Blocks of the heap may have some more words than were asked for.
    let lengths = counted.iter().chain(&reduced).map(Vec::len);
    let length = lengths.min().unwrap_or(0);
    if length < 4 {
        return Ok(None);
    }
    let is_count = |at: &usize| counted.iter().map(|row| row[*at]).eq([0, 1, 2, 3, 2]);
    let is_vector = |at: &usize| {
        let sizes = reduced.iter().map(|row| row[at + 1].wrapping_sub(row[*at]));
        sizes.eq([0, 16, 32]) && counted.iter().all(|row| row[*at] == row[at + 1])
    };
    let class = counted[0][0];
    let (mut counts, mut vectors) = (
        (1..length).filter(is_count),
        (1..length - 1).filter(is_vector),
    );
    let (Some(count), None) = (counts.next(), counts.next()) else {
        return Ok(None);
    };
    let (Some(reducing), None) = (vectors.next(), vectors.next()) else {
        return Ok(None);
    };
    Ok((reduced[0][0] == class).then_some(Layout {
        class,
        count: count * 8,
        reducing: reducing * 8,
    }))
}
