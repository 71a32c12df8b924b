//! How a dim of a tensor that the graph makes follows from dims of its inputs: known for a table of
//! operations, whose shapes are simple. Guards then compute what the code compares.

mod sizes;
mod windows;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::{Arg, Callee, DType, Statement, SymbolId, SymbolKind};
use crate::ops::{FULL, ShapeRule, shape_rule};
use crate::tracker::number::Number;
use crate::tracker::{Tracker, TrackerRef};

use crate::{Tracer, dynamic_scalar, provenance};

use sizes::made;

/// Statements that are looked at for one dim.
const FUEL: usize = 1024;

/// `a <= b`, which a rule takes for granted.
pub type Ordered = (Number, Number);

/// The dim `at` of `symbol`, computed from dims of inputs, and what has to hold for that.
pub fn dim(t: &Tracer<'_>, symbol: SymbolId, at: usize) -> Option<(Number, Vec<Ordered>)> {
    let mut search = Search::new(t);
    let dim = search.dim(symbol, at)?;
    Some((dim, search.ordered))
}

/// The tensor and its dim, where `symbol` is an item of `paddle.shape()`.
pub fn item_of_shape(t: &Tracer<'_>, symbol: SymbolId) -> Option<(SymbolId, usize)> {
    let mut search = Search::new(t);
    let it = search.producer(symbol)?;
    match &it.callee {
        Callee::Method(name) if &**name == "__getitem__" => search.item_of_shape(it),
        Callee::Api(_)
        | Callee::Method(_)
        | Callee::Attribute(_)
        | Callee::Layer(_)
        | Callee::Sir(_) => None,
    }
}

struct Search<'a, 'py> {
    t: &'a Tracer<'py>,
    fuel: usize,
    ordered: Vec<Ordered>,
    /// What was found already: both operands of a residual sum lead to one tensor.
    found: FxHashMap<(SymbolId, usize), Option<Number>>,
}

/// The names of two operands.
const TWO: &[[&str; 2]] = &[["x", "input"], ["y", "other"]];

/// Those of `where`.
const WHERE: &[[&str; 2]] = &[["condition", "condition"], ["x", "input"], ["y", "other"]];

/// The dim of one of the results, by the arguments.
fn by_rule(
    s: &mut Search<'_, '_>,
    rule: ShapeRule,
    (it, result): (&Statement, usize),
    at: usize,
) -> Option<Number> {
    let several = matches!(rule, ShapeRule::Split | ShapeRule::TopK);
    (several || matches!(it.output, Arg::Symbol(_))).then_some(())?;
    match rule {
        ShapeRule::Same => s.same(it, at),
        ShapeRule::Batch => s.batch(it, at),
        ShapeRule::Broadcast => s.broadcast(it, at, TWO),
        ShapeRule::Where => s.broadcast(it, at, WHERE),
        ShapeRule::MatMul => s.matmul(it, at),
        ShapeRule::Leading => s.leading(it, at),
        ShapeRule::Concat => s.concat(it, at),
        ShapeRule::Gather => s.gather(it, at),
        ShapeRule::Flatten => s.flatten(it, at),
        ShapeRule::Transpose => s.transpose(it, at),
        ShapeRule::Reshape => s.reshape(it, at),
        ShapeRule::Unsqueeze => s.unsqueeze(it, at),
        ShapeRule::GetItem => s.getitem(it, at),
        ShapeRule::Reversed => s.reversed(it, at),
        ShapeRule::Reduced => s.reduced(it, at),
        ShapeRule::Squeeze => s.squeezed(it, at),
        ShapeRule::Stack => s.stacked(it, at),
        ShapeRule::Arange => s.counted(it),
        ShapeRule::Made => s.made_of_sizes(it, at),
        ShapeRule::Expand => s.expanded(it, at),
        ShapeRule::Tile => s.tiled(it, at),
        ShapeRule::Split => s.part(it, result, at),
        ShapeRule::TopK => s.highest(it, at),
        ShapeRule::Convolution
        | ShapeRule::Pooled
        | ShapeRule::Turned
        | ShapeRule::Resized
        | ShapeRule::PooledTo
            if at < 2 =>
        {
            s.batch(it, at)
        }
        ShapeRule::Convolution => s.convolution(it, at),
        ShapeRule::Pooled => s.pooled(it, at),
        ShapeRule::Turned => s.turned(it, at),
        ShapeRule::Resized => s.resized(it, at),
        ShapeRule::PooledTo => s.pooled_to(it, at),
        ShapeRule::Halved => s.halved(it, at),
    }
}

