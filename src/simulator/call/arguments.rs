//! Variables as arguments of calls in the graph, and the results of those as variables.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyInt, PyModule, PyType};

use crate::bytecode::BinOp;
use crate::frame::Modules;
use crate::graph::{self, Arg, Callee, SymbolId};
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::{DictVar, Kind, NumberVar, TensorVar, VarId};

use crate::deferred::unchanged;
use crate::variables::protocol;
use crate::{
    Kwargs, Step, Tracer, dynamic_scalar, fold, graph_arrays, item, keys, numpy_scalars,
    tensor_scalar,
};

/// Why an operation breaks the graph that would hold `-0.0`.
pub(crate) const NEGATIVE_ZERO: &str = "-0.0 in a tensor operation: programs may take it for 0.0";

/// Paddle keeps one attribute for all numbers that are equal: where `-0.0` came first, `0.0`
/// becomes it.
fn is_negative_zero(value: &Bound<'_, PyAny>) -> bool {
    let is_one = |number: f64| number == 0.0 && number.is_sign_negative();
    match value.cast::<PyComplex>() {
        Ok(number) => is_one(number.real()) || is_one(number.imag()),
        Err(_) => value
            .cast::<PyFloat>()
            .is_ok_and(|number| is_one(number.value())),
    }
}

/// Whether Paddle may be given this while a program is built. It looks for sizes and numbers in
/// what it does not know, with special methods of a module or a metaclass, or ends the process; so
/// do whole numbers of more than 64 bits.
fn is_data(value: &Bound<'_, PyAny>) -> bool {
    if value.is_instance_of::<PyModule>() {
        return false;
    }
    if value.is_instance_of::<PyType>() {
        return value.get_type().is(value.py().get_type::<PyType>());
    }
    !value.is_exact_instance_of::<PyInt>() || value.extract::<i64>().is_ok()
}

/// The graph argument for a variable.
pub(crate) fn to_arg(t: &mut Tracer<'_>, value: VarId) -> Step<Arg> {
    match fold::deeper(t, |t| protocol::argument(t, value)) {
        Some(arg) => arg,
        None => t.unsupported("containers that are too deep are passed to a tensor operation"),
    }
}

/// Why a value is no argument.
fn is_passed(t: &mut Tracer<'_>, id: VarId) -> String {
    let kind = t.kind(id).clone();
    let what = crate::call::describe(t, id, &kind);
    format!("{what} is passed to a tensor operation")
}

/// Stops at a value that is no argument.
pub(crate) fn refuse<T>(t: &mut Tracer<'_>, id: VarId) -> Step<T> {
    let why = is_passed(t, id);
    t.stop(BreakKind::UnsupportedCall, why)
}

/// The arguments for the items of a list or tuple.
pub(crate) fn to_args(t: &mut Tracer<'_>, items: &[VarId]) -> Step<Vec<Arg>> {
    let to_arg = |item: &VarId| match numpy_scalars::size(t, *item)? {
        Some(size) => Ok(Arg::Const(size)),
        None => {
            let item = graph_arrays::as_place(t, *item)?;
            to_arg(t, item)
        }
    };
    items.iter().map(to_arg).collect()
}

/// The argument that a real object is.
pub(crate) fn of_value(t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
    match t.value(id) {
        Some(value) if is_negative_zero(&value) => t.unsupported(NEGATIVE_ZERO),
        Some(value) if !is_data(&value) => {
            let why = is_passed(t, id);
            t.unsupported(why)
        }
        Some(value) => Ok(Arg::Const(Obj::from(value))),
        None => t.unsupported("a constant without a value"),
    }
}

/// Whether a number is made of dims and constants only: then the graph can make it too.
pub(crate) fn depends_on_dims(t: &mut Tracer<'_>, id: VarId) -> bool {
    if let Kind::Int(NumberVar::Made(_, a, b)) = *t.kind(id) {
        return depends_on_dims(t, a) && depends_on_dims(t, b);
    }
    matches!(t.kind(id), Kind::Const | Kind::Int(NumberVar::Dim(..)))
}

