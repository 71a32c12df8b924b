//! Dicts and their views.

use indexmap::IndexMap;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::call::call;
use crate::containers::{pairs, views};
use crate::frame::Modules;
use crate::graph::Arg;
use crate::methods::names::{ITEMS, KEYS, VALUES};
use crate::methods::row::MethodRow;
use crate::obj::Obj;
use crate::reason::{Break, BreakId, BreakKind};
use crate::{
    Step, Stop, Tracer, arguments, attributes, comparisons, exceptions, fold, keys, methods,
    subscript,
};

use crate::variables::answers::{
    Exports, Finalizer, Form, Precedence, Snapshot, attribute_of_container, class,
    not_an_attribute, not_contained,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{IterVar, Key, Kind, VarId, Variable, protocol};

/// A dict with exact key equality.
#[derive(Clone, Debug, Default)]
pub struct DictVar {
    /// Key -> (key variable, value variable), in insertion order.
    pub items: IndexMap<Key, (VarId, VarId)>,
    /// The class when it is `OrderedDict` or `defaultdict`.
    pub class: Option<Obj>,
    /// `default_factory`.
    pub default_factory: Option<VarId>,
    /// How many items `popitem()` took off the end of one that exists, before anything else changed
    /// which keys it has: that lays out the table as no deletion does.
    pub popped: usize,
}

impl DictVar {
    /// Whether it is a `dict`, and nothing derived from one.
    pub fn is_plain(&self) -> bool {
        self.class.is_none() && self.default_factory.is_none()
    }

    /// The variables of its keys, in insertion order.
    pub fn keys(&self) -> impl Iterator<Item = VarId> + '_ {
        self.items.values().map(|(key, _)| *key)
    }
}

impl Protocol for DictVar {
    const NAME: &'static str = "Dict";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        let items = self.items.values().flat_map(|(key, value)| [*key, *value]);
        items.chain(self.default_factory).collect()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match &self.class {
            Some(of) => class(t, of),
            None => Some(t.py.get_type::<PyDict>()),
        }
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        let contents = Kind::Dict(self.clone());
        match self.popped {
            0 => Snapshot::Contents("set_dict", contents),
            count => Snapshot::Popped("set_popped_dict", count, contents),
        }
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        if let Some(class) = &self.class {
            to.code().begin_call(class)?;
        }
        if let Some(factory) = self.default_factory {
            to.values(&[factory])?;
        }
        let items: Vec<VarId> = self
            .items
            .values()
            .flat_map(|(key, value)| [*key, *value])
            .collect();
        to.values(&items)?;
        to.code().op("BUILD_MAP", self.items.len() as u32)?;
        if self.class.is_some() {
            to.code()
                .call(1 + usize::from(self.default_factory.is_some()))?;
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Items(self.items.values().map(|(_, value)| *value).collect())
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(!self.items.is_empty())
    }

    fn len(&self, _: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        Ok(self.items.len() as i64)
    }

    fn contains(&self, t: &mut Tracer<'_>, _: VarId, item: VarId) -> Step<bool> {
        let key = keys::key_of(t, item)?;
        Ok(self.items.contains_key(&key))
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let state = over_dict(t, id, DictViewKind::Keys)?;
        Ok(t.add(Kind::Iter(state)))
    }

    fn collect(&self, _: &mut Tracer<'_>, _: VarId) -> Step<Vec<VarId>> {
        Ok(self.keys().collect())
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        let simulated = keys::key_of(t, key)?;
        if let Some((_, value)) = self.items.get(&simulated) {
            return Ok(*value);
        }
        if let Some(factory) = self.default_factory {
            let value = call(t, factory, &[], &[])?;
            protocol::set_item(t, id, key, value)?;
            return Ok(value);
        }
        let class = t.builtin("KeyError")?;
        Err(Stop::Raise(exceptions::new(t, &class, vec![key])))
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        let simulated = keys::key_of(t, key)?;
        if let Some((_, old)) = self.items.get(&simulated) {
            t.release(id, *old)?;
        }
        t.vars.mutate(id, |var| {
            if let Kind::Dict(dict) = &mut var.kind {
                dict.items.entry(simulated).or_insert((key, value)).1 = value;
            }
        });
        Ok(())
    }

    fn del_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<()> {
        let simulated = keys::key_of(t, key)?;
        let Some((_, old)) = self.items.get(&simulated) else {
            return t.stop(BreakKind::RaisesException, "KeyError");
        };
        t.release(id, *old)?;
        subscript::refuse_iterated(t, id)?;
        t.vars.mutate(id, |var| {
            if let Kind::Dict(dict) = &mut var.kind {
                dict.items.shift_remove(&simulated);
            }
        });
        Ok(())
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if let Some(found) = attributes::of_builtin(t, id, name)? {
            return Ok(Some(found));
        }
        if name == "default_factory" && self.class.is_some() && !comparisons::is_ordered(t, self) {
            return Ok(Some(self.default_factory.unwrap_or_else(|| t.none())));
        }
        if attributes::has_none(t, id, name) {
            return Ok(None);
        }
        if let Some(class) = attributes::own_class_of(t, id, name)? {
            return Ok(Some(class));
        }
        not_an_attribute(t, id, name)
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        match self.class.is_some() && self.default_factory.is_none() {
            true => &[methods::DICT, methods::ORDERED_DICT],
            false => &[methods::DICT],
        }
    }

