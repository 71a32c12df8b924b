//! Rules of operations that go over windows of an image or a line: convolutions, pooling, and what
//! scales. Their dims behind the channels follow from numbers of the layer, or of the call.

use pyo3::prelude::*;

use crate::bytecode::BinOp;
use crate::graph::{Arg, Callee, Statement, SymbolId};
use crate::tracker::number::Number;

use super::sizes::{X, made};
use super::{Search, argument, items};

/// Channels come first in formats that begin so.
const CHANNELS_FIRST: &str = "NC";

/// Modes in which a convolution pads by itself what it goes over.
const FILLED: [&str; 3] = ["reflect", "replicate", "circular"];

/// Where a parameter is: an attribute of the layer, or an argument of the function in this place
/// (`NAMED`: by its name alone) with this name.
struct Parameter<'a> {
    attributes: &'a [&'a str],
    position: usize,
    name: &'a str,
}

const NAMED: usize = usize::MAX;

const fn parameter<'a>(attributes: &'a [&'a str], position: usize, name: &'a str) -> Parameter<'a> {
    Parameter {
        attributes,
        position,
        name,
    }
}

const STRIDE: Parameter<'_> = parameter(&["_stride", "stride"], 3, "stride");
const PADDING: Parameter<'_> = parameter(&["_padding", "padding"], 4, "padding");
const DILATION: Parameter<'_> = parameter(&["_dilation"], 5, "dilation");
const FORMAT: Parameter<'_> = parameter(&["_data_format", "data_format"], NAMED, "data_format");
const KERNEL: Parameter<'_> =
    parameter(&["_kernel_size", "ksize", "kernel_size"], 1, "kernel_size");
const POOL_STRIDE: Parameter<'_> = Parameter {
    position: 2,
    ..STRIDE
};
const POOL_PADDING: Parameter<'_> = Parameter {
    position: 3,
    ..PADDING
};
const CEIL: Parameter<'_> = parameter(&["ceil_mode"], NAMED, "ceil_mode");
const SCALE: Parameter<'_> = parameter(&["scale_factor"], 2, "scale_factor");
const MORE: Parameter<'_> = parameter(&["output_padding"], NAMED, "output_padding");
const OUTPUT_SIZE: Parameter<'_> = parameter(&["_output_size", "output_size"], 1, "output_size");

/// A number plus one that is known.
fn plus(number: Number, more: i64) -> Number {
    match more {
        0 => number,
        _ => made(BinOp::Add, number, Number::Int(more)),
    }
}

