//! The backend `folding`: computes what does not depend on the inputs once, at compile time,
//! computes common sub-expressions once per call, and hands the smaller graph to the backend
//! `paddle`.

mod cse;
mod fold;
mod pure;

use std::sync::Arc;

use paddle_sot_backend::obj::Obj;
use paddle_sot_backend::plugin::host_backend;
use paddle_sot_backend::{BackendError, CompileRequest, CompiledGraph, GraphBackend};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

/// One configuration of the backend: each translated function has its own.
#[derive(Clone)]
struct Folding {
    /// The largest tensor that is kept as a constant, in elements.
    max_elements: i64,
    /// Where to panic, to see what happens then.
    panic: Option<String>,
}

impl Folding {
    fn new() -> Self {
        Self {
            max_elements: 1 << 16,
            panic: None,
        }
    }

    fn may_panic(&self, place: &str) {
        if self.panic.as_deref() == Some(place) {
            panic!("as the options say");
        }
    }
}

impl GraphBackend for Folding {
    fn name(&self) -> &str {
        "folding"
    }

    fn configure(&mut self, _py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
        for (name, value) in options {
            match name.extract::<String>()?.as_str() {
                "max_elements" => self.max_elements = value.extract()?,
                "panic" => self.panic = value.extract()?,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "options: folding takes max_elements and panic, not {name}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn compile(
        &self,
        py: Python<'_>,
        mut request: CompileRequest,
    ) -> Result<Box<dyn CompiledGraph>, BackendError> {
        self.may_panic("compile");
        let mut sir = (*request.sir).clone();
        let constants = fold::fold(py, &mut sir, self.max_elements)?;
        let merged = cse::merge(py, &mut sir);
        if !constants.is_empty() || merged > 0 {
            // A new graph is traced again; the old one would be compiled from the old trace.
            request.sir = Arc::new(sir);
            request.example_inputs.extend(constants.iter().cloned());
        }
        Ok(Box::new(FoldedGraph {
            graph: host_backend("paddle").compile(py, request)?,
            constants,
            merged,
            panics: self.panic.as_deref() == Some("call"),
        }))
    }
}

/// The smaller graph, and the constants it takes after the inputs.
struct FoldedGraph {
    graph: Box<dyn CompiledGraph>,
    constants: Vec<Obj>,
    merged: usize,
    panics: bool,
}

impl CompiledGraph for FoldedGraph {
    fn call(
        &self,
        py: Python<'_>,
        inputs: &[Bound<'_, PyAny>],
    ) -> PyResult<SmallVec<[Py<PyAny>; 4]>> {
        assert!(!self.panics, "as the options say");
        if self.constants.is_empty() {
            return self.graph.call(py, inputs);
        }
        let mut all = inputs.to_vec();
        all.extend(self.constants.iter().map(|value| value.bind(py).clone()));
        self.graph.call(py, &all)
    }

    fn program_text(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "// folding: {} constants, {} statements merged\n{}",
            self.constants.len(),
            self.merged,
            self.graph.program_text(py)?
        ))
    }

    fn backend_name(&self) -> &str {
        "folding"
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Py<PyAny>)) {
        self.graph.traverse(visit);
    }
}

paddle_sot_backend::export_backend!(paddle_sot_folding, Folding::new);
