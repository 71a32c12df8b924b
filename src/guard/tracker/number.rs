//! Numbers from outside of a frame and what is computed from them, for guards on what a comparison
//! answers and for inputs of graphs: Python's arithmetic on `int` and `float` without Python
//! objects, and its functions of them.

use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;

use super::TrackerRef;
use crate::bytecode::{BinOp, CmpOp};
use crate::frame::BUILTINS;
pub use crate::native::{Type, Value};
use crate::obj::{self, Obj};

/// How a number is computed; `L` says where a value from outside is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Number<L = TrackerRef> {
    /// An `int`.
    Int(i64),
    /// A `float`, by its bits.
    Float(u64),
    /// An `int` or `float` from outside.
    Given(L),
    /// A dim of a tensor from outside.
    Dim(L, usize),
    /// What an operator makes of two others.
    Made(BinOp, Arc<Number<L>>, Arc<Number<L>>),
    /// What a pure function of Python answers, with the type it has to have.
    Called(Obj, Type, Arc<[Number<L>]>),
}

/// What a comparison answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome<L = TrackerRef> {
    /// The comparison.
    pub op: CmpOp,
    /// Its left side.
    pub left: Number<L>,
    /// Its right side.
    pub right: Number<L>,
    /// The answer.
    pub holds: bool,
}

impl<L> Number<L> {
    /// The number, when it can be computed; `read` answers with a value from outside or one of its
    /// dims.
    pub fn value(
        &self,
        py: Python<'_>,
        read: &mut dyn FnMut(&L, Option<usize>) -> Option<Value>,
    ) -> Option<Value> {
        match self {
            Self::Int(value) => Some(Value::Int(*value)),
            Self::Float(bits) => Some(Value::Float(f64::from_bits(*bits))),
            Self::Given(place) => read(place, None),
            Self::Dim(place, dim) => read(place, Some(*dim)),
            Self::Made(op, a, b) => a.value(py, read)?.binary(*op, b.value(py, read)?),
            Self::Called(function, kind, args) => {
                let args: Option<Vec<_>> = args.iter().map(|arg| arg.value(py, read)).collect();
                Value::call(py, function, &args?).filter(|value| value.kind() == *kind)
            }
        }
    }

    /// The same with other places.
    pub fn map<M>(&self, place: &mut dyn FnMut(&L) -> M) -> Number<M> {
        match self {
            Self::Int(value) => Number::Int(*value),
            Self::Float(bits) => Number::Float(*bits),
            Self::Given(given) => Number::Given(place(given)),
            Self::Dim(given, dim) => Number::Dim(place(given), *dim),
            Self::Made(op, a, b) => {
                let a = Arc::new(a.map(place));
                Number::Made(*op, a, Arc::new(b.map(place)))
            }
            Self::Called(function, kind, args) => {
                let args = args.iter().map(|arg| arg.map(place)).collect();
                Number::Called(function.clone(), *kind, args)
            }
        }
    }

    /// The first place it reads.
    pub fn place(&self) -> Option<&L> {
        match self {
            Self::Int(_) | Self::Float(_) => None,
            Self::Given(place) | Self::Dim(place, _) => Some(place),
            Self::Made(_, a, b) => a.place().or_else(|| b.place()),
            Self::Called(_, _, args) => args.iter().find_map(Self::place),
        }
    }
}

impl<L: fmt::Display> fmt::Display for Number<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Given(place) => write!(f, "{place}"),
            Self::Dim(place, dim) => write!(f, "{place}.shape[{dim}]"),
            Self::Made(op, a, b) => write!(f, "({a} {} {b})", op.symbol()),
            Self::Called(function, _, args) => {
                let args: Vec<_> = args.iter().map(ToString::to_string).collect();
                write!(f, "{}({})", shown(function), args.join(", "))
            }
        }
    }
}

fn shown(function: &Obj) -> String {
    Python::attach(|py| {
        let function = function.bind(py);
        let name = obj::name_of(function).unwrap_or_default();
        let module = function.getattr("__module__");
        match module.and_then(|module| module.extract::<String>()) {
            Ok(module) if module != BUILTINS => format!("{module}.{name}"),
            _ => name,
        }
    })
}

impl<L> Outcome<L> {
    /// Whether the comparison answers the same now.
    pub fn is_same(
        &self,
        py: Python<'_>,
        read: &mut dyn FnMut(&L, Option<usize>) -> Option<Value>,
    ) -> bool {
        let (left, right) = (self.left.value(py, read), self.right.value(py, read));
        let (Some(left), Some(right)) = (left, right) else {
            return false;
        };
        left.compare(self.op, right) == Some(self.holds)
    }

    /// The same with other places.
    pub fn map<M>(&self, place: &mut dyn FnMut(&L) -> M) -> Outcome<M> {
        Outcome {
            op: self.op,
            left: self.left.map(place),
            right: self.right.map(place),
            holds: self.holds,
        }
    }
}
