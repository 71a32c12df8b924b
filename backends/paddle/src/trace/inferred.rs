//! What a call that was traced has given: symbols for its results, and the open dims that it has
//! compared.

use paddle_sot_backend::bytecode::CmpOp;
use paddle_sot_backend::graph::{self, SymbolId, TensorMeta};
use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::{BackendError, ComparedDims, ComparedWith, InferredOutput, ValueHandle};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::PaddleTrace;

/// See `value_patches.py`.
const NUMBER: &str = "number";

impl PaddleTrace {
    /// The results as the graph knows them; `args` are the symbols of its arguments, with the `id`
    /// of their values.
    pub(super) fn inferred(
        &mut self,
        py: Python<'_>,
        result: &Bound<'_, PyAny>,
        args: &[(SymbolId, String)],
    ) -> Result<InferredOutput, BackendError> {
        if result.is_instance(self.value_type.bind(py))? {
            let address = result
                .getattr(pyo3::intern!(py, "id"))
                .and_then(|id| id.extract::<String>())
                .unwrap_or_default();
            if let Some((symbol, _)) = args
                .iter()
                .find(|(_, id)| *id == address && !address.is_empty())
            {
                return Ok(InferredOutput::Existing(*symbol));
            }
            let meta = match value_meta(result) {
                Err(_) if is_unmade(result)? => {
                    return Ok(InferredOutput::Const(graph::unmade(py)?));
                }
                meta => meta?,
            };
            let known = self.pending.iter().position(|known| known.is(result));
            let at = known.unwrap_or_else(|| {
                self.pending.push(result.clone().unbind());
                self.pending.len() - 1
            });
            return Ok(InferredOutput::Tensor(meta, ValueHandle(at)));
        }
        let many = |this: &mut Self, items: Vec<Bound<'_, PyAny>>| {
            items
                .iter()
                .map(|item| this.inferred(py, item, args))
                .collect::<Result<Vec<_>, _>>()
        };
        if let Ok(list) = result.cast_exact::<PyList>() {
            return Ok(InferredOutput::List(many(self, list.iter().collect())?));
        }
        if let Ok(tuple) = result.cast_exact::<PyTuple>() {
            return Ok(InferredOutput::Tuple(many(self, tuple.iter().collect())?));
        }
        if let (Ok(tuple), true) = (result.cast::<PyTuple>(), result.hasattr("_fields")?) {
            let class = Obj::from(result.get_type());
            return Ok(InferredOutput::NamedTuple(
                class,
                many(self, tuple.iter().collect())?,
            ));
        }
        if let Ok(dict) = result.cast_exact::<PyDict>() {
            let mut items = Vec::new();
            for (key, value) in dict.iter() {
                items.push((Obj::from(key), self.inferred(py, &value, args)?));
            }
            return Ok(InferredOutput::Dict(items));
        }
        let plain = result.is_none()
            || ["bool", "int", "float", "str"]
                .contains(&result.get_type().name()?.to_string().as_str());
        if plain {
            return Ok(InferredOutput::Const(Obj::from(result)));
        }
        Err(BackendError::Refused(format!(
            "the call returns a {}",
            result.get_type().name()?
        )))
    }

    /// The open dims that the call which was just traced has compared, of its arguments `known`.
    pub(super) fn compared_dims(
        &self,
        py: Python<'_>,
        known: &[(SymbolId, String)],
    ) -> PyResult<Vec<ComparedDims>> {
        let asked = self.trace.bind(py).getattr(pyo3::intern!(py, "asked"))?;
        let asked: Vec<(String, usize, String, String, i64, bool)> = asked.extract()?;
        let symbol = |id: &str| Some(known.iter().find(|(_, known)| known == id)?.0);
        let compared =
            |(id, at, op, other, there, holds): &(String, usize, String, String, i64, bool)| {
                let right = match other.as_str() {
                    NUMBER => ComparedWith::Number(*there),
                    other => ComparedWith::Dim(symbol(other)?, usize::try_from(*there).ok()?),
                };
                Some(ComparedDims::Known {
                    left: (symbol(id)?, *at),
                    op: CmpOp::from_dunder(op)?,
                    right,
                    holds: *holds,
                })
            };
        let found = asked
            .iter()
            .map(|it| compared(it).unwrap_or(ComparedDims::Unknown));
        Ok(found.collect())
    }
}

/// Whether the operation does not make this result: a value without a type.
fn is_unmade(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = value.call_method0("type")?;
    Ok(class.str()?.to_str()? == "<<NULL TYPE>>")
}

fn value_meta(value: &Bound<'_, PyAny>) -> Result<TensorMeta, BackendError> {
    let py = value.py();
    let mut shape: Vec<i64> = value.getattr(pyo3::intern!(py, "shape"))?.extract()?;
    // Some rules compute with the -1 of an open dim.
    shape.iter_mut().for_each(|dim| *dim = (*dim).max(-1));
    let named = value.getattr(pyo3::intern!(py, "dtype"))?;
    let dtype = paddle_sot_backend::paddle::dtype_of(&named)
        .ok_or_else(|| BackendError::Refused(format!("a result of dtype {named}")))?;
    let stops = value.getattr(pyo3::intern!(py, "stop_gradient"))?;
    let stop_gradient = stops.is_truthy()?;
    Ok(TensorMeta {
        shape: shape.into(),
        dtype,
        stop_gradient,
    })
}
