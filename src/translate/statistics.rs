//! Running statistics of graphs that fail: the function then runs as it is, from the beginning, and
//! must find them as they were. A graph writes them while it runs.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;

use crate::graph::{Callee, GraphInput, LayerRef, Statement, StatementIr, SymbolKind};
use crate::obj;
use crate::paddle::Paddle;

/// Not run yet: it may fail because of its shapes.
const NEW: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// What networks with running statistics are made of, and never fails because of the numbers it is
/// given. Of anything else nobody knows: labels and positions out of range, a matrix that cannot be
/// inverted, an assertion.
const NEVER_FAIL: &[&str] = &[
    // Operators and their functions; operators have two underscores more around them, those in
    // place one behind.
    "abs",
    "add",
    "assign",
    "cast",
    "astype",
    "clip",
    "clone",
    "detach",
    "divide",
    "exp",
    "matmul",
    "maximum",
    "mean",
    "minimum",
    "mul",
    "multiply",
    "neg",
    "negative",
    "radd",
    "rmul",
    "rsqrt",
    "rsub",
    "rtruediv",
    "scale",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "sum",
    "truediv",
    // Functions of layers.
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "celu",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dropout",
    "elu",
    "gelu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "normalize",
    "prelu",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
    "tanh",
];

/// The same, as long as they are given no tensors but those that they put together or take apart.
const NEVER_FAIL_ALONE: &[&str] = &[
    "chunk",
    "concat",
    "expand",
    "flatten",
    "getitem",
    "interpolate",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unsqueeze",
    "upsample",
];

/// The same, of layers of Paddle's by their classes.
const LAYERS_NEVER_FAIL: &[&str] = &[
    "AdaptiveAvgPool1D",
    "AdaptiveAvgPool2D",
    "AdaptiveAvgPool3D",
    "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BatchNorm3D",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dropout",
    "Flatten",
    "GELU",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "PReLU",
    "ReLU",
    "ReLU6",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Swish",
    "SyncBatchNorm",
    "Tanh",
];

/// Whether a call may fail although calls of its kind did not, whose tensors had the same dims and
/// dtypes.
fn may_fail(py: Python<'_>, it: &Statement, layer: Option<&LayerRef>) -> bool {
    if let Some(layer) = layer {
        let class = layer.bind(py).get_type();
        let is_paddles = obj::text_of(&class, "__module__").starts_with("paddle.nn.");
        let name = obj::name_of(&class);
        return !is_paddles || !name.is_some_and(|name| LAYERS_NEVER_FAIL.contains(&&*name));
    }
    let names = it.callee.api_names(py);
    let is_among = |known: &[&str]| {
        let mut names = names.iter().map(|name| name.trim_matches('_'));
        names.any(|name| known.contains(&name))
    };
    let is_alone = || {
        let mut rest = it
            .args
            .iter()
            .skip(1)
            .chain(it.kwargs.iter().map(|(_, arg)| arg));
        !rest.any(|arg| arg.first_symbol().is_some())
    };
    !(is_among(NEVER_FAIL) || is_among(NEVER_FAIL_ALONE) && is_alone())
}

/// What a graph may write, as far as it may fail afterwards.
#[derive(Debug)]
pub struct Statistics {
    /// Positions among the inputs of the graph.
    written: Vec<usize>,
    /// Whether a run may fail after one that did not.
    may_fail: bool,
    state: AtomicU8,
}

/// Tensors, and what was in them.
pub(super) struct Kept(Vec<(Py<PyAny>, Py<PyAny>)>);

impl Statistics {
    /// Those of a graph with these tensors as inputs.
    pub(super) fn of(py: Python<'_>, sir: &StatementIr, inputs: &[&GraphInput]) -> Self {
        let mut can_fail = sir.symbols.iter().any(|kind| match kind {
            SymbolKind::Tensor(meta) => meta.shape.iter().any(|dim| *dim < 0),
            SymbolKind::Layer(_) => false,
        });
        for it in &sir.statements {
            let layer = match &it.callee {
                Callee::Layer(symbol) => match sir.kind(*symbol) {
                    SymbolKind::Layer(layer) => Some(layer),
                    SymbolKind::Tensor(_) => None,
                },
                _ => None,
            };
            can_fail |= may_fail(py, it, layer);
        }
        let is_written = |input: &&GraphInput| {
            let mut statements = sir.statements.iter();
            statements.any(|it| it.updates.contains(&input.symbol))
        };
        let written: Vec<usize> = (0..inputs.len())
            .filter(|at| is_written(&inputs[*at]))
            .collect();
        let state = if written.is_empty() { NEVER } else { NEW };
        Self {
            written,
            may_fail: can_fail,
            state: AtomicU8::new(state),
        }
    }

    /// Whether a run may write something and fail.
    pub(super) fn are_kept(&self) -> bool {
        self.state.load(Ordering::Relaxed) != NEVER
    }

    /// What to go back to.
    pub(super) fn before(&self, inputs: &[Bound<'_, PyAny>]) -> Kept {
        let mut kept = Vec::with_capacity(self.written.len());
        for tensor in self.written.iter().filter_map(|at| inputs.get(*at)) {
            if let Ok(copy) = copy(tensor) {
                kept.push((tensor.clone().unbind(), copy.unbind()));
            }
        }
        Kept(kept)
    }

    /// Learns from a run that succeeded.
    pub(super) fn ran(&self) {
        if self.state.load(Ordering::Relaxed) == NEW {
            let found = if self.may_fail { ALWAYS } else { NEVER };
            self.state.store(found, Ordering::Relaxed);
        }
    }
}

fn copy<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Paddle::original(tensor, pyo3::intern!(tensor.py(), "clone"))
}

impl Kept {
    /// Goes back.
    pub(super) fn restore(self, py: Python<'_>) -> PyResult<()> {
        for (tensor, copy) in self.0 {
            tensor.call_method1(py, "copy_", (copy, true))?;
        }
        Ok(())
    }
}
