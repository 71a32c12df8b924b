//! `paddle.nn.Layer` instances: calls, hooks, registered parameters and containers.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyType};

use crate::frame::Modules;
use crate::graph::Callee;
use crate::guard::GuardKind;
use crate::obj::{items_in_order, within, Item, Obj};
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{DictVar, Kind, VarId};

use super::attributes::{self, lookup};
use super::call::{call as call_any, Named};
use super::opaque::{self, LayerCode};
use super::{classes, fold, homes, subscript, tensors};
use super::{Kwargs, Step, Tracer};

fn dict_item(base: TrackerRef, name: &str) -> TrackerRef {
    Arc::new(Tracker::DictItem(base, DictKey::Str(Arc::from(name))))
}

fn layer_dict(source: &TrackerRef) -> TrackerRef {
    Arc::new(Tracker::InstanceDict(source.clone()))
}

/// The dict registered under `which` (`_parameters`, `_sub_layers`, `_buffers`) of a real layer.
pub(super) fn registry<'py>(layer: &Bound<'py, PyAny>, which: &str) -> Option<Bound<'py, PyDict>> {
    layer
        .getattr("__dict__")
        .ok()?
        .get_item(which)
        .ok()?
        .cast_into::<PyDict>()
        .ok()
}

/// The items in the order Python iterates them; `None` for classes of dictionaries that may iterate as they like.
fn in_order<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Option<Vec<Item<'py>>>> {
    let ordered = dict.py().module("collections")?.getattr("OrderedDict")?;
    if !(dict.is_exact_instance_of::<PyDict>() || dict.get_type().is(&ordered)) {
        return Ok(None);
    }
    items_in_order(dict)
}

/// Where a layer keeps its parts.
const REGISTRIES: [&str; 3] = ["_parameters", "_sub_layers", "_buffers"];

/// Where a layer keeps its hooks.
const HOOKS: [&str; 5] = [
    "_forward_pre_hooks",
    "_forward_post_hooks",
    "_forward_pre_hooks_with_kwargs_flag",
    "_forward_post_hooks_with_kwargs_flag",
    "_forward_post_hooks_always_called",
];

/// Whether the program wrote to one of these dictionaries of a layer: the real one does not have that yet.
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

/// Stops where the program wrote to one of these dictionaries of a layer: what follows sees the real one.
fn refuse_changed(t: &mut Tracer<'_>, layer: &Bound<'_, PyAny>, names: &[&str]) -> Step<()> {
    match is_changed(t, layer, names) {
        true => t.unsupported("a part of a layer that was given other parts or hooks"),
        false => Ok(()),
    }
}

/// Called where a tensor becomes an attribute of a layer: the dictionaries it may go to are the layer's own.
pub fn note_registries<'py>(
    t: &mut Tracer<'py>,
    layer: &Bound<'py, PyAny>,
    source: &TrackerRef,
) -> Step<()> {
    for which in REGISTRIES {
        if let Some(dict) = registry(layer, which) {
            t.note_dict(&dict, dict_item(layer_dict(source), which))?;
        }
    }
    Ok(())
}

