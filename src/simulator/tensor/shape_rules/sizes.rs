//! Rules of operations that are given axes, sizes or counts.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::bytecode::BinOp;
use crate::graph::{Arg, Callee, Statement, SymbolId};
use crate::tracker::number::{Number, Value};

use super::{Search, argument, is_none, items, placed};

pub(super) const X: &[&str] = &["x", "input"];
const AXIS: &[&str] = &["axis", "dim"];

/// A size that follows from the others.
const REST: Number = Number::Int(-1);

/// What an operator makes of two: what is known is computed, so that a dim of 1 is known to be one.
pub(super) fn made(op: BinOp, a: Number, b: Number) -> Number {
    let adds = matches!(op, BinOp::Add | BinOp::Sub);
    let multiplies = matches!(op, BinOp::Mul | BinOp::FloorDiv);
    if adds && b == Number::Int(0) || multiplies && b == Number::Int(1) {
        return a;
    }
    let known = if let (Number::Int(a), Number::Int(b)) = (&a, &b) {
        Value::Int(*a).binary(op, Value::Int(*b))
    } else {
        None
    };
    match known {
        Some(Value::Int(known)) => Number::Int(known),
        _ => Number::Made(op, Arc::new(a), Arc::new(b)),
    }
}

/// Every so manieth of them, the first one too.
pub(super) fn in_steps(many: Number, step: i64) -> Number {
    if step == 1 {
        return many;
    }
    let up = made(BinOp::Add, many, Number::Int(step - 1));
    made(BinOp::FloorDiv, up, Number::Int(step))
}

fn product(factors: Vec<Number>) -> Number {
    let factors = factors.into_iter().filter(|it| *it != Number::Int(1));
    let all = factors.reduce(|a, b| made(BinOp::Mul, a, b));
    all.unwrap_or(Number::Int(1))
}

/// What is left of one product in another one that is not zero. Factors of both are left out:
/// layers that reshape one after the other have the dim of the first.
fn quotient(all: Vec<Number>, others: Vec<Number>) -> Number {
    let (mut above, mut below) = (Factors::of(all), Factors::of(others));
    below.open.retain(|factor| {
        let found = above.open.iter().position(|other| other == factor);
        found.map(|at| above.open.swap_remove(at)).is_none()
    });
    if below.known != 0 && above.known % below.known == 0 {
        (above.known, below.known) = (above.known / below.known, 1);
    }
    let (above, below) = (above.product(), below.product());
    if below == Number::Int(1) {
        return above;
    }
    made(BinOp::FloorDiv, above, below)
}

/// A product, taken apart.
struct Factors {
    known: i64,
    open: Vec<Number>,
}

impl Factors {
    fn of(mut product: Vec<Number>) -> Self {
        let (mut known, mut open) = (1, Vec::new());
        while let Some(factor) = product.pop() {
            match factor {
                Number::Made(BinOp::Mul, a, b) => {
                    product.extend([Number::clone(&a), Number::clone(&b)]);
                }
                Number::Int(number) => match i64::checked_mul(known, number) {
                    Some(both) => known = both,
                    None => open.push(factor),
                },
                Number::Float(_)
                | Number::Given(_)
                | Number::Dim(..)
                | Number::Made(..)
                | Number::Called(..) => open.push(factor),
            }
        }
        Self { known, open }
    }

    fn product(self) -> Number {
        let mut factors = self.open;
        factors.push(Number::Int(self.known));
        product(factors)
    }
}

impl Search<'_, '_> {
    /// A size, or another whole number: known, or made of dims.
    pub(super) fn size(&mut self, arg: &Arg) -> Option<Number> {
        match arg.as_symbol() {
            Some(symbol) => self.number(symbol),
            None => self.whole(arg).map(Number::Int),
        }
    }

    /// The axes that an argument names.
    fn axes(&self, arg: &Arg, rank: usize) -> Option<Vec<usize>> {
        let axes = items(arg).unwrap_or(std::slice::from_ref(arg));
        let axes = axes.iter().map(|axis| self.axis(Some(axis), 0, rank));
        axes.collect()
    }

