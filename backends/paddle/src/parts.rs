//! [`Parts`]: the programs of a graph with several results that gradients flow through.

use paddle_sot::backend::{self, BackendError, CompileRequest, CompiledGraph};
use paddle_sot::graph::{StatementIr, SymbolId, SymbolKind, TensorMeta};
use paddle_sot::obj::Obj;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{compile_program, PaddleBackend};

/// Parts of fewer operations run call by call: what follows a result is often a loss of one or two.
const LEAST: usize = 3;

/// Programs that run one after the other.
pub struct Parts {
    parts: Vec<Compiled>,
    /// The tensors that the whole takes.
    inputs: Vec<SymbolId>,
    outputs: Vec<SymbolId>,
}

struct Compiled {
    graph: Box<dyn CompiledGraph>,
    /// Its tensors in the whole.
    inputs: Vec<SymbolId>,
    outputs: Vec<SymbolId>,
}

impl Parts {
    /// `None` for a graph that is one program.
    pub fn compile(py: Python<'_>, request: &CompileRequest) -> Result<Option<Self>, BackendError> {
        let sir = &request.sir;
        let Some(parts) = sir.parts(py) else {
            return Ok(None);
        };
        let is_tensor = |id: &SymbolId| matches!(sir.kind(*id), SymbolKind::Tensor(_));
        let inputs: Vec<SymbolId> = sir.inputs.iter().copied().filter(is_tensor).collect();
        let examples = inputs
            .iter()
            .copied()
            .zip(request.example_inputs.iter().cloned());
        let mut examples: FxHashMap<SymbolId, Obj> = examples.collect();
        let mut compiled = Vec::with_capacity(parts.len());
        for part in parts {
            let taken: Vec<SymbolId> = part.inputs.into_iter().filter(is_tensor).collect();
            for id in &taken {
                if let (false, Some(meta)) = (examples.contains_key(id), sir.meta(*id)) {
                    examples.insert(*id, stand_in(py, meta)?);
                }
            }
            let of_part: Vec<Obj> = taken
                .iter()
                .filter_map(|id| examples.get(id).cloned())
                .collect();
            let graph = compile_part(py, part.sir, of_part)?;
            compiled.push(Compiled {
                graph,
                inputs: taken,
                outputs: part.outputs,
            });
        }
        Ok(Some(Self {
            parts: compiled,
            inputs,
            outputs: sir.outputs.clone(),
        }))
    }
}

/// A tensor with this metadata: what a part takes from another one is not there yet.
fn stand_in(py: Python<'_>, meta: &TensorMeta) -> Result<Obj, BackendError> {
    let dims: Vec<i64> = meta.shape.iter().map(|dim| (*dim).max(1)).collect();
    let made = py
        .import("paddle")?
        .call_method1("empty", (dims, meta.dtype.as_str()))?;
    made.setattr("stop_gradient", meta.stop_gradient)?;
    Ok(Obj::from(made))
}

fn compile_part(
    py: Python<'_>,
    sir: StatementIr,
    example_inputs: Vec<Obj>,
) -> Result<Box<dyn CompiledGraph>, BackendError> {
    let session = backend::retrace(py, &PaddleBackend, &sir, &example_inputs)?;
    let is_small = session.operations(sir.statements.len()) < LEAST && !sir.has_regions();
    let request = CompileRequest {
        sir: sir.into(),
        session,
        example_inputs,
        grad_enabled: true,
    };
    match backend::get("eager") {
        Ok(eager) if is_small => eager.backend.compile(py, request),
        _ => compile_program(py, request, None, true),
    }
}

impl CompiledGraph for Parts {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let given = self.inputs.iter().copied().zip(inputs.iter().cloned());
        let mut known: FxHashMap<SymbolId, Bound<'_, PyAny>> = given.collect();
        let missing = || PyRuntimeError::new_err("a part of a graph misses a tensor");
        for part in &self.parts {
            let taken = part.inputs.iter().map(|id| known.get(id).cloned());
            let taken: Option<Vec<_>> = taken.collect();
            let made = part.graph.call(py, &taken.ok_or_else(missing)?)?;
            for (id, tensor) in part.outputs.iter().zip(made) {
                known.insert(*id, tensor.into_bound(py));
            }
        }
        let outputs = self
            .outputs
            .iter()
            .map(|id| known.get(id).cloned().map(Bound::unbind));
        outputs.collect::<Option<_>>().ok_or_else(missing)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        let texts: Vec<String> = self
            .parts
            .iter()
            .map(|part| part.graph.program_text(py))
            .collect::<PyResult<_>>()?;
        Ok(texts.join("\n"))
    }

    fn report(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} programs, one after the other: gradients of different results flow through them",
            self.parts.len()
        )];
        lines.extend(self.parts.iter().flat_map(|part| part.graph.report()));
        lines
    }

    fn fell_back(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| part.graph.fell_back())
    }

    fn backend_name(&self) -> &str {
        "paddle"
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.parts
            .iter()
            .for_each(|part| part.graph.traverse(visit));
    }
}
