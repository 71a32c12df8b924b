//! Variables made and looked at: what the families of the simulator hold are numbers of variables,
//! and all they know about one is asked here. A variable is looked into (and guarded) no earlier
//! than somebody asks.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyString, PyType};

use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::{Break, BreakKind};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId, Variable};

use super::classify::is_long;
use super::is_plain_constant;
use super::{Step, Tracer};

impl<'py> Tracer<'py> {
    /// A value the frame makes.
    pub fn add(&mut self, kind: Kind) -> VarId {
        self.vars.add(Variable::new(kind))
    }

    /// Why the code generator gives up on what the instruction `at` of the outermost frame made: in
    /// another attempt the interpreter runs it.
    pub fn left_to_interpreter(&mut self, at: usize, message: &str) -> Break {
        self.at_break.native_next = Some(at);
        Break::new(BreakKind::Construct, message)
    }

    /// A value that only the interpreter can make: it can be handed on, no more. Where it must be
    /// rebuilt, the instruction of the outermost frame that makes it runs natively.
    pub(crate) fn made_natively(&mut self) -> VarId {
        let id = self.add(Kind::Opaque);
        self.only_the_interpreter_makes(id);
        id
    }

    /// See [`Tracer::made_natively`].
    pub(crate) fn only_the_interpreter_makes(&mut self, id: VarId) {
        self.exceptions.raised.push((id, self.frames.outermost));
    }

    /// The instruction that has to run natively where this value must be rebuilt: see
    /// `Tracer::made_natively`.
    pub fn raised_at(&self, id: VarId) -> Option<usize> {
        self.exceptions.raised_at(id)
    }

    /// The list that shapes are: a `paddle.Size`, or a plain one on Paddle 3.2.
    pub(crate) fn size(&mut self, dims: Vec<VarId>) -> Step<VarId> {
        let class = self.paddle.module.bind(self.py).getattr_opt("Size")?;
        let id = self.add(Kind::List(dims));
        self.vars.update(id, |var| var.class = class.map(Obj::from));
        Ok(id)
    }

    /// Whether a value is a `paddle.Size`.
    pub(crate) fn is_size(&self, value: &Bound<'_, PyAny>) -> bool {
        let class = self.paddle.module.bind(self.py).getattr("Size");
        class.is_ok_and(|class| value.get_type().is(&class))
    }

    /// Gives `id` the class of `like`: slices and sums of a `paddle.Size` are one too.
    pub(crate) fn inherit_class(&mut self, id: VarId, like: VarId) -> VarId {
        if let Some(class) = self.vars.get(like).class.clone() {
            self.vars.update(id, |var| var.class = Some(class));
        }
        id
    }

    /// The interpreter's NULL.
    pub(crate) fn null(&mut self) -> VarId {
        self.add(Kind::Null)
    }

    /// A value that is fixed at translation time and embedded by identity (code constants, results
    /// of constant folding, objects whose identity is guarded elsewhere).
    pub fn constant(&mut self, value: &Bound<'_, PyAny>) -> VarId {
        if is_plain_constant(value) {
            let value = Some(Obj::from(value));
            return self.vars.add(Variable {
                value,
                ..Variable::new(Kind::Const)
            });
        }
        // The object is fixed, what it holds is not: reads from it are guarded below this root.
        let object = Obj::from(value);
        let id = self.wrap(value, Arc::new(Tracker::Const(object)));
        self.realize(id);
        id
    }

    /// `None`.
    pub fn none(&mut self) -> VarId {
        let none = self.py.None().into_bound(self.py);
        self.constant(&none)
    }

    /// A Python bool.
    pub(crate) fn bool(&mut self, value: bool) -> VarId {
        let value = PyBool::new(self.py, value).to_owned().into_any();
        self.constant(&value)
    }

    /// A Python int.
    pub fn int(&mut self, value: i64) -> VarId {
        let value = PyInt::new(self.py, value).into_any();
        self.constant(&value)
    }

    /// A Python str.
    pub(crate) fn str(&mut self, value: &str) -> VarId {
        let value = PyString::new(self.py, value).into_any();
        self.constant(&value)
    }

    /// A real object found at `tracker`. Looked at (and guarded) only by `Tracer::realize`.
    ///
    /// An object that is already known keeps its variable: both trackers are then guarded to
    /// lead to the same object.
    pub fn wrap(&mut self, value: &Bound<'_, PyAny>, tracker: TrackerRef) -> VarId {
        if let Some(reads) = &mut self.replays.reads {
            reads.note_place(&tracker);
        }
        let address = value.as_ptr() as usize;
        if let Some(&id) = self.known.get(&address) {
            let known = self.vars.get(id).source.clone();
            match known {
                Some(source) if source == tracker => return id,
                Some(source) => {
                    self.guards.add(&tracker, GuardKind::SameAs(source));
                    return id;
                }
                None => {}
            }
        }
        if tracker.may_vanish() {
            self.guards.add(&tracker, GuardKind::Present);
        }
        let id = self.vars.add(Variable {
            value: Some(Obj::from(value)),
            source: Some(tracker),
            ..Variable::new(Kind::Lazy)
        });
        if !is_plain_constant(value) {
            self.known.insert(address, id);
        }
        id
    }

