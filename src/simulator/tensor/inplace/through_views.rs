//! Changes in place of rows and slices of a tensor that the frame made: `y[0].fill_(1)` or
//! `y[0][1] = 2`, where no gradient flows.
//!
//! The view becomes the result of the operation without side effect, and what it is a view of the
//! tensor with that written into its place. Paddle's autograd does not follow such a change, so
//! with gradients it is left to the interpreter.

use std::sync::Arc;

use crate::graph::{Arg, Callee, SymbolId};
use crate::saved_for_backward::Statements;
use crate::tensors::Receiver;
use crate::variables::{Kind, TensorVar, VarId, View};
use crate::{Kwargs, Step, Tracer};
use crate::{alias_analysis, tensors};

use super::forms::{changes_type, is_form, reforms};
use super::{differs, fits, is_shared, items, operations, own, views_of};

/// Most views of one another.
const DEEPEST: usize = 4;

/// A view and what it is a view of, up to a tensor that the frame made.
pub(super) struct Chain {
    /// Each view, and its key in the next one.
    views: Vec<(VarId, VarId)>,
    root: VarId,
}

/// Whether it is a view of another tensor.
pub(super) fn is_view(t: &Tracer<'_>, tensor: VarId) -> bool {
    view_of(t, tensor).is_some()
}

fn view_of(t: &Tracer<'_>, tensor: VarId) -> Option<(SymbolId, Arc<View>)> {
    let Kind::Tensor(TensorVar {
        symbol,
        view: Some(view),
        class: None,
    }) = t.vars.kind(tensor)
    else {
        return None;
    };
    Some((*symbol, view.clone()))
}

/// `view.name(*args)`; `None` where it is not captured.
pub(super) fn method(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if reforms(form) {
        return reform_view(t, tensor, form, args, kwargs);
    }
    let Some(chain) = chain(t, tensor, args) else {
        return Ok(None);
    };
    let made = match (form, args, kwargs) {
        ("zero", [], []) => {
            let zero = t.int(0);
            operations::filled(t, tensor, zero)?
        }
        (operations::FILL, [value], [])
            if tensors::meta_of(t, *value).is_none() && fits(t, tensor, *value) =>
        {
            operations::filled(t, tensor, *value)?
        }
        (_, _, []) if is_form(form) && !changes_type(form) => {
            if differs(t, tensor, form, args, kwargs) {
                return Ok(None);
            }
            operations::method(t, tensor, form, args)?
        }
        _ => return Ok(None),
    };
    Ok(write_back(t, &chain, made)?.then_some(tensor))
}

/// `view.squeeze_()`: a view of what it was is what it is from now on. Nothing else changes.
fn reform_view(
    t: &mut Tracer<'_>,
    tensor: VarId,
    form: &str,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some((symbol, _)) = view_of(t, tensor) else {
        return Ok(None);
    };
    let flows = tensors::meta_of(t, tensor).is_none_or(|meta| !meta.stop_gradient);
    let root = alias_analysis::root(&t.vars, tensor);
    let all: Vec<VarId> = views_of(t, root).chain([root]).collect();
    let graph = Statements::of_graph(t);
    let is_kept = |id: &VarId| {
        t.vars
            .kind(*id)
            .tensor()
            .is_none_or(|var| graph.keep(t, var.symbol))
    };
    let is_seen = t.goes_backward() && all.iter().any(is_kept);
    // Their makers keep what they have made where gradients need it.
    let made = [root, tensor].map(|id| t.vars.kind(id).tensor().map(|var| var.symbol));
    let is_forgotten =
        |symbol: &Option<SymbolId>| symbol.is_some_and(|symbol| graph.make_and_forget(t, symbol));
    let has_history = flows && !(t.grad.enabled && made.iter().all(is_forgotten));
    if t.flow.is_captured() || is_shared(t, tensor, symbol) || own(t, root).is_none() {
        return Ok(None);
    }
    let same = whole(t, tensor);
    // Views of what it was stay views of that.
    if alias_analysis::has_views(t, |view| view.base == tensor) {
        return Ok(None);
    }
    if all.iter().any(|id| *id != tensor && whole(t, *id) == same) {
        return Ok(None);
    }
    if is_seen || has_history || differs(t, tensor, form, args, kwargs) {
        return Ok(None);
    }
    let before = t.vars.kind(tensor).clone();
    let before = t.add(before);
    let callee = Callee::Method(Arc::from(form));
    let receiver = Some(Receiver::Tensor(before));
    let result = tensors::capture(t, callee, receiver, args, kwargs, &mut |_| None)?;
    let made = t.kind(result).clone();
    let is_view = matches!(&made, Kind::Tensor(var) if var.view.is_some());
    let stops = tensors::meta_of(t, result).is_none_or(|meta| meta.stop_gradient);
    if !is_view || result == before || stops == flows {
        return Ok(None);
    }
    t.vars.mutate(tensor, |var| var.kind = made);
    // No second name for it.
    t.vars.update(result, |var| var.kind = Kind::Null);
    Ok(Some(tensor))
}

