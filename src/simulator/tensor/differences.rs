//! Arguments with which a program does otherwise than eager mode: the table says which.

use pyo3::prelude::*;
use pyo3::types::PyComplex;

use crate::graph::{DType, TensorMeta};
use crate::ops::{Fact, ShapeRule, Unlike, facts, said};
use crate::reason::{BreakId, BreakKind};
use crate::tracker::number::Type;
use crate::variables::{Kind, VarId};

use crate::{
    Kwargs, Step, Tracer, alias_analysis, arguments, dynamic_scalar, numpy_scalars, tensors,
};

/// The names that functions have for their first argument.
const FIRST: [&str; 5] = ["x", "data", "obj", "input", "tensors"];

/// Stops where the row of this name says that eager mode does otherwise. `args` begin with `self`
/// for a method.
pub fn check(t: &mut Tracer<'_>, name: &str, args: &[VarId], kwargs: &Kwargs) -> Step<()> {
    let argument = |at: usize, name: &str| argument(args, kwargs, at, name);
    // What patches tensors puts one underscore in front.
    let row = match name.starts_with("__") {
        true => name,
        false => name.trim_start_matches('_'),
    };
    if is_number_for_tensor(t, row, args, kwargs) {
        let what = format!("{name}() of a number of the graph in place of a tensor");
        return t.stop(BreakId::OperatorArguments, what);
    }
    for fact in facts(row) {
        let Fact::Differs(at, named, unlike, why) = *fact else {
            continue;
        };
        let beside = match unlike {
            Unlike::TensorsBeside(at, named) | Unlike::ComplexBeside(at, named) => {
                argument(at, named).is_some()
            }
            Unlike::Tensor
            | Unlike::TensorForList
            | Unlike::Tensors
            | Unlike::TensorsInList
            | Unlike::OfGraph
            | Unlike::NumberOfGraph
            | Unlike::WantsGradient
            | Unlike::Half
            | Unlike::SeveralDims
            | Unlike::NoDims
            | Unlike::MayHaveGaps
            | Unlike::Complex
            | Unlike::Rounded
            | Unlike::NoFloat => true,
        };
        let Some(value) = argument(at, named).filter(|_| beside) else {
            continue;
        };
        if is_unlike(t, unlike, value)? {
            let what = format!("{name}() {why}");
            if matches!(unlike, Unlike::TensorForList) {
                return t.stop(BreakKind::RaisesException, what);
            }
            return t.stop(BreakId::OperatorArguments, what);
        }
    }
    Ok(())
}

fn argument(args: &[VarId], kwargs: &Kwargs, at: usize, name: &str) -> Option<VarId> {
    let is_it = |known: &str| known == name || at == 0 && FIRST.contains(&known);
    let named = kwargs.iter().find(|(known, _)| is_it(known));
    args.get(at).copied().or(named.map(|(_, value)| *value))
}

/// Whether a number of the graph, which is a tensor in a program, is given where eager mode takes
/// tensors alone, or makes something else of numbers.
pub fn is_number_for_tensor(
    t: &mut Tracer<'_>,
    row: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> bool {
    let facts = facts(row);
    let rule = said!(facts, Fact::Shape(rule) => *rule);
    let Some(rule) = rule.filter(|_| !row.starts_with("__")) else {
        return false;
    };
    let mut given = Vec::new();
    if !matches!(rule, ShapeRule::Made | ShapeRule::Arange) {
        given.extend(argument(args, kwargs, 0, FIRST[0]));
    }
    let is_aligned = rule == ShapeRule::Broadcast && !facts.contains(&Fact::BesideNumber);
    if is_aligned || rule == ShapeRule::Gather {
        given.extend(args.get(1));
        given.extend(kwargs.iter().map(|(_, value)| *value));
    }
    given
        .into_iter()
        .any(|value| dynamic_scalar::is_of_graph(t, value))
}

fn is_unlike(t: &mut Tracer<'_>, unlike: Unlike, value: VarId) -> Step<bool> {
    let is_complex = |value: Bound<'_, PyAny>| value.is_instance_of::<PyComplex>();
    Ok(match unlike {
        Unlike::Tensor | Unlike::TensorForList => matches!(t.kind(value), Kind::Tensor(_)),
        Unlike::Tensors | Unlike::TensorsBeside(..) => has_tensors(t, value),
        Unlike::TensorsInList => matches!(t.kind(value), Kind::List(_)) && has_tensors(t, value),
        Unlike::OfGraph => is_of_graph(t, value),
        Unlike::NumberOfGraph => dynamic_scalar::is_of_graph(t, value),
        Unlike::WantsGradient => wants_gradient(t, value),
        Unlike::Half => has_meta(t, value, |meta| {
            matches!(meta.dtype, DType::Float16 | DType::BFloat16)
        }),
        Unlike::SeveralDims => has_meta(t, value, |meta| meta.shape.len() > 1),
        Unlike::NoDims => {
            matches!(t.kind(value), Kind::Tensor(_))
                && has_meta(t, value, |meta| meta.shape.is_empty())
        }
        Unlike::MayHaveGaps => !alias_analysis::is_contiguous(t, value)?,
        Unlike::Complex | Unlike::ComplexBeside(..) => t.const_value(value).is_some_and(is_complex),
        Unlike::Rounded => is_rounded(t, value),
        Unlike::NoFloat => dynamic_scalar::class(t, value) != Some(Type::Float),
    })
}

/// Whether a program has a tensor for this: one of the user's, or a number that the graph makes.
fn is_of_graph(t: &mut Tracer<'_>, value: VarId) -> bool {
    let kind = t.kind(value);
    kind.of_graph().is_some()
        || matches!(kind, Kind::Int(_)) && arguments::depends_on_dims(t, value)
}

/// Whether this is a tensor, or has one among its items.
fn has_tensors(t: &mut Tracer<'_>, value: VarId) -> bool {
    any_part(t, value, |t, part| matches!(t.kind(part), Kind::Tensor(_)))
}

/// Whether this holds for a value, or for one of its items.
fn any_part(t: &mut Tracer<'_>, value: VarId, holds: fn(&mut Tracer<'_>, VarId) -> bool) -> bool {
    match t.kind(value).items().map(<[VarId]>::to_vec) {
        Some(items) => items.into_iter().any(|item| holds(t, item)),
        None => holds(t, value),
    }
}

/// Whether there is a gradient to lose. In an exported program nobody sees what sizes say of
/// theirs.
fn wants_gradient(t: &mut Tracer<'_>, value: VarId) -> bool {
    !t.options.forward_only
        && any_part(t, value, |t, part| {
            has_meta(t, part, |meta| !meta.stop_gradient)
        })
}

fn has_meta(t: &mut Tracer<'_>, value: VarId, holds: fn(&TensorMeta) -> bool) -> bool {
    tensors::meta_of(t, value).is_some_and(|meta| holds(&meta))
}

/// Whether this is a complex number that a program would round.
fn is_rounded(t: &mut Tracer<'_>, value: VarId) -> bool {
    t.const_value(value).is_some_and(|value| {
        value
            .cast::<PyComplex>()
            .is_ok_and(|it| !numpy_scalars::is_single(it))
    })
}
