//! Comparisons on any kinds: by order, by equality and by identity.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat, PyInt};

use crate::bytecode::CmpOp;
use crate::frame::COLLECTIONS;
use crate::guard::GuardKind;
use crate::obj::{Obj, is_attr, is_builtin_method};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::Tracker;
use crate::variables::{DictVar, Kind, StandIn, VarId};

use crate::call::call;
use crate::carried_aliases;
use crate::operators::{is_not_implemented, is_object};
use crate::subclasses::refuse_own;
use crate::variables::protocol;
use crate::{Step, Tracer};
use crate::{
    arrays, attributes, classes, dynamic_scalar, fold, graph_arrays, program_numbers,
    tensor_scalar, tensors, truth,
};

/// `a < b` and its like.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    refuse_own(t, a, &[op.dunder()])?;
    refuse_own(t, b, &[op.reflected().dunder()])?;
    if let Some(holds) = program_numbers::assumed(t, op, a, b)? {
        return Ok(t.bool(holds));
    }
    let (a, b) = tensor_scalar::as_operands(t, None, a, b)?;
    if let Some(number) = tensor_scalar::comparison(t, op, a, b)? {
        return Ok(number);
    }
    if let Some(holds) = dynamic_scalar::compare(t, op, a, b)? {
        return Ok(t.bool(holds));
    }
    // A number is never None.
    let numbers = dynamic_scalar::is_open(t, a) || dynamic_scalar::is_open(t, b);
    if matches!(op, CmpOp::Eq | CmpOp::Ne) && numbers && (t.is_none(a) || t.is_none(b)) {
        return Ok(t.bool(op == CmpOp::Ne));
    }
    if let Some(answer) = protocol::compare(t, op, a, b)? {
        return Ok(answer);
    }
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    if let Some(result) = identity_compare(t, op, a, b, &left, &right) {
        return Ok(result);
    }
    fold::operator(t, name(op), &[a, b])
}

/// The function of `operator`.
pub(crate) fn name(op: CmpOp) -> &'static str {
    ["lt", "le", "eq", "ne", "gt", "ge"][op as usize]
}

/// A comparison of which one side is a tensor.
pub(crate) fn tensor_compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    if matches!(t.kind(a), Kind::Tensor(_)) {
        let b = arrays::operand(t, b)?;
        let b = graph_arrays::operand(t, None, a, b)?;
        return tensors::method(t, a, op.dunder(), &[b], &[]);
    }
    if let Kind::Const | Kind::SymNumber(_) = t.kind(a) {
        tensors::method(t, b, op.reflected().dunder(), &[a], &[])
    } else {
        t.stop(
            BreakId::Comparison,
            "a comparison between this and a tensor",
        )
    }
}

/// Kinds that compare by identity, and kinds that are never equal to each other.
fn identity_compare(
    t: &mut Tracer<'_>,
    op: CmpOp,
    a: VarId,
    b: VarId,
    left: &Kind,
    right: &Kind,
) -> Option<VarId> {
    if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
        return None;
    }
    let by_identity = |kind: &Kind| {
        matches!(
            kind,
            Kind::Function(_) | Kind::Class | Kind::Module | Kind::Callable | Kind::Method { .. }
        )
    };
    let is_special = |t: &Tracer<'_>, id: VarId, kind: &Kind| match (kind, t.value(id)) {
        (Kind::Class, Some(class)) => !fold::has_plain_metaclass(&class),
        _ => false,
    };
    classes::guard_meta_of(t, a);
    classes::guard_meta_of(t, b);
    if is_special(t, a, left) || is_special(t, b, right) {
        return None;
    }
    let container = |kind: &Kind| {
        matches!(
            kind,
            Kind::List(_) | Kind::Tuple(_, None) | Kind::Dict(_) | Kind::Set(_)
        )
    };
    let equal = if by_identity(left) && by_identity(right) {
        if matches!(left, Kind::Method { .. }) || matches!(right, Kind::Method { .. }) {
            return None;
        }
        let same = same_object(t, a, b);
        // Bound methods of C are equal where their receivers are.
        if !same && matches!((left, right), (Kind::Callable, Kind::Callable)) {
            return None;
        }
        same
    } else if (by_identity(left) || container(left)) && matches!(right, Kind::Const)
        || (by_identity(right) || container(right)) && matches!(left, Kind::Const)
        || container(left)
            && container(right)
            && std::mem::discriminant(left) != std::mem::discriminant(right)
    {
        false
    } else {
        return None;
    };
    Some(t.bool(equal == (op == CmpOp::Eq)))
}

