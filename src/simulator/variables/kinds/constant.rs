//! Constants, and scalars of NumPy.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

use crate::bytecode::BinOp;
use crate::graph::Arg;
use crate::native;
use crate::obj::{is_attr, is_builtin_method};
use crate::reason::{Break, BreakId, BreakKind};
use crate::tracer::{asks_the_process, is_enum_member, is_plain_constant};
use crate::{
    Kwargs, Step, Tracer, arguments, attributes, classes, device, exceptions, fold, graph_arrays,
    iterate, keys, made_arrays, methods, numpy_scalars, repr_guards,
};

use crate::variables::answers::{
    Exports, Finalizer, Form, Snapshot, attribute, no_reversed, of_value, reversed_items,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, not_made};
use crate::variables::{Key, Kind, VarId, Variable, protocol};

/// An immutable constant: [`Kind::Const`](super::Kind::Const).
pub struct Const;

impl Protocol for Const {
    const NAME: &'static str = "Const";
    const RAISES_ATTRIBUTE_ERROR: bool = true;

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        of_value(t, var)
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        match t.value(id) {
            Some(object) if object.is(t.py.NotImplemented()) => {
                t.stop(BreakId::Truth, "the truth of NotImplemented, which warns")
            }
            Some(object) if is_plain_constant(&object) => Ok(object.is_truthy()?),
            Some(object) => enum_truth(t, &object),
            None => t.stop(BreakId::Truth, "the truth of a name that has no value here"),
        }
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        classes::check_member(t, id, &["__len__"])?;
        let object = t.value(id);
        match object.and_then(|object| object.len().ok()) {
            Some(len) => Ok(len as i64),
            None => exceptions::throw(t, "TypeError"),
        }
    }

    fn contains(&self, t: &mut Tracer<'_>, id: VarId, item: VarId) -> Step<bool> {
        let result = fold::operator(t, "contains", &[id, item])?;
        protocol::truth(t, result)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let items = self.collect(t, id)?;
        Ok(iterate::over_fixed(t, id, items))
    }

    fn collect(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Vec<VarId>> {
        let Some(object) = t.value(id) else {
            return t.stop(
                BreakId::Iteration,
                "iteration over a name that has no value here",
            );
        };
        let Ok(iterator) = object.try_iter() else {
            return t.stop(
                BreakKind::RaisesException,
                "iteration over something that is not iterable",
            );
        };
        let mut items = Vec::new();
        for item in iterator {
            items.push(fold::from_object(t, &item?)?);
        }
        Ok(items)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        fold::get_item(t, id, key)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        keys::const_key(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attributes::of_constant(t, id, name)
    }

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        _: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        let Kind::Tuple(items, None) = t.kind(b).clone() else {
            return Ok(None);
        };
        let template = t.value(a).filter(|_| op == BinOp::Rem);
        let Some(template) = template.filter(|of| of.is_exact_instance_of::<PyString>()) else {
            return Ok(None);
        };
        let texts = exceptions::as_texts(t, &template, "__mod__", &items)?;
        if texts == items {
            return Ok(None);
        }
        let texts = t.add(Kind::Tuple(texts, None));
        fold::operator(t, &op.function(false), &[a, texts]).map(Some)
    }

    fn call(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        args: &[VarId],
        kwargs: &Kwargs,
        _: bool,
    ) -> Step<VarId> {
        let is_size = |value: &Bound<'_, PyAny>| {
            let home = "paddle.base.dygraph.math_op_patch";
            value.is_callable() && is_attr(&value.get_type(), home, "TensorSize")
        };
        let Some(value) = t.value(id).filter(is_size) else {
            return t.stop(BreakKind::UnsupportedCall, "call of a constant");
        };
        if !args.is_empty() || !kwargs.is_empty() {
            return fold::call_object(t, &value, args, kwargs);
        }
        let dims: Vec<i64> = value.getattr("as_shape")?.extract()?;
        let dims = dims.into_iter().map(|dim| t.int(dim)).collect();
        t.size(dims)
    }

    fn has_method(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<bool> {
        let value = t.value(id);
        if value.is_some_and(|value| has_builtin_method(t, &value, name)) {
            return Ok(true);
        }
        Ok(t.value(id).is_some_and(|value| {
            // A class can be called, too, but is no method: `__class__`.
            let is_method =
                |attr: &Bound<'_, PyAny>| attr.is_callable() && !attr.is_instance_of::<PyType>();
            (is_plain_constant(&value) || device::is_question(t, &value, name))
                && value.getattr(name).is_ok_and(|attr| is_method(&attr))
        }))
    }

    fn method(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        name: &str,
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<VarId> {
        methods::constant(t, id, name, args, kwargs)
    }

    fn is_callable(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        Ok(t.value(id).is_some_and(|value| value.is_callable()))
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        let value = t.value(id)?;
        repr_guards::guard_operations(t, &value);
        Some(value)
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        arguments::of_value(t, id)
    }

    fn form(&self) -> Form {
        Form::Const
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Nothing)
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        let is_sequence = t.value(id).is_some_and(|value| {
            value.is_exact_instance_of::<PyString>()
                || value.is_exact_instance_of::<PyBytes>()
                || value.is_exact_instance_of::<PyTuple>()
        });
        if !is_sequence {
            return no_reversed(t);
        }
        let items = iterate::collect(t, id)?;
        let over = t.add(Kind::Tuple(items.clone(), None));
        Ok(reversed_items(t, over, &items))
    }
}

/// A scalar of NumPy.
pub struct Scalar;

impl Protocol for Scalar {
    const NAME: &'static str = "Scalar";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        of_value(t, var)
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, _: &mut R, _: VarId) -> Result<bool, Break> {
        not_made(Self::NAME)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        match t.value(id) {
            Some(object) => Ok(object.is_truthy()?),
            None => t.stop(BreakId::Truth, "the truth of a name that has no value here"),
        }
    }

    fn argument(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Arg> {
        numpy_scalars::argument(t, id)
    }

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        graph_arrays::binary_of_known(t, op, inplace, a, b)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if made_arrays::has_method(t.vars.kind(id), name) {
            return Ok(Some(attributes::bound_builtin(t, id, name)));
        }
        attribute(t, id, name)
    }

    fn to_object<'py>(&self, t: &mut Tracer<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
        t.value(id)
    }
}

/// The truth of a member of an enumeration, which no code of the user's decides.
fn enum_truth(t: &mut Tracer<'_>, object: &Bound<'_, PyAny>) -> Step<bool> {
    let class = object.get_type();
    const NAMES: [&str; 2] = ["__bool__", "__len__"];
    if native::is_mutable(&class) {
        classes::guard_names(t, &class, &NAMES);
    }
    let is_users = |found: Bound<'_, PyAny>| {
        !is_builtin_method(&found) && !attributes::is_of_enum_module(&found)
    };
    let mut found = NAMES
        .iter()
        .filter_map(|name| attributes::lookup(&class, name));
    if found.any(is_users) || !is_enum_member(object) {
        return t.stop(BreakId::Truth, "the truth of this constant");
    }
    Ok(object.is_truthy()?)
}

/// Whether a member of an enumeration has a method of this name of a builtin class, guarded.
fn has_builtin_method(t: &mut Tracer<'_>, member: &Bound<'_, PyAny>, name: &str) -> bool {
    if name.starts_with('_') || !is_enum_member(member) || asks_the_process(member) {
        return false;
    }
    let class = member.get_type();
    let found = attributes::lookup(&class, name);
    if !found.is_some_and(|found| is_builtin_method(&found)) {
        return false;
    }
    classes::guard_names(t, &class, &[name]);
    true
}
