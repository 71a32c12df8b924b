//! Numbers from outside of a frame and what is computed from them, for guards on what a comparison answers and for
//! inputs of graphs: Python's arithmetic on `int` and `float` without Python objects, and its functions of them.

use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use crate::bytecode::{BinOp, CmpOp};
use crate::obj::{self, Obj};
use crate::tracker::TrackerRef;

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

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `int`
    Int,
    /// `float`
    Float,
}

/// A number that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
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

/// Integers of at most this size are floats exactly.
const EXACT: i64 = 1 << 53;

impl Type {
    /// The type of an object; `None` where it is neither.
    pub fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        let int = object.is_exact_instance_of::<PyInt>();
        let float = object.is_exact_instance_of::<PyFloat>();
        (int || float).then_some(if int { Self::Int } else { Self::Float })
    }
}

impl Value {
    /// What Python has it as; `None` for other objects, and for ints that are too large.
    pub fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        match Type::of(object)? {
            Type::Int => object.extract().ok().map(Self::Int),
            Type::Float => object.extract().ok().map(Self::Float),
        }
    }

    /// Its type.
    pub fn kind(self) -> Type {
        match self {
            Self::Int(_) => Type::Int,
            Self::Float(_) => Type::Float,
        }
    }

    /// What a pure function of Python answers to these; `None` where it raises or answers with no such number.
    pub fn call(py: Python<'_>, function: &Obj, args: &[Self]) -> Option<Self> {
        let objects = args.iter().map(|arg| match arg {
            Self::Int(value) => PyInt::new(py, *value).into_any(),
            Self::Float(value) => PyFloat::new(py, *value).into_any(),
        });
        let args = PyTuple::new(py, objects.collect::<Vec<_>>()).ok()?;
        Self::of(&function.bind(py).call1(args).ok()?)
    }

    /// The number as a float; `None` where that would round.
    pub fn float(self) -> Option<f64> {
        match self {
            Self::Int(value) => (-EXACT..=EXACT).contains(&value).then_some(value as f64),
            Self::Float(value) => Some(value),
        }
    }

    /// `self op other` of Python; `None` where that raises, is no float or small int, or is not computed here.
    pub fn binary(self, op: BinOp, other: Self) -> Option<Self> {
        if let (Self::Int(a), Self::Int(b), true) = (self, other, op != BinOp::TrueDiv) {
            return Some(Self::Int(match op {
                BinOp::Add => a.checked_add(b)?,
                BinOp::Sub => a.checked_sub(b)?,
                BinOp::Mul => a.checked_mul(b)?,
                BinOp::FloorDiv if b > 0 => a.div_euclid(b),
                BinOp::Rem if b > 0 => a.rem_euclid(b),
                _ => return None,
            }));
        }
        let (a, b) = (self.float()?, other.float()?);
        Some(Self::Float(match op {
            BinOp::Add => a + b,
            BinOp::Sub => a - b,
            BinOp::Mul => a * b,
            BinOp::TrueDiv if b != 0.0 => a / b,
            _ => return None,
        }))
    }

    /// `self op other` of Python; `None` where an int is too large to say.
    pub fn compare(self, op: CmpOp, other: Self) -> Option<bool> {
        Some(match (self, other) {
            (Self::Int(a), Self::Int(b)) => op.holds(a, b),
            _ => op.holds(self.float()?, other.float()?),
        })
    }
}

impl<L> Number<L> {
    /// The number, when it can be computed; `read` answers with a value from outside or one of its dims.
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
            Ok(module) if module != "builtins" => format!("{module}.{name}"),
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