/// The argument in this place, or of one of these names.
fn argument<'a>(it: &'a Statement, position: usize, names: &[&str]) -> Option<&'a Arg> {
    let named = || {
        let mut kwargs = it.kwargs.iter();
        kwargs.find(|(name, _)| names.contains(&&**name))
    };
    it.args.get(position).or_else(|| Some(&named()?.1))
}

/// An axis among so many dims, also from the end.
fn placed(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

fn is_none(py: Python<'_>, arg: &Arg) -> bool {
    matches!(arg, Arg::Const(value) if value.bind(py).is_none())
}

fn items(arg: &Arg) -> Option<&[Arg]> {
    match arg {
        Arg::List(items) | Arg::Tuple(items) => Some(items),
        Arg::Symbol(_) | Arg::Const(_) | Arg::Dict(_) | Arg::Slice(_) | Arg::NamedTuple(..) => None,
    }
}

/// Where the dims of an input are read: a tensor that a call makes of an array has the dims of
/// that.
pub fn place(input: &TrackerRef) -> &TrackerRef {
    if let Tracker::Array(array, _) = &**input {
        array
    } else {
        input
    }
}

impl<'a, 'py> Search<'a, 'py> {
    fn new(t: &'a Tracer<'py>) -> Self {
        Self {
            t,
            fuel: FUEL,
            ordered: Vec::new(),
            found: FxHashMap::default(),
        }
    }

    fn dim(&mut self, symbol: SymbolId, at: usize) -> Option<Number> {
        if let Some(found) = self.found.get(&(symbol, at)) {
            return found.clone();
        }
        let found = self.search(symbol, at);
        self.found.insert((symbol, at), found.clone());
        found
    }

    fn search(&mut self, symbol: SymbolId, at: usize) -> Option<Number> {
        self.fuel = self.fuel.checked_sub(1)?;
        let known = *self.t.graph.meta(symbol)?.shape.get(at)?;
        if known >= 0 {
            return Some(Number::Int(known));
        }
        let mut inputs = self.t.graph.inputs.iter();
        if let Some(input) = inputs.find(|input| input.symbol == symbol) {
            return Some(Number::Dim(place(&input.tracker).clone(), at));
        }
        let (it, result) = self.result(symbol)?;
        let rule = self.rule(it)?;
        by_rule(self, rule, (it, result), at)
    }

    fn producer(&self, symbol: SymbolId) -> Option<&'a Statement> {
        let mut statements = self.t.graph.sir.statements.iter().rev();
        statements.find(|it| matches!(it.output, Arg::Symbol(made) if made == symbol))
    }

    /// The statement that makes this, and which of its results it is.
    fn result(&self, symbol: SymbolId) -> Option<(&'a Statement, usize)> {
        let is_it = |item: &Arg| matches!(item, Arg::Symbol(made) if *made == symbol);
        self.t.graph.sir.statements.iter().rev().find_map(|it| {
            let results = match &it.output {
                Arg::List(results) | Arg::Tuple(results) | Arg::NamedTuple(_, results) => results,
                one @ (Arg::Symbol(_) | Arg::Const(_) | Arg::Dict(_) | Arg::Slice(_)) => {
                    std::slice::from_ref(one)
                }
            };
            Some((it, results.iter().position(is_it)?))
        })
    }

    fn rule(&self, it: &Statement) -> Option<ShapeRule> {
        let names = match &it.callee {
            Callee::Layer(symbol) => {
                let layer = self.layer(*symbol)?;
                let class = layer.get_type();
                provenance::module_in_paddle(&class)?;
                [class.name().ok()?.to_string()].into_iter().collect()
            }
            callee @ (Callee::Api(_)
            | Callee::Method(_)
            | Callee::Attribute(_)
            | Callee::Sir(_)) => callee.api_names(self.t.py),
        };
        // The last name is what a method really is; operators have one of their own.
        let name = names
            .iter()
            .find(|name| name.starts_with("__"))
            .or(names.last())?;
        shape_rule(name)
    }

    fn layer(&self, symbol: SymbolId) -> Option<Bound<'py, PyAny>> {
        match self.t.graph.sir.kind(symbol) {
            SymbolKind::Layer(layer) => Some(layer.bind(self.t.py)),
            SymbolKind::Tensor(_) => None,
        }
    }

    fn rank(&self, symbol: SymbolId) -> Option<usize> {
        Some(self.t.graph.meta(symbol)?.shape.len())
    }

    /// The first tensor of a call; that of a layer comes after the layer.
    fn tensor(&self, it: &Statement, position: usize, names: &[&str]) -> Option<SymbolId> {
        let position = position + usize::from(matches!(it.callee, Callee::Layer(_)));
        let symbol = argument(it, position, names)?.as_symbol();
        symbol.filter(|symbol| self.rank(*symbol).is_some())
    }

    fn whole(&self, arg: &Arg) -> Option<i64> {
        arg.as_const()?.bind(self.t.py).extract().ok()
    }

    fn axis(&self, arg: Option<&Arg>, default: i64, rank: usize) -> Option<usize> {
        let axis = match arg {
            Some(arg) => self.whole(arg)?,
            None => default,
        };
        placed(axis, rank)
    }

    fn made(&self, it: &Statement) -> Option<usize> {
        self.rank(it.output.as_symbol()?)
    }

    fn same(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, &["x", "input"])?;
        (self.rank(x) == self.made(it)).then_some(())?;
        self.dim(x, at)
    }

    fn batch(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, &["x", "input"])?;
        (at == 0 && self.rank(x) == self.made(it)).then_some(())?;
        self.dim(x, at)
    }

    /// Operands are aligned at their last dims; dims of 1 give way.
    fn broadcast(&mut self, it: &Statement, at: usize, operands: &[[&str; 2]]) -> Option<Number> {
        let from_end = self.made(it)?.checked_sub(at)?;
        let mut found: Option<Number> = None;
        for (position, names) in operands.iter().enumerate() {
            let operand = match argument(it, position, names)? {
                Arg::Symbol(symbol) => *symbol,
                Arg::Const(value) if value.bind(self.t.py).extract::<f64>().is_ok() => continue,
                Arg::Const(_)
                | Arg::List(_)
                | Arg::Tuple(_)
                | Arg::Dict(_)
                | Arg::Slice(_)
                | Arg::NamedTuple(..) => return None,
            };
            let rank = self.rank(operand)?;
            if rank < from_end {
                continue;
            }
            let dim = self.dim(operand, rank - from_end)?;
            if dim == Number::Int(1) {
                continue;
            }
            match &found {
                Some(known) if *known != dim => self.are_equal(known.clone(), dim)?,
                _ => found = Some(dim),
            }
        }
        found
    }

    /// Both are the same in this call, and have to be in others.
    fn are_equal(&mut self, one: Number, other: Number) -> Option<()> {
        let now = |number| dynamic_scalar::now(self.t, number);
        now(&one)?.compare(CmpOp::Eq, now(&other)?)?.then_some(())?;
        self.ordered.push((one.clone(), other.clone()));
        self.ordered.push((other, one));
        Some(())
    }

    fn matmul(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, y) = (
            self.tensor(it, 0, &["x", "input"])?,
            self.tensor(it, 1, &["y", "mat2"])?,
        );
        let (x_rank, y_rank, rank) = (self.rank(x)?, self.rank(y)?, self.made(it)?);
        if x_rank < 2 || y_rank < 2 {
            return None;
        }
        let flag = |position, name| match argument(it, position, &[name]) {
            Some(Arg::Const(value)) => value.bind(self.t.py).extract::<bool>().ok(),
            Some(_) => None,
            None => Some(false),
        };
        let (turn_x, turn_y) = (flag(2, "transpose_x")?, flag(3, "transpose_y")?);
        if at + 1 == rank {
            self.dim(y, y_rank - if turn_y { 2 } else { 1 })
        } else if at + 2 == rank {
            self.dim(x, x_rank - if turn_x { 1 } else { 2 })
        } else {
            self.broadcast(it, at, TWO)
        }
    }

    fn leading(&mut self, it: &Statement, at: usize) -> Option<Number> {
        if at + 1 == self.made(it)? {
            return None;
        }
        let x = self.tensor(it, 0, &["x", "input"])?;
        self.dim(x, at)
    }

    fn concat(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let axis = self.axis(argument(it, 1, &["axis"]), 0, self.made(it)?)?;
        let mut sum: Option<Number> = None;
        for item in items(argument(it, 0, &["x"])?)? {
            let Arg::Symbol(item) = item else {
                return None;
            };
            let dim = self.dim(*item, at)?;
            sum = Some(match sum {
                Some(sum) if axis == at => made(BinOp::Add, sum, dim),
                Some(sum) => sum,
                None => dim,
            });
        }
        sum
    }

    fn gather(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let (x, index) = (self.tensor(it, 0, &["x"])?, self.tensor(it, 1, &["index"])?);
        let axis = argument(it, 2, &["axis"]).filter(|axis| !is_none(self.t.py, axis));
        let axis = self.axis(axis, 0, self.rank(x)?)?;
        match self.rank(index)? {
            1 if axis == at => self.dim(index, 0),
            1 => self.dim(x, at),
            _ => None,
        }
    }

    fn transpose(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, &["x"])?;
        let order = items(argument(it, 1, &["perm"])?)?;
        (order.len() == self.rank(x)?).then_some(())?;
        let from = self.axis(order.get(at), 0, order.len())?;
        self.dim(x, from)
    }

    fn unsqueeze(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, &["x"])?;
        let axes = argument(it, 1, &["axis"])?;
        let mut from: Vec<Option<usize>> = (0..self.rank(x)?).map(Some).collect();
        for axis in items(axes).unwrap_or(std::slice::from_ref(axes)) {
            let axis = self.axis(Some(axis), 0, from.len() + 1)?;
            from.insert(axis, None);
        }
        self.dim(x, (*from.get(at)?)?)
    }

    fn getitem(&mut self, it: &Statement, at: usize) -> Option<Number> {
        let x = self.tensor(it, 0, &[])?;
        let key = it.args.get(1)?;
        let key = match key {
            Arg::Tuple(items) => items,
            one @ (Arg::Symbol(_)
            | Arg::Const(_)
            | Arg::List(_)
            | Arg::Dict(_)
            | Arg::Slice(_)
            | Arg::NamedTuple(..)) => std::slice::from_ref(one),
        };
        let py = self.t.py;
        let none = |arg: &Arg| is_none(py, arg);
        let rest = |arg: &Arg| matches!(arg, Arg::Const(value) if value.bind(py).is(py.Ellipsis()));
        let taken = key.iter().filter(|arg| !none(arg) && !rest(arg)).count();
        // Where each dim of the result comes from, and what is taken of it.
        let mut from: Vec<(usize, Option<&[Arg; 3]>)> = Vec::new();
        let mut next = 0;
        for arg in key {
            if none(arg) {
                from.push((usize::MAX, None));
            } else if rest(arg) {
                let kept = self.rank(x)?.checked_sub(taken)?;
                from.extend((next..next + kept).map(|dim| (dim, None)));
                next += kept;
            } else if let Arg::Slice(parts) = arg {
                from.push((next, Some(parts)));
                next += 1;
            } else {
                self.whole(arg)?;
                next += 1;
            }
        }
        from.extend((next..self.rank(x)?).map(|dim| (dim, None)));
        (from.len() == self.made(it)?).then_some(())?;
        match *from.get(at)? {
            (dim, None) => self.dim(x, dim),
            (dim, Some(parts)) => {
                let len = self.dim(x, dim)?;
                self.sliced(parts, len)
            }
        }
    }

    fn item_of_shape(&mut self, it: &Statement) -> Option<(SymbolId, usize)> {
        let (Arg::Symbol(shape), index) = (it.args.first()?, it.args.get(1)?) else {
            return None;
        };
        let of = self.producer(*shape)?;
        let is_shape = of
            .callee
            .api_names(self.t.py)
            .last()
            .is_some_and(|name| name == "shape");
        let tensor = self.tensor(of, 0, &["input"]).filter(|_| is_shape)?;
        let at = self.axis(Some(index), 0, self.rank(tensor)?)?;
        Some((tensor, at))
    }

    /// A number of the graph that was made of dims.
    fn number(&mut self, symbol: SymbolId) -> Option<Number> {
        self.fuel = self.fuel.checked_sub(1)?;
        let mut inputs = self.t.graph.inputs.iter();
        if let Some(input) = inputs.find(|input| input.symbol == symbol) {
            // One that each call makes.
            return if let Tracker::Number(number, DType::Int64) = &*input.tracker {
                Some(Number::clone(number))
            } else {
                None
            };
        }
        let it = self.producer(symbol)?;
        let Callee::Method(name) = &it.callee else {
            // One that is known, as a tensor.
            let is_full = it.callee.api_names(self.t.py).last()? == FULL;
            return is_full.then(|| self.whole(it.args.get(1)?).map(Number::Int))?;
        };
        if &**name == "__getitem__" {
            let (tensor, at) = self.item_of_shape(it)?;
            return self.dim(tensor, at);
        }
        let stem = name.strip_prefix("__")?.strip_suffix("__")?;
        let (stem, reflected) = match stem.strip_prefix('r') {
            Some(stem) => (stem, true),
            None => (stem, false),
        };
        let ops = [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::FloorDiv];
        let op = ops.into_iter().find(|op| op.stem() == stem)?;
        let mut operand = |arg: &Arg| {
            if let Arg::Symbol(symbol) = arg {
                self.number(*symbol)
            } else {
                self.whole(arg).map(Number::Int)
            }
        };
        let (a, b) = (operand(it.args.first()?)?, operand(it.args.get(1)?)?);
        let (a, b) = if reflected { (b, a) } else { (a, b) };
        Some(made(op, a, b))
    }
}
