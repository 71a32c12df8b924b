//! Bound methods, and `super()`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::call::call;
use crate::frame::{Modules, TYPES};
use crate::obj::{Obj, is_builtin_method};
use crate::reason::Break;
use crate::{Kwargs, Step, Tracer, attributes, graph_arrays, made_arrays, methods, tensors};

use crate::variables::answers::{Finalizer, Snapshot};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{Kind, VarId, Variable};

/// A bound method.
pub struct Method {
    /// `__self__`
    pub receiver: VarId,
    /// `__func__`
    pub function: VarId,
}

impl Protocol for Method {
    const NAME: &'static str = "Method";

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver, self.function]
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        t.py.types()
            .ok()?
            .getattr("MethodType")
            .ok()?
            .cast_into()
            .ok()
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        let parts = [self.function, self.receiver];
        if binds_itself(to.tracer(), self.function) {
            to.call_helper("bind", 2, |to| to.values(&parts))?;
        } else {
            to.call_type(TYPES, "MethodType", 2, |to| to.values(&parts))?;
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str) -> Step<Option<VarId>> {
        match name {
            "__self__" => Ok(Some(self.receiver)),
            "__func__" => Ok(Some(self.function)),
            _ => attributes::try_get(t, self.function, name),
        }
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(self.receiver);
        all.extend_from_slice(args);
        t.tail = tail;
        call(t, self.function, &all, kwargs)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }
}

/// A method of a builtin kind bound to a variable.
pub struct BoundBuiltin<'a> {
    /// The receiver.
    pub receiver: VarId,
    /// The method's name.
    pub name: &'a Arc<str>,
}

impl Protocol for BoundBuiltin<'_> {
    const NAME: &'static str = "BoundBuiltin";

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
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
        to.value(self.receiver)?;
        to.code().load_attr(self.name)?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        _: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        let (receiver, name) = (self.receiver, self.name);
        if methods::appends(t, receiver, name, args, kwargs) {
            return Ok(t.none());
        }
        let kind = t.kind(receiver);
        if matches!(kind, Kind::Tensor(_)) {
            tensors::method(t, receiver, name, args, kwargs)
        } else if matches!(kind, Kind::GraphArray(_)) {
            graph_arrays::method(t, receiver, name, args, kwargs)
        } else if made_arrays::has_method(kind, name) {
            made_arrays::method(t, receiver, name, args, kwargs)
        } else {
            methods::call(t, receiver, name, args, kwargs)
        }
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }
}

/// The class of those, as `builtins` has it.
pub const SUPER: &str = "super";

/// `super()`
pub struct Super<'a> {
    /// The class after which the lookup starts.
    pub class: &'a Obj,
    /// The receiver.
    pub receiver: VarId,
}

impl Protocol for Super<'_> {
    const NAME: &'static str = "Super";

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
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
        to.call_builtin(SUPER, 2, |to| {
            to.code().load_const(self.class)?;
            to.value(self.receiver)
        })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn get_attr(&self, t: &mut Tracer<'_>, _: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_super(t, self.class, self.receiver, name).map(Some)
    }
}

/// Whether it is a method of a builtin class: what they make of an object is no
/// `types.MethodType`.
fn binds_itself(t: &Tracer<'_>, function: VarId) -> bool {
    let function = t.value(function);
    function.is_some_and(|function| is_builtin_method(&function))
}
