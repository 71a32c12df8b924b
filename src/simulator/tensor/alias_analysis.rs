//! Tensors that share storage.
//!
//! A graph hands out copies of what shares storage inside of it. So that a later change of one
//! tensor shows in the others as in eager mode, the code generator does such operations again on
//! the real tensors whenever two of them leave the graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::abi;
use crate::graph::{Arg, Callee, SymbolId, picks};
use crate::guard::GuardKind;
use crate::ops::{CONTIGUOUS, DETACH, Fact, RESHAPES, VIEW, knows};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{Arena, Kind, TensorVar, VarId, View};

use crate::{Kwargs, Step, Tracer, carried_aliases, inplace, pylayer, tensors};

fn is_view(name: &str) -> bool {
    knows(name, Fact::CheapView) || knows(name, Fact::View)
}

/// The tensors among these arguments, or in containers among them, each once.
fn tensors_in(t: &Tracer<'_>, given: &[VarId], found: &mut Vec<VarId>) {
    for id in given {
        let kind = t.vars.kind(*id);
        if let Some(items) = kind.items() {
            tensors_in(t, items, found);
        } else if kind.tensor().is_some() && !found.contains(id) {
            found.push(*id);
        }
    }
}

/// The tensor whose storage the result of a listed call may share: the only one that it is given,
/// or of several what it is given first. What keywords are called tells nothing, as functions have
/// several names for one.
fn viewed(t: &Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<VarId>> {
    let is_tensor = |id: &VarId| matches!(t.vars.kind(*id), Kind::Tensor(_));
    let given: Vec<VarId> = args
        .iter()
        .chain(kwargs.iter().map(|(_, value)| value))
        .copied()
        .collect();
    let mut found: Vec<VarId> = Vec::new();
    // Next to one that is given as it is, those in containers are sizes and positions.
    let alone: Vec<VarId> = given.iter().copied().filter(is_tensor).collect();
    tensors_in(
        t,
        if alone.is_empty() { &given } else { &alone },
        &mut found,
    );
    if let [one] = found[..] {
        return Ok(Some(one));
    }
    if let Some(first) = args.first() {
        // What is computed from several tensors has storage of its own.
        return Ok(Some(*first).filter(is_tensor));
    }
    if alone.is_empty() {
        return Ok(None);
    }
    let mut named = kwargs.iter();
    match named.find(|(name, _)| matches!(&**name, "x" | "input")) {
        Some((_, first)) if is_tensor(first) => Ok(Some(*first)),
        _ => t.stop(
            BreakId::View,
            "a view of one of several tensors that are given by name",
        ),
    }
}

/// How to do a captured call again, when its result may share the storage of a tensor that it is
/// given. `args` begin with the receiver of a method.
pub fn recipe(
    t: &Tracer<'_>,
    callee: &Callee,
    (args, kwargs): (&[VarId], &Kwargs),
    (given, named): (&[Arg], &[(Arc<str>, Arg)]),
) -> Step<Option<View>> {
    if !is_listed(t, callee, given).unwrap_or(false) {
        return Ok(None);
    }
    let base = match callee {
        Callee::Method(_) | Callee::Attribute(_) => args.first().copied(),
        Callee::Api(_) | Callee::Layer(_) | Callee::Sir(_) => viewed(t, args, kwargs)?,
    };
    Ok(base.and_then(|base| {
        let Kind::Tensor(tensor) = t.vars.kind(base) else {
            return None;
        };
        Some(View {
            base,
            base_symbol: tensor.symbol,
            callee: callee.clone(),
            args: given.to_vec(),
            kwargs: named.to_vec(),
            item: None,
            grad_enabled: t.grad.enabled,
        })
    }))
}

/// Whether the result of a call may share the storage of what it is given.
fn is_listed(t: &Tracer<'_>, callee: &Callee, args: &[Arg]) -> Option<bool> {
    Some(match callee {
        Callee::Method(name) if &**name == "__getitem__" => {
            !picks(t.py, &|id| t.graph.meta(id), args)
        }
        Callee::Method(name) | Callee::Attribute(name) => is_view(name),
        Callee::Api(function) => {
            let name = function.bind(t.py).getattr("__name__").ok()?;
            is_view(&name.extract::<String>().ok()?)
        }
        Callee::Layer(symbol) => {
            let input = t
                .graph
                .inputs
                .iter()
                .find(|input| input.symbol == *symbol)?;
            let class = input.value.bind(t.py).get_type().name().ok()?;
            knows(class.to_str().ok()?, Fact::ViewLayer)
        }
        Callee::Sir(_) => false,
    })
}

/// `view`, unless the call has copied: what does so depends on how the numbers of its argument lie
/// in storage.
pub fn unless_copied(t: &mut Tracer<'_>, view: Option<View>) -> Step<Option<View>> {
    let Some(view) = view else {
        return Ok(None);
    };
    if !t.graph.has_copied() {
        return Ok(Some(view));
    }
    // A program knows nothing of `contiguous()`: behind it nothing copies.
    if is_contiguous(t, view.base)? {
        return Ok(Some(view));
    }
    let from = root(&t.vars, view.base);
    match is_contiguous(t, from)? {
        true => Ok(None),
        false => t.stop(
            BreakId::View,
            "another shape of a view of a tensor whose numbers lie in another order",
        ),
    }
}

/// Remembers how the tensors of `result` were made, but for those that the call was given.
pub fn mark(t: &mut Tracer<'_>, view: View, result: VarId, given: &[VarId]) -> Step<()> {
    let kind = t.vars.kind(result);
    let items: Vec<_> = match kind.tensor() {
        Some(_) => vec![(result, None)],
        None => {
            let items = kind.items().into_iter().flatten().enumerate();
            items
                .map(|(at, item)| (*item, Some((result, at))))
                .collect()
        }
    };
    let base = view.base;
    let mut operands: Vec<&Arg> = view.args.iter().collect();
    operands.retain(|arg| matches!(arg, Arg::Symbol(_)));
    if items.len() > 1 && operands.len() > 1 {
        return t.stop(BreakId::View, "views of several tensors by one call");
    }
    for (id, item) in items {
        if given.contains(&id) {
            continue;
        }
        let view = Arc::new(View {
            item,
            args: view.args.clone(),
            kwargs: view.kwargs.clone(),
            callee: view.callee.clone(),
            ..view
        });
        t.vars.update(id, |var| {
            if let Kind::Tensor(tensor) = &mut var.kind {
                tensor.view = Some(view);
            }
        });
        // Made again in front of a change, it might be a copy of what was there before. All of a
        // tensor whose gradients were stopped has the history that they had.
        let meta = tensors::meta_of(t, base);
        let is_stopped = meta.is_some_and(|meta| meta.stop_gradient) && t.raised_at(base).is_some();
        let has_history = is_stopped && is_all_of_base(t, id);
        if inplace::is_changed(t, root(&t.vars, id)) || has_history || keeps_gradient(t, id) {
            t.only_the_interpreter_makes(id);
        }
    }
    Ok(())
}

/// Whether a tensor is a view that may be all of its base, and then is the same one to autograd.
pub fn is_all_of_base(t: &Tracer<'_>, id: VarId) -> bool {
    let Some(TensorVar {
        view: Some(view), ..
    }) = t.vars.kind(id).tensor()
    else {
        return false;
    };
    let shape = |id| {
        let tensor = t.vars.kind(id).tensor()?;
        Some(&t.graph.meta(tensor.symbol)?.shape)
    };
    let is_cut = matches!(&view.callee, Callee::Method(name) if &**name == DETACH);
    !is_cut && shape(id) == shape(view.base)
}

/// Whether a tensor was taken without gradients and may be all of one that has some: to autograd it
/// is that one.
pub fn keeps_gradient(t: &Tracer<'_>, id: VarId) -> bool {
    let Some(TensorVar {
        view: Some(view), ..
    }) = t.vars.kind(id).tensor()
    else {
        return false;
    };
    let is_asked = !view.grad_enabled && t.grad.at_entry;
    let is_taken = || match &view.callee {
        Callee::Method(name) => matches!(&**name, "__getitem__" | "unflatten"),
        callee @ (Callee::Api(_) | Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_)) => {
            callee
                .api_names(t.py)
                .iter()
                .any(|name| name == "unflatten")
        }
    };
    let has_gradient = || {
        let base = t.graph.meta(view.base_symbol);
        base.is_some_and(|base| !base.stop_gradient) || keeps_gradient(t, view.base)
    };
    is_asked && is_taken() && has_gradient() && is_all_of_base(t, id)
}

