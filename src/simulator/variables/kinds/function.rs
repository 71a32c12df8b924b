//! Python functions.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple, PyType};

use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::{Kwargs, Step, Tracer, attributes, call, inline, keys, partial_gradients, recompute};

use crate::variables::answers::{Finalizer, Snapshot, described};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Emit, Rebuild, not_made};
use crate::variables::{Key, VarId, Variable};

/// A function made by the frame.
#[derive(Clone, Debug)]
pub struct NewFunction {
    /// The code object.
    pub code: Obj,
    /// The globals dict.
    pub globals: Obj,
    /// `__defaults__`, a tuple variable.
    pub defaults: Option<VarId>,
    /// `__kwdefaults__`, a dict variable.
    pub kwdefaults: Option<VarId>,
    /// `__annotations__` as built by the frame (tuple or dict variable).
    pub annotations: Option<VarId>,
    /// Cells.
    pub closure: Vec<VarId>,
    /// Attributes set on the function by the frame (`f.x = 1`, functools.wraps).
    pub attrs: Vec<(Arc<str>, VarId)>,
}

/// A Python function.
#[derive(Clone, Debug)]
pub enum FunctionVar {
    /// It exists: `Variable::value` is the function object.
    Real,
    /// The frame made it.
    New(Box<NewFunction>),
}

impl Protocol for FunctionVar {
    const NAME: &'static str = "Function";

    fn children(&self) -> Vec<VarId> {
        match self {
            Self::Real => Vec::new(),
            Self::New(new) => {
                let parts = [new.defaults, new.kwdefaults, new.annotations];
                let attributes = new.attrs.iter().map(|(_, value)| *value);
                let held = new.closure.iter().copied().chain(attributes);
                parts.into_iter().flatten().chain(held).collect()
            }
        }
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        Some(t.py.get_type::<PyFunction>())
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        match self {
            Self::New(new) => new.reconstruct(to).map(|()| false),
            Self::Real => not_made(Self::NAME),
        }
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        t.guard_identity(id);
        keys::identity(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_function(t, id, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        if let Some(result) = call::call_known(t, id, args, kwargs)? {
            return Ok(result);
        }
        // What stands for Paddle's own ways back: see `double_backward.py`.
        if call::in_module(t, id, "paddle_sot_rs._paddle.gradients.double_backward") {
            if let Some(gradients) = partial_gradients::try_call(t, id, args, kwargs)? {
                return Ok(gradients);
            }
            let what = described(t, id);
            let message = format!("{what}() walks the autograd graph");
            return t.stop(BreakKind::UnsupportedOperation, message);
        }
        if let Some(result) = recompute::try_call(t, id, args, kwargs)? {
            return Ok(result);
        }
        t.tail = tail;
        inline::call_function(t, id, args, kwargs)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn set_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str, value: VarId) -> Step<()> {
        match self {
            Self::New(_) => attributes::set_on_function(t, id, name, value),
            Self::Real => attributes::set_on_existing_function(t, id, name, value),
        }
    }
}

impl NewFunction {
    /// Pushes such a function.
    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R) -> Emit {
        let py = to.tracer().py;
        let names = PyTuple::new(
            py,
            self.attrs
                .iter()
                .map(|(name, _)| &**name)
                .collect::<Vec<_>>(),
        )?
        .into_any();
        to.call_helper("make_function", 7 + self.attrs.len(), |to| {
            to.code().load_const(&self.code)?;
            to.code().load_const(&self.globals)?;
            for part in [self.defaults, self.kwdefaults, self.annotations] {
                match part {
                    Some(part) => to.value(part)?,
                    None => to.none()?,
                }
            }
            to.values(&self.closure)?;
            to.code().op("BUILD_TUPLE", self.closure.len() as u32)?;
            to.constant(&names)?;
            let values: Vec<VarId> = self.attrs.iter().map(|(_, value)| *value).collect();
            to.values(&values)
        })
    }
}
