//! `paddle.nn.Layer` instances: calls, and what is registered with them.

mod containers;
mod hooks;
mod new_layer;
mod tensors_below;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyType};

use crate::frame::Modules;
use crate::graph::Callee;
use crate::guard::GuardKind;
use crate::obj::{Item, Obj, items_in_order};
use crate::reason::BreakId;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{Kind, TensorVar, VarId};

use crate::attributes::{self, lookup};
use crate::call::call as call_any;
use crate::layer_call::{self, LayerCode};
use crate::{Kwargs, Step, Tracer};
use crate::{classes, provenance, tensors};
use hooks::HOOKS;
use tensors_below::TensorsBelow;

pub use containers::{get_item, items};
pub use new_layer::{call_made, instantiate, made};

fn dict_item(base: TrackerRef, name: &str) -> TrackerRef {
    Arc::new(Tracker::DictItem(base, DictKey::Str(Arc::from(name))))
}

fn layer_dict(source: &TrackerRef) -> TrackerRef {
    Arc::new(Tracker::InstanceDict(source.clone()))
}

/// The dict registered under `which` (`_parameters`, `_sub_layers`, `_buffers`) of a real layer.
pub(crate) fn registry<'py>(layer: &Bound<'py, PyAny>, which: &str) -> Option<Bound<'py, PyDict>> {
    layer
        .getattr("__dict__")
        .ok()?
        .get_item(which)
        .ok()?
        .cast_into::<PyDict>()
        .ok()
}

/// The items in the order Python iterates them; `None` for classes of dictionaries that may iterate
/// as they like.
fn in_order<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Option<Vec<Item<'py>>>> {
    let ordered = dict.py().collections()?.getattr("OrderedDict")?;
    if !(dict.is_exact_instance_of::<PyDict>() || dict.get_type().is(&ordered)) {
        return Ok(None);
    }
    items_in_order(dict)
}

/// Where a layer keeps its parts.
pub const REGISTRIES: [&str; 3] = ["_parameters", "_sub_layers", "_buffers"];

/// Whether the program wrote to one of these dictionaries of a layer: the real one does not have
/// that yet.
fn is_changed(t: &Tracer<'_>, layer: &Bound<'_, PyAny>, names: &[&str]) -> bool {
    t.vars.mutated().iter().any(|id| {
        let var = t.vars.get(*id);
        match (&var.kind, &var.value) {
            (Kind::Dict(_), Some(written)) => names
                .iter()
                .filter_map(|which| registry(layer, which))
                .any(|dict| dict.as_ptr() == written.as_ptr()),
            _ => false,
        }
    })
}

/// Whether the program gave a layer other parts.
pub fn is_given_others(t: &mut Tracer<'_>, layer: VarId) -> bool {
    let Some(object) = t.value(layer) else {
        return false;
    };
    is_changed(t, &object, &REGISTRIES)
}

/// Whether the program wrote to a dictionary of a layer, or of one below it.
fn is_changed_below(t: &Tracer<'_>, layer: &Bound<'_, PyAny>) -> bool {
    is_changed(t, layer, &REGISTRIES)
        || is_changed(t, layer, &HOOKS)
        || registry(layer, "_sub_layers").is_some_and(|children| {
            children
                .values()
                .iter()
                .any(|child| !child.is_none() && is_changed_below(t, &child))
        })
}

/// Stops where the program wrote to one of these dictionaries of a layer: what follows sees the
/// real one.
fn refuse_changed(t: &mut Tracer<'_>, layer: &Bound<'_, PyAny>, names: &[&str]) -> Step<()> {
    match is_changed(t, layer, names) {
        true => t.stop(
            BreakId::Layer,
            "a part of a layer that was given other parts or hooks",
        ),
        false => Ok(()),
    }
}

/// Called where a tensor becomes an attribute of a layer: the dictionaries it may go to are the
/// layer's own.
pub fn note_registries<'py>(
    t: &mut Tracer<'py>,
    layer: &Bound<'py, PyAny>,
    source: &TrackerRef,
) -> Step<()> {
    for which in REGISTRIES {
        if let Some(dict) = registry(layer, which) {
            t.note_dict(&dict, dict_item(layer_dict(source), which), layer)?;
        }
    }
    Ok(())
}