    /// Those that are flattened are one, their product.
    pub(super) fn flatten(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        let (start, stop) = match &it.callee {
            Callee::Layer(symbol) => {
                let layer = self.layer(*symbol)?;
                let axis = |name: &str| layer.getattr(name).ok()?.extract::<i64>().ok();
                (axis("start_axis")?, axis("stop_axis")?)
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                let axis = |at, name| argument(it, at, &[name]);
                let known =
                    |axis: Option<&Arg>, other| axis.map_or(Some(other), |it| self.whole(it));
                (
                    known(axis(1, "start_axis"), 0)?,
                    known(axis(2, "stop_axis"), -1)?,
                )
            }
        };
        let (start, stop) = (placed(start, rank)?, placed(stop, rank)?);
        (start <= stop).then_some(())?;
        if at < start {
            return self.dim(x, at);
        }
        if at > start {
            return self.dim(x, at + stop - start);
        }
        let mut all = self.dim(x, start)?;
        for axis in start + 1..=stop {
            all = made(BinOp::Mul, all, self.dim(x, axis)?);
        }
        Some(all)
    }

    /// The length of `[start:stop]` of something of length `len`.
    pub(super) fn sliced(&mut self, [start, stop, step]: &[Arg; 3], len: Number) -> Option<Number> {
        let py = self.t.py;
        let step = if is_none(py, step) {
            1
        } else {
            self.whole(step)?
        };
        (step > 0).then_some(())?;
        let mut end = |arg: &Arg, default: Number| {
            if let Arg::Symbol(symbol) = arg {
                return self.number(*symbol);
            }
            if is_none(py, arg) {
                return Some(default);
            }
            let at = Number::Int(self.whole(arg)?);
            match matches!(at, Number::Int(at) if at < 0) {
                true => Some(made(BinOp::Add, len.clone(), at)),
                false => Some(at),
            }
        };
        let (start, stop) = (end(start, Number::Int(0))?, end(stop, len.clone())?);
        self.ordered.push((Number::Int(0), start.clone()));
        self.ordered.push((start.clone(), stop.clone()));
        self.ordered.push((stop.clone(), len));
        Some(in_steps(made(BinOp::Sub, stop, start), step))
    }

    pub(super) fn reversed(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        (self.made(it) == Some(rank)).then_some(())?;
        self.dim(x, rank.checked_sub(at + 1)?)
    }

    pub(super) fn reduced(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        // Those that are kept are ones, which are known.
        if self.made(it)? == rank {
            self.axes(argument(it, 1, AXIS)?, rank)?;
            return self.dim(x, at);
        }
        self.squeezed(it, at)
    }

    pub(super) fn squeezed(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        let gone = self.axes(argument(it, 1, AXIS)?, rank)?;
        let left: Vec<usize> = (0..rank).filter(|axis| !gone.contains(axis)).collect();
        (self.made(it)? == left.len()).then_some(())?;
        self.dim(x, *left.get(at)?)
    }

    pub(super) fn stacked(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let axis = self.axis(argument(it, 1, AXIS), 0, self.made(it)?)?;
        let first = items(argument(it, 0, X)?)?.first()?.as_symbol()?;
        self.dim(first, if at < axis { at } else { at.checked_sub(1)? })
    }

    /// `arange(end)`, or with `start` and a `step` that is known.
    pub(super) fn counted(&mut self, it: &Statement) -> Option<Number> {
        let given = |position, name: &str| {
            let arg = argument(it, position, &[name]);
            arg.filter(|arg| !is_none(self.t.py, arg))
        };
        let (start, end) = match (given(0, "start"), given(1, "end")) {
            (Some(end), None) => (None, end),
            (start, Some(end)) => (start, end),
            (None, None) => return None,
        };
        let step = given(2, "step").map_or(Some(1), |step| self.whole(step))?;
        (step > 0).then_some(())?;
        let start = start.map_or(Some(Number::Int(0)), |start| self.size(start))?;
        let end = self.size(end)?;
        if step == 1 && start == Number::Int(0) && matches!(end, Number::Dim(..)) {
            return Some(end);
        }
        self.ordered.push((start.clone(), end.clone()));
        let many = made(BinOp::Sub, end, start);
        Some(in_steps(many, step))
    }