/// Whether a number made of dims is larger than those because of its constants.
pub(crate) fn has_large_part(t: &mut Tracer<'_>, id: VarId) -> bool {
    digits(t, id, 0) > u64::BITS - item::STEP.leading_zeros()
}

/// The most binary digits that a number made of dims has, where a dim has `of_dim`.
fn digits(t: &mut Tracer<'_>, id: VarId, of_dim: u32) -> u32 {
    if let Kind::Const = t.kind(id) {
        return t.const_int(id).map_or(u32::MAX, |value| {
            u64::BITS - value.unsigned_abs().leading_zeros()
        });
    }
    let Kind::Int(NumberVar::Made(op, a, b)) = *t.kind(id) else {
        return of_dim;
    };
    let (a, b) = (digits(t, a, of_dim), digits(t, b, of_dim));
    match op {
        BinOp::Mul => a.saturating_add(b),
        BinOp::Add | BinOp::Sub => a.max(b).saturating_add(1),
        BinOp::Rem => b,
        BinOp::And
        | BinOp::FloorDiv
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::TrueDiv
        | BinOp::Xor => a,
    }
}

/// Python's whole numbers do not wrap around: guards compute those that might, which fails where
/// one does.
fn check_size(t: &mut Tracer<'_>, number: NumberVar) -> Step<()> {
    /// Of a dim. There is no memory for more elements than the square of that.
    const DIGITS: u32 = 31;
    let id = t.add(Kind::Int(number));
    if digits(t, id, DIGITS) < u64::BITS - 1 || dynamic_scalar::is_computed(t, id)? {
        return Ok(());
    }
    // Dims that no guard computes: there is no memory for elements whose number wraps around.
    match has_large_part(t, id) || dynamic_scalar::is_known_to_guards(t, id) {
        true => t.unsupported("a number made of dims that may be too large for a graph"),
        false => Ok(()),
    }
}

/// What a value is for who reads the results of a program: a number made of open dims is one of the
/// graph there; `None` where it is something else.
pub fn dims_as_result(t: &mut Tracer<'_>, id: VarId) -> Step<Option<SymbolId>> {
    let Kind::Int(number) = *t.kind(id) else {
        return Ok(None);
    };
    match depends_on_dims(t, id) {
        true => number_statement(t, number).map(Some),
        false => Ok(None),
    }
}

/// A number made of dims, as one of the graph.
pub(crate) fn number_statement(t: &mut Tracer<'_>, number: NumberVar) -> Step<SymbolId> {
    let (op, a, b) = match number {
        NumberVar::Dim(symbol, dim) => return dim_statement(t, symbol, dim),
        NumberVar::Made(op, a, b) => (op, a, b),
        NumberVar::Given | NumberVar::Called(..) => {
            return t.unsupported("a number from outside of the graph");
        }
        NumberVar::Graph(symbol) => return Ok(symbol),
    };
    check_size(t, number)?;
    let name = format!("__{}__", op.stem());
    let mut given = [to_arg(t, a)?, to_arg(t, b)?];
    for part in &mut given {
        *part = tensor_scalar::quotient_part(t, &name, part.clone())?;
    }
    let (name, given) = match given {
        [Arg::Const(a), b] => (format!("__r{}__", op.stem()), [b, Arg::Const(a)]),
        given => (name, given),
    };
    let loc = t.loc();
    let callee = Callee::Method(Arc::from(name));
    let given = Vec::from(given);
    match unchanged::call(t, callee, given, Vec::new(), loc, &mut |_| None)?.as_symbol() {
        Some(symbol) => Ok(symbol),
        None => t.unsupported("a number that is not a tensor"),
    }
}

