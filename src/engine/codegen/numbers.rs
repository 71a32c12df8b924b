//! Inputs of the graph that each call makes of numbers, behind it.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use crate::frame::{Modules, OPERATOR};
use crate::graph::{DType, SymbolId};
use crate::obj::Obj;
use crate::ops::FULL;
use crate::tracker::Tracker;
use crate::tracker::number::Number;
use crate::variables::{Emit, Rebuild};

use super::reconstruct::Emitter;

impl Emitter<'_, '_> {
    /// The number that an input is made of, and its dtype.
    pub(super) fn made_number(&self, symbol: SymbolId) -> Option<(Number, DType)> {
        let mut inputs = self.t.graph.inputs.iter();
        let input = inputs.find(|input| input.symbol == symbol)?;
        if let Tracker::Number(number, dtype) = &*input.tracker {
            Some((Number::clone(number), *dtype))
        } else {
            None
        }
    }

    /// Pushes a number.
    pub(super) fn number(&mut self, number: &Number) -> Emit {
        let py = self.t.py;
        match number {
            Number::Int(value) => self.constant(&PyInt::new(py, *value).into_any()),
            Number::Float(bits) => {
                let value = PyFloat::new(py, f64::from_bits(*bits));
                self.constant(&value.into_any())
            }
            Number::Given(place) => {
                let slot = self.demand.slot(place);
                self.cached(0, slot)
            }
            Number::Dim(place, dim) => {
                let slot = self.demand.slot(place);
                self.cached(0, slot)?;
                self.code.load_attr("shape")?;
                self.int(*dim as i64)?;
                self.code.subscript()?;
                Ok(())
            }
            Number::Made(op, a, b) => self.call_type(OPERATOR, op.stem(), 2, |this| {
                this.number(a)?;
                this.number(b)
            }),
            Number::Called(function, _, args) => {
                self.code.begin_call(function)?;
                for arg in args.iter() {
                    self.number(arg)?;
                }
                Ok(self.code.call(args.len())?)
            }
        }
    }

    /// Pushes a tensor of no dims that has the number.
    pub(super) fn number_as_tensor(&mut self, number: &Number, dtype: DType) -> Emit {
        let py = self.t.py;
        let full = Obj::from(py.paddle()?.getattr(FULL)?);
        self.code.begin_call(&full)?;
        self.code.op("BUILD_LIST", 0)?;
        self.number(number)?;
        self.constant(&PyString::new(py, dtype.as_str()).into_any())?;
        Ok(self.code.call(3)?)
    }
}