/// Whether it is an `OrderedDict`.
pub(crate) fn is_ordered(t: &Tracer<'_>, dict: &DictVar) -> bool {
    let class = dict.class.as_ref();
    class.is_some_and(|class| is_attr(class.bind(t.py), COLLECTIONS, "OrderedDict"))
}

/// What was changed before a comparison.
struct Changes {
    mutations: u64,
    variables: usize,
    globals: usize,
}

impl Changes {
    fn so_far(t: &Tracer<'_>) -> Self {
        Self {
            mutations: t.vars.mutations(),
            variables: t.vars.len(),
            globals: t.global_writes.len(),
        }
    }

    /// Whether anything was changed since that was there then: iterators and lists that the
    /// comparison itself has made are its own.
    fn has_more(&self, t: &Tracer<'_>) -> bool {
        self.globals != t.global_writes.len() || t.vars.has_changed(self.mutations, self.variables)
    }
}

/// A comparison of which one side is an object of the user's. Containers compare item by item; a
/// comparison that changes them does not get far.
pub(crate) fn object_compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let before = Changes::so_far(t);
    let answer = compare_methods(t, op, a, b)?;
    if before.has_more(t) {
        return t.stop(BreakId::Comparison, "a comparison with a side effect");
    }
    Ok(answer)
}

/// `a < b` of two objects that a sort compares: what that changes, the sort does not look at.
pub(crate) fn is_less(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    refuse_own(t, a, &["__lt__"])?;
    refuse_own(t, b, &["__gt__"])?;
    let kinds = (t.kind(a).clone(), t.kind(b).clone());
    let less = if let (Kind::StandIn(left), Kind::StandIn(right)) = kinds {
        StandIn::compare_objects(t, CmpOp::Lt, (left, right), b)?
    } else {
        compare_methods(t, CmpOp::Lt, a, b)?
    };
    truth::truth(t, less)
}

/// A comparison of two of what polyfills make.
pub(crate) fn stand_in_compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let (Kind::StandIn(left), Kind::StandIn(right)) = (t.kind(a).clone(), t.kind(b).clone()) else {
        return t.stop(BreakId::Comparison, "a comparison of objects of C code");
    };
    let before = Changes::so_far(t);
    let answer = StandIn::compare_objects(t, op, (left, right), b)?;
    if before.has_more(t) {
        return t.stop(BreakId::Comparison, "a comparison with a side effect");
    }
    Ok(answer)
}

fn compare_methods(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let forward = (a, b, op);
    let reflected = (b, a, op.reflected());
    let right_first = match (t.type_of(a), t.type_of(b)) {
        (Some(left), Some(right)) => {
            !left.is(&right) && classes::inherits(t, &right, left.as_any())
        }
        _ => {
            return t.stop(
                BreakId::Comparison,
                "a comparison of values of unknown classes",
            );
        }
    };
    let attempts = if right_first {
        [reflected, forward]
    } else {
        [forward, reflected]
    };
    let mut declined = false;
    for (receiver, argument, op) in attempts {
        let method = attributes::try_get_special(t, receiver, op.dunder())?;
        if !is_object(t.kind(receiver)) {
            check_builtin(t, op, receiver, argument)?;
            continue;
        }
        let Some(method) = method else { continue };
        // What a class of the user's has may be anything that can be called.
        if let Kind::Method { function, .. } = *t.kind(method) {
            if knows_nothing(t, receiver, function)? {
                continue;
            }
        }
        let result = call(t, method, &[argument], &[])?;
        if !is_not_implemented(t, result) {
            return Ok(result);
        }
        declined = true;
    }
    // The builtin class that it is derived from is asked for the other side.
    if declined && (classes::is_part_builtin(t, a) || classes::is_part_builtin(t, b)) {
        return t.stop(
            BreakId::Comparison,
            "a comparison that is left to a builtin class",
        );
    }
    match op {
        CmpOp::Eq | CmpOp::Ne => {
            let same = is_same(t, a, b)?;
            Ok(t.bool(same == (op == CmpOp::Eq)))
        }
        CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => {
            t.stop(BreakKind::RaisesException, "these objects have no order")
        }
    }
}

