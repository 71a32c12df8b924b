//! The layers of a graph, replaced by others.

use std::sync::Arc;

use pyo3::prelude::*;

use super::{Callee, LayerRef, StatementIr, SymbolKind};

type Replace<'a, 'py> = &'a mut dyn FnMut(Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

impl StatementIr {
    /// Has the graph, and those in it, call what `replace` answers for each layer. It keeps them.
    ///
    /// # Errors
    /// What `replace` raises.
    pub fn replace_layers<'py>(
        &mut self,
        py: Python<'py>,
        replace: Replace<'_, 'py>,
    ) -> PyResult<()> {
        for kind in &mut self.symbols {
            if let SymbolKind::Layer(layer) = kind {
                *layer = LayerRef::kept(&replace(layer.bind(py))?);
            }
        }
        for statement in &mut self.statements {
            if let Callee::Sir(region) = &mut statement.callee {
                for block in Arc::make_mut(region).blocks_mut() {
                    Arc::make_mut(block).replace_layers(py, replace)?;
                }
            }
        }
        Ok(())
    }
}