/// Breaks the graph where such a tensor is used with gradients.
pub fn refuse_kept_gradients(t: &mut Tracer<'_>, given: &[VarId]) -> Step<()> {
    if t.grad.enabled && given.iter().any(|id| keeps_gradient(t, *id)) {
        return t.stop(
            BreakId::View,
            "all of a tensor with a gradient, taken under no_grad",
        );
    }
    Ok(())
}

/// `tensor.contiguous()`: the same tensor, in storage of its own where it was a view with gaps or
/// in another order.
pub fn contiguous(t: &mut Tracer<'_>, tensor: VarId) -> Step<VarId> {
    let Kind::Tensor(var) = t.kind(tensor).clone() else {
        return t.stop(BreakId::View, "a view of something that is no tensor");
    };
    let symbol = var.symbol;
    if var.view.is_some() {
        if has_views(t, |view| view.base == tensor) {
            return t.stop(
                BreakKind::InplaceTensor,
                "Tensor.contiguous() gives a tensor other storage than its views have",
            );
        }
        // What it was before is nobody's: where it leaves the graph, both operations are done on
        // real tensors.
        let base = t.add(Kind::Tensor(var));
        let view = Arc::new(View {
            base,
            base_symbol: symbol,
            callee: Callee::Method(Arc::from(CONTIGUOUS)),
            args: vec![Arg::Symbol(symbol)],
            kwargs: Vec::new(),
            item: None,
            grad_enabled: t.grad.enabled,
        });
        t.vars.update(tensor, |var| {
            if let Kind::Tensor(tensor) = &mut var.kind {
                tensor.view = Some(view);
            }
        });
        return Ok(tensor);
    }
    match is_contiguous(t, tensor)? {
        true => Ok(tensor),
        false => t.stop(
            BreakKind::InplaceTensor,
            "Tensor.contiguous() gives a tensor that exists other storage",
        ),
    }
}

