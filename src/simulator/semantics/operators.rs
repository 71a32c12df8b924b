//! Operators on any kinds.

use pyo3::prelude::*;
use pyo3::types::PyComplex;

use crate::bytecode::BinOp;
use crate::reason::BreakKind;
use crate::variables::{Kind, VarId};

use crate::call::call;
use crate::subclasses::refuse_own;
use crate::variables::protocol;
use crate::{Step, Tracer};
use crate::{
    arrays, attributes, classes, dynamic_scalar, fold, graph_arrays, numpy_scalars, tensor_scalar,
    tensors,
};

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
    pub(crate) fn named(name: &str) -> Option<Self> {
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
    if let Some(answer) = protocol::binary(t, op, inplace, a, b)? {
        return Ok(answer);
    }
    if let Some(number) = dynamic_scalar::binary(t, op, a, b)? {
        return Ok(number);
    }
    if let Some(number) = tensor_scalar::arithmetic(t, op, a, b)? {
        return Ok(number);
    }
    // Folding works on copies.
    if inplace && matches!(t.kind(a), Kind::List(_) | Kind::Dict(_) | Kind::Set(_)) {
        return t.unsupported(format!("the in-place operator {}", op.stem()));
    }
    // What raises says which of the two it was.
    let name = op.function(inplace);
    let plain = [format!("__{}__", op.stem()), format!("__r{}__", op.stem())];
    for id in [a, b] {
        classes::check_member(t, id, &[&plain[0], &plain[1]])?;
    }
    fold::operator(t, &name, &[a, b])
}

pub(crate) fn is_object(kind: &Kind) -> bool {
    matches!(kind, Kind::Object(_) | Kind::Layer(_))
}

/// An operator of which one operand is a tensor.
pub(crate) fn tensor_binary(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<VarId> {
    let stem = op.stem();
    let (forward, reflected) = (format!("__{stem}__"), format!("__r{stem}__"));
    match inplace {
        true => refuse_own(t, a, &[&format!("__i{stem}__"), &forward])?,
        false => refuse_own(t, a, &[&forward])?,
    }
    refuse_own(t, b, &[&reflected])?;
    let (a, b) = (arrays::operand(t, a)?, arrays::operand(t, b)?);
    let (a, b) = (
        graph_arrays::operand(t, Some(op), b, a)?,
        graph_arrays::operand(t, Some(op), a, b)?,
    );
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

/// An operator of which one operand is an object of the user's.
pub(crate) fn object_binary(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<VarId> {
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
    // Sequences are asked when numbers have declined.
    if let Kind::List(_) | Kind::Tuple(..) | Kind::Text(_) = t.kind(receiver) {
        return Ok(of_sequences);
    }
    // These know their own kind only; a dict is updated in place from anything.
    let knows_its_own = matches!(
        t.kind(receiver),
        Kind::Int(_) | Kind::Float(_) | Kind::SymNumber(_) | Kind::Set(_) | Kind::Dict(_)
    );
    let updates = name == "__ior__" && matches!(t.kind(receiver), Kind::Dict(_));
    Ok(knows_its_own && !updates && !classes::is_part_builtin(t, argument))
}

pub(crate) fn is_not_implemented(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.const_value(value)
        .is_some_and(|value| value.is(value.py().NotImplemented()))
}

pub use crate::variables::protocol::unary;

/// The special method, and the name in `operator`.
pub(crate) fn unary_names(op: UnaryOp) -> (&'static str, &'static str) {
    match op {
        UnaryOp::Positive => ("__pos__", "pos"),
        UnaryOp::Negative => ("__neg__", "neg"),
        UnaryOp::Invert => ("__invert__", "invert"),
    }
}

/// `+x`, `-x`, `~x` of a number, or of what is folded.
pub(crate) fn unary_of_number(t: &mut Tracer<'_>, op: UnaryOp, value: VarId) -> Step<VarId> {
    match dynamic_scalar::unary(t, op, value)? {
        Some(number) => Ok(number),
        None => fold::operator(t, unary_names(op).1, &[value]),
    }
}