/// A dim as a number of the graph.
fn dim_statement(t: &mut Tracer<'_>, symbol: SymbolId, dim: usize) -> Step<SymbolId> {
    let shape = t.py.paddle()?.getattr("shape")?;
    let loc = t.loc();
    let callee = Callee::Api(Obj::from(shape));
    let given = vec![Arg::Symbol(symbol)];
    let shape = unchanged::call(t, callee, given, Vec::new(), loc.clone(), &mut |_| None)?;
    let index = Arg::Const(Obj::from(pyo3::types::PyInt::new(t.py, dim).into_any()));
    let callee = Callee::Method(Arc::from("__getitem__"));
    let given = vec![shape, index];
    match unchanged::call(t, callee, given, Vec::new(), loc, &mut |_| None)?.as_symbol() {
        Some(symbol) => Ok(symbol),
        None => t.unsupported("a dim that is not a tensor"),
    }
}

/// [`parts`] of all arguments of a call.
pub(crate) fn parts_of_call(t: &Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Vec<VarId> {
    let named = kwargs.iter().map(|(_, value)| *value);
    parts(t, args.iter().copied().chain(named))
}

/// Arguments of a call, and what is in the tuples and lists among them.
pub(crate) fn parts(t: &Tracer<'_>, given: impl Iterator<Item = VarId>) -> Vec<VarId> {
    let mut found: Vec<VarId> = given.collect();
    let mut at = 0;
    while let Some(id) = found.get(at) {
        if let Kind::List(items) | Kind::Tuple(items, _) = t.vars.kind(*id) {
            let new: Vec<VarId> = items
                .iter()
                .copied()
                .filter(|id| !found.contains(id))
                .collect();
            found.extend(new);
        }
        at += 1;
    }
    found
}

/// A tuple of exactly these items: among `given`, or a new one. A function that hands on the items
/// hands on the tuple.
fn tuple(t: &mut Tracer<'_>, items: Vec<VarId>, class: Option<Obj>, given: &[VarId]) -> VarId {
    let is_it = |id: &&VarId| {
        if let Kind::Tuple(known, of) = t.vars.kind(**id) {
            let is_class = match (of, &class) {
                (Some(a), Some(b)) => a.is(b),
                (a, b) => a.is_none() && b.is_none(),
            };
            is_class && *known == items
        } else {
            false
        }
    };
    match given.iter().find(is_it) {
        Some(known) => *known,
        None => t.add(Kind::Tuple(items, class)),
    }
}

/// The variable for a statement's output. A function that returns something that it was `given`
/// returns the same object.
pub(crate) fn from_arg(t: &mut Tracer<'_>, value: &Arg, given: &[VarId]) -> Step<VarId> {
    let many = |t: &mut Tracer<'_>, items: &[Arg]| {
        items
            .iter()
            .map(|item| from_arg(t, item, given))
            .collect::<Step<Vec<_>>>()
    };
    Ok(match value {
        Arg::Symbol(symbol) => {
            let is_it = |id: &&VarId| matches!(t.vars.kind(**id), Kind::Tensor(known) if known.symbol == *symbol);
            match given.iter().find(is_it) {
                Some(known) => *known,
                None => tensor(t, *symbol),
            }
        }
        Arg::Const(value) => {
            if graph::is_unmade(t.py, value) {
                return Ok(t.add(Kind::Opaque));
            }
            let value = value.bind(t.py).clone();
            crate::fold::from_object(t, &value)?
        }
        Arg::List(items) => {
            let items = many(t, items)?;
            t.add(Kind::List(items))
        }
        Arg::Tuple(items) => {
            let items = many(t, items)?;
            tuple(t, items, None, given)
        }
        Arg::NamedTuple(class, items) => {
            let items = many(t, items)?;
            tuple(t, items, Some(class.clone()), given)
        }
        Arg::Dict(items) => {
            let mut dict = DictVar::default();
            for (key, item) in items {
                let key = key.bind(t.py).clone();
                let key = t.constant(&key);
                let item = from_arg(t, item, given)?;
                dict.items.insert(keys::key_of(t, key)?, (key, item));
            }
            t.add(Kind::Dict(dict))
        }
        Arg::Slice(_) => return t.unsupported("an operation that returns a slice"),
    })
}

fn tensor(t: &mut Tracer<'_>, symbol: SymbolId) -> VarId {
    t.add(Kind::Tensor(TensorVar {
        symbol,
        view: None,
        class: None,
    }))
}