/// Whether a method, or the function of that name, gives a tensor another shape without a copy.
pub fn asks_for_shape(name: &str) -> bool {
    name == VIEW || name == "view_as"
}

/// The shape that `tensor.view(...)` or `tensor.view_as(...)` asks for, as a list. Stops where it
/// asks for a dtype, and where the numbers may lie so that eager mode refuses.
pub fn asked_shape(
    t: &mut Tracer<'_>,
    tensor: VarId,
    (name, args, kwargs): (&str, &[VarId], &Kwargs),
) -> Step<VarId> {
    match shape_in_order(t, tensor, (name, args, kwargs))? {
        Some(shape) => Ok(shape),
        None => t.stop(
            BreakId::View,
            format!("Tensor.{name}() of a dtype, or of numbers that may lie in another order"),
        ),
    }
}

fn shape_in_order(
    t: &mut Tracer<'_>,
    tensor: VarId,
    (name, args, kwargs): (&str, &[VarId], &Kwargs),
) -> Step<Option<VarId>> {
    let named = match kwargs {
        [] => None,
        [(keyword, value)] => Some((&**keyword, value)),
        _ => return Ok(None),
    };
    let shape = match (name, args, named) {
        ("view_as", [other], None) => {
            if !matches!(t.kind(*other), Kind::Tensor(_)) {
                return Ok(None);
            }
            tensors::attribute(t, *other, "shape")?
        }
        (VIEW, [shape], None) | (VIEW, [], Some(("shape_or_dtype", shape))) => *shape,
        (VIEW, [_, ..], None) => t.add(Kind::List(args.to_vec())),
        _ => return Ok(None),
    };
    let dims = if let Some(dims) = t.kind(shape).items() {
        dims.to_vec()
    } else if args.len() == 1 && matches!(t.kind(shape), Kind::Const | Kind::Int(_)) {
        vec![shape]
    } else {
        return Ok(None);
    };
    for dim in &dims {
        // Of a zero `reshape` makes the dim that is there.
        let is_whole =
            matches!(t.kind(*dim), Kind::Int(_)) || t.const_int(*dim).is_some_and(|dim| dim != 0);
        if !is_whole {
            return Ok(None);
        }
    }
    match is_contiguous(t, tensor)? {
        true => Ok(Some(t.add(Kind::List(dims)))),
        false => Ok(None),
    }
}

