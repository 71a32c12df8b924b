//! Numbers of the graph that are computed from constants alone: what they are is known while the
//! frame is traced.
//!
//! Their operations run in eager mode then. A loop that no operation holds (a list grows in it) is
//! unrolled where its tests are such numbers: how many rounds it has is the same in each call.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::dynamic_scalar::tensor_of;
use crate::frame::PADDLE;
use crate::graph::{Arg, Callee, DType, Statement, SymbolId};
use crate::obj::{Obj, is_attr};
use crate::tracker::number::Value;
use crate::variables::VarId;
use crate::{Tracer, graph_arrays};

/// Most operations that one is computed with.
const MOST: usize = 512;

/// Most numbers of a tensor on the way.
const LARGEST: i64 = 1024;

/// Most numbers that are known of one graph: a bound on rounds that are simulated one by one.
const MOST_KNOWN: usize = 4096;

type Values = FxHashMap<SymbolId, Obj>;

/// What such numbers are, as far as anybody asked: the number of a round is computed from that of
/// the round before.
#[derive(Default)]
pub(crate) struct KnownNumbers {
    values: Values,
    /// What those are computed from, with them.
    touched: FxHashSet<SymbolId>,
    /// No statement up to here changes one of those in place.
    checked: usize,
    /// The last of those.
    newest: u32,
}

impl KnownNumbers {
    /// Forgets what a graph of so many symbols and statements does not have.
    pub(crate) fn forget(&mut self, symbols: usize, statements: usize) {
        self.checked = self.checked.min(statements);
        if (self.newest as usize) < symbols {
            return;
        }
        self.values.retain(|id, _| (id.0 as usize) < symbols);
        self.touched.retain(|id| (id.0 as usize) < symbols);
        self.newest = self.touched.iter().map(|id| id.0).max().unwrap_or(0);
    }

    /// What a symbol is in eager mode; `None` where it depends on more than constants.
    fn compute<'py>(&mut self, t: &Tracer<'py>, symbol: SymbolId) -> Option<Bound<'py, PyAny>> {
        let found = self.extended(t, symbol);
        if found.is_some() || self.values.is_empty() {
            return found;
        }
        // What changes in place may be another number.
        *self = Self::default();
        self.extended(t, symbol)
    }

    fn extended<'py>(&mut self, t: &Tracer<'py>, symbol: SymbolId) -> Option<Bound<'py, PyAny>> {
        let statements = &t.graph.sir.statements;
        let mut wanted = FxHashSet::default();
        if !self.values.contains_key(&symbol) {
            wanted.insert(symbol);
        }
        let mut touched = FxHashSet::from_iter([symbol]);
        let mut chosen: Vec<&Statement> = Vec::new();
        let mut first = statements.len();
        for (at, statement) in statements.iter().enumerate().rev() {
            if wanted.is_empty() {
                break;
            }
            let mut made = Vec::new();
            statement.output.for_each_symbol(&mut |id| made.push(id));
            if !made.iter().any(|id| wanted.contains(id)) {
                continue;
            }
            if let ([made], Some(size)) = (&made[..], size_of(t, statement)) {
                wanted.remove(made);
                self.values.insert(*made, size);
                self.newest = self.newest.max(made.0);
                continue;
            }
            if chosen.len() == MOST || !is_small_and_pure(t, statement, &made) {
                return None;
            }
            wanted.retain(|id| !made.contains(id));
            statement.for_each_argument(&mut |id| {
                touched.insert(id);
                if !self.values.contains_key(&id) {
                    wanted.insert(id);
                }
            });
            chosen.push(statement);
            first = at;
        }
        // What is left was there before, or differs from round to round.
        if !wanted.is_empty() || self.values.len() + chosen.len() > MOST_KNOWN {
            return None;
        }
        self.newest = touched.iter().map(|id| id.0).fold(self.newest, u32::max);
        self.touched.extend(touched);
        // What is made is not changed in front of that.
        if is_written(t, &statements[self.checked.min(first)..], &self.touched) {
            return None;
        }
        self.checked = statements.len();
        for statement in chosen.into_iter().rev() {
            let result = run(t.py, &self.values, statement)?;
            keep(&statement.output, result, &mut self.values)?;
        }
        Some(self.values.get(&symbol)?.bind(t.py).clone())
    }
}

/// Whether a value holds, where that is known. What fails here fails in the graph, too.
pub(crate) fn truth(t: &mut Tracer<'_>, value: VarId) -> Option<bool> {
    if let Some(value) = t.const_value(value) {
        return value.is_truthy().ok();
    }
    let (symbol, is_number) = match graph_arrays::meta(t, value) {
        Some((symbol, _)) => (symbol, true),
        None => t.kind(value).form().symbol()?,
    };
    if !t.options.kept_open.is_empty() {
        // Nothing is to be unrolled.
        return None;
    }
    // The state around the frame is that of the operations.
    if t.grad.auto_casts > 0 || !is_number && super::is_truth_of_users(t) {
        return None;
    }
    let mut known = std::mem::take(&mut t.flow.known_numbers);
    let found = known.compute(t, symbol);
    t.flow.known_numbers = known;
    let found = found?;
    match is_number {
        true => found.ne(0).ok(),
        false => found.is_truthy().ok(),
    }
}