/// What a view is the whole of. In eager mode `detach()` and slices of all rows share the tensor
/// behind the object, and so its shape.
fn whole(t: &mut Tracer<'_>, tensor: VarId) -> VarId {
    let mut found = tensor;
    while let Some((_, view)) = view_of(t, found) {
        let shapes = [found, view.base].map(|id| tensors::meta_of(t, id).map(|meta| meta.shape));
        if shapes[0] != shapes[1] {
            break;
        }
        found = view.base;
    }
    found
}

/// The views from this one to a tensor that the frame made, where a change of it can be captured.
/// `args`: what the change takes.
pub(super) fn chain(t: &mut Tracer<'_>, tensor: VarId, args: &[VarId]) -> Option<Chain> {
    let mut views = Vec::new();
    let mut next = tensor;
    while let Some((symbol, view)) = view_of(t, next) {
        let is_item = matches!(&view.callee, Callee::Method(name) if &**name == "__getitem__");
        let alone = !is_shared(t, next, symbol) && view.item.is_none() && view.kwargs.is_empty();
        let [Arg::Symbol(of), key] = &view.args[..] else {
            return None;
        };
        if !is_item || !alone || *of != view.base_symbol || views.len() == DEEPEST {
            return None;
        }
        let key = key_of(t, key)?;
        views.push((next, key));
        next = view.base;
    }
    let root = next;
    let shares = |id: &VarId| *id != tensor && alias_analysis::root(&t.vars, *id) == root;
    if t.flow.is_captured() || args.iter().any(shares) || own(t, root).is_none() {
        return None;
    }
    let all: Vec<VarId> = views_of(t, root).chain([root]).collect();
    let graph = Statements::of_graph(t);
    let has_gradients = t.goes_backward();
    let is_seen = |id: &VarId| {
        t.vars.kind(*id).tensor().is_none_or(|var| {
            t.graph.sir.has_gradient(var.symbol) || has_gradients && graph.keep(t, var.symbol)
        })
    };
    (!all.iter().any(is_seen)).then_some(Chain { views, root })
}

/// The key of a view: whole numbers, slices of them, `...` and `None`.
fn key_of(t: &mut Tracer<'_>, key: &Arg) -> Option<VarId> {
    Some(match key {
        Arg::Const(value) => {
            let value = value.clone();
            t.constant(value.bind(t.py))
        }
        Arg::Tuple(parts) => {
            let parts = parts.iter().map(|part| key_of(t, part));
            let parts = parts.collect::<Option<Vec<_>>>()?;
            t.add(Kind::Tuple(parts, None))
        }
        Arg::Slice(parts) => {
            let [start, stop, step] = &**parts;
            let parts = [key_of(t, start)?, key_of(t, stop)?, key_of(t, step)?];
            t.add(Kind::Slice(parts))
        }
        Arg::Symbol(_) | Arg::List(_) | Arg::Dict(_) | Arg::NamedTuple(..) => return None,
    })
}

/// `made` is what the first view of the chain is from now on, and stands in its place in what that
/// is a view of. Whether it can be.
pub(super) fn write_back(t: &mut Tracer<'_>, chain: &Chain, made: VarId) -> Step<bool> {
    let Some((first, _)) = chain.views.first() else {
        return Ok(false);
    };
    let metas = tensors::meta_of(t, *first).zip(tensors::meta_of(t, made));
    let is_alike = metas.is_some_and(|(old, new)| {
        old.shape == new.shape && old.dtype == new.dtype && new.stop_gradient
    });
    if !is_alike || made == *first {
        return Ok(false);
    }
    let bases = chain.views[1..].iter().map(|(view, _)| *view);
    let bases: Vec<VarId> = bases.chain([chain.root]).collect();
    let mut results = vec![made];
    for ((_, key), base) in chain.views.iter().zip(&bases) {
        let value = results[results.len() - 1];
        results.push(tensors::control(t, items::SET, &[*base, *key, value])?);
    }
    let symbols = results.iter().map(|id| Some(t.kind(*id).tensor()?.symbol));
    let Some(symbols) = symbols.collect::<Option<Vec<SymbolId>>>() else {
        return Ok(false);
    };
    // Others change with it, but the graph has what they were.
    let kept: Vec<VarId> = chain.views.iter().map(|(view, _)| *view).collect();
    let others: Vec<VarId> = views_of(t, chain.root)
        .filter(|id| !kept.contains(id))
        .collect();
    super::give_up(t, others);
    for (at, (view, _)) in chain.views.iter().enumerate() {
        let of = symbols[at + 1];
        t.vars.mutate(*view, |var| {
            if let Kind::Tensor(var) = &mut var.kind {
                var.symbol = symbols[at];
                var.view = var.view.as_ref().map(|view| Arc::new(based_on(view, of)));
            }
        });
    }
    t.vars.mutate(chain.root, |var| {
        if let Kind::Tensor(var) = &mut var.kind {
            var.symbol = symbols[symbols.len() - 1];
        }
    });
    // No second names for them.
    for result in results {
        t.vars.update(result, |var| var.kind = Kind::Null);
    }
    Ok(true)
}

/// The same view of what its base is now.
fn based_on(view: &View, of: SymbolId) -> View {
    let mut args = view.args.clone();
    args[0] = Arg::Symbol(of);
    View {
        base: view.base,
        base_symbol: of,
        callee: view.callee.clone(),
        args,
        kwargs: view.kwargs.clone(),
        item: view.item,
        grad_enabled: view.grad_enabled,
    }
}