/// What `Layer.__getattr__` finds: parameters, then sub-layers, then buffers.
pub fn registered(t: &mut Tracer<'_>, layer: VarId, name: &str) -> Step<Option<VarId>> {
    let (Some(object), Some(source)) = (t.value(layer), t.source(layer)) else {
        return Ok(None);
    };
    refuse_changed(t, &object, &REGISTRIES)?;
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

/// The items of a container layer (LayerList, Sequential), wrapped; the keys are guarded.
pub fn items(t: &mut Tracer<'_>, layer: VarId) -> Step<Option<Vec<VarId>>> {
    let (Some(object), Some(source)) = (t.value(layer), t.source(layer)) else {
        return Ok(None);
    };
    let class = object.get_type().name()?.to_string();
    let which = match class.as_str() {
        "LayerList" | "Sequential" => "_sub_layers",
        "ParameterList" => "_parameters",
        _ => return Ok(None),
    };
    if !opaque::is_paddle(&object.get_type()) {
        return Ok(None);
    }
    refuse_changed(t, &object, &[which])?;
    let Some(dict) = registry(&object, which) else {
        return Ok(None);
    };
    let Some(found) = in_order(&dict)? else {
        return Ok(None);
    };
    let base = dict_item(layer_dict(&source), which);
    let mut keys = Vec::new();
    let mut values = Vec::new();
    for (key, value) in found {
        let Ok(key) = key.extract::<String>() else {
            return Ok(None);
        };
        values.push(t.wrap(&value, dict_item(base.clone(), &key)));
        keys.push(DictKey::Str(Arc::from(key)));
    }
    t.guards.add(&base, GuardKind::DictKeys(keys));
    Ok(Some(values))
}

/// `container[index]` of LayerList, Sequential and ParameterList with a constant int.
pub fn get_item(t: &mut Tracer<'_>, layer: VarId, key: VarId) -> Step<Option<VarId>> {
    let Some(index) = t.const_int(key) else {
        return Ok(None);
    };
    let Some(items) = items(t, layer)? else {
        return Ok(None);
    };
    let index = if index < 0 {
        index + items.len() as i64
    } else {
        index
    };
    match usize::try_from(index)
        .ok()
        .and_then(|index| items.get(index))
    {
        Some(item) => Ok(Some(*item)),
        None => t.stop(BreakKind::RaisesException, "a layer index is out of range"),
    }
}

/// `LayerList(layers)` and `Sequential(*layers)` of layers that exist, which is how those are sliced; `None` for
/// everything else.
pub fn instantiate(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    if !opaque::is_paddle(class) {
        return Ok(None);
    }
    if is_simple(class)? {
        return simple(t, class, args, kwargs);
    }
    if !kwargs.is_empty() {
        return Ok(None);
    }
    let items = match (class.name()?.to_str()?, args) {
        ("LayerList", [list]) => match t.kind(*list).clone() {
            Kind::List(items) | Kind::Tuple(items, _) => items,
            _ => return Ok(None),
        },
        ("Sequential", layers) => layers.to_vec(),
        _ => return Ok(None),
    };
    if !items
        .iter()
        .all(|item| matches!(t.kind(*item), Kind::Layer(_)))
    {
        return Ok(None);
    }
    let init = lookup(class, "__init__");
    attributes::guard_type_attr(t, &Obj::from(class), "__init__", init.as_ref());
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

/// A new layer that is only a function with settings: `Softmax(axis=1)`. The graph has one made at translation.
fn simple(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some((args, kwargs)) = fold::arguments(t, args, kwargs)? else {
        return Ok(None);
    };
    let init = lookup(class, "__init__");
    attributes::guard_type_attr(t, &Obj::from(class), "__init__", init.as_ref());
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
    Ok(Some(id))
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
    let sequential = class.bind(t.py).getattr("__name__")?.eq("Sequential")?;
    let (true, true, [input]) = (sequential, kwargs.is_empty(), args) else {
        return t.unsupported("this call of a new layer");
    };
    let mut value = *input;
    for layer in items {
        value = call_any(t, *layer, &[value], &[])?;
    }
    Ok(value)
}

/// Whether `part` is somewhere below `layer`.
fn is_below(layer: &Bound<'_, PyAny>, part: &Bound<'_, PyAny>) -> bool {
    registry(layer, "_sub_layers").is_some_and(|children| {
        children
            .iter()
            .any(|(_, child)| child.is(part) || !child.is_none() && is_below(&child, part))
    })
}

/// Whether a layer of Paddle's that was passed has no parameters, buffers, layers and hooks: then what is captured with it
/// holds for any other of the same class and with the same attributes, such as the one that the next call makes.
pub fn may_be_another(layer: &Bound<'_, PyAny>, source: Option<&TrackerRef>) -> bool {
    let passed = source.is_some_and(|source| matches!(**source, Tracker::Local { .. }));
    let is_empty = |which: &&str| registry(layer, which).is_some_and(|parts| parts.is_empty());
    passed && opaque::is_paddle(&layer.get_type()) && REGISTRIES.iter().chain(&HOOKS).all(is_empty)
}

/// Where Paddle's `Layer` was written.
const LAYERS: &str = "paddle.nn.layer.layers";

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
            BreakKind::UnsupportedCall,
            "a layer made inside of the compiled function",
        );
    };
    let class = object.get_type();
    let own_call = lookup(&class, "__call__");
    let base_call = t.paddle.layer.bind(t.py).getattr("__call__")?;
    attributes::guard_type_attr(t, &Obj::from(&class), "__call__", own_call.as_ref());
    let is_paddles =
        |found: &Bound<'_, PyAny>| found.is(&base_call) && homes::is_from(found, LAYERS);
    if !own_call.as_ref().is_some_and(is_paddles) {
        let method = attributes::get_special(t, layer, "__call__")?;
        t.tail = tail;
        return call_any(t, method, args, kwargs);
    }
    classes::guard_names(t, &class, &["_build_once"]);
    let build = t.paddle.layer.bind(t.py).getattr("_build_once")?;
    let is_paddles = |found: Bound<'_, PyAny>| found.is(&build) && homes::is_from(&found, LAYERS);
    if !lookup(&class, "_build_once").is_some_and(is_paddles) {
        return t.stop(
            BreakKind::UnsupportedCall,
            "a layer with its own _build_once",
        );
    }
    let written = matches!(t.kind(layer), Kind::Layer(object) if !object.writes.is_empty());
    let changed = |part: &Obj| is_below(&object, part.bind(t.py));
    let is_other = written
        || t.written_layers.iter().any(changed)
        || t.vars.has_changed_dicts() && is_changed_below(t, &object);
    if !is_other && !may_be_another(&object, Some(&source)) {
        if let Some(code) = LayerCode::of(&object)? {
            return statement(t, &object, code, &source, args, kwargs);
        }
    }
    let (mut args, mut kwargs) = (args.to_vec(), kwargs.to_vec());
    refuse_changed(t, &object, &HOOKS)?;
    if registry(&object, "_forward_post_hooks_always_called").is_some_and(|dict| !dict.is_empty()) {
        return t.unsupported("a hook that is called after an exception too");
    }
    for (hook, named) in hook_vars(t, &object, &source, "_forward_pre_hooks")? {
        let inputs = t.add(Kind::Tuple(args.clone(), None));
        if named {
            let given = named_arguments(t, &kwargs)?;
            let result = call_any(t, hook, &[layer, inputs, given], &[])?;
            if !t.is_none(result) {
                (args, kwargs) = both(t, result)?;
            }
            continue;
        }
        let result = call_any(t, hook, &[layer, inputs], &[])?;
        if !t.is_none(result) {
            args = match t.kind(result).clone() {
                Kind::Tuple(items, None) => items,
                _ => vec![result],
            };
        }
    }
    let forward = attributes::get(t, layer, "forward")?;
    let post_hooks = hook_vars(t, &object, &source, "_forward_post_hooks")?;
    t.tail = tail && post_hooks.is_empty();
    let mut output = call_any(t, forward, &args, &kwargs)?;
    for (hook, named) in post_hooks {
        let inputs = t.add(Kind::Tuple(args.clone(), None));
        let result = if named {
            let given = named_arguments(t, &kwargs)?;
            call_any(t, hook, &[layer, inputs, given, output], &[])?
        } else {
            call_any(t, hook, &[layer, inputs, output], &[])?
        };
        if !t.is_none(result) {
            output = result;
        }
    }
    Ok(output)
}