impl<'py> Search<'_, 'py> {
    /// The value of a parameter; `None` where it is a tensor, `Some(None)` where it is not given.
    fn parameter(
        &self,
        it: &Statement,
        parameter: &Parameter<'_>,
    ) -> Option<Option<Bound<'py, PyAny>>> {
        let py = self.t.py;
        let value = match &it.callee {
            Callee::Layer(symbol) => {
                let layer = self.layer(*symbol)?;
                let mut held = parameter.attributes.iter();
                held.find_map(|name| layer.getattr_opt(*name).ok().flatten())
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                match argument(it, parameter.position, &[parameter.name]) {
                    None => None,
                    Some(Arg::Const(value)) => Some(value.bind(py).clone()),
                    Some(list) => Some(self.constants(list)?),
                }
            }
        };
        Some(value.filter(|value| !value.is_none()))
    }

    /// A list of numbers that are known.
    fn constants(&self, list: &Arg) -> Option<Bound<'py, PyAny>> {
        let numbers: Option<Vec<i64>> = items(list)?.iter().map(|one| self.whole(one)).collect();
        Some(numbers?.into_pyobject(self.t.py).ok()?.into_any())
    }

    /// A number for each of `count` dims, that of `at`.
    fn of_dim(
        &self,
        it: &Statement,
        parameter: &Parameter<'_>,
        (at, count): (usize, usize),
    ) -> Option<Option<i64>> {
        let Some(value) = self.parameter(it, parameter)? else {
            return Some(None);
        };
        if let Ok(number) = value.extract::<i64>() {
            return Some(Some(number));
        }
        let numbers: Vec<Option<i64>> = value.extract().ok()?;
        (numbers.len() == count).then(|| numbers[at])
    }

    /// The tensor whose dims windows go over, and which of so many dims `at` is.
    fn over(&mut self, it: &Statement, at: usize) -> Option<(SymbolId, (usize, usize))> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        (self.made(it) == Some(rank) && rank > 2).then_some(())?;
        if let Some(format) = self.parameter(it, &FORMAT)? {
            let format: String = format.extract().ok()?;
            format.starts_with(CHANNELS_FIRST).then_some(())?;
        }
        Some((x, (at.checked_sub(2)?, rank - 2)))
    }

    /// As many windows as fit.
    fn counted_windows(
        &mut self,
        padded: Number,
        (size, stride): (i64, i64),
        is_ceil: bool,
    ) -> Option<Number> {
        (stride > 0).then_some(())?;
        self.ordered.push((Number::Int(size), padded.clone()));
        let more = if is_ceil { stride - 1 } else { 0 };
        let room = plus(padded, more - size);
        Some(match stride {
            1 => plus(room, 1),
            _ => plus(made(BinOp::FloorDiv, room, Number::Int(stride)), 1),
        })
    }

    pub(super) fn convolution(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, place) = self.over(it, at)?;
        let size = match &it.callee {
            Callee::Layer(symbol) => {
                let layer = self.layer(*symbol)?;
                let mode: String = layer.getattr("_padding_mode").ok()?.extract().ok()?;
                (!FILLED.contains(&&*mode)).then_some(())?;
                self.of_dim(it, &KERNEL, place)??
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                let weight = self.tensor(it, 1, &["weight"])?;
                *self.t.graph.meta(weight)?.shape.get(at)?
            }
        };
        let stride = self.of_dim(it, &STRIDE, place)?.unwrap_or(1);
        let padding = self.of_dim(it, &PADDING, place)?.unwrap_or(0);
        let dilation = self.of_dim(it, &DILATION, place)?.unwrap_or(1);
        let size = dilation * (size - 1) + 1;
        let dim = self.dim(x, at)?;
        if stride == 1 && 2 * padding + 1 == size {
            return Some(dim);
        }
        self.counted_windows(plus(dim, 2 * padding), (size, stride), false)
    }

    pub(super) fn pooled(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, place) = self.over(it, at)?;
        // What follows differs between these functions.
        let is_layer = matches!(it.callee, Callee::Layer(_));
        (is_layer || it.args.len() <= 4).then_some(())?;
        let size = self.of_dim(it, &KERNEL, place)??;
        let stride = self.of_dim(it, &POOL_STRIDE, place)?.unwrap_or(size);
        let padding = self.of_dim(it, &POOL_PADDING, place)?.unwrap_or(0);
        let is_ceil = match self.parameter(it, &CEIL)? {
            Some(is_ceil) => is_ceil.extract().ok()?,
            None => false,
        };
        let padded = plus(self.dim(x, at)?, 2 * padding);
        self.counted_windows(padded, (size, stride), is_ceil)
    }

    pub(super) fn turned(&mut self, it: &Statement, at: usize) -> Option<Number> {
        // Behind the tensor a size may be asked for.
        let is_layer = matches!(it.callee, Callee::Layer(_));
        (is_layer && it.args.len() == 2 && it.kwargs.is_empty()).then_some(())?;
        let (x, place) = self.over(it, at)?;
        let size = self.of_dim(it, &KERNEL, place)??;
        let more = self.of_dim(it, &MORE, place)?.unwrap_or(0);
        let stride = self.of_dim(it, &STRIDE, place)?.unwrap_or(1);
        let padding = self.of_dim(it, &PADDING, place)?.unwrap_or(0);
        let dilation = self.of_dim(it, &DILATION, place)?.unwrap_or(1);
        let rest = dilation * (size - 1) + 1 - 2 * padding + more - stride;
        let steps = made(BinOp::Mul, self.dim(x, at)?, Number::Int(stride));
        Some(plus(steps, rest))
    }

    pub(super) fn resized(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, place) = self.over(it, at)?;
        let wanted = match &it.callee {
            Callee::Layer(symbol) => {
                let size = self.layer(*symbol)?.getattr("size").ok()?;
                size.is_none().then_some(())?;
                None
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                let size = argument(it, 1, &["size"]);
                size.filter(|size| !super::is_none(self.t.py, size))
            }
        };
        if let Some(size) = wanted {
            let sizes = items(size)?;
            (sizes.len() == place.1).then_some(())?;
            return self.size(sizes.get(place.0)?);
        }
        let factor = match self.parameter(it, &SCALE)?? {
            factor if factor.extract::<f64>().is_ok() => factor.extract::<f64>().ok()?,
            factors => *factors.extract::<Vec<f64>>().ok()?.get(place.0)?,
        };
        // Others are rounded as Paddle does.
        let whole = (1.0..1024.0).contains(&factor) && factor.fract() == 0.0;
        let dim = self.dim(x, at).filter(|_| whole)?;
        Some(made(BinOp::Mul, dim, Number::Int(factor as i64)))
    }

    pub(super) fn pooled_to(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, place) = self.over(it, at)?;
        let sizes = match &it.callee {
            Callee::Layer(_) => None,
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                items(argument(it, 1, &["output_size"])?)
            }
        };
        if let Some(sizes) = sizes {
            let size = sizes.get(place.0).filter(|_| sizes.len() == place.1)?;
            return match super::is_none(self.t.py, size) {
                true => self.dim(x, at),
                false => self.size(size),
            };
        }
        match self.of_dim(it, &OUTPUT_SIZE, place)? {
            Some(size) => Some(Number::Int(size)),
            None => self.dim(x, at),
        }
    }
}
