//! Whether two graphs are one but for what they are given: then they can share a program.

use pyo3::prelude::*;

use super::{Arg, Callee, Statement, StatementIr, SymbolKind};
use paddle_sot_cpython::native;
use paddle_sot_cpython::obj::Obj;

impl StatementIr {
    /// Whether the other graph runs the same calls with the same constants on tensors of the same
    /// metadata. Layers are compared by identity: what they compute is theirs.
    pub fn is_alike(&self, py: Python<'_>, other: &Self) -> bool {
        self.inputs == other.inputs
            && self.outputs == other.outputs
            && all_alike(&self.symbols, &other.symbols, |a, b| match (a, b) {
                (SymbolKind::Tensor(a), SymbolKind::Tensor(b)) => a == b,
                (SymbolKind::Layer(a), SymbolKind::Layer(b)) => a.bind(py).is(b.bind(py)),
                _ => false,
            })
            && all_alike(&self.statements, &other.statements, |a, b| {
                statements(py, a, b)
            })
    }
}

fn all_alike<T>(a: &[T], b: &[T], alike: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
}

fn statements(py: Python<'_>, a: &Statement, b: &Statement) -> bool {
    let callees = match (&a.callee, &b.callee) {
        (Callee::Api(a), Callee::Api(b)) => a.is(b),
        (Callee::Method(a), Callee::Method(b)) | (Callee::Attribute(a), Callee::Attribute(b)) => {
            a == b
        }
        (Callee::Layer(a), Callee::Layer(b)) => a == b,
        _ => false,
    };
    callees
        && a.grad_enabled == b.grad_enabled
        && a.copies == b.copies
        && a.draws == b.draws
        && a.alone == b.alone
        && a.updates == b.updates
        && all_alike(&a.args, &b.args, |a, b| args(py, a, b))
        && all_alike(&a.kwargs, &b.kwargs, |(name, a), (other, b)| {
            name == other && args(py, a, b)
        })
        && args(py, &a.output, &b.output)
}

fn args(py: Python<'_>, a: &Arg, b: &Arg) -> bool {
    let alike = |a: &[Arg], b: &[Arg]| all_alike(a, b, |a, b| args(py, a, b));
    match (a, b) {
        (Arg::Symbol(a), Arg::Symbol(b)) => a == b,
        (Arg::Const(a), Arg::Const(b)) => constants(py, a, b),
        (Arg::List(a), Arg::List(b)) | (Arg::Tuple(a), Arg::Tuple(b)) => alike(a, b),
        (Arg::NamedTuple(class, a), Arg::NamedTuple(other, b)) => class.is(other) && alike(a, b),
        (Arg::Slice(a), Arg::Slice(b)) => alike(&a[..], &b[..]),
        (Arg::Dict(a), Arg::Dict(b)) => all_alike(a, b, |(key, a), (other, b)| {
            constants(py, key, other) && args(py, a, b)
        }),
        _ => false,
    }
}

fn constants(py: Python<'_>, a: &Obj, b: &Obj) -> bool {
    native::const_equal(py, a.as_ptr(), b.as_ptr())
}