/// Stops where a builtin class may answer for an object: it knows nothing of those of plain
/// classes, but of those of classes derived from one of its kind, which say something else.
fn check_builtin(t: &mut Tracer<'_>, op: CmpOp, receiver: VarId, argument: VarId) -> Step<()> {
    let name = op.dunder();
    classes::check_member(t, receiver, &[name])?;
    let (Some(own), Some(class)) = (t.type_of(receiver), t.type_of(argument)) else {
        return t.stop(
            BreakId::Comparison,
            "a comparison of values of unknown classes",
        );
    };
    let found = attributes::lookup(&own, name);
    let of_object = t.py.get_type::<PyAny>().getattr(name)?;
    if found.is_none_or(|found| found.is(&of_object)) || !classes::is_part_builtin(t, argument) {
        return Ok(());
    }
    // Where both are methods of builtin classes, they agree. That of a derived class has been
    // asked.
    let own_method = attributes::lookup(&class, op.reflected().dunder());
    let overrides = own_method.is_some_and(|method| !is_builtin_method(&method));
    match overrides && !classes::inherits(t, &class, own.as_any()) {
        true => t.stop(
            BreakId::Comparison,
            "a comparison of a builtin class with an object that it may know",
        ),
        false => Ok(()),
    }
}

/// Whether a comparison is the one of `object`, which knows of identity only: that is asked last.
fn knows_nothing(t: &mut Tracer<'_>, receiver: VarId, function: VarId) -> Step<bool> {
    let (Some(function), Some(class)) = (t.value(function), t.type_of(receiver)) else {
        return Ok(false);
    };
    let object = t.py.get_type::<PyAny>();
    let is_own = |name: &str| -> PyResult<bool> { Ok(function.is(&object.getattr(name)?)) };
    // `__ne__` asks `__eq__`.
    if is_own("__ne__")? {
        let eq = attributes::lookup(&class, "__eq__");
        attributes::guard_type_attr(t, &Obj::from(&class), "__eq__", eq.as_ref());
        return Ok(eq.is_some_and(|eq| object.getattr("__eq__").is_ok_and(|own| own.is(&eq))));
    }
    Ok(is_own("__eq__")?
        || ["__lt__", "__le__", "__gt__", "__ge__"]
            .iter()
            .any(|name| is_own(name).unwrap_or(false)))
}

/// `a is b or a == b`, as containers compare their items.
pub fn equal_values(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    if a == b {
        return Ok(true);
    }
    if carried_aliases::may_be_one(t, a, b) {
        return t.stop(BreakKind::TensorBranch, ONE_OR_TWO);
    }
    // Guards do not tell whether two of them are one object.
    if is_nan(t, a) && is_nan(t, b) {
        return t.stop(BreakId::Identity, "the identity of NaN");
    }
    let equal = match fold::deeper(t, |t| compare(t, CmpOp::Eq, a, b)) {
        Some(equal) => truth::truth(t, equal?)?,
        None => {
            return t.stop(
                BreakId::Comparison,
                "a comparison of containers that are too deep",
            );
        }
    };
    if !equal && may_be_one_nan(t, a, b)? {
        return t.stop(BreakId::Identity, "the identity of NaN");
    }
    Ok(equal)
}

/// Whether two floats, of which one differs between calls, may be one NaN; that one of them is none
/// is guarded.
fn may_be_one_nan(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    let open = [a, b].map(|id| matches!(t.kind(id), Kind::Float(_)));
    let either_is_none = match open {
        [false, false] => true,
        [true, false] => !is_nan(t, b) || is_a_number(t, a)?,
        [false, true] => !is_nan(t, a) || is_a_number(t, b)?,
        [true, true] => is_a_number(t, a)? || is_a_number(t, b)?,
    };
    Ok(!either_is_none)
}

/// Whether a float that differs between calls is no NaN, under a guard.
fn is_a_number(t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
    Ok(dynamic_scalar::compare(t, CmpOp::Eq, id, id)? == Some(true))
}

/// Whether this is a number that is not equal to itself.
pub fn is_nan(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Const | Kind::Scalar)
        && t.value(id).is_some_and(|value| {
            let number = value.is_exact_instance_of::<PyFloat>()
                || value.is_exact_instance_of::<PyComplex>()
                || crate::native::is_scalar(&value);
            number && value.ne(&value).unwrap_or(true)
        })
}

const ONE_OR_TWO: &str = "whether two tensors are one object, which captured control flow decides";

