//! Instances of Python classes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFunction, PyString, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::call::call;
use crate::call::registry::call_polyfill;
use crate::containers::{deques, proxies};
use crate::frame::TYPES;
use crate::obj::Obj;
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId, BreakKind};
use crate::{
    Kwargs, Step, Tracer, attributes, call, classes, comparisons, dynamic_scalar, groups, iterate,
    keys, layers, operators,
};

use crate::variables::answers::{Exports, Finalizer, Precedence, Snapshot, class, no_reversed};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Emit, Rebuild};
use crate::variables::{Key, Kind, VarId, Variable, protocol};

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
    /// Whether the frame changed a deque in a way that its iterators notice.
    pub is_shifted: bool,
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
            is_shifted: false,
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

    /// Replays attribute writes on the object `id`.
    pub fn replay_writes<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Emit {
        for write in &self.writes {
            let name = PyString::intern(to.tracer().py, &write.name).into_any();
            match write.value {
                Some(value) => to.call_helper(write.helper(), 3, |to| {
                    to.value(id)?;
                    to.constant(&name)?;
                    to.value(value)
                })?,
                None => to.call_helper("delete_attribute", 2, |to| {
                    to.value(id)?;
                    to.constant(&name)
                })?,
            }
            to.code().op("POP_TOP", 0)?;
        }
        Ok(())
    }

    /// The variables that it holds.
    pub(super) fn held(&self) -> Vec<VarId> {
        let written = self.writes.iter().filter_map(|op| op.value);
        written.chain(self.base).chain(self.contents).collect()
    }
}

impl Protocol for ObjectVar {
    const NAME: &'static str = "Object";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

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

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        if let Some(at) = groups::stale(to.tracer(), id) {
            let why = "an exception group whose list was changed since";
            return Err(to.tracer().left_to_interpreter(at, why));
        }
        if let (Some(shown), true) = (
            self.contents,
            proxies::is_exact(self.class.bind(to.tracer().py)),
        ) {
            to.call_type(TYPES, proxies::NAME, 1, |to| to.value(shown))?;
            return Ok(false);
        }
        match self.base {
            None if deques::is_exact(self.class.bind(to.tracer().py)) => {
                to.call_helper("new_deque", 1, |to| match self.most {
                    Some(most) => to.int(most as i64),
                    None => to.none(),
                })?;
            }
            Some(args) => to.call_helper("new_exception", 2, |to| {
                to.code().load_const(&self.class)?;
                to.value(args)
            })?,
            None => {
                let held = self.contents.and_then(|it| to.tracer().type_of(it));
                let base = held.unwrap_or_else(|| to.tracer().py.get_type::<PyAny>());
                to.call_helper("new_object", 2, |to| {
                    to.constant(base.as_any())?;
                    Ok(to.code().load_const(&self.class)?)
                })?;
            }
        }
        to.keep(id)?;
        if let Some(contents) = self.contents {
            fill(to, id, contents)?;
        }
        self.replay_writes(to, id)?;
        Ok(true)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::OfInstance(self.contents)
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        truth(t, id)
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        len(t, id)
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        contains(t, id, item)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        iter(t, id)
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        reversed(t, id, &self.class)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        get_item(t, id, key)
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        call_special(t, id, "__setitem__", &[key, value])
    }

    fn del_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<()> {
        call_special(t, id, "__delitem__", &[key])
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::of_instance(t, id)
    }

    fn next(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
        iterate::next_of_object(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_instance(t, id, self, name)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        tail: bool,
    ) -> Step<VarId> {
        if call::is_translated(t, id) {
            return call::call_translated(t, id, args, kwargs, tail);
        }
        if call::is_partial(t, id) {
            let parts = call::parts(t, id)?;
            t.tail = tail;
            return call::call_partial(t, parts, args, kwargs);
        }
        let bound = attributes::get_special(t, id, "__call__")?;
        t.tail = tail;
        call(t, bound, args, kwargs)
    }

    fn is_iterator(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        iterate::has_next(t, id, self)
    }

    fn is_callable(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        let Some(class) = t.type_of(id) else {
            return t.unsupported("callable() of this value");
        };
        // It is looked for and not bound: a descriptor is not asked.
        classes::guard_names(t, &class, &["__call__"]);
        Ok(attributes::lookup(&class, "__call__").is_some())
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        let method = attributes::get_special(t, id, operators::unary_names(op).0)?;
        call(t, method, &[], &[])
    }

    const PRECEDENCE: Precedence = Precedence::Objects;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        operators::object_binary(t, op, inplace, a, b).map(Some)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        comparisons::object_compare(t, op, a, b).map(Some)
    }

    fn set_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str, value: VarId) -> Step<()> {
        attributes::set_on_instance(t, id, self, name, value)
    }

    fn del_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<()> {
        attributes::delete_of_instance(t, id, self, name)
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        let items = match self.contents {
            Some(contents) => vec![contents],
            None => self.writes.iter().filter_map(|op| op.value).collect(),
        };
        Ok(Exports::Items(items))
    }
}

