//! Layers that the frame makes: slices of containers, and layers that are only functions with
//! settings.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::call::call as call_any;
use crate::frame::Modules;
use crate::obj::{Obj, within};
use crate::reason::BreakId;
use crate::variables::{Kind, VarId};
use crate::{Kwargs, Step, Tracer};
use crate::{fold, layer_call};

use super::containers::Container;
use super::{has_own, registry};

/// What is stood in for of the containers that the frame makes.
const METHODS: &[&str] = &[
    "__init__",
    "__call__",
    "__getitem__",
    "__iter__",
    "__len__",
    "forward",
];

/// `LayerList(layers)` and `Sequential(*layers)` of layers that exist, which is how those are
/// sliced; `None` for everything else.
pub fn instantiate(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if !layer_call::is_paddle(class) {
        return Ok(None);
    }
    if is_simple(class)? {
        return simple(t, class, args, kwargs);
    }
    if !kwargs.is_empty() {
        return Ok(None);
    }
    let items = match (Container::of(class), args) {
        (Some(Container::LayerList), [list]) => {
            if let Kind::List(items) | Kind::Tuple(items, _) = t.kind(*list).clone() {
                items
            } else {
                return Ok(None);
            }
        }
        (Some(Container::Sequential), layers) => layers.to_vec(),
        _ => return Ok(None),
    };
    let mut layers = items.iter();
    if !layers.all(|item| matches!(t.kind(*item), Kind::Layer(_))) || !has_own(t, class, METHODS) {
        return Ok(None);
    }
    Ok(Some(made(t, Obj::from(class), items)))
}

/// Modules of layers without parameters, buffers and layers of their own, with those that are none.
const SIMPLE: &[(&str, &[&str])] = &[
    ("paddle.nn.layer.activation", &["PReLU"]),
    ("paddle.nn.layer.pooling", &[]),
    (
        "paddle.nn.layer.loss",
        &["HSigmoidLoss", "AdaptiveLogSoftmaxWithLoss"],
    ),
    ("paddle.nn.layer.distance", &[]),
    ("paddle.nn.layer.vision", &[]),
    (
        "paddle.nn.layer.common",
        &["Linear", "Embedding", "Bilinear"],
    ),
];

fn is_simple(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let (module, name) = (class.module()?, class.name()?);
    let found = SIMPLE.iter().find(|row| module == row.0);
    Ok(found.is_some_and(|row| !row.1.iter().any(|other| name == *other)))
}

/// A new layer that is only a function with settings: `Softmax(axis=1)`. The graph has one made at
/// translation.
fn simple(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let all: Vec<VarId> = args
        .iter()
        .chain(kwargs.iter().map(|(_, value)| value))
        .copied()
        .collect();
    let Some(kept) = lists(t, &all) else {
        return Ok(None);
    };
    let Some((args, kwargs)) = fold::arguments(t, args, kwargs)? else {
        return Ok(None);
    };
    if !has_own(t, class, &["__init__"]) {
        return Ok(None);
    }
    // The name is taken when the code runs.
    let names =
        t.py.module("paddle.utils.unique_name")?
            .call_method0("guard")?;
    let Ok(layer) = within(&names, || class.call(args, Some(&kwargs)))? else {
        return Ok(None);
    };
    let empty = |which: &str| registry(&layer, which).is_some_and(|dict| dict.is_empty());
    if !(empty("_parameters") && empty("_buffers") && empty("_sub_layers")) {
        return Ok(None);
    }
    let id = t.constant(&layer);
    t.only_the_interpreter_makes(id);
    t.left_behind.push(id);
    for list in kept {
        // The layer has a copy. What looks at the list again needs the one that both have.
        t.vars.update(list, |var| var.kind = Kind::Opaque);
        t.only_the_interpreter_makes(list);
    }
    Ok(Some(id))
}

/// The lists among the arguments of a layer, which may keep them; `None` where they are not the
/// frame's, or hold what may change.
fn lists(t: &mut Tracer<'_>, args: &[VarId]) -> Option<Vec<VarId>> {
    let mut lists = Vec::new();
    for &arg in args {
        let is_new = |t: &mut Tracer<'_>, items: &[VarId]| {
            t.value(arg).is_none() && !items.is_empty() && !fold::any_mutable(t, items)
        };
        if matches!(t.kind(arg).clone(), Kind::List(items) if is_new(t, &items)) {
            lists.push(arg);
        } else if fold::holds_mutable(t, arg) {
            return None;
        }
    }
    Some(lists)
}

/// A new `LayerList` or `Sequential`.
pub fn made(t: &mut Tracer<'_>, class: Obj, items: Vec<VarId>) -> VarId {
    let id = t.made_natively();
    t.vars
        .update(id, |var| var.kind = Kind::Layers { class, items });
    t.left_behind.push(id);
    id
}

/// Calls a new `Sequential`, which has no hooks.
pub fn call_made(
    t: &mut Tracer<'_>,
    class: &Obj,
    items: &[VarId],
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let class = class.bind(t.py).cast::<PyType>().map_err(PyErr::from)?;
    let sequential = Container::of(class) == Some(Container::Sequential);
    let (true, true, [input]) = (sequential, kwargs.is_empty(), args) else {
        return t.stop(BreakId::Layer, "this call of a new layer");
    };
    let mut value = *input;
    for layer in items {
        value = call_any(t, *layer, &[value], &[])?;
    }
    Ok(value)
}
