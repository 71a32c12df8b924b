//! A number that is known: Python's arithmetic on small `int` and `float`, without Python objects.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use crate::bytecode::{BinOp, CmpOp};
use crate::obj::Obj;

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

    /// What a pure function of Python answers to these; `None` where it raises or answers with no
    /// such number.
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

    /// `self op other` of Python; `None` where that raises, is no float or small int, or is not
    /// computed here.
    pub fn binary(self, op: BinOp, other: Self) -> Option<Self> {
        if let (Self::Int(a), Self::Int(b), true) = (self, other, op != BinOp::TrueDiv) {
            return Some(Self::Int(match op {
                BinOp::Add => a.checked_add(b)?,
                BinOp::Sub => a.checked_sub(b)?,
                BinOp::Mul => a.checked_mul(b)?,
                BinOp::FloorDiv if b > 0 => a.div_euclid(b),
                BinOp::Rem if b > 0 => a.rem_euclid(b),
                BinOp::And
                | BinOp::FloorDiv
                | BinOp::LShift
                | BinOp::MatMul
                | BinOp::Rem
                | BinOp::Or
                | BinOp::Pow
                | BinOp::RShift
                | BinOp::TrueDiv
                | BinOp::Xor => return None,
            }));
        }
        let (a, b) = (self.float()?, other.float()?);
        Some(Self::Float(match op {
            BinOp::Add => a + b,
            BinOp::Sub => a - b,
            BinOp::Mul => a * b,
            BinOp::TrueDiv if b != 0.0 => a / b,
            BinOp::And
            | BinOp::FloorDiv
            | BinOp::LShift
            | BinOp::MatMul
            | BinOp::Rem
            | BinOp::Or
            | BinOp::Pow
            | BinOp::RShift
            | BinOp::TrueDiv
            | BinOp::Xor => return None,
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