/// That two real objects are one is guarded since the second was found; that they are two is
/// guarded here.
fn same_object(t: &mut Tracer<'_>, a: VarId, b: VarId) -> bool {
    if a == b {
        return true;
    }
    let (Some(x), Some(y)) = (t.value(a), t.value(b)) else {
        return false;
    };
    if x.is(&y) {
        return true;
    }
    // The guard of a constant tells it from everything else.
    let constant = matches!(t.kind(a), Kind::Const) || matches!(t.kind(b), Kind::Const);
    let guard = match (t.source(a), t.source(b)) {
        _ if constant => None,
        (Some(a), Some(b)) => Some((a, b)),
        (Some(a), None) => Some((a, Arc::new(Tracker::Const(Obj::from(y))))),
        (None, Some(b)) => Some((b, Arc::new(Tracker::Const(Obj::from(x))))),
        (None, None) => None,
    };
    if let Some((one, other)) = guard {
        t.guards.add(&one, GuardKind::OtherThan(other));
    }
    false
}

/// `a is b`
pub fn is_same(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    if let (Kind::Const, Kind::Const) = (&left, &right) {
        let (Some(x), Some(y)) = (t.value(a), t.value(b)) else {
            return t.stop(BreakId::Identity, "is on constants");
        };
        let singleton = |value: &Bound<'_, PyAny>| {
            !value.is_exact_instance_of::<PyInt>()
                && (value.is_none()
                    || value.is_exact_instance_of::<pyo3::types::PyBool>()
                    || value.is(t.py.Ellipsis())
                    || value.is(t.py.NotImplemented())
                    || !crate::tracer::is_plain_constant(value))
        };
        if a == b || singleton(&x) || singleton(&y) || !x.get_type().is(y.get_type()) {
            return Ok(a == b || x.is(&y));
        }
        return t.stop(BreakId::Identity, "identity of numbers or strings");
    }
    if a != b && matches!((&left, &right), (Kind::Scalar, Kind::Scalar)) {
        return t.stop(BreakId::Identity, "identity of scalars");
    }
    // A number or a text is never None; whether two are one object depends on their values.
    let texts = matches!(left, Kind::Text(_)) || matches!(right, Kind::Text(_));
    if a != b && (texts || dynamic_scalar::is_open(t, a) || dynamic_scalar::is_open(t, b)) {
        if t.is_none(a) || t.is_none(b) {
            return Ok(false);
        }
        return t.stop(BreakId::Identity, "identity of numbers or strings");
    }
    // What the graph knows of a bool is which of the two it is; of other numbers, not which object.
    let numbers = [&left, &right].map(|kind| matches!(kind, Kind::SymNumber(_)));
    if a != b && numbers.contains(&true) {
        let other = if numbers[0] { (b, &right) } else { (a, &left) };
        let may_be_one = matches!(other.1, Kind::SymNumber(_) | Kind::Const | Kind::Scalar);
        return match may_be_one && !t.is_none(other.0) {
            true => t.stop(BreakId::Identity, "identity of a number of the graph"),
            false => Ok(false),
        };
    }
    if a != b
        && [&left, &right]
            .iter()
            .any(|kind| matches!(kind, Kind::Maybe(_)))
    {
        return t.stop(BreakKind::TensorBranch, ONE_OR_TWO);
    }
    // There is one empty tuple.
    if let (Kind::Tuple(x, None), Kind::Tuple(y, None)) = (&left, &right) {
        if x.is_empty() && y.is_empty() {
            return Ok(true);
        }
    }
    if matches!(left, Kind::Null) || matches!(right, Kind::Null) {
        return t.stop(BreakId::Identity, "`is` on a name that has no value here");
    }
    // Bound methods are made anew by every attribute read.
    if a != b && matches!((&left, &right), (Kind::Method { .. }, Kind::Method { .. })) {
        return t.stop(BreakId::Identity, "identity of bound methods");
    }
    if a != b && carried_aliases::may_be_one(t, a, b) {
        return t.stop(BreakKind::TensorBranch, ONE_OR_TWO);
    }
    // A new layer keeps lists that it was given.
    let unknown = |kind: &Kind, id| matches!(kind, Kind::Opaque) && t.value(id).is_none();
    if a != b
        && (unknown(&left, a) && matches!(right, Kind::List(_))
            || unknown(&right, b) && matches!(left, Kind::List(_)))
    {
        return t.stop(BreakId::Identity, "identity of a list that a layer keeps");
    }
    Ok(same_object(t, a, b))
}
