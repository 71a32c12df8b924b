//! Operators and comparisons of two containers.
//!
//! An answer is asked of either operand: `a` and `b` stand as in the program.

use crate::bytecode::{BinOp, CmpOp};
use crate::call::call;
use crate::methods::names::{EXTEND, UPDATE};
use crate::operators::{is_not_implemented, is_object};
use crate::variables::{DictVar, Kind, VarId};
use crate::{
    Step, Tracer, attributes, comparisons, methods, program_numbers, tensor_scalar, truth,
};

/// `a op b`, or `a op= b`, of which one is a list or a tuple.
pub fn sequence_operator(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    // A shape adds as numbers do, before lists are extended in place.
    let is_shape = t.vars.get(a).class.is_some() || t.vars.get(b).class.is_some();
    if is_shape && (is_object(&left) || is_object(&right)) {
        // What shapes do with them is written in C++.
        return t.unsupported(format!(
            "the operator {} of a shape and an object",
            op.stem()
        ));
    }
    let made = match op {
        BinOp::Add => sum(t, inplace, is_shape, (a, &left), (b, &right))?,
        BinOp::Mul => product(t, inplace, (a, &left), (b, &right))?,
        BinOp::And
        | BinOp::FloorDiv
        | BinOp::LShift
        | BinOp::MatMul
        | BinOp::Rem
        | BinOp::Or
        | BinOp::Pow
        | BinOp::RShift
        | BinOp::Sub
        | BinOp::TrueDiv
        | BinOp::Xor => None,
    };
    Ok(made)
}

/// `a + b`, or `a += b`.
fn sum(
    t: &mut Tracer<'_>,
    inplace: bool,
    is_shape: bool,
    (a, left): (VarId, &Kind),
    (b, right): (VarId, &Kind),
) -> Step<Option<VarId>> {
    let joined = |items: &[VarId], more: &[VarId]| items.iter().chain(more).copied().collect();
    if let (Kind::List(items), Kind::List(more)) = (left, right) {
        if is_shape || !inplace {
            let sum = t.add(Kind::List(joined(items, more)));
            t.inherit_class(sum, b);
            return Ok(Some(t.inherit_class(sum, a)));
        }
    }
    if let (Kind::List(items), Kind::Tuple(more, None))
    | (Kind::Tuple(items, None), Kind::List(more)) = (left, right)
    {
        if is_shape {
            return t.size(joined(items, more)).map(Some);
        }
    }
    if let (Kind::List(_), true) = (left, inplace && !matches!(right, Kind::Text(_))) {
        // Numbers come before sequences: `__radd__` before the concatenation of lists.
        let added = if matches!(right, Kind::Class) {
            attributes::method_of_meta(t, b, "__radd__")?
        } else if is_object(right) {
            attributes::try_get_special(t, b, "__radd__")?
        } else {
            None
        };
        if let Some(method) = added {
            let sum = call(t, method, &[a], &[])?;
            if !is_not_implemented(t, sum) {
                return Ok(Some(sum));
            }
        }
        methods::call(t, a, EXTEND, &[b], &[])?;
        return Ok(Some(a));
    }
    let (Kind::Tuple(items, named), Kind::Tuple(more, other)) = (left, right) else {
        return Ok(None);
    };
    // CPython answers with the operand itself where there is nothing to add.
    if named.is_none() && more.is_empty() {
        return Ok(Some(a));
    }
    if other.is_none() && items.is_empty() {
        return Ok(Some(b));
    }
    Ok(Some(t.add(Kind::Tuple(joined(items, more), None))))
}

/// `a * b`, or `a *= b`, where one of them is a constant.
fn product(
    t: &mut Tracer<'_>,
    inplace: bool,
    (a, left): (VarId, &Kind),
    (b, right): (VarId, &Kind),
) -> Step<Option<VarId>> {
    let (id, kind, times) = if let Kind::Const = right {
        (a, left, b)
    } else if let Kind::Const = left {
        (b, right, a)
    } else {
        return Ok(None);
    };
    let Some(items) = kind.plain_items() else {
        return Ok(None);
    };
    let is_list = matches!(kind, Kind::List(_));
    // CPython answers with the operand itself where there is nothing to repeat.
    if !is_list && t.const_int(times) == Some(1) {
        return Ok(Some(id));
    }
    if is_list && id == a && inplace {
        let repeated = repeat(t, items, times)?;
        if repeated.is_empty() {
            for item in items {
                t.release(a, *item)?;
            }
        }
        t.vars.mutate(a, |var| var.kind = Kind::List(repeated));
        return Ok(Some(a));
    }
    let repeated = repeat(t, items, times)?;
    let product = t.add(match is_list {
        true => Kind::List(repeated),
        false => Kind::Tuple(repeated, None),
    });
    Ok(Some(t.inherit_class(product, id)))
}

