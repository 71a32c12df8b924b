//! Operators on any kinds.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::guard::native::is_mutable;
use crate::guard::GuardKind;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::Tracker;
use crate::variables::{Kind, VarId};

use super::aliases;
use super::call::{call, describe};
use super::{
    attributes, classes, exceptions, fold, graph_numbers, keys, methods, namespaces, numbers,
    scalars, sets, tensors,
};
use super::{Step, Tracer};

/// Unary operators (`not` is [`truth`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `+x`
    Positive,
    /// `-x`
    Negative,
    /// `~x`
    Invert,
}

impl UnaryOp {
    /// By the name of the function in `operator`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pos" => Self::Positive,
            "neg" => Self::Negative,
            "inv" | "invert" => Self::Invert,
            _ => return None,
        })
    }
}

/// `a op b`, or `a op= b`.
pub fn binary(t: &mut Tracer<'_>, op: BinOp, inplace: bool, a: VarId, b: VarId) -> Step<VarId> {
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    if matches!(left, Kind::Tensor(_)) || matches!(right, Kind::Tensor(_)) {
        return tensor_binary(t, op, a, b);
    }
    match (&left, &right) {
        (Kind::List(items), Kind::List(more)) if op == BinOp::Add && !inplace => {
            let items = items.iter().chain(more).copied().collect();
            let sum = t.add(Kind::List(items));
            t.inherit_class(sum, b);
            return Ok(t.inherit_class(sum, a));
        }
        (Kind::List(items), Kind::Tuple(more, None))
        | (Kind::Tuple(items, None), Kind::List(more))
            if op == BinOp::Add
                && !inplace
                && (t.vars.get(a).class.is_some() || t.vars.get(b).class.is_some()) =>
        {
            let items = items.iter().chain(more).copied().collect();
            return t.size(items);
        }
        (Kind::List(_), _) if op == BinOp::Add && inplace => {
            // Numbers come before sequences: `__radd__` before the concatenation of lists.
            if is_object(&right) {
                if let Some(method) = attributes::try_get_special(t, b, "__radd__")? {
                    let sum = call(t, method, &[a], &[])?;
                    if !is_not_implemented(t, sum) {
                        return Ok(sum);
                    }
                }
            }
            methods::call(t, a, "extend", &[b], &[])?;
            return Ok(a);
        }
        // CPython answers with the operand itself where there is nothing to add or repeat.
        (Kind::Tuple(_, None), Kind::Tuple(more, _)) if op == BinOp::Add && more.is_empty() => {
            return Ok(a);
        }
        (Kind::Tuple(items, _), Kind::Tuple(_, None)) if op == BinOp::Add && items.is_empty() => {
            return Ok(b);
        }
        (Kind::Tuple(_, None), Kind::Const) if op == BinOp::Mul && t.const_int(b) == Some(1) => {
            return Ok(a);
        }
        (Kind::Const, Kind::Tuple(_, None)) if op == BinOp::Mul && t.const_int(a) == Some(1) => {
            return Ok(b);
        }
        (Kind::Tuple(items, _), Kind::Tuple(more, _)) if op == BinOp::Add => {
            let items = items.iter().chain(more).copied().collect();
            return Ok(t.add(Kind::Tuple(items, None)));
        }
        (Kind::List(items), Kind::Const) if op == BinOp::Mul && inplace => {
            let repeated = repeat(t, &left, items, b)?;
            let repeated = t.kind(repeated).clone();
            t.vars.mutate(a, |var| var.kind = repeated);
            return Ok(a);
        }
        (Kind::List(items) | Kind::Tuple(items, None), Kind::Const) if op == BinOp::Mul => {
            let product = repeat(t, &left, items, b)?;
            return Ok(t.inherit_class(product, a));
        }
        (Kind::Const, Kind::List(items) | Kind::Tuple(items, None)) if op == BinOp::Mul => {
            let product = repeat(t, &right, items, a)?;
            return Ok(t.inherit_class(product, b));
        }
        (Kind::Dict(x), Kind::Dict(y))
            if op == BinOp::Or && (inplace || x.class.is_none() && y.class.is_none()) =>
        {
            let target = if inplace { a } else { t.add(left.clone()) };
            methods::call(t, target, "update", &[b], &[])?;
            return Ok(target);
        }
        _ => {}
    }
    if is_object(&left) || is_object(&right) {
        return object_binary(t, op, inplace, a, b);
    }
    if let Some(number) = numbers::binary(t, op, a, b)? {
        return Ok(number);
    }
    if let Some(number) = graph_numbers::arithmetic(t, op, a, b)? {
        return Ok(number);
    }
    // Folding works on copies.
    if inplace && matches!(left, Kind::List(_) | Kind::Dict(_) | Kind::Set(_)) {
        return t.unsupported(format!("the in-place operator {}", op.stem()));
    }
    // What raises says which of the two it was.
    let name = match op {
        _ if inplace => format!("i{}", op.stem()),
        BinOp::And | BinOp::Or => format!("{}_", op.stem()),
        _ => op.stem().to_owned(),
    };
    let plain = [format!("__{}__", op.stem()), format!("__r{}__", op.stem())];
    for id in [a, b] {
        classes::check_member(t, id, &[&plain[0], &plain[1]])?;
    }
    fold::operator(t, &name, &[a, b])
}

