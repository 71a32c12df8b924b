//! Operators on any kinds.

use pyo3::prelude::*;
use pyo3::types::PyComplex;

use crate::bytecode::BinOp;
use crate::reason::BreakKind;
use crate::variables::{Kind, VarId};

use crate::simulator::call::call;
use crate::simulator::subclasses::refuse_own;
use crate::simulator::{
    arrays, attributes, classes, dynamic_scalar, fold, made_arrays, methods, numpy_scalars,
    tensor_scalar, tensors, texts,
};
use crate::simulator::{Step, Tracer};

/// Unary operators (`not` is that of `truth.rs`).
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
        let stem = op.stem();
        let (forward, reflected) = (format!("__{stem}__"), format!("__r{stem}__"));
        match inplace {
            true => refuse_own(t, a, &[&format!("__i{stem}__"), &forward])?,
            false => refuse_own(t, a, &[&forward])?,
        }
        refuse_own(t, b, &[&reflected])?;
        let (a, b) = (arrays::operand(t, a)?, arrays::operand(t, b)?);
        return tensor_binary(t, op, a, b);
    }
    if matches!(left, Kind::Array(_)) || matches!(right, Kind::Array(_)) {
        if let Some(array) = made_arrays::binary(t, op, inplace, a, b)? {
            return Ok(array);
        }
    }
    // A shape adds as numbers do, before lists are extended in place.
    let is_shape = t.vars.get(a).class.is_some() || t.vars.get(b).class.is_some();
    if is_shape && (is_object(&left) || is_object(&right)) {
        // What shapes do with them is written in C++.
        return t.unsupported(format!(
            "the operator {} of a shape and an object",
            op.stem()
        ));
    }
    match (&left, &right) {
        (Kind::Text(_), _) | (_, Kind::Text(_)) if op == BinOp::Add => {
            if let Some(sum) = texts::sum(t, a, b) {
                return Ok(sum);
            }
        }
        (Kind::List(items), Kind::List(more)) if op == BinOp::Add && (is_shape || !inplace) => {
            let items = items.iter().chain(more).copied().collect();
            let sum = t.add(Kind::List(items));
            t.inherit_class(sum, b);
            return Ok(t.inherit_class(sum, a));
        }
        (Kind::List(items), Kind::Tuple(more, None))
        | (Kind::Tuple(items, None), Kind::List(more))
            if op == BinOp::Add && is_shape =>
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
            if matches!(&repeated, Kind::List(kept) if kept.is_empty()) {
                for item in items {
                    t.release(a, *item)?;
                }
            }
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
    if let Some(number) = dynamic_scalar::binary(t, op, a, b)? {
        return Ok(number);
    }
    if let Some(number) = tensor_scalar::arithmetic(t, op, a, b)? {
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
    Ok(t.add(if let Kind::List(_) = like {
        Kind::List(items)
    } else {
        Kind::Tuple(items, None)
    }))
}

pub(in crate::simulator) fn is_object(kind: &Kind) -> bool {
    matches!(kind, Kind::Object(_) | Kind::Layer(_))
}

fn tensor_binary(t: &mut Tracer<'_>, op: BinOp, a: VarId, b: VarId) -> Step<VarId> {
    if op == BinOp::Mul {
        if let Some(product) = dynamic_scalar::scaled(t, a, b)? {
            return Ok(product);
        }
    }
    let (a, b) = tensor_scalar::as_operands(t, Some(op), a, b)?;
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
    if matches!(t.kind(a), Kind::Scalar) && !numpy_scalars::defer_to_tensors(t.py)? {
        return t.unsupported("an operator of NumPy with a tensor");
    }
    if let Kind::Const | Kind::SymNumber(_) | Kind::Scalar = t.kind(a) {
        tensors::method(t, b, &format!("__r{}__", op.stem()), &[a], &[])
    } else {
        t.unsupported("an operator between this and a tensor")
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
        } else if !is_object(t.kind(receiver)) && !declines(t, receiver, argument, &name)? {
            return t.unsupported(format!("{name}() of a builtin class and an object"));
        }
    }
    t.stop(
        BreakKind::RaisesException,
        format!("unsupported operand types for {}", op.stem()),
    )
}

/// Whether a method of a builtin class that is not simulated leaves this object to the object's own
/// one, if there is a method of this name at all.
fn declines(t: &mut Tracer<'_>, receiver: VarId, argument: VarId, name: &str) -> Step<bool> {
    let Some(class) = t.type_of(receiver) else {
        return Ok(false);
    };
    classes::check_member(t, receiver, &[name])?;
    if attributes::lookup(&class, name).is_none() {
        return Ok(true);
    }
    let of_sequences = matches!(
        name,
        "__add__" | "__mul__" | "__rmul__" | "__iadd__" | "__imul__"
    );
    Ok(match t.kind(receiver) {
        // Sequences are asked when numbers have declined.
        Kind::List(_) | Kind::Tuple(..) | Kind::Text(_) if of_sequences => true,
        // These know their own kind only; a dict is updated in place from anything.
        Kind::Dict(_) if name == "__ior__" => false,
        Kind::Int(_) | Kind::Float(_) | Kind::SymNumber(_) | Kind::Set(_) | Kind::Dict(_) => {
            !classes::is_part_builtin(t, argument)
        }
        _ => false,
    })
}

pub(in crate::simulator) fn is_not_implemented(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.const_value(value)
        .is_some_and(|value| value.is(value.py().NotImplemented()))
}

pub use crate::simulator::variables::protocol::unary;

/// The special method, and the name in `operator`.
pub(in crate::simulator) fn unary_names(op: UnaryOp) -> (&'static str, &'static str) {
    match op {
        UnaryOp::Positive => ("__pos__", "pos"),
        UnaryOp::Negative => ("__neg__", "neg"),
        UnaryOp::Invert => ("__invert__", "invert"),
    }
}

/// `+x`, `-x`, `~x` of a number, or of what is folded.
pub(in crate::simulator) fn unary_of_number(
    t: &mut Tracer<'_>,
    op: UnaryOp,
    value: VarId,
) -> Step<VarId> {
    match dynamic_scalar::unary(t, op, value)? {
        Some(number) => Ok(number),
        None => fold::operator(t, unary_names(op).1, &[value]),
    }
}
