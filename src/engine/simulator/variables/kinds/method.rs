//! Bound methods, and `super()`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::frame::Modules;
use crate::obj::Obj;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

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
        t.py.module("types")
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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}

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

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