fn repeat(t: &mut Tracer<'_>, like: &Kind, items: &[VarId], times: VarId) -> Step<VarId> {
    let Some(times) = t.const_int(times) else {
        return t.unsupported("repetition by something that is not an int");
    };
    let times = usize::try_from(times).unwrap_or(0);
    if items.len().saturating_mul(times) > 100_000 {
        return t.unsupported("repetition into a very long sequence");
    }
    let items = items.repeat(times);
    Ok(t.add(match like {
        Kind::List(_) => Kind::List(items),
        _ => Kind::Tuple(items, None),
    }))
}

fn is_object(kind: &Kind) -> bool {
    matches!(kind, Kind::Object(_) | Kind::Layer(_))
}

fn tensor_binary(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<VarId> {
    if op == BinOp::Mul {
        if let Some(product) = numbers::scaled(t, a, b)? {
            return Ok(product);
        }
    }
    let (a, b) = graph_numbers::as_operands(t, Some(op), a, b)?;
    // Paddle tensors define no in-place dunders: `x += y` rebinds the name.
    if matches!(t.kind(a), Kind::Tensor(_)) {
        if is_object(&t.kind(b).clone()) {
            return t.unsupported("an operator between a tensor and an object");
        }
        return tensors::method(t, a, &format!("__{}__", op.stem()), &[b], &[]);
    }
    let is_number = matches!(t.kind(a), Kind::SymNumber(_));
    if is_number && op == BinOp::TrueDiv && !tensors::is_users(t, "__rtruediv__") {
        return tensors::control(t, "quotient", &[b, a]);
    }
    if matches!(t.kind(a), Kind::Scalar) && !scalars::defer_to_tensors(t.py)? {
        return t.unsupported("an operator of NumPy with a tensor");
    }
    match t.kind(a) {
        Kind::Const | Kind::SymNumber(_) | Kind::Scalar => {
            tensors::method(t, b, &format!("__r{}__", op.stem()), &[a], &[])
        }
        _ => t.unsupported("an operator between this and a tensor"),
    }
}

/// Eager mode makes a tensor of one dim of some numbers, programs one of the other operand's shape.
pub fn check_number(t: &mut Tracer<'_>, name: &str, tensor: VarId, number: VarId) -> Step<()> {
    let is_complex = |number: Bound<'_, PyAny>| number.is_instance_of::<PyComplex>();
    let differs = match name {
        "__matmul__" | "__rmatmul__" => !matches!(t.kind(number), Kind::Tensor(_)),
        _ if name.starts_with("__") => {
            let meta = tensors::meta_of(t, tensor);
            meta.is_some_and(|meta| meta.shape.is_empty())
                && t.value(number).is_some_and(is_complex)
        }
        _ => false,
    };
    match differs {
        true => t.unsupported(format!("{name}() of a tensor and such a number")),
        false => Ok(()),
    }
}

fn object_binary(t: &mut Tracer<'_>, op: BinOp, inplace: bool, a: VarId, b: VarId) -> Step<VarId> {
    let mut attempts = Vec::new();
    if inplace {
        attempts.push((a, b, format!("__i{}__", op.stem())));
    }
    let forward = (a, b, format!("__{}__", op.stem()));
    let reflected = (b, a, format!("__r{}__", op.stem()));
    let (Some(left), Some(right)) = (t.type_of(a), t.type_of(b)) else {
        return t.unsupported("an operator between values of unknown classes");
    };
    // The reflected method is for another class. It goes first when that is a subclass that
    // overrides it.
    if left.is(&right) {
        attempts.push(forward);
    } else {
        let derived = classes::inherits(t, &right, left.as_any());
        if derived {
            classes::guard_names(t, &left, &[&*reflected.2]);
            classes::guard_names(t, &right, &[&*reflected.2]);
        }
        let found = |class| attributes::lookup(class, &reflected.2);
        let overrides = match (found(&left), found(&right)) {
            (Some(inherited), Some(own)) => !inherited.is(&own),
            (None, Some(_)) => true,
            _ => false,
        };
        if overrides && derived {
            attempts.extend([reflected, forward]);
        } else {
            attempts.extend([forward, reflected]);
        }
    }
    for (receiver, argument, name) in attempts {
        let class = t.type_of(receiver);
        let blocked = class.and_then(|class| attributes::lookup(&class, &name));
        if blocked.is_some_and(|found| found.is_none()) {
            return t.stop(BreakKind::RaisesException, format!("{name} is None"));
        }
        if let Some(method) = attributes::try_get_special(t, receiver, &name)? {
            let result = call(t, method, &[argument], &[])?;
            if !is_not_implemented(t, result) {
                return Ok(result);
            }
        }
    }
    t.stop(
        BreakKind::RaisesException,
        format!("unsupported operand types for {}", op.stem()),
    )
}

fn is_not_implemented(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.const_value(value)
        .is_some_and(|value| value.is(value.py().NotImplemented()))
}

/// `+x`, `-x`, `~x`
pub fn unary(t: &mut Tracer<'_>, op: UnaryOp, value: VarId) -> Step<VarId> {
    let (dunder, name) = match op {
        UnaryOp::Positive => ("__pos__", "pos"),
        UnaryOp::Negative => ("__neg__", "neg"),
        UnaryOp::Invert => ("__invert__", "invert"),
    };
    match t.kind(value).clone() {
        Kind::Tensor(_) => tensors::method(t, value, dunder, &[], &[]),
        kind if is_object(&kind) => {
            let method = attributes::get_special(t, value, dunder)?;
            call(t, method, &[], &[])
        }
        _ => match numbers::unary(t, op, value)? {
            Some(number) => Ok(number),
            None => fold::operator(t, name, &[value]),
        },
    }
}

/// `a < b` and its like.
pub fn compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let (a, b) = graph_numbers::as_operands(t, None, a, b)?;
    if let Some(number) = graph_numbers::comparison(t, op, a, b)? {
        return Ok(number);
    }
    if let Some(holds) = numbers::compare(t, op, a, b)? {
        return Ok(t.bool(holds));
    }
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    if matches!(left, Kind::Tensor(_)) {
        return tensors::method(t, a, op.dunder(), &[b], &[]);
    }
    if matches!(right, Kind::Tensor(_)) {
        return match left {
            Kind::Const | Kind::SymNumber(_) => {
                tensors::method(t, b, op.reflected().dunder(), &[a], &[])
            }
            _ => t.unsupported("a comparison between this and a tensor"),
        };
    }
    if is_object(&left) || is_object(&right) {
        return object_compare(t, op, a, b);
    }
    let size = |id| t.vars.get(id).class.is_some();
    match (&left, &right) {
        (Kind::List(x), Kind::Tuple(y, None)) | (Kind::Tuple(x, None), Kind::List(y))
            if size(a) || size(b) =>
        {
            return sequence_compare(t, op, &x.clone(), &y.clone());
        }
        (Kind::List(x), Kind::List(y)) | (Kind::Tuple(x, _), Kind::Tuple(y, _)) => {
            return sequence_compare(t, op, &x.clone(), &y.clone());
        }
        (Kind::Dict(x), Kind::Dict(y)) if matches!(op, CmpOp::Eq | CmpOp::Ne) => {
            let (x, y) = (x.clone(), y.clone());
            let mut equal = x.items.len() == y.items.len();
            for (key, (_, value)) in &x.items {
                if !equal {
                    break;
                }
                equal = match y.items.get(key) {
                    Some((_, other)) => equal_values(t, *value, *other)?,
                    None => false,
                };
            }
            return Ok(t.bool(equal == (op == CmpOp::Eq)));
        }
        _ => {}
    }
    if let Some(result) = identity_compare(t, op, a, b, &left, &right) {
        return Ok(result);
    }
    let name = ["lt", "le", "eq", "ne", "gt", "ge"][op as usize];
    fold::operator(t, name, &[a, b])
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

/// Containers compare item by item; a comparison that changes them does not get far.
fn object_compare(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let before = (t.vars.mutations(), t.global_writes.len());
    let answer = compare_methods(t, op, a, b)?;
    if before != (t.vars.mutations(), t.global_writes.len()) {
        return t.unsupported("a comparison that changes something");
    }
    Ok(answer)
}

fn compare_methods(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<VarId> {
    let forward = (a, b, op.dunder());
    let reflected = (b, a, op.reflected().dunder());
    let right_first = match (t.type_of(a), t.type_of(b)) {
        (Some(left), Some(right)) => {
            !left.is(&right) && classes::inherits(t, &right, left.as_any())
        }
        _ => return t.unsupported("a comparison of values of unknown classes"),
    };
    let attempts = if right_first {
        [reflected, forward]
    } else {
        [forward, reflected]
    };
    let mut declined = false;
    for (receiver, argument, name) in attempts {
        let Some(method) = attributes::try_get_special(t, receiver, name)? else {
            continue;
        };
        let Kind::Method { function, .. } = *t.kind(method) else {
            continue;
        };
        if knows_nothing(t, receiver, function)? {
            continue;
        }
        let result = call(t, method, &[argument], &[])?;
        if !is_not_implemented(t, result) {
            return Ok(result);
        }
        declined = true;
    }
    // The builtin class that it is derived from is asked for the other side.
    if declined && (is_part_builtin(t, a) || is_part_builtin(t, b)) {
        return t.unsupported("a comparison that is left to a builtin class");
    }
    match op {
        CmpOp::Eq | CmpOp::Ne => {
            let same = is_same(t, a, b)?;
            Ok(t.bool(same == (op == CmpOp::Eq)))
        }
        _ => t.stop(BreakKind::RaisesException, "these objects have no order"),
    }
}

/// Whether a class of Python's other than `object` is among those that say what it is equal to.
fn is_part_builtin(t: &mut Tracer<'_>, value: VarId) -> bool {
    let Some(class) = t.type_of(value) else {
        return true;
    };
    let object = t.py.get_type::<PyAny>();
    let knows = |part: &Bound<'_, PyAny>| -> PyResult<bool> {
        let builtin = !is_mutable(part.cast::<PyType>()?);
        Ok(builtin && !part.is(&object) && part.getattr("__dict__")?.contains("__eq__")?)
    };
    // Builtin classes themselves know nothing of what is not derived from them.
    is_mutable(&class) && class.mro().iter().any(|part| knows(&part).unwrap_or(true))
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

fn sequence_compare(t: &mut Tracer<'_>, op: CmpOp, x: &[VarId], y: &[VarId]) -> Step<VarId> {
    if matches!(op, CmpOp::Eq | CmpOp::Ne) && x.len() != y.len() {
        return Ok(t.bool(op == CmpOp::Ne));
    }
    for (a, b) in x.iter().zip(y) {
        if !equal_values(t, *a, *b)? {
            return match op {
                CmpOp::Eq => Ok(t.bool(false)),
                CmpOp::Ne => Ok(t.bool(true)),
                _ => compare(t, op, *a, *b),
            };
        }
    }
    let (x, y) = (x.len(), y.len());
    Ok(t.bool(match op {
        CmpOp::Lt => x < y,
        CmpOp::Le => x <= y,
        CmpOp::Eq => x == y,
        CmpOp::Ne => x != y,
        CmpOp::Gt => x > y,
        CmpOp::Ge => x >= y,
    }))
}

/// `a is b or a == b`, as containers compare their items.
pub fn equal_values(t: &mut Tracer<'_>, a: VarId, b: VarId) -> Step<bool> {
    if a == b {
        return Ok(true);
    }
    if t.nesting > fold::MAX_NESTING {
        return t.unsupported("a comparison of containers that are too deep");
    }
    if aliases::may_be_one(t, a, b) {
        return t.stop(BreakKind::TensorBranch, ONE_OR_TWO);
    }
    // Guards do not tell whether two of them are one object.
    if is_nan(t, a) && is_nan(t, b) {
        return t.unsupported("the identity of NaN");
    }
    t.nesting += 1;
    let equal = compare(t, CmpOp::Eq, a, b);
    t.nesting -= 1;
    truth(t, equal?)
}

/// Whether this is a number that is not equal to itself.
fn is_nan(t: &mut Tracer<'_>, id: VarId) -> bool {
    matches!(t.kind(id), Kind::Const | Kind::Scalar)
        && t.value(id).is_some_and(|value| {
            let number = value.is_exact_instance_of::<PyFloat>()
                || value.is_exact_instance_of::<PyComplex>()
                || super::scalars::is_scalar(&value);
            number && value.ne(&value).unwrap_or(true)
        })
}

const ONE_OR_TWO: &str = "whether two tensors are one object, which captured control flow decides";

/// That two real objects are one is guarded since the second was found; that they are two is guarded here.
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
            return t.unsupported("is on constants");
        };
        let singleton = |value: &Bound<'_, PyAny>| {
            !value.is_exact_instance_of::<PyInt>()
                && (value.is_none()
                    || value.is_exact_instance_of::<pyo3::types::PyBool>()
                    || value.is(t.py.Ellipsis())
                    || value.is(t.py.NotImplemented())
                    || !super::tracer::is_plain_constant(value))
        };
        if a == b || singleton(&x) || singleton(&y) || !x.get_type().is(y.get_type()) {
            return Ok(a == b || x.is(&y));
        }
        return t.unsupported("identity of numbers or strings");
    }
    if a != b && matches!((&left, &right), (Kind::Scalar, Kind::Scalar)) {
        return t.unsupported("identity of scalars");
    }
    // A number is never None; whether two are one object depends on their values.
    if a != b && (numbers::is_open(t, a) || numbers::is_open(t, b)) {
        if t.is_none(a) || t.is_none(b) {
            return Ok(false);
        }
        return t.unsupported("identity of numbers");
    }
    // There is one empty tuple.
    if let (Kind::Tuple(x, None), Kind::Tuple(y, None)) = (&left, &right) {
        if x.is_empty() && y.is_empty() {
            return Ok(true);
        }
    }
    if matches!(left, Kind::Null) || matches!(right, Kind::Null) {
        return t.unsupported("identity of nothing");
    }
    // Bound methods are made anew by every attribute read.
    if a != b && matches!((&left, &right), (Kind::Method { .. }, Kind::Method { .. })) {
        return t.unsupported("identity of bound methods");
    }
    if a != b && aliases::may_be_one(t, a, b) {
        return t.stop(BreakKind::TensorBranch, ONE_OR_TWO);
    }
    Ok(same_object(t, a, b))
}

