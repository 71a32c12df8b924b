//! Numbers from outside of a frame and what is computed from them, for guards on what a comparison answers and for
//! inputs of graphs: Python's arithmetic on `int` and `float` without Python objects.

use std::fmt;
use std::sync::Arc;

use crate::bytecode::{BinOp, CmpOp};
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

impl Value {
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
        fn holds<T: PartialOrd>(op: CmpOp, a: T, b: T) -> bool {
            match op {
                CmpOp::Lt => a < b,
                CmpOp::Le => a <= b,
                CmpOp::Eq => a == b,
                CmpOp::Ne => a != b,
                CmpOp::Gt => a > b,
                CmpOp::Ge => a >= b,
            }
        }
        Some(match (self, other) {
            (Self::Int(a), Self::Int(b)) => holds(op, a, b),
            _ => holds(op, self.float()?, other.float()?),
        })
    }
}

impl<L> Number<L> {
    /// The number, when it can be computed; `read` answers with a value from outside or one of its dims.
    pub fn value(&self, read: &mut dyn FnMut(&L, Option<usize>) -> Option<Value>) -> Option<Value> {
        match self {
            Self::Int(value) => Some(Value::Int(*value)),
            Self::Float(bits) => Some(Value::Float(f64::from_bits(*bits))),
            Self::Given(place) => read(place, None),
            Self::Dim(place, dim) => read(place, Some(*dim)),
            Self::Made(op, a, b) => a.value(read)?.binary(*op, b.value(read)?),
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
        }
    }

    /// The first place it reads.
    pub fn place(&self) -> Option<&L> {
        match self {
            Self::Int(_) | Self::Float(_) => None,
            Self::Given(place) | Self::Dim(place, _) => Some(place),
            Self::Made(_, a, b) => a.place().or_else(|| b.place()),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Given(place) => write!(f, "{place}"),
            Self::Dim(place, dim) => write!(f, "{place}.shape[{dim}]"),
            Self::Made(op, a, b) => write!(f, "({a} {} {b})", op.symbol()),
        }
    }
}

impl<L> Outcome<L> {
    /// Whether the comparison answers the same now.
    pub fn is_same(&self, read: &mut dyn FnMut(&L, Option<usize>) -> Option<Value>) -> bool {
        let (left, right) = (self.left.value(read), self.right.value(read));
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
