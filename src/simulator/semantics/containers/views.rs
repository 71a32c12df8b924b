//! What views of dicts, and sets, do with each other: membership, comparisons and operators.
//!
//! The order of a set depends on how its table came about. A set that an operator makes knows its
//! operands, as they were: it is made of them again, and gone over as that one is.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyTuple};
use rustc_hash::FxHashSet;

use crate::bytecode::{BinOp, CmpOp};
use crate::frame::COLLECTIONS;
use crate::methods::row::{MethodCall, MethodRow};
use crate::obj::is_attr;
use crate::reason::BreakId;
use crate::tracer::is_plain_constant;
use crate::variables::kinds::DictViewKind;
use crate::variables::{DictVar, Key, Kind, SetVar, VarId};
use crate::{Step, Tracer, comparisons, iterate, keys, sets, truth};

/// `set.isdisjoint()` of a set or a view.
pub(crate) const IS_DISJOINT: MethodRow = MethodRow::new("isdisjoint", (1, 1), is_disjoint);

/// What does as sets do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// A set, and whether it is a frozen one.
    Set(bool),
    /// The keys or the items of a dict.
    View,
}

fn side(t: &mut Tracer<'_>, id: VarId) -> Option<Side> {
    if let Kind::Set(set) = t.kind(id) {
        return Some(Side::Set(set.frozen));
    }
    let does_as_sets = matches!(
        t.kind(id),
        Kind::DictView(_, DictViewKind::Keys | DictViewKind::Items)
    );
    does_as_sets.then_some(Side::View)
}

/// The elements, by their keys. An element that has none breaks the graph.
fn elements(t: &mut Tracer<'_>, id: VarId) -> Step<Vec<(Key, VarId)>> {
    if let Kind::Set(set) = t.kind(id) {
        let items = set.items.iter();
        return Ok(items.map(|(key, item)| (key.clone(), *item)).collect());
    }
    let items = match sets::elements(t, id)? {
        Some(items) => items,
        None => iterate::collect(t, id)?,
    };
    let keyed = |item| Ok((keys::key_of(t, item)?, item));
    items.into_iter().map(keyed).collect()
}

