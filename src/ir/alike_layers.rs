//! Whether two layers compute the same but for the numbers of their tensors: blocks of a deep
//! network, made one like the other.
//!
//! What a layer of Paddle's does follows from its class and from what it holds. Both are compared,
//! parts included. What cannot be compared has to be one object.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};
use rustc_hash::FxHashMap;

use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::native;
use paddle_sot_cpython::obj::Obj;
use paddle_sot_ops::paddle::{Paddle, tensor_meta};

/// Names of what each layer has for itself, and no `forward` reads: names for new parameters, and
/// what measures it.
const OWN: &[&str] = &["_full_name", "_helper", "_op_recorder"];

/// More layers and containers inside of one another are not compared.
const DEPTH: usize = 32;

/// What corresponds in two layers, by address: tensors in `tensors`, layers in `layers`.
pub(super) struct Pairs {
    /// `paddle.ParamAttr`: says how a parameter is made, and all of them are.
    makers: Obj,
    tensors: Vec<(usize, usize)>,
    layers: FxHashMap<usize, usize>,
}

impl Pairs {
    pub(super) fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            makers: Obj::from(py.paddle()?.getattr("ParamAttr")?),
            tensors: Vec::new(),
            layers: FxHashMap::default(),
        })
    }

    /// Whether tensors that correspond are at the same place of these two lists, or in neither.
    pub(super) fn are_given_alike(
        &self,
        ours: &FxHashMap<usize, usize>,
        theirs: &FxHashMap<usize, usize>,
    ) -> bool {
        let mut pairs = self.tensors.iter();
        pairs.all(|(a, b)| ours.get(a) == theirs.get(b))
    }

    /// Whether two layers are alike. Notes what corresponds.
    pub(super) fn layers(&mut self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
        Paddle::get(a.py()).is_ok_and(|paddle| self.held(paddle, a, b, 0).unwrap_or(false))
    }

    fn held(
        &mut self,
        paddle: &Paddle,
        a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        depth: usize,
    ) -> PyResult<bool> {
        let py = a.py();
        if depth > DEPTH || !a.get_type().is(b.get_type()) {
            return Ok(false);
        }
        if a.get_type().is(self.makers.bind(py)) {
            return Ok(true);
        }
        if a.is_instance(paddle.tensor.bind(py))? {
            self.tensors
                .push((a.as_ptr() as usize, b.as_ptr() as usize));
            return Ok(a.is(b) || tensor_meta(a).is_some_and(|meta| Some(meta) == tensor_meta(b)));
        }
        if a.is_instance(paddle.layer.bind(py))? {
            let theirs = b.as_ptr() as usize;
            if let Some(known) = self.layers.insert(a.as_ptr() as usize, theirs) {
                return Ok(known == theirs);
            }
            // Otherwise its class has slots.
            let size = pyo3::intern!(py, "__basicsize__");
            let least = paddle.layer.bind(py).getattr(size)?;
            if !a.get_type().getattr(size)?.eq(least)? {
                return Ok(false);
            }
            let dict = pyo3::intern!(py, "__dict__");
            let (a, b) = (a.getattr(dict)?, b.getattr(dict)?);
            return self.items(paddle, (a.cast()?, b.cast()?), OWN, depth);
        }
        if let (Ok(a), Ok(b)) = (a.cast::<PyDict>(), b.cast::<PyDict>()) {
            return self.items(paddle, (a, b), &[], depth);
        }
        if let (Ok(a), Ok(b)) = (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) {
            let pairs = a.iter().zip(b.iter());
            return Ok(a.len() == b.len() && self.all(paddle, pairs, depth)?);
        }
        if let (Ok(a), Ok(b)) = (a.cast_exact::<PyList>(), b.cast_exact::<PyList>()) {
            let pairs = a.iter().zip(b.iter());
            return Ok(a.len() == b.len() && self.all(paddle, pairs, depth)?);
        }
        if let (Ok(a), Ok(b)) = (a.cast_exact::<PySet>(), b.cast_exact::<PySet>()) {
            let is_text = |item: Bound<'_, PyAny>| item.is_exact_instance_of::<PyString>();
            return Ok(a.iter().chain(b.iter()).all(is_text) && a.eq(b)?);
        }
        Ok(native::const_equal(py, a.into(), b.into()))
    }

    fn all<'py>(
        &mut self,
        paddle: &Paddle,
        mut pairs: impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        depth: usize,
    ) -> PyResult<bool> {
        pairs.try_fold(true, |alike, (a, b)| {
            Ok(alike && self.held(paddle, &a, &b, depth + 1)?)
        })
    }

    fn items(
        &mut self,
        paddle: &Paddle,
        (a, b): (&Bound<'_, PyDict>, &Bound<'_, PyDict>),
        own: &[&str],
        depth: usize,
    ) -> PyResult<bool> {
        let py = a.py();
        if a.len() != b.len() {
            return Ok(false);
        }
        let (a, b) = (a.items(), b.items());
        for (a, b) in a.iter().zip(b.iter()) {
            let (key, a): (Bound<'_, PyAny>, Bound<'_, PyAny>) = a.extract()?;
            let (other, b): (Bound<'_, PyAny>, Bound<'_, PyAny>) = b.extract()?;
            if !native::const_equal(py, (&key).into(), (&other).into()) {
                return Ok(false);
            }
            let name = key.cast_exact::<PyString>().ok();
            let name = name.map(|name| name.to_str()).transpose()?;
            let is_own = name.is_some_and(|name| own.contains(&name));
            if !is_own && !self.held(paddle, &a, &b, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