    pub(super) fn made_of_sizes(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let sizes = items(argument(it, 0, &["shape"])?)?;
        self.size(sizes.get(at)?)
    }

    /// 0 is the dim in the same place, -1 what is left.
    pub(super) fn reshape(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let wanted = items(argument(it, 1, &["shape"])?)?;
        let size = self.size(wanted.get(at)?)?;
        let x = self.tensor(it, 0, X)?;
        if size == Number::Int(0) {
            self.dim(x, at)
        } else if size == REST {
            self.left_over(x, wanted, at)
        } else {
            Some(size)
        }
    }

    fn left_over(&mut self, x: SymbolId, wanted: &[Arg], at: usize) -> Option<Number> {
        let (mut all, mut others) = (Vec::new(), Vec::new());
        for axis in 0..self.rank(x)? {
            all.push(self.dim(x, axis)?);
        }
        for (place, size) in wanted.iter().enumerate() {
            if place == at {
                continue;
            }
            let mut size = self.size(size)?;
            if size == Number::Int(0) {
                size = self.dim(x, place)?;
            }
            others.push(size);
        }
        self.ordered.push((Number::Int(1), product(others.clone())));
        Some(quotient(all, others))
    }

    pub(super) fn expanded(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let sizes = items(argument(it, 1, &["shape"])?)?;
        let size = self.size(sizes.get(at)?)?;
        if size != REST {
            return Some(size);
        }
        let x = self.tensor(it, 0, X)?;
        let before = sizes.len().checked_sub(self.rank(x)?)?;
        self.dim(x, at.checked_sub(before)?)
    }

    pub(super) fn tiled(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let times = items(argument(it, 1, &["repeat_times"])?)?;
        (self.rank(x)? == times.len()).then_some(())?;
        let times = self.size(times.get(at)?)?;
        Some(made(BinOp::Mul, self.dim(x, at)?, times))
    }

    pub(super) fn part(&mut self, it: &Statement, result: usize, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let axis = self.axis(argument(it, 2, AXIS), 0, self.rank(x)?)?;
        let whole = self.dim(x, at)?;
        if at != axis {
            return Some(whole);
        }
        let sections = argument(it, 1, &["num_or_sections", "chunks"])?;
        let Some(sections) = items(sections) else {
            let count = self.whole(sections).filter(|count| *count > 0)?;
            return Some(made(BinOp::FloorDiv, whole, Number::Int(count)));
        };
        let size = self.size(sections.get(result)?)?;
        if size != REST {
            return Some(size);
        }
        let mut left = whole;
        for (place, section) in sections.iter().enumerate() {
            if place != result {
                left = made(BinOp::Sub, left, self.size(section)?);
            }
        }
        Some(left)
    }

    pub(super) fn halved(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        let axis = match &it.callee {
            Callee::Layer(symbol) => {
                let axis = self.layer(*symbol)?.getattr("_axis").ok()?;
                placed(axis.extract().ok()?, rank)?
            }
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Sir(_) => {
                self.axis(argument(it, 1, AXIS), -1, rank)?
            }
        };
        let whole = self.dim(x, at)?;
        match at == axis {
            true => Some(made(BinOp::FloorDiv, whole, Number::Int(2))),
            false => Some(whole),
        }
    }

    pub(super) fn highest(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, X)?;
        let rank = self.rank(x)?;
        let axis = argument(it, 2, AXIS).filter(|axis| !is_none(self.t.py, axis));
        if at == self.axis(axis, -1, rank)? {
            return self.size(argument(it, 1, &["k"])?);
        }
        self.dim(x, at)
    }
}