/// Keyword arguments as the dict that a hook is given.
fn named_arguments(t: &mut Tracer<'_>, kwargs: &Kwargs) -> Step<VarId> {
    let dict = t.add(Kind::Dict(DictVar::default()));
    for (name, value) in kwargs {
        let key = t.str(name);
        subscript::set(t, dict, key, *value)?;
    }
    Ok(dict)
}

/// What a hook answers that takes keyword arguments: `(args, kwargs)`.
fn both(t: &mut Tracer<'_>, result: VarId) -> Step<(Vec<VarId>, Named)> {
    if let Kind::Tuple(items, None) = t.kind(result).clone() {
        if let [args, kwargs] = items[..] {
            if let (Kind::Tuple(args, None), Kind::Dict(dict)) =
                (t.kind(args).clone(), t.kind(kwargs).clone())
            {
                let mut named = Vec::with_capacity(dict.items.len());
                for (key, value) in dict.items.into_values() {
                    match t.const_str(key) {
                        Some(name) => named.push((name, value)),
                        None => return t.unsupported("what a forward hook returned"),
                    }
                }
                return Ok((args, named));
            }
        }
    }
    t.unsupported("what a forward hook returned")
}

fn hook_vars(
    t: &mut Tracer<'_>,
    layer: &Bound<'_, PyAny>,
    source: &TrackerRef,
    which: &str,
) -> Step<Vec<(VarId, bool)>> {
    let base = dict_item(layer_dict(source), which);
    let named = registry(layer, &format!("{which}_with_kwargs_flag"));
    let found = match registry(layer, which) {
        Some(dict) => in_order(&dict)?,
        None => Some(Vec::new()),
    };
    let Some(found) = found else {
        return t.unsupported("a layer whose hooks are in a dictionary of another class");
    };
    let mut keys = Vec::new();
    let mut vars = Vec::new();
    for (key, hook) in found {
        let plain = key.is_exact_instance_of::<pyo3::types::PyInt>();
        let Some(key) = plain.then(|| key.extract::<i64>().ok()).flatten() else {
            return t.unsupported("a layer with hooks under unusual keys");
        };
        let takes_names = named
            .as_ref()
            .is_some_and(|named| named.contains(key).unwrap_or(true));
        let key = DictKey::Int(key);
        keys.push(key.clone());
        let hook = t.wrap(&hook, Arc::new(Tracker::DictItem(base.clone(), key)));
        vars.push((hook, takes_names));
    }
    t.guards.add(&base, GuardKind::DictKeys(keys));
    Ok(vars)
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
    let symbol = t.graph.layer_input(as_obj.clone(), source.clone());
    let callee = Callee::Layer(symbol);
    tensors::refuse_listed(t, &callee)?;
    t.guards.add(source, GuardKind::LayerState(as_obj));
    code.guard(t);
    let receiver = Some(tensors::Receiver::Layer(symbol));
    tensors::capture(t, callee, receiver, args, kwargs, &mut |tensor| {
        locate(object, source, tensor)
    })
}