/// Puts what a new instance of a subclass of `dict` or `list` holds into it.
fn fill<'py, R: Rebuild<'py>>(to: &mut R, id: VarId, contents: VarId) -> Emit {
    let contents = to.tracer().vars.get(contents).clone();
    let (items, list) = if let Kind::List(items) = &contents.kind {
        (items.clone(), true)
    } else if let Kind::Dict(dict) = &contents.kind {
        let pairs = dict.items.values();
        (
            pairs.flat_map(|(key, value)| [*key, *value]).collect(),
            false,
        )
    } else {
        return Err(Break::internal("an instance that holds something else"));
    };
    if items.is_empty() {
        return Ok(());
    }
    to.call_helper("fill", 2, |to| {
        to.value(id)?;
        to.values(&items)?;
        match list {
            true => to.code().op("BUILD_LIST", items.len() as u32)?,
            false => to.code().op("BUILD_MAP", items.len() as u32 / 2)?,
        };
        Ok(())
    })?;
    to.code().op("POP_TOP", 0)?;
    Ok(())
}

/// `bool(value)` of an instance.
pub(super) fn truth(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    if let Some(method) = attributes::try_get_special(t, value, "__bool__")? {
        let result = call(t, method, &[], &[])?;
        let bools = t.py.get_type::<PyBool>();
        return match t.type_of(result).is_some_and(|class| class.is(&bools)) {
            true => protocol::truth(t, result),
            false => t.stop(BreakKind::RaisesException, "__bool__ that is not a bool"),
        };
    }
    if let Some(method) = attributes::try_get_special(t, value, "__len__")? {
        let result = call(t, method, &[], &[])?;
        t.realize(result);
        return match is_length(t, result)? {
            true => protocol::truth(t, result),
            false => t.stop(BreakId::Truth, "__len__ that is not a length"),
        };
    }
    Ok(true)
}

/// `len(value)` of an instance.
pub(super) fn len(t: &mut Tracer<'_>, value: VarId) -> Step<i64> {
    let method = attributes::get_special(t, value, "__len__")?;
    let result = call(t, method, &[], &[])?;
    match t.const_int(result) {
        Some(len) if len >= 0 => Ok(len),
        _ => t.stop(BreakId::Length, "__len__ that is not a length"),
    }
}

/// `item in value` of an instance.
pub(super) fn contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<bool> {
    let Some(method) = attributes::try_get_special(t, container, "__contains__")? else {
        return t.unsupported("in without __contains__");
    };
    let result = call(t, method, &[item], &[])?;
    protocol::truth(t, result)
}

/// Whether this is what `__len__` may answer with, under a guard where that differs between calls.
fn is_length(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    if let Kind::Int(_) = t.kind(value) {
        let zero = t.int(0);
        return Ok(dynamic_scalar::compare(t, CmpOp::Ge, value, zero)? == Some(true));
    }
    // Nothing is captured behind the truth of one of the graph.
    let of_graph = matches!(t.kind(value), Kind::SymNumber(_));
    Ok(of_graph || t.const_int(value).is_some_and(|len| len >= 0))
}

/// `iter(value)` of an instance.
pub(super) fn iter(t: &mut Tracer<'_>, value: VarId) -> Step<VarId> {
    if let Some(items) = layers::items(t, value, &["__iter__"])? {
        return Ok(iterate::over_fixed(t, value, items));
    }
    let method = attributes::get_special(t, value, "__iter__")?;
    let iterator = call(t, method, &[], &[])?;
    match iterate::is_iterator(t, iterator)? {
        true => Ok(iterator),
        false => t.stop(
            BreakKind::RaisesException,
            "__iter__ answers with something that is no iterator",
        ),
    }
}

/// `reversed(value)` of an instance: its `__reversed__`, or its items by their places.
pub(super) fn reversed(t: &mut Tracer<'_>, value: VarId, class: &Obj) -> Step<VarId> {
    let Ok(of) = class.bind(t.py).cast::<PyType>().cloned() else {
        return no_reversed(t);
    };
    let found = attributes::lookup(&of, "__reversed__");
    attributes::guard_type_attr(t, class, "__reversed__", found.as_ref());
    if let Some(found) = found {
        if !found.is_exact_instance_of::<PyFunction>() {
            return no_reversed(t);
        }
        let method = attributes::get_special(t, value, "__reversed__")?;
        return call(t, method, &[], &[]);
    }
    for name in ["__getitem__", "__len__"] {
        let found = attributes::lookup(&of, name);
        attributes::guard_type_attr(t, class, name, found.as_ref());
        if !found.is_some_and(|found| found.is_exact_instance_of::<PyFunction>()) {
            return no_reversed(t);
        }
    }
    call_polyfill(t, "reversed_items", &[value], &[])
}

/// `value[key]` of an instance.
pub(super) fn get_item(t: &mut Tracer<'_>, container: VarId, key: VarId) -> Step<VarId> {
    if let Some(value) = layers::get_item(t, container, key)? {
        return Ok(value);
    }
    let method = attributes::get_special(t, container, "__getitem__")?;
    call(t, method, &[key], &[])
}

/// A special method of an instance, whose answer nobody wants.
pub(super) fn call_special(
    t: &mut Tracer<'_>,
    container: VarId,
    name: &str,
    args: &[VarId],
) -> Step<()> {
    let method = attributes::get_special(t, container, name)?;
    call(t, method, args, &[]).map(drop)
}
