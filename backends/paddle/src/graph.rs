//! [`PaddleGraph`]: a compiled program.

use std::sync::{Arc, Mutex};

use paddle_sot::backend::{BackendError, CompiledGraph};
use paddle_sot::graph::{StatementIr, SymbolId, SymbolKind};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use crate::bridge::bridge;
use crate::trace::PaddleTrace;

/// What `compile_graph` answers.
type Answer<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    bool,
    Vec<usize>,
    Option<Py<PyAny>>,
    Vec<Py<PyAny>>,
);

/// A program, ready to run.
pub struct PaddleGraph {
    run: Py<PyAny>,
    attributes: Py<PyAny>,
    cuda_graph: Py<PyAny>,
    new_scope: Py<PyAny>,
    program: Py<PyAny>,
    /// Positions of the tensors the program takes among the inputs it is given.
    used: Vec<usize>,
    /// Constants of the program, passed after the inputs.
    constants: Vec<Py<PyAny>>,
    /// Inputs that want a gradient but get none: they go in detached, so that theirs stays `None`.
    without: Vec<usize>,
    /// Outputs through which no gradient flows although the program trains: they leave as leaves.
    stopped: Vec<usize>,
    trains: bool,
    /// The gates around the program, where outputs depend on different inputs.
    gates: Option<Py<PyAny>>,
    /// Scopes of earlier runs; one is used again once nothing waits for its backward.
    scopes: Mutex<Vec<Py<PyAny>>>,
}

impl PaddleGraph {
    /// Splits and prepares the traced program.
    pub fn compile(
        py: Python<'_>,
        sir: Arc<StatementIr>,
        session: &PaddleTrace,
        grad_enabled: bool,
        lowering: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, BackendError> {
        let bridge = bridge(py)?;
        let mut used = Vec::new();
        let mut inputs = Vec::new();
        let tensors = sir
            .inputs
            .iter()
            .filter(|id| matches!(sir.kind(**id), SymbolKind::Tensor(_)));
        for (position, symbol) in tensors.enumerate() {
            let value = session.value(py, *symbol)?;
            // An input that no operation uses has no gradient, as in eager mode.
            let is_output = sir.outputs.contains(symbol);
            if is_output || !value.call_method0("use_empty")?.is_truthy()? {
                used.push(position);
                inputs.push(value);
            }
        }
        let outputs = sir
            .outputs
            .iter()
            .map(|symbol| session.value(py, *symbol))
            .collect::<Result<Vec<_>, _>>()?;
        let trace = session.trace.bind(py);
        let answer = bridge.getattr("compile_graph")?.call1((
            trace,
            PyList::new(py, inputs)?,
            PyList::new(py, outputs)?,
            grad_enabled,
            lowering,
        ))?;
        let (attributes, program, trains, without, gates, constants): Answer<'_> =
            answer.extract()?;
        let stops = |symbol: &SymbolId| sir.meta(*symbol).is_some_and(|meta| meta.stop_gradient);
        let stopped = (0..sir.outputs.len())
            .filter(|at| trains && stops(&sir.outputs[*at]))
            .collect();
        Ok(Self {
            run: py
                .import("paddle")?
                .getattr("_C_ops")?
                .getattr("run_program")?
                .unbind(),
            attributes: attributes.unbind(),
            cuda_graph: bridge.getattr("CUDA_GRAPH")?.unbind(),
            new_scope: py
                .import("paddle.base")?
                .getattr("core")?
                .getattr("Scope")?
                .unbind(),
            program: program.unbind(),
            used,
            constants,
            without,
            stopped,
            trains,
            gates,
            scopes: Mutex::new(Vec::new()),
        })
    }

    /// A scope nobody uses: the caller gives it back after the run.
    fn take_scope(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut parked: SmallVec<[Py<PyAny>; 2]> = SmallVec::new();
        let mut found = None;
        while found.is_none() {
            let Some(scope) = self.scopes.lock().ok().and_then(|mut scopes| scopes.pop()) else {
                break;
            };
            if scope
                .bind(py)
                .getattr(pyo3::intern!(py, "_can_reused"))?
                .is_truthy()?
            {
                found = Some(scope);
            } else {
                parked.push(scope);
            }
        }
        if let Ok(mut scopes) = self.scopes.lock() {
            scopes.extend(parked);
        }
        match found {
            Some(scope) => Ok(scope),
            None => self.new_scope.call0(py),
        }
    }
}

/// Scopes kept for another run. A scope waits here while its backward has not run; more than these
/// are dropped (their memory lives on with the autograd node that needs it).
const SCOPES: usize = 8;

impl CompiledGraph for PaddleGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        let mut tensors: SmallVec<[Bound<'_, PyAny>; 16]> =
            self.used.iter().map(|&at| inputs[at].clone()).collect();
        for &at in &self.without {
            tensors[at] = tensors[at].call_method0(pyo3::intern!(py, "detach"))?;
        }
        let mut passed = None;
        if let Some(gates) = &self.gates {
            let list = PyList::new(py, &tensors)?;
            passed = Some(gates.bind(py).call_method1("enter", (&list,))?);
            tensors = list.iter().collect();
        }
        tensors.extend(self.constants.iter().map(|value| value.bind(py).clone()));
        let given = if tensors.is_empty() {
            py.None().into_bound(py)
        } else {
            PyList::new(py, tensors)?.into_any()
        };
        let scope = self.take_scope(py)?;
        let scopes = PyList::new(py, [scope.bind(py)])?;
        let none = py.None();
        let mut outputs = self.run.bind(py).call1((
            given,
            none.bind(py),
            scopes,
            self.attributes.bind(py),
            self.cuda_graph.bind(py),
        ))?;
        if let Ok(mut kept) = self.scopes.lock() {
            if kept.len() < SCOPES {
                kept.push(scope);
            }
        }
        if let (Some(gates), Some(passed)) = (&self.gates, passed) {
            outputs = gates.bind(py).call_method1("leave", (passed, outputs))?;
        }
        for &at in &self.stopped {
            let output = outputs.get_item(at)?;
            output.call_method0(pyo3::intern!(py, "detach_"))?;
        }
        if let Ok(list) = outputs.cast::<PyList>() {
            return Ok(list.iter().map(Bound::unbind).collect());
        }
        Ok(outputs
            .cast::<PyTuple>()?
            .iter()
            .map(Bound::unbind)
            .collect())
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.program.bind(py).str()?.to_string())
    }

    fn backend_name(&self) -> &str {
        if self.trains {
            "paddle (forward and backward)"
        } else {
            "paddle"
        }
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        visit(&self.attributes);
        visit(&self.program);
        if let Some(gates) = &self.gates {
            visit(gates);
        }
    }
}