/// The buffer that the frame made of an attribute.
fn made_buffer(t: &mut Tracer<'_>, layer: VarId, name: &str) -> Option<VarId> {
    if let Kind::Layer(object) = t.kind(layer) {
        object.registered(name)
    } else {
        None
    }
}

/// Whether these methods of a class are Paddle's own, so that what they do is known; guards that
/// they stay what they are.
fn has_own(t: &mut Tracer<'_>, class: &Bound<'_, PyType>, methods: &[&str]) -> bool {
    classes::guard_names(t, class, methods);
    methods
        .iter()
        .all(|name| lookup(class, name).is_some_and(|found| provenance::is_of_paddle(&found)))
}

/// What `Layer.__getattr__` finds: parameters, then sub-layers, then buffers.
pub fn registered(t: &mut Tracer<'_>, layer: VarId, name: &str) -> Step<Option<VarId>> {
    let (Some(object), Some(source)) = (t.value(layer), t.source(layer)) else {
        return Ok(None);
    };
    refuse_changed(t, &object, &REGISTRIES)?;
    if let Some(buffer) = made_buffer(t, layer, name) {
        return Ok(Some(buffer));
    }
    for which in REGISTRIES {
        let Some(dict) = registry(&object, which) else {
            continue;
        };
        let tracker = dict_item(dict_item(layer_dict(&source), which), name);
        match dict.get_item(name)? {
            Some(found) => return Ok(Some(t.wrap(&found, tracker))),
            None => t.guards.add(&tracker, GuardKind::Absent),
        }
    }
    Ok(None)
}

/// Whether `part` is somewhere below `layer`.
fn is_below(layer: &Bound<'_, PyAny>, part: &Bound<'_, PyAny>) -> bool {
    registry(layer, "_sub_layers").is_some_and(|children| {
        children
            .iter()
            .any(|(_, child)| child.is(part) || !child.is_none() && is_below(&child, part))
    })
}

/// Whether a layer of Paddle's that was passed has no parameters, buffers, layers and hooks: then
/// what is captured with it holds for any other of the same class and with the same attributes,
/// such as the one that the next call makes.
pub fn may_be_another(layer: &Bound<'_, PyAny>, source: Option<&TrackerRef>) -> bool {
    let passed = source.is_some_and(|source| matches!(**source, Tracker::Local { .. }));
    let empty = |which: &str| registry(layer, which).map(|parts| parts.is_empty());
    passed
        && layer_call::is_paddle(&layer.get_type())
        && REGISTRIES.iter().all(|which| empty(which) == Some(true))
        // Paddle 3.2 has no flags of hooks.
        && HOOKS.iter().all(|which| empty(which) != Some(false))
}

/// Whether what a class of layers has by this name is what Paddle's `Layer` came with.
pub fn is_base(t: &Tracer<'_>, found: &Bound<'_, PyAny>, name: &str) -> bool {
    let base = t.paddle.layer.bind(t.py).getattr(name);
    base.is_ok_and(|base| base.is(found)) && provenance::is_from(found, "paddle.nn.layer.layers")
}