/// `item in container`
pub fn contains(t: &mut Tracer<'_>, container: VarId, item: VarId) -> Step<bool> {
    match t.kind(container).clone() {
        Kind::List(items) | Kind::Tuple(items, _) => {
            for candidate in items {
                if equal_values(t, candidate, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Kind::Dict(dict) => {
            let key = keys::key_of(t, item)?;
            Ok(dict.items.contains_key(&key))
        }
        Kind::Set(set) => {
            let key = keys::key_of(t, item)?;
            Ok(set.items.contains_key(&key))
        }
        Kind::DictView(dict, 0) => contains(t, dict, item),
        Kind::Range(..) | Kind::Const => {
            let result = fold::operator(t, "contains", &[container, item])?;
            truth(t, result)
        }
        kind if is_object(&kind) => {
            let Some(method) = attributes::try_get_special(t, container, "__contains__")? else {
                return t.unsupported("in without __contains__");
            };
            let result = call(t, method, &[item], &[])?;
            truth(t, result)
        }
        kind => {
            if let Some(found) = namespaces::try_get(t, container, item)? {
                return Ok(found.is_some());
            }
            if let Some(answer) = sets::contains(t, container, item)? {
                return Ok(answer);
            }
            let what = describe(t, container, &kind);
            t.unsupported(format!("in on {what}"))
        }
    }
}

/// `bool(value)`
pub fn truth(t: &mut Tracer<'_>, value: VarId) -> Step<bool> {
    match t.kind(value).clone() {
        Kind::Tensor(_) | Kind::SymNumber(_) => t.stop(
            BreakKind::TensorBranch,
            "the truth of a tensor decides what is executed next",
        ),
        Kind::Const => match t.value(value) {
            Some(object) if super::tracer::is_plain_constant(&object) => Ok(object.is_truthy()?),
            Some(object) => enum_truth(t, &object),
            None => t.unsupported("the truth of nothing"),
        },
        Kind::Int(_) | Kind::Float(_) => {
            let zero = t.int(0);
            match numbers::compare(t, CmpOp::Ne, value, zero)? {
                Some(holds) => Ok(holds),
                None => t.unsupported("the truth of a number that differs between calls"),
            }
        }
        Kind::List(items) | Kind::Tuple(items, _) | Kind::Layers { items, .. } => {
            Ok(!items.is_empty())
        }
        Kind::Scalar => match t.value(value) {
            Some(object) => Ok(object.is_truthy()?),
            None => t.unsupported("the truth of nothing"),
        },
        Kind::Dict(dict) => Ok(!dict.items.is_empty()),
        Kind::Set(set) => Ok(!set.items.is_empty()),
        Kind::Range(..) | Kind::DictView(..) => Ok(len(t, value)? != 0),
        Kind::Function(_)
        | Kind::Method { .. }
        | Kind::BoundBuiltin { .. }
        | Kind::Module
        | Kind::Slice(_)
        | Kind::Cell(_)
        | Kind::Partial { .. }
        | Kind::Iter(_) => Ok(true),
        Kind::Callable => Ok(true),
        Kind::Class => classes::truth(t, value),
        Kind::Object(_) | Kind::Layer(_) => {
            if let Some(method) = attributes::try_get_special(t, value, "__bool__")? {
                let result = call(t, method, &[], &[])?;
                let known = t.const_value(result);
                if known.is_some_and(|known| !known.is_exact_instance_of::<PyBool>()) {
                    return t.stop(BreakKind::RaisesException, "__bool__ that is not a bool");
                }
                return truth(t, result);
            }
            if let Some(method) = attributes::try_get_special(t, value, "__len__")? {
                let result = call(t, method, &[], &[])?;
                if t.const_int(result).is_some_and(|len| len < 0) {
                    return t.stop(BreakKind::RaisesException, "__len__ that is negative");
                }
                return truth(t, result);
            }
            Ok(true)
        }
        // A traceback that nobody has made yet.
        Kind::Opaque if t.raised_at(value).is_some() => Ok(true),
        Kind::Opaque if is_always_true(t, value) => Ok(true),
        kind => {
            if let Some(filled) = sets::truth(t, value)? {
                return Ok(filled);
            }
            let what = describe(t, value, &kind);
            t.unsupported(format!("the truth of {what}"))
        }
    }
}

/// Whether its class, one of C code, which is guarded, says nothing about the truth of its instances.
fn is_always_true(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.type_of(value).is_some_and(|class| {
        let own = |name: &str| attributes::lookup(&class, name).is_some();
        !own("__bool__") && !own("__len__")
    })
}

fn enum_truth(t: &mut Tracer<'_>, object: &Bound<'_, PyAny>) -> Step<bool> {
    let class = object.get_type();
    let own = |name: &str| attributes::lookup(&class, name).is_some();
    if crate::guard::native::is_mutable(&class) {
        classes::guard_names(t, &class, &["__bool__", "__len__"]);
    }
    if own("__bool__") || own("__len__") {
        return t.unsupported("the truth of this constant");
    }
    Ok(true)
}

/// `len(value)`
pub fn len(t: &mut Tracer<'_>, value: VarId) -> Step<i64> {
    match t.kind(value).clone() {
        Kind::List(items) | Kind::Tuple(items, _) | Kind::Layers { items, .. } => {
            Ok(items.len() as i64)
        }
        Kind::Dict(dict) => Ok(dict.items.len() as i64),
        Kind::DictView(dict, _) => len(t, dict),
        Kind::Set(set) => Ok(set.items.len() as i64),
        Kind::Const => {
            let object = t.value(value);
            match object.and_then(|object| object.len().ok()) {
                Some(len) => Ok(len as i64),
                None => exceptions::throw(t, "TypeError"),
            }
        }
        Kind::Range(start, stop, step) => {
            let span = if step > 0 {
                stop.saturating_sub(start)
            } else {
                start.saturating_sub(stop)
            };
            let step = step.saturating_abs();
            Ok(if span <= 0 { 0 } else { (span - 1) / step + 1 })
        }
        Kind::Tensor(tensor) => match t
            .graph
            .meta(tensor.symbol)
            .and_then(|meta| meta.shape.first().copied())
        {
            Some(dim) if dim >= 0 => Ok(dim),
            Some(_) => t.stop(
                BreakKind::TensorValue,
                "the length of a tensor with a dynamic first dim",
            ),
            None => t.stop(BreakKind::RaisesException, "the length of a 0-d tensor"),
        },
        kind if is_object(&kind) => {
            let method = attributes::get_special(t, value, "__len__")?;
            let result = call(t, method, &[], &[])?;
            match t.const_int(result) {
                Some(len) if len >= 0 => Ok(len),
                _ => t.unsupported("__len__ that is not a length"),
            }
        }
        kind => {
            if let Some(len) = sets::len(t, value)? {
                return Ok(len as i64);
            }
            let what = describe(t, value, &kind);
            t.unsupported(format!("len() of {what}"))
        }
    }
}

/// Whether a Python value is a list or tuple object (used by folding).
pub fn is_sequence_object(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}