/// The number of items of a tensor whose dims are known, as `x.numel()` and `paddle.numel(x)` make
/// it.
fn size_of(t: &Tracer<'_>, statement: &Statement) -> Option<Obj> {
    let asks = match &statement.callee {
        Callee::Method(name) => &**name == "numel",
        Callee::Api(function) => is_attr(function.bind(t.py), PADDLE, "numel"),
        Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => false,
    };
    let ([Arg::Symbol(of)], [], true) = (&statement.args[..], &statement.kwargs[..], asks) else {
        return None;
    };
    let meta = t.graph.meta(*of).filter(|meta| meta.is_static())?;
    let product = |size: i64, dim: &i64| size.checked_mul(*dim);
    let size = meta.shape.iter().try_fold(1, product)?;
    let made = tensor_of(t.py, Value::Int(size), DType::Int64).ok()?;
    Some(Obj::from(made))
}

/// Whether it computes a few numbers and does nothing else.
fn is_small_and_pure(t: &Tracer<'_>, statement: &Statement, made: &[SymbolId]) -> bool {
    let is_small = |id: &SymbolId| {
        t.graph.meta(*id).is_some_and(|meta| {
            let known = meta.shape.iter().all(|dim| (0..=LARGEST).contains(dim));
            let product = |whole: i64, dim: &i64| whole.checked_mul(*dim);
            let count = meta.shape.iter().try_fold(1, product);
            known && meta.stop_gradient && count.is_some_and(|count| count <= LARGEST)
        })
    };
    let is_call = !matches!(statement.callee, Callee::Layer(_) | Callee::Sir(_));
    let acts = statement.draws || !statement.updates.is_empty() || statement.computes_dims;
    is_call && !acts && made.iter().all(is_small)
}

/// Whether one of the statements changes one of these in place.
fn is_written(t: &Tracer<'_>, statements: &[Statement], symbols: &FxHashSet<SymbolId>) -> bool {
    statements.iter().any(|statement| {
        let mut takes = false;
        statement.for_each_argument(&mut |id| takes |= symbols.contains(&id));
        let updates = statement.updates.iter().any(|id| symbols.contains(id));
        updates || takes && statement.callee.writes(t.py)
    })
}

/// The result of a statement.
fn run<'py>(py: Python<'py>, values: &Values, statement: &Statement) -> Option<Bound<'py, PyAny>> {
    let args = objects(py, values, &statement.args)?;
    let kwargs = PyDict::new(py);
    for (name, value) in &statement.kwargs {
        kwargs.set_item(&**name, object(py, values, value)?).ok()?;
    }
    let (function, args) = match &statement.callee {
        Callee::Api(function) => (function.bind(py).clone(), &args[..]),
        Callee::Method(name) => {
            let (receiver, rest) = args.split_first()?;
            (receiver.getattr(&**name).ok()?, rest)
        }
        Callee::Attribute(name) => return args.first()?.getattr(&**name).ok(),
        Callee::Layer(_) | Callee::Sir(_) => return None,
    };
    let args = PyTuple::new(py, args).ok()?;
    function.call(args, Some(&kwargs)).ok()
}

fn objects<'py>(py: Python<'py>, values: &Values, args: &[Arg]) -> Option<Vec<Bound<'py, PyAny>>> {
    args.iter().map(|arg| object(py, values, arg)).collect()
}

/// An argument as a Python object.
fn object<'py>(py: Python<'py>, values: &Values, arg: &Arg) -> Option<Bound<'py, PyAny>> {
    Some(match arg {
        Arg::Symbol(symbol) => values.get(symbol)?.bind(py).clone(),
        Arg::Const(value) => value.bind(py).clone(),
        Arg::List(items) => PyList::new(py, objects(py, values, items)?)
            .ok()?
            .into_any(),
        Arg::Tuple(items) => PyTuple::new(py, objects(py, values, items)?)
            .ok()?
            .into_any(),
        Arg::Slice(parts) => {
            let parts = PyTuple::new(py, objects(py, values, &parts[..])?).ok()?;
            py.get_type::<PySlice>().call1(parts).ok()?
        }
        Arg::Dict(_) | Arg::NamedTuple(..) => return None,
    })
}

/// Notes what the symbols of a result are.
fn keep<'py>(output: &Arg, result: Bound<'py, PyAny>, values: &mut Values) -> Option<()> {
    match output {
        Arg::Symbol(symbol) => drop(values.insert(*symbol, Obj::from(result))),
        Arg::List(items) | Arg::Tuple(items) => {
            for (at, item) in items.iter().enumerate() {
                keep(item, result.get_item(at).ok()?, values)?;
            }
        }
        Arg::Const(_) | Arg::Dict(_) | Arg::Slice(_) | Arg::NamedTuple(..) => {}
    }
    Some(())
}
