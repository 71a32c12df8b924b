//! Instances of Python classes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{class, Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{VarId, Variable};

/// One attribute write or delete, in program order.
#[derive(Clone, Debug)]
pub struct AttrOp {
    /// The attribute.
    pub name: Arc<str>,
    /// The new value; `None` deletes.
    pub value: Option<VarId>,
    /// Whether it goes through `Layer.__setattr__`, which registers tensors as buffers.
    pub registers: bool,
}

impl AttrOp {
    /// The function of the generated code's helpers that writes the attribute.
    pub fn helper(&self) -> &'static str {
        if self.registers {
            "register_attribute"
        } else {
            "set_attribute"
        }
    }
}

/// An instance of a Python class (also Layers: see [`Kind::Layer`]).
#[derive(Clone, Debug)]
pub struct ObjectVar {
    /// Its class.
    pub class: Obj,
    /// Writes and deletes of instance attributes since the frame began, in order. For an object
    /// the frame made this is its whole state.
    pub writes: Vec<AttrOp>,
    /// `args` of a new exception.
    pub base: Option<VarId>,
    /// What a deque or an instance of a subclass of `list`, `dict` or `tuple` holds as one: of one
    /// that exists, once something has read it.
    pub contents: Option<VarId>,
    /// `maxlen` of a new deque.
    pub most: Option<usize>,
}

impl ObjectVar {
    /// An instance of a class, with nothing written to it.
    pub fn of(class: Obj) -> Self {
        Self {
            class,
            writes: Vec::new(),
            base: None,
            contents: None,
            most: None,
        }
    }

    /// What the frame last did to this attribute in the dictionary of the instance: `Some(None)`
    /// means that it is not there, as it was deleted, or became a buffer.
    pub fn written(&self, name: &str) -> Option<Option<VarId>> {
        let mut latest = self.writes.iter().rev();
        let last = latest.find(|op| &*op.name == name)?;
        Some(last.value.filter(|_| !last.registers))
    }

    /// The buffer that the frame last made of this attribute of a layer.
    pub fn registered(&self, name: &str) -> Option<VarId> {
        let mut latest = self.writes.iter().rev();
        latest.find(|op| op.registers && &*op.name == name)?.value
    }

    /// The variables that it holds.
    pub(super) fn held(&self) -> Vec<VarId> {
        let written = self.writes.iter().filter_map(|op| op.value);
        written.chain(self.base).chain(self.contents).collect()
    }
}

impl Protocol for ObjectVar {
    const NAME: &'static str = "Object";

    fn children(&self) -> Vec<VarId> {
        self.held()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        class(t, &self.class)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Attributes
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::OfInstance(self.contents)
    }
}
