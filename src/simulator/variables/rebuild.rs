//! What kinds need of the code that makes variables anew.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::Tracer;
use crate::bytecode::CodeBuilder;
use crate::frame::{BUILTINS, Modules};
use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};

use super::{IterVar, TensorVar, VarId};

/// The answer of what emits code.
pub type Emit = Result<(), Break>;

/// Generated code that makes variables anew. The code generator, which stands above the simulator,
/// is one.
pub trait Rebuild<'py>: Sized {
    /// The trace.
    fn tracer(&mut self) -> &mut Tracer<'py>;

    /// The code.
    fn code(&mut self) -> &mut CodeBuilder;

    /// Pushes a variable.
    fn value(&mut self, id: VarId) -> Emit;

    /// Keeps the top of the stack as the value of `id`.
    fn keep(&mut self, id: VarId) -> Emit;

    /// Pushes an input or output of the graph.
    fn symbol(&mut self, symbol: SymbolId) -> Emit;

    /// Pushes a tensor, or does the operation again that it is a view by.
    fn tensor(&mut self, id: VarId, tensor: &TensorVar) -> Emit;

    /// Whether `id` must not be made before the side effects.
    fn must_wait(&self, id: VarId) -> bool;

    /// Pushes what goes on where this iterator is.
    fn iterator(&mut self, state: &IterVar) -> Emit;

    /// Calls a helper with what `arguments` pushes.
    fn call_helper(
        &mut self,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit;

    /// Pushes every variable.
    fn values(&mut self, ids: &[VarId]) -> Emit {
        ids.iter().try_for_each(|id| self.value(*id))
    }

    /// Pushes a constant object.
    fn constant(&mut self, value: &Bound<'_, PyAny>) -> Emit {
        Ok(self.code().load_const(&Obj::from(value))?)
    }

    /// Pushes `None`.
    fn none(&mut self) -> Emit {
        let none = self.tracer().py.None().into_bound(self.tracer().py);
        self.constant(&none)
    }

    /// Pushes a number.
    fn int(&mut self, value: i64) -> Emit {
        let value = pyo3::types::PyInt::new(self.tracer().py, value).into_any();
        self.constant(&value)
    }

    /// Calls a class or function of a module with what `arguments` pushes.
    fn call_type(
        &mut self,
        module: &str,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        let class = Obj::from(self.tracer().py.module(module)?.getattr(name)?);
        self.code().begin_call(&class)?;
        arguments(self)?;
        Ok(self.code().call(argc)?)
    }

    /// The same of `builtins`.
    fn call_builtin(
        &mut self,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        self.call_type(BUILTINS, name, argc, arguments)
    }
}

/// The answer of a kind that nothing is made of.
pub(super) fn not_made(name: &str) -> Result<bool, Break> {
    Err(Break::new(
        BreakKind::Construct,
        format!("a value of kind {name} is live at the break"),
    ))
}

/// Pushes what a function of Python answers.
pub(super) fn call_pure<'py, R: Rebuild<'py>>(to: &mut R, function: VarId, args: &[VarId]) -> Emit {
    let Some(function) = to.tracer().value(function) else {
        return Err(Break::new(
            BreakKind::Construct,
            "a function without a value",
        ));
    };
    to.code().begin_call(&Obj::from(function))?;
    to.values(args)?;
    Ok(to.code().call(args.len())?)
}

/// Calls a helper with a function, the names of keyword arguments, and all arguments.
pub(super) fn call_with_names<'py, R: Rebuild<'py>>(
    to: &mut R,
    name: &str,
    args: &[VarId],
    kwargs: &[(Arc<str>, VarId)],
    function: impl FnOnce(&mut R) -> Emit,
) -> Emit {
    let names = PyTuple::new(
        to.tracer().py,
        kwargs.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
    )?
    .into_any();
    let values: Vec<VarId> = args
        .iter()
        .copied()
        .chain(kwargs.iter().map(|(_, value)| *value))
        .collect();
    to.call_helper(name, 2 + values.len(), |to| {
        function(to)?;
        to.constant(&names)?;
        to.values(&values)
    })
}