fn repeat(t: &mut Tracer<'_>, items: &[VarId], times: VarId) -> Step<Vec<VarId>> {
    let Some(times) = t.const_int(times) else {
        return t.unsupported("repetition by something that is not an int");
    };
    let times = usize::try_from(times).unwrap_or(0);
    if items.len().saturating_mul(times) > 100_000 {
        return t.unsupported("repetition into a very long sequence");
    }
    Ok(items.repeat(times))
}

/// `a | b`, or `a |= b`, of two dicts.
pub fn dict_operator(
    t: &mut Tracer<'_>,
    op: BinOp,
    inplace: bool,
    a: VarId,
    b: VarId,
) -> Step<Option<VarId>> {
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    let (Kind::Dict(x), Kind::Dict(y), BinOp::Or) = (&left, &right, op) else {
        return Ok(None);
    };
    if !inplace && (x.class.is_some() || y.class.is_some()) {
        return Ok(None);
    }
    let target = if inplace { a } else { t.add(left.clone()) };
    methods::call(t, target, UPDATE, &[b], &[])?;
    Ok(Some(target))
}

/// A comparison of two sequences that may be equal.
pub fn compare_sequences(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let is_shape = t.vars.get(a).class.is_some() || t.vars.get(b).class.is_some();
    let (left, right) = (t.kind(a).clone(), t.kind(b).clone());
    if let (Kind::List(x), Kind::List(y)) | (Kind::Tuple(x, _), Kind::Tuple(y, _)) = (&left, &right)
    {
        return by_items(t, op, x, y).map(Some);
    }
    if let (Kind::List(x), Kind::Tuple(y, None)) | (Kind::Tuple(x, None), Kind::List(y)) =
        (&left, &right)
    {
        if is_shape {
            return by_items(t, op, x, y).map(Some);
        }
    }
    Ok(None)
}

fn by_items(t: &mut Tracer<'_>, op: CmpOp, x: &[VarId], y: &[VarId]) -> Step<VarId> {
    if matches!(op, CmpOp::Eq | CmpOp::Ne) && x.len() != y.len() {
        return Ok(t.bool(op == CmpOp::Ne));
    }
    if matches!(op, CmpOp::Eq | CmpOp::Ne) {
        let pairs: Vec<_> = x.iter().copied().zip(y.iter().copied()).collect();
        if let Some(equal) = program_numbers::equal_items(t, &pairs, true)? {
            return match (op, tensor_scalar::is_captured(t, equal)) {
                (CmpOp::Eq, _) => Ok(equal),
                (_, true) => tensor_scalar::negation(t, equal),
                (_, false) => {
                    let equal = truth::truth(t, equal)?;
                    Ok(t.bool(!equal))
                }
            };
        }
    }
    if let Some(answer) = program_numbers::ordered_items(t, op, x, y)? {
        return Ok(answer);
    }
    for (a, b) in x.iter().zip(y) {
        if !comparisons::equal_values(t, *a, *b)? {
            return match op {
                CmpOp::Eq => Ok(t.bool(false)),
                CmpOp::Ne => Ok(t.bool(true)),
                CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => {
                    comparisons::compare(t, op, *a, *b)
                }
            };
        }
    }
    Ok(t.bool(op.holds(x.len(), y.len())))
}

/// Whether two dicts are equal, or differ.
pub fn compare_dicts(t: &mut Tracer<'_>, op: CmpOp, a: VarId, b: VarId) -> Step<Option<VarId>> {
    let (Kind::Dict(x), Kind::Dict(y)) = (t.kind(a).clone(), t.kind(b).clone()) else {
        return Ok(None);
    };
    if !matches!(op, CmpOp::Eq | CmpOp::Ne) {
        return Ok(None);
    }
    let equal = equal_dicts(t, &x, &y)?;
    Ok(Some(t.bool(equal == (op == CmpOp::Eq))))
}

fn equal_dicts(t: &mut Tracer<'_>, x: &DictVar, y: &DictVar) -> Step<bool> {
    // Two ordered dicts have their items in one order, too.
    let ordered = comparisons::is_ordered(t, x) && comparisons::is_ordered(t, y);
    if x.items.len() != y.items.len() || ordered && !x.items.keys().eq(y.items.keys()) {
        return Ok(false);
    }
    for (key, (_, value)) in &x.items {
        let equal = match y.items.get(key) {
            Some((_, other)) => comparisons::equal_values(t, *value, *other)?,
            None => false,
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}