    fn emptied(&self, _: &Tracer<'_>) -> Step<Option<Kind>> {
        Ok(Some(Kind::Dict(Self {
            class: self.class.clone(),
            ..Self::default()
        })))
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        if self.class.is_some() {
            return fold::union(t, id);
        }
        let object = PyDict::new(t.py);
        for (key, value) in self.items.values() {
            object
                .set_item(fold::to_object(t, *key)?, fold::to_object(t, *value)?)
                .ok()?;
        }
        Some(object.into_any())
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        if self.class.is_some() {
            return arguments::refuse(t, id);
        }
        let mut items = Vec::with_capacity(self.items.len());
        for (key, item) in self.items.values() {
            let Some(key) = t.const_value(*key) else {
                return t.unsupported("a dict argument with such keys");
            };
            items.push((Obj::from(key), arguments::to_arg(t, *item)?));
        }
        Ok(Arg::Dict(items))
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        pairs::dict_operator(t, op, inplace, a, b)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        pairs::compare_dicts(t, op, a, b)
    }

    fn form(&self) -> Form {
        Form::Dict(self.clone())
    }

    fn exports(&self, t: &Tracer<'_>) -> Result<Exports, Break> {
        let mut items: Vec<(String, VarId)> = Vec::new();
        for (key, value) in self.items.values() {
            let name = t.value(*key).and_then(|key| key.extract::<String>().ok());
            let Some(name) = name else {
                return Err(Break::new(
                    BreakKind::UnsupportedOperation,
                    "the function returns a dict whose keys are not strings: its tensors have no order",
                ));
            };
            items.push((name, *value));
        }
        items.sort();
        let items = items.into_iter().map(|(_, value)| value);
        Ok(Exports::Items(items.collect()))
    }
}

/// What a view of a dict, or an iterator over one, goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictViewKind {
    /// `dict.keys()`, and the dict itself.
    Keys,
    /// `dict.values()`
    Values,
    /// `dict.items()`
    Items,
}

impl DictViewKind {
    /// An item of it.
    pub(crate) fn item(self, t: &mut Tracer<'_>, key: VarId, value: VarId) -> VarId {
        match self {
            Self::Keys => key,
            Self::Values => value,
            Self::Items => t.add(Kind::Tuple(vec![key, value], None)),
        }
    }

    /// The method that makes the view.
    fn method(self) -> &'static str {
        match self {
            Self::Keys => KEYS,
            Self::Values => VALUES,
            Self::Items => ITEMS,
        }
    }

    /// What `dict_view` and `advanced` of the helpers of generated code call it.
    pub fn number(self) -> i64 {
        match self {
            Self::Keys => 0,
            Self::Values => 1,
            Self::Items => 2,
        }
    }
}

/// A view of a dict variable.
pub struct DictView(pub VarId, pub DictViewKind);

impl Protocol for DictView {
    const NAME: &'static str = "DictView";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        vec![self.0]
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        let ordered = comparisons::is_ordered(t, t.vars.kind(self.0).dict()?);
        let made = match ordered {
            true => {
                t.py.collections()
                    .ok()?
                    .getattr("OrderedDict")
                    .ok()?
                    .call0()
            }
            false => Ok(PyDict::new(t.py).into_any()),
        };
        Some(made.ok()?.call_method0(self.1.method()).ok()?.get_type())
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.call_helper("dict_view", 2, |to| {
            to.value(self.0)?;
            to.int(self.1.number())
        })?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        Ok(self.len(t, id)? != 0)
    }

    fn len(&self, t: &mut Tracer<'_>, _: VarId) -> Step<i64> {
        protocol::len(t, self.0)
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        match self.1 {
            DictViewKind::Keys => protocol::contains(t, self.0, item),
            DictViewKind::Values => {
                let dict = self.dict(t)?;
                views::holds_value(t, &dict, item)
            }
            DictViewKind::Items => {
                let dict = self.dict(t)?;
                match views::holds_pair(t, &dict, item)? {
                    Some(answer) => Ok(answer),
                    None => not_contained(t, id, item),
                }
            }
        }
    }

    fn iter(&self, t: &mut Tracer<'_>, _: VarId) -> Step<VarId> {
        let state = over_dict(t, self.0, self.1)?;
        Ok(t.add(Kind::Iter(state)))
    }

    fn collect(&self, t: &mut Tracer<'_>, _: VarId) -> Step<Vec<VarId>> {
        let dict = self.dict(t)?;
        let items = dict.items.values();
        Ok(items
            .map(|(key, value)| self.1.item(t, *key, *value))
            .collect())
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attribute_of_container(t, id, name)
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        match self.1 {
            DictViewKind::Values => &[methods::VIEW],
            DictViewKind::Keys | DictViewKind::Items => &[methods::VIEW, methods::VIEW_AS_SET],
        }
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        operands: (VarId, VarId),
    ) -> Step<Option<VarId>> {
        views::operator(t, op, inplace, operands)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        views::compare(t, op, a, b)
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, _: VarId) -> Option<Bound<'py, PyAny>> {
        let dict = fold::to_object(t, self.0)?;
        dict.call_method0(self.1.method()).ok()
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(false)
    }
}

impl DictView {
    fn dict(&self, t: &mut Tracer<'_>) -> Step<DictVar> {
        match t.kind(self.0).dict() {
            Some(dict) => Ok(dict.clone()),
            None => t.stop(BreakId::Iteration, "a view of something else"),
        }
    }
}

/// `iter()` of a dict or a view of it.
fn over_dict(t: &mut Tracer<'_>, over: VarId, which: DictViewKind) -> Step<IterVar> {
    let Kind::Dict(dict) = t.kind(over) else {
        return t.stop(BreakId::Iteration, "a view of something else");
    };
    Ok(IterVar::Dict {
        over,
        which,
        keys: dict.keys().collect(),
        index: 0,
    })
}
