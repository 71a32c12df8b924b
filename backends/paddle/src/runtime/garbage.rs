//! How much memory an executor collects before it frees any: on a CPU each time wakes a thread,
//! which costs more than a small operation.

use paddle_sot_backend::graph::{StatementIr, SymbolKind, TensorMeta};
use paddle_sot_backend::paddle::tensor_meta;
use pyo3::prelude::*;

/// 64 KiB: of small tensors that is hundreds (each with some KiB of its own that wait with it), of
/// large ones the time to free one does not matter.
pub const ENOUGH: f64 = 1.0 / 16384.0;

/// Bytes that a program's tensors may take until its run ends. Then all of them go at once, by the
/// thread that runs it.
const SMALL: usize = 64 << 20;

/// The same for a program that trains, counted with eight a number, until its backward ends: most
/// of them wait for that anyway.
const SMALL_IN_TRAINING: usize = 256 << 20;

/// Tensors that may wait in an executor from one run to the next: each takes 4 KiB, however small
/// it is.
const WAITING: usize = 2048;

/// Bytes that may wait there.
const MOST: usize = 4 << 20;

/// The most bytes of a number but for complex ones.
const OF_ONE: usize = 8;

/// Whether no tensor of a program has to go before its run ends. `memory`: bytes of all that it
/// makes; `None`: unknown.
pub fn is_small(memory: Option<usize>, trains: bool) -> bool {
    let limit = if trains { SMALL_IN_TRAINING } else { SMALL };
    memory.is_some_and(|memory| memory <= limit)
}

/// So many tensors of the mean of these sizes, in GiB.
fn threshold(sizes: impl Iterator<Item = usize>) -> f64 {
    let (all, count) = sizes.fold((0_usize, 0), |(all, count), size| {
        (all.saturating_add(size), count + 1)
    });
    let mean = all / count.max(1);
    let wanted = mean.saturating_mul(WAITING).min(MOST) as f64 / f64::from(1 << 30);
    wanted.max(ENOUGH)
}

fn tensors(sir: &StatementIr) -> impl Iterator<Item = &TensorMeta> {
    sir.symbols.iter().filter_map(|kind| match kind {
        SymbolKind::Tensor(meta) => Some(meta),
        SymbolKind::Layer(_) => None,
    })
}

/// Bytes of a tensor but for its open dims, and how many of these there are.
fn size(meta: &TensorMeta) -> (usize, u32) {
    let known = meta
        .shape
        .iter()
        .filter_map(|dim| usize::try_from(*dim).ok());
    let open = meta.shape.iter().filter(|dim| **dim < 0).count();
    let bytes = known.fold(OF_ONE, usize::saturating_mul);
    (bytes, u32::try_from(open).unwrap_or(u32::MAX))
}

/// What the flag is while the executor of a graph's backward is made, where that has to free
/// tensors: as many gradients wait as `WAITING`, judged by the tensors that they are of.
pub fn backward_threshold(sir: &StatementIr) -> f64 {
    let trained = tensors(sir).filter(|meta| !meta.stop_gradient).map(size);
    threshold(trained.filter_map(|(bytes, open)| (open == 0).then_some(bytes)))
}

/// The sizes of what a graph with open dims makes.
#[derive(Clone)]
pub struct OpenSizes {
    /// See [`size`].
    tensors: Vec<(usize, u32)>,
    /// Where open dims are among those of the inputs.
    open: Vec<(usize, usize)>,
}

impl OpenSizes {
    /// Those of a graph that has open dims.
    pub fn new(sir: &StatementIr) -> Option<Self> {
        let inputs = sir
            .tensor_inputs()
            .map(|symbol| sir.meta(symbol))
            .enumerate();
        let open: Vec<(usize, usize)> = inputs
            .filter_map(|(input, meta)| Some((input, meta?)))
            .flat_map(|(input, meta)| {
                let dims = meta.shape.iter().enumerate();
                dims.filter(|(_, dim)| **dim < 0)
                    .map(move |(at, _)| (input, at))
            })
            .collect();
        if open.is_empty() {
            return None;
        }
        let tensors = tensors(sir).map(size).collect();
        Some(Self { tensors, open })
    }

    /// What the flag is while the executor is made, in a run with these inputs: all open dims are
    /// taken for as large as the largest of theirs.
    pub fn threshold(&self, inputs: &[Bound<'_, PyAny>]) -> f64 {
        let dim = |(input, at): &(usize, usize)| {
            let meta = tensor_meta(inputs.get(*input)?)?;
            usize::try_from(*meta.shape.get(*at)?).ok()
        };
        let largest = self.open.iter().filter_map(dim).max().unwrap_or(1);
        let sizes = self.tensors.iter();
        threshold(sizes.map(|(known, open)| known.saturating_mul(largest.saturating_pow(*open))))
    }
}