/// `item in dict.values()`
pub fn holds_value(t: &mut Tracer<'_>, dict: &DictVar, item: VarId) -> Step<bool> {
    for (_, value) in dict.items.values() {
        if comparisons::equal_values(t, *value, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `item in dict.items()`; `None` where an object may be such a pair.
pub fn holds_pair(t: &mut Tracer<'_>, dict: &DictVar, item: VarId) -> Step<Option<bool>> {
    let kind = t.kind(item).clone();
    let pair = if let Kind::Tuple(items, _) = &kind {
        items
    } else if kind.plain_items().is_some() || matches!(kind, Kind::Dict(_) | Kind::Set(_)) {
        return Ok(Some(false));
    } else {
        let is_none = |value: &Bound<'_, PyAny>| {
            is_plain_constant(value) && !value.is_instance_of::<PyTuple>()
        };
        return Ok(t.value(item).filter(is_none).map(|_| false));
    };
    let [key, value] = pair[..] else {
        return Ok(Some(false));
    };
    let key = keys::key_of(t, key)?;
    match dict.items.get(&key) {
        Some((_, found)) => comparisons::equal_values(t, *found, value).map(Some),
        None => Ok(Some(false)),
    }
}

/// A comparison of two of which one is a view.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let view = |t: &mut Tracer<'_>, id| side(t, id) == Some(Side::View);
    if !view(t, a) && !view(t, b) {
        return by_identity(t, op, a, b);
    }
    let is_set = |t: &mut Tracer<'_>, id| side(t, id).is_some() || sets::is_known(t, id);
    if !is_set(t, a) || !is_set(t, b) {
        return by_identity(t, op, a, b);
    }
    let (left, right) = (truth::len(t, a)?, truth::len(t, b)?);
    let holds = match op {
        CmpOp::Eq => left == right && holds_all(t, a, b)?,
        CmpOp::Ne => !(left == right && holds_all(t, a, b)?),
        CmpOp::Lt => left < right && holds_all(t, a, b)?,
        CmpOp::Le => left <= right && holds_all(t, a, b)?,
        CmpOp::Gt => left > right && holds_all(t, b, a)?,
        CmpOp::Ge => left >= right && holds_all(t, b, a)?,
    };
    Ok(Some(t.bool(holds)))
}

/// Whether each element of one is in another.
fn holds_all(t: &mut Tracer<'_>, inner: VarId, outer: VarId) -> Step<bool> {
    for item in iterate::collect_for_set(t, inner)? {
        if !truth::contains(t, outer, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a view does not know it is equal to if it is that. `None`: the other one may know.
fn by_identity(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
        return Ok(None);
    }
    let is_builtin = |t: &mut Tracer<'_>, id: VarId| {
        matches!(
            t.kind(id),
            Kind::DictView(..) | Kind::List(_) | Kind::Tuple(_, None) | Kind::Dict(_)
        ) && t.vars.get(id).class.is_none()
            || t.value(id).is_some_and(|value| is_plain_constant(&value))
    };
    let known = is_builtin(t, a) && is_builtin(t, b);
    Ok(known.then(|| t.bool((a == b) == (op == CmpOp::Eq))))
}

/// `a op b` of two of which one at least is a view or a set; `None` where it has no answer.
pub fn operator(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    (a, b): (VarId, VarId),
) -> Step<Option<VarId>> {
    if !matches!(op, BinOp::And | BinOp::Or | BinOp::Sub | BinOp::Xor) {
        return Ok(None);
    }
    let (left, right) = (side(t, a), side(t, b));
    let views = [left, right].map(|side| side == Some(Side::View));
    let changes = inplace && (matches!(t.kind(a), Kind::Dict(_)) || views == [false, false]);
    if changes {
        return Ok(None);
    }
    let frozen = |side| side == Some(Side::Set(true));
    let is_frozen = match views {
        [false, false] if left.is_none() || right.is_none() => return Ok(None),
        [false, false] => frozen(left),
        // Which of the two decides depends on their lengths.
        _ if frozen(left) || frozen(right) => return Ok(None),
        _ => false,
    };
    if sets::is_known(t, b) && op == BinOp::And {
        return intersection(t, a, b).map(Some);
    }
    let (Some(one), Some(other)) = (as_it_is(t, a)?, as_it_is(t, b)?) else {
        return Ok(None);
    };
    // The place of what is kept does not depend on the order in which the others go.
    if sets::is_known(t, b) && op != BinOp::Sub || sets::is_known(t, a) {
        return Ok(None);
    }
    let (mine, theirs) = (elements(t, one)?, elements(t, other)?);
    let known = |items: &[(Key, VarId)]| -> FxHashSet<Key> {
        items.iter().map(|(key, _)| key.clone()).collect()
    };
    let (own, others) = (known(&mine), known(&theirs));
    let from_left = mine
        .into_iter()
        .filter(|(key, _)| op == BinOp::Or || others.contains(key) == (op == BinOp::And));
    let from_right = theirs
        .into_iter()
        .filter(|(key, _)| matches!(op, BinOp::Or | BinOp::Xor) && !own.contains(key));
    let made = SetVar {
        items: from_left.chain(from_right).collect(),
        frozen: is_frozen,
        made_by: Some((op, one, other)),
    };
    Ok(Some(t.add(Kind::Set(made))))
}

/// `view & set` of a set that exists: the larger one is asked for each element of the other, and
/// what is in both is added.
fn intersection(t: &mut Tracer<'_>, view: VarId, set: VarId) -> Step<VarId> {
    let is_frozen = t
        .type_of(set)
        .is_none_or(|class| class.is(t.py.get_type::<PyFrozenSet>()));
    if is_frozen {
        return t.stop(
            BreakId::ContainerMethod,
            "a view and a frozen set that exists",
        );
    }
    let (mine, theirs) = (elements(t, view)?, elements(t, set)?);
    let (added, asked) = match mine.len() <= theirs.len() {
        true => (mine, theirs),
        false => (theirs, mine),
    };
    let asked: FxHashSet<Key> = asked.into_iter().map(|(key, _)| key).collect();
    let made = SetVar {
        items: added
            .into_iter()
            .filter(|(key, _)| asked.contains(key))
            .collect(),
        ..SetVar::default()
    };
    Ok(t.add(Kind::Set(made)))
}

/// An operand as it is now: what the program changes later is another variable. `None` where
/// going over it may run code, or where its class may say something of the operator.
fn as_it_is(t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
    if t.vars.get(id).class.is_some() {
        return Ok(None);
    }
    let kind = t.kind(id).clone();
    if let Kind::Set(set) = &kind {
        return Ok(Some(if set.frozen { id } else { t.add(kind) }));
    }
    if let Kind::DictView(dict, which) = kind {
        let Kind::Dict(mut of) = t.kind(dict).clone() else {
            return t.stop(BreakId::Iteration, "a view of something else");
        };
        if which == DictViewKind::Keys {
            let none = t.none();
            of.items.values_mut().for_each(|(_, value)| *value = none);
        }
        if of.default_factory.is_some() || !is_exact(t, dict) {
            return Ok(None);
        }
        let dict = t.add(Kind::Dict(of));
        return Ok(Some(t.add(Kind::DictView(dict, which))));
    }
    if let Some(items) = sets::elements(t, id)? {
        return Ok(Some(t.add(Kind::List(items))));
    }
    if let Some(items) = kind.plain_items() {
        return Ok(Some(t.add(Kind::List(items.to_vec()))));
    }
    let is_plain = kind.dict().is_some_and(DictVar::is_plain) && is_exact(t, id);
    Ok(is_plain.then(|| t.add(kind)))
}

/// Whether a dict is no instance of a subclass of the user's.
fn is_exact(t: &mut Tracer<'_>, dict: VarId) -> bool {
    let ordered = |value: &Bound<'_, PyAny>| is_attr(&value.get_type(), COLLECTIONS, "OrderedDict");
    t.vars.get(dict).owner.is_none()
        && t.value(dict)
            .is_none_or(|value| value.is_exact_instance_of::<PyDict>() || ordered(&value))
}

fn is_disjoint(t: &mut Tracer<'_>, call: MethodCall<'_>) -> Step<VarId> {
    let (own, other) = (call.receiver, call.args[0]);
    if iterate::is_lazy(t, other) && !sets::is_known(t, other) {
        return t.stop(
            BreakId::ContainerMethod,
            "isdisjoint() of what may not come to its end",
        );
    }
    for item in iterate::collect_for_set(t, other)? {
        keys::key_of(t, item)?;
        if truth::contains(t, own, item)? {
            return Ok(t.bool(false));
        }
    }
    Ok(t.bool(true))
}
