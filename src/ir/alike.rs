//! Whether two graphs are one but for what they are given: then they can share a program.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::alike_layers::Pairs;
use super::{Arg, Callee, Statement, StatementIr, SymbolId, SymbolKind};
use paddle_sot_cpython::native;
use paddle_sot_cpython::obj::Obj;

/// A graph, and the tensors among its inputs.
pub type Given<'a> = (&'a StatementIr, &'a [Obj]);

impl StatementIr {
    /// Whether the other graph runs the same calls with the same constants on tensors of the same
    /// metadata, and takes the tensors of its layers where this one takes those of its own. `given`
    /// are the tensors among the inputs.
    pub fn is_alike(&self, py: Python<'_>, given: &[Obj], other: Given<'_>) -> bool {
        let (other, others) = other;
        let alike = self.inputs == other.inputs
            && self.outputs == other.outputs
            && all_alike(&self.symbols, &other.symbols, |a, b| match (a, b) {
                (SymbolKind::Tensor(a), SymbolKind::Tensor(b)) => a == b,
                (SymbolKind::Layer(a), SymbolKind::Layer(b)) => a.class_name() == b.class_name(),
                _ => false,
            })
            && all_alike(&self.statements, &other.statements, |a, b| {
                statements(py, a, b, &|a, b| a == b)
            });
        if !alike {
            return false;
        }
        let symbols = self.symbols.iter().zip(&other.symbols);
        let layers = symbols.filter_map(|(a, b)| match (a, b) {
            (SymbolKind::Layer(a), SymbolKind::Layer(b)) => Some((a.bind(py), b.bind(py))),
            _ => None,
        });
        let layers: Vec<_> = layers.collect();
        if layers.iter().all(|(a, b)| a.is(b)) {
            return true;
        }
        let places = |given: &[Obj]| -> FxHashMap<usize, usize> {
            let addresses = given.iter().map(|tensor| tensor.as_ptr() as usize);
            addresses.zip(0..).collect()
        };
        let Ok(mut pairs) = Pairs::new(py) else {
            return false;
        };
        layers.iter().all(|(a, b)| pairs.layers(a, b))
            && pairs.are_given_alike(&places(given), &places(others))
    }

    /// A number for each statement: the same for those that may be alike, whatever they are given.
    /// `None` where there are many kinds.
    pub(super) fn kinds(&self, py: Python<'_>) -> Option<Vec<usize>> {
        const MOST: usize = 256;
        let symbols = |a: SymbolId, b: SymbolId| match (self.kind(a), self.kind(b)) {
            (SymbolKind::Tensor(a), SymbolKind::Tensor(b)) => a == b,
            (SymbolKind::Layer(a), SymbolKind::Layer(b)) => a.class_name() == b.class_name(),
            _ => false,
        };
        let mut known: Vec<&Statement> = Vec::new();
        let mut kinds = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            let mut others = known.iter();
            let kind = others.position(|other| statements(py, statement, other, &symbols));
            kinds.push(kind.unwrap_or(known.len()));
            if kind.is_none() {
                known.push(statement);
            }
            if known.len() > MOST {
                return None;
            }
        }
        Some(kinds)
    }
}

/// Whether two symbols are.
type Symbols<'a> = &'a dyn Fn(SymbolId, SymbolId) -> bool;

fn all_alike<T>(a: &[T], b: &[T], alike: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
}

fn statements(py: Python<'_>, a: &Statement, b: &Statement, symbols: Symbols<'_>) -> bool {
    let callees = match (&a.callee, &b.callee) {
        (Callee::Api(a), Callee::Api(b)) => a.is(b),
        (Callee::Method(a), Callee::Method(b)) | (Callee::Attribute(a), Callee::Attribute(b)) => {
            a == b
        }
        (Callee::Layer(a), Callee::Layer(b)) => symbols(*a, *b),
        _ => false,
    };
    callees
        && a.grad_enabled == b.grad_enabled
        && a.copies == b.copies
        && a.draws == b.draws
        && a.alone == b.alone
        && all_alike(&a.updates, &b.updates, |a, b| symbols(*a, *b))
        && all_alike(&a.args, &b.args, |a, b| args(py, a, b, symbols))
        && all_alike(&a.kwargs, &b.kwargs, |(name, a), (other, b)| {
            name == other && args(py, a, b, symbols)
        })
        && args(py, &a.output, &b.output, symbols)
}

fn args(py: Python<'_>, a: &Arg, b: &Arg, symbols: Symbols<'_>) -> bool {
    let alike = |a: &[Arg], b: &[Arg]| all_alike(a, b, |a, b| args(py, a, b, symbols));
    match (a, b) {
        (Arg::Symbol(a), Arg::Symbol(b)) => symbols(*a, *b),
        (Arg::Const(a), Arg::Const(b)) => constants(py, a, b),
        (Arg::List(a), Arg::List(b)) | (Arg::Tuple(a), Arg::Tuple(b)) => alike(a, b),
        (Arg::NamedTuple(class, a), Arg::NamedTuple(other, b)) => class.is(other) && alike(a, b),
        (Arg::Slice(a), Arg::Slice(b)) => alike(&a[..], &b[..]),
        (Arg::Dict(a), Arg::Dict(b)) => all_alike(a, b, |(key, a), (other, b)| {
            constants(py, key, other) && args(py, a, b, symbols)
        }),
        _ => false,
    }
}

fn constants(py: Python<'_>, a: &Obj, b: &Obj) -> bool {
    native::const_equal(py, a.into(), b.into())
}
