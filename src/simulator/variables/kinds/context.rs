//! Context managers that the simulator enters itself.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::reason::Break;
use crate::{Kwargs, Step, Tracer, contexts};

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, call_with_names};
use crate::variables::{VarId, Variable};

/// Context managers the simulator enters itself.
#[derive(Clone, Debug)]
pub enum ContextVar {
    /// `paddle.no_grad()`, `enable_grad()`, `set_grad_enabled(flag)`: the flag it sets.
    GradMode {
        /// Grad mode inside.
        enabled: bool,
        /// Grad mode to restore, while entered.
        restore: Option<bool>,
        /// The callable and arguments that make the real object.
        make: (Obj, Vec<VarId>),
    },
    /// `paddle.amp.auto_cast(...)`: the callable, positional and keyword arguments that make the
    /// real object.
    AutoCast {
        /// `paddle.amp.auto_cast` or `amp_guard`.
        callable: Obj,
        /// Positional arguments.
        args: Vec<VarId>,
        /// Keyword arguments.
        kwargs: Vec<(Arc<str>, VarId)>,
        /// Whether it is entered.
        entered: bool,
    },
    /// `contextlib.nullcontext(x)` and others that do nothing.
    Null {
        /// What `__enter__` answers.
        result: VarId,
        /// The callable and arguments that make the real object.
        make: (Obj, Vec<VarId>),
    },
}

impl Protocol for ContextVar {
    const NAME: &'static str = "Context";

    fn children(&self) -> Vec<VarId> {
        match self {
            Self::GradMode {
                make: (_, args), ..
            } => args.clone(),
            Self::AutoCast { args, kwargs, .. } => {
                let named = kwargs.iter().map(|(_, value)| *value);
                args.iter().copied().chain(named).collect()
            }
            Self::Null {
                result,
                make: (_, args),
            } => [*result].into_iter().chain(args.iter().copied()).collect(),
        }
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        match self {
            Self::GradMode {
                make: (callable, args),
                ..
            }
            | Self::Null {
                make: (callable, args),
                ..
            } => {
                to.code().begin_call(callable)?;
                to.values(args)?;
                to.code().call(args.len())?;
            }
            Self::AutoCast {
                callable,
                args,
                kwargs,
                ..
            } => call_with_names(to, "call_with", args, kwargs, |to| {
                Ok(to.code().load_const(callable)?)
            })?,
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

/// Its `__exit__`, or its `__enter__`, bound.
pub struct ContextMethod {
    /// The context manager.
    pub context: VarId,
    /// `__exit__`, else `__enter__`.
    pub exit: bool,
}

impl Protocol for ContextMethod {
    const NAME: &'static str = "ContextMethod";

    fn children(&self) -> Vec<VarId> {
        vec![self.context]
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.value(self.context)?;
        to.code()
            .load_attr(if self.exit { "__exit__" } else { "__enter__" })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn call(&self, t: &mut Tracer<'_>, _: VarId, _: &[VarId], _: &Kwargs, _: bool) -> Step<VarId> {
        if self.exit {
            contexts::exit(t, self.context)
        } else {
            contexts::enter(t, self.context)
        }
    }
}