/// `layer(*args, **kwargs)`: hooks, then `forward`; Paddle's own layers become `call_layer`.
/// `tail`: see [`Tracer::tail`].
pub fn call(
    t: &mut Tracer<'_>,
    layer: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
    tail: bool,
) -> Step<VarId> {
    let (Some(object), Some(source)) = (t.value(layer), t.source(layer)) else {
        return t.stop(
            BreakId::Layer,
            "a layer made inside of the compiled function",
        );
    };
    let class = object.get_type();
    classes::guard_names(t, &class, &["__call__", "_build_once"]);
    let is_own = |name| lookup(&class, name).is_some_and(|found| is_base(t, &found, name));
    if !is_own("__call__") {
        let method = attributes::get_special(t, layer, "__call__")?;
        t.tail = tail;
        return call_any(t, method, args, kwargs);
    }
    if attributes::tells_class(&class) {
        return t.stop(BreakId::Layer, "a layer with its own __class__");
    }
    if !is_own("_build_once") {
        return t.stop(BreakId::Layer, "a layer with its own _build_once");
    }
    let written = matches!(t.kind(layer), Kind::Layer(object) if !object.writes.is_empty());
    let changed = |part: &Obj| is_below(&object, part.bind(t.py));
    let is_other = written
        || t.deferred.written_layers.iter().any(changed)
        || t.vars.has_changed_dicts() && is_changed_below(t, &object);
    if !is_other && !may_be_another(&object, Some(&source)) {
        if let Some(code) = LayerCode::of(&object, &mut t.seen.layer_code)? {
            return statement(t, &object, code, &source, args, kwargs);
        }
    }
    hooks::call(t, (layer, &object, &source), args, kwargs, tail)
}

/// Captures the call of an opaque layer.
fn statement(
    t: &mut Tracer<'_>,
    object: &Bound<'_, PyAny>,
    code: LayerCode<'_>,
    source: &TrackerRef,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    let as_obj = Obj::from(object);
    let symbol = t.graph.layer_input(t.py, as_obj.clone(), source.clone());
    let callee = Callee::Layer(symbol);
    tensors::refuse_listed(t, &callee)?;
    t.guards.add(source, GuardKind::LayerState(as_obj));
    code.guard(t);
    let receiver = Some(tensors::Receiver::Layer(symbol));
    let mut below: Option<TensorsBelow> = None;
    tensors::capture(t, callee, receiver, args, kwargs, &mut |tensor| {
        let below = below.get_or_insert_with(|| TensorsBelow::of(object, source));
        below.tracker(tensor)
    })
}

/// Whether this sets `training` to what it is: then nothing is written.
pub fn keeps_training(t: &mut Tracer<'_>, layer: VarId, name: &str, value: VarId) -> Step<bool> {
    let Some(object) = t.value(layer).filter(|_| name == "training") else {
        return Ok(false);
    };
    let known = object.getattr("__dict__")?.contains(name)?;
    let Some(value) = t
        .const_value(value)
        .filter(|value| known && value.is_exact_instance_of::<PyBool>())
    else {
        return Ok(false);
    };
    let now = attributes::get(t, layer, name)?;
    Ok(t.const_value(now).is_some_and(|now| now.is(&value)))
}

/// Stops unless `Layer.__setattr__` would do no more than write the instance dictionary.
pub fn check_plain_write(t: &mut Tracer<'_>, layer: VarId, name: &str, value: VarId) -> Step<()> {
    let Some(object) = t.value(layer) else {
        return t.stop(BreakId::Layer, "assignment to a new layer");
    };
    // A buffer that is replaced by another tensor stays a buffer; what reads the registry stops.
    let plain_tensor = matches!(t.kind(value), Kind::Tensor(tensor) if tensor.class.is_none());
    let is_buffer = made_buffer(t, layer, name).is_some();
    for which in REGISTRIES {
        if which == "_buffers" && plain_tensor {
            continue;
        }
        let has = |dict: Bound<'_, PyDict>| dict.contains(name).unwrap_or(true);
        if which == "_buffers" && is_buffer || registry(&object, which).is_some_and(has) {
            return t.stop(
                BreakId::Layer,
                format!("assignment to the registered attribute {name} of a layer"),
            );
        }
    }
    if name == "training" || REGISTRIES.contains(&name) || name.starts_with("_forward_") {
        return t.stop(BreakId::Layer, format!("assignment to {name} of a layer"));
    }
    if let Kind::Layer(_) | Kind::Opaque = t.kind(value) {
        return t.stop(BreakId::Layer, "assignment of a layer to a layer");
    }
    if let Kind::Tensor(TensorVar { class: Some(_), .. }) = t.kind(value) {
        return t.stop(BreakId::Layer, "assignment of a parameter to a layer");
    }
    // The registries do not have the name: that must stay so.
    registered(t, layer, name)?;
    Ok(())
}
