//! Numbers that differ between calls.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::BinOp;
use crate::graph::{DType, SymbolId};
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{builtin, Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

/// Where a number that differs between calls comes from.
#[derive(Clone, Copy, Debug)]
pub enum NumberVar {
    /// From outside.
    Given,
    /// A dim of a tensor.
    Dim(SymbolId, usize),
    /// What an operator makes of two others.
    Made(BinOp, VarId, VarId),
    /// What a pure function of Python answers to one or two others.
    Called(VarId, VarId, Option<VarId>),
    /// The graph makes it: a `float64` of no dims.
    Graph(SymbolId),
}

impl NumberVar {
    /// The variables that it is made of.
    fn parts(self) -> Vec<VarId> {
        match self {
            Self::Given | Self::Dim(..) | Self::Graph(_) => Vec::new(),
            Self::Made(_, a, b) => vec![a, b],
            Self::Called(function, a, b) => [function, a].into_iter().chain(b).collect(),
        }
    }
}

/// A number of the graph: a tensor of no dims that Python sees as a number.
pub struct SymNumber(pub SymbolId);

impl Protocol for SymNumber {
    const NAME: &'static str = "SymNumber";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match t.graph.meta(self.0)?.dtype {
            DType::Int64 => builtin(t, "int"),
            DType::Bool => builtin(t, "bool"),
            _ => None,
        }
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

/// An exact `int`.
pub struct Int(pub NumberVar);

impl Protocol for Int {
    const NAME: &'static str = "Int";

    fn children(&self) -> Vec<VarId> {
        self.0.parts()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, "int")
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

/// An exact `float`.
pub struct Float(pub NumberVar);

impl Protocol for Float {
    const NAME: &'static str = "Float";

    fn children(&self) -> Vec<VarId> {
        self.0.parts()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, "float")
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