/// Whether a tensor surely lies in storage without gaps, in its own order: new ones do, of those
/// that exist it is guarded.
pub fn is_contiguous(t: &mut Tracer<'_>, tensor: VarId) -> Step<bool> {
    let Kind::Tensor(var) = t.kind(tensor).clone() else {
        return Ok(true);
    };
    if let Some(view) = var.view {
        let name = match &view.callee {
            Callee::Method(name) => name.to_string(),
            Callee::Api(function) => function.bind(t.py).getattr("__name__")?.extract()?,
            Callee::Attribute(_) | Callee::Layer(_) | Callee::Sir(_) => return Ok(false),
        };
        if name == CONTIGUOUS {
            return Ok(true);
        }
        if name == "__getitem__" && is_one_of_rows(t.py, &view.args) {
            return is_contiguous(t, view.base);
        }
        return Ok((knows(&name, Fact::KeepsOrder) || knows(&name, RESHAPES))
            && is_contiguous(t, view.base)?);
    }
    if !inplace::is_outside(t, tensor, var.symbol) && !carried_aliases::is_of_two(t, var.symbol) {
        return Ok(true);
    }
    let (Some(real), Some(source)) = (t.value(tensor), t.source(tensor)) else {
        return Ok(false);
    };
    let is_so = abi::lies_contiguous(&real)?;
    if is_so {
        t.guards.add(&source, GuardKind::Contiguous);
    }
    Ok(is_so)
}

/// Whether `__getitem__` with these arguments takes one row of the first dim.
fn is_one_of_rows(py: Python<'_>, args: &[Arg]) -> bool {
    matches!(args.get(1), Some(Arg::Const(at)) if at.bind(py).is_exact_instance_of::<PyInt>())
}

/// The tensor whose storage `id` may share, through any number of views.
pub fn root(vars: &Arena, mut id: VarId) -> VarId {
    while let Kind::Tensor(TensorVar {
        view: Some(view), ..
    }) = vars.kind(id)
    {
        id = view.base;
    }
    id
}

/// Whether any tensor is such a view.
pub fn has_views(t: &Tracer<'_>, which: impl Fn(&View) -> bool) -> bool {
    (0..t.vars.len() as u32).any(|at| {
        if let Kind::Tensor(TensorVar {
            view: Some(view), ..
        }) = t.vars.kind(VarId(at))
        {
            which(view)
        } else {
            false
        }
    })
}

/// Breaks the graph where the last call writes a tensor besides making its result (running
/// statistics) that is a view, or of which there are views: in a graph they are copies.
pub fn refuse_updated(t: &mut Tracer<'_>) -> Step<()> {
    let updated = t.graph.updated().to_vec();
    if updated.is_empty() {
        return Ok(());
    }
    for id in (0..t.vars.len() as u32).map(VarId) {
        let Kind::Tensor(TensorVar { symbol, .. }) = *t.vars.kind(id) else {
            continue;
        };
        if !updated.contains(&symbol) {
            continue;
        }
        let of = root(&t.vars, id);
        let is_shared = of != id || has_views(t, |view| root(&t.vars, view.base) == of);
        if is_shared || carried_aliases::is_of_two(t, symbol) {
            let why = "a call updates a tensor that shares storage with a view".to_owned();
            return changed(t, id, why);
        }
    }
    Ok(())
}

/// Breaks the graph where a tensor changes in place that has to be a real one.
pub fn changed<T>(t: &mut Tracer<'_>, tensor: VarId, why: String) -> Step<T> {
    let changed = root(&t.vars, tensor);
    if t.grad.enabled {
        let same = |at: &VarId| root(&t.vars, *at) == changed;
        let symbol = |at: VarId| t.vars.kind(at).tensor().map(|tensor| tensor.symbol);
        let all = (0..t.vars.len() as u32).map(VarId).filter(same);
        let symbols: Vec<SymbolId> = all.filter_map(symbol).collect();
        t.at_break.changes_views |=
            has_views(t, |view| root(&t.vars, view.base) == changed) || pylayer::keeps(t, &symbols);
    }
    t.stop(BreakKind::InplaceTensor, why)
}