    /// Whether the frame has looked at an object that exists, by whatever name.
    pub(crate) fn has_looked_at(&self, value: &Bound<'_, PyAny>) -> bool {
        let known = self.known.get(&(value.as_ptr() as usize));
        known.is_some_and(|id| !matches!(self.vars.kind(*id), Kind::Lazy))
    }

    /// The kind of `id`, looked at: never [`Kind::Lazy`].
    pub(crate) fn kind(&mut self, id: VarId) -> &Kind {
        self.realize(id);
        let var = self.vars.get(id);
        if let Some(reads) = &mut self.replays.reads {
            reads.note(id, var);
        }
        &var.kind
    }

    /// Looks at a lazy variable: decides its kind and guards what was decided on.
    pub(crate) fn realize(&mut self, id: VarId) {
        if let Kind::Lazy = self.vars.kind(id) {
            match self.value(id).filter(is_long) {
                Some(value) => {
                    self.guard_type(id, &value);
                    self.set_kind(id, Kind::Opaque);
                }
                None => self.classify(id),
            }
        } else if let Kind::Appended(appended) = self.vars.kind(id) {
            let appended = appended.clone();
            self.classify(id);
            self.vars.update(id, |var| {
                if let Kind::List(items) = &mut var.kind {
                    items.extend(appended);
                } else {
                    var.kind = Kind::Opaque;
                }
            });
        }
    }

    /// `list.append(value)` and the like on a list that nothing has looked into: how long it is
    /// does not matter. The answer is whether it was such a list.
    pub(crate) fn append(&mut self, list: VarId, more: &[VarId]) -> bool {
        if matches!(self.vars.kind(list), Kind::Lazy) {
            let value = self.value(list);
            let Some(value) = value.filter(|value| value.is_exact_instance_of::<PyList>()) else {
                return false;
            };
            if self.source(list).is_none() || self.is_fixed(list) || self.is_closed(list) {
                return false;
            }
            self.guard_type(list, &value);
            self.distinct(list);
            self.set_kind(list, Kind::Appended(Vec::new()));
        }
        let unread = matches!(self.vars.kind(list), Kind::Appended(_));
        if unread {
            self.vars.mutate(list, |var| {
                if let Kind::Appended(items) = &mut var.kind {
                    items.extend_from_slice(more);
                }
            });
        }
        unread
    }

    /// Whether nothing has looked into this list, which exists before the frame.
    pub(crate) fn is_unread_list(&self, id: VarId) -> bool {
        let is_list = |value: Bound<'py, PyAny>| value.is_exact_instance_of::<PyList>();
        let kind = self.vars.kind(id);
        matches!(kind, Kind::Appended(_))
            || matches!(kind, Kind::Lazy) && self.value(id).is_some_and(is_list)
    }

    /// The source of `id`, if it has one.
    pub fn source(&self, id: VarId) -> Option<TrackerRef> {
        self.vars.get(id).source.clone()
    }

    /// Whether something that exists was changed: that is done behind the graph, so that what can
    /// be seen now would come before it.
    pub fn changes_what_exists(&self) -> bool {
        let mut mutated = self.vars.mutated().iter();
        !self.global_writes.is_empty() || mutated.any(|id| self.vars.get(*id).source.is_some())
    }

    /// The real object of `id`, if it has one. For constants this is the value.
    pub fn value(&self, id: VarId) -> Option<Bound<'py, PyAny>> {
        self.vars
            .get(id)
            .value
            .as_ref()
            .map(|value| value.bind(self.py).clone())
    }

    /// The value of a constant (`Kind::Const`), `None` for any other kind.
    pub(crate) fn const_value(&mut self, id: VarId) -> Option<Bound<'py, PyAny>> {
        self.realize(id);
        if let Kind::Const = self.vars.kind(id) {
            self.value(id)
        } else {
            None
        }
    }

    /// A constant exact `str`.
    pub(crate) fn const_str(&mut self, id: VarId) -> Option<Arc<str>> {
        let value = self.const_value(id)?;
        value
            .cast_exact::<PyString>()
            .ok()
            .and_then(|text| text.to_str().ok().map(Arc::from))
    }

    /// A constant `int` or `bool` that fits.
    pub fn const_int(&mut self, id: VarId) -> Option<i64> {
        let value = self.const_value(id)?;
        if value.is_instance_of::<PyInt>() {
            value.extract().ok()
        } else {
            None
        }
    }

    /// Whether `id` is `None`.
    pub(crate) fn is_none(&mut self, id: VarId) -> bool {
        self.const_value(id).is_some_and(|value| value.is_none())
    }

    /// The type of the value as user code would see it with `type(x)`, when it is known.
    pub(crate) fn type_of(&mut self, id: VarId) -> Option<Bound<'py, PyType>> {
        self.realize(id);
        self.vars.get(id).python_type(self)
    }

    pub(super) fn set_kind(&mut self, id: VarId, kind: Kind) {
        self.vars.update(id, |var| var.kind = kind);
    }
}