/// The tracker of a parameter or buffer below a real layer.
fn locate(layer: &Bound<'_, PyAny>, source: &TrackerRef, tensor: &Obj) -> Option<TrackerRef> {
    let dict = layer_dict(source);
    for which in ["_parameters", "_buffers"] {
        let Some(found) = registry(layer, which) else {
            continue;
        };
        for (key, value) in found.iter() {
            if value.as_ptr() == tensor.as_ptr() {
                return Some(dict_item(
                    dict_item(dict, which),
                    key.extract::<&str>().ok()?,
                ));
            }
        }
    }
    for (key, value) in layer
        .getattr("__dict__")
        .ok()?
        .cast::<PyDict>()
        .ok()?
        .iter()
    {
        if value.as_ptr() == tensor.as_ptr() {
            return Some(dict_item(dict, key.extract::<&str>().ok()?));
        }
        // Flattened weights of the recurrent layers.
        if let Ok(list) = value.cast::<pyo3::types::PyList>() {
            if let Some(at) = list
                .iter()
                .position(|item| item.as_ptr() == tensor.as_ptr())
            {
                return Some(Arc::new(Tracker::ListItem(
                    dict_item(dict, key.extract::<&str>().ok()?),
                    at,
                )));
            }
        }
    }
    let children = registry(layer, "_sub_layers")?;
    children.iter().find_map(|(key, child)| {
        let tracker = dict_item(
            dict_item(dict.clone(), "_sub_layers"),
            key.extract::<&str>().ok()?,
        );
        if child.is_none() {
            None
        } else {
            locate(&child, &tracker, tensor)
        }
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
        return t.unsupported("assignment to a new layer");
    };
    // A buffer that is replaced by another tensor stays a buffer; what reads the registry stops.
    let plain_tensor = matches!(t.kind(value), Kind::Tensor(tensor) if tensor.class.is_none());
    for which in REGISTRIES {
        if which == "_buffers" && plain_tensor {
            continue;
        }
        if registry(&object, which).is_some_and(|dict| dict.contains(name).unwrap_or(true)) {
            return t.unsupported(format!(
                "assignment to the registered attribute {name} of a layer"
            ));
        }
    }
    if name == "training" || REGISTRIES.contains(&name) || name.starts_with("_forward_") {
        return t.unsupported(format!("assignment to {name} of a layer"));
    }
    match t.kind(value).clone() {
        Kind::Layer(_) | Kind::Opaque => t.unsupported("assignment of a layer to a layer"),
        Kind::Tensor(tensor) if tensor.class.is_some() => {
            t.unsupported("assignment of a parameter to a layer")
        }
        _ => {
            // The registries do not have the name: that must stay so.
            registered(t, layer, name)?;
            Ok(())
        }
    }
}
