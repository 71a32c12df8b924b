//! The hooks of a layer, and `forward` between them: `Layer.__call__`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::builtins::is_instance;
use crate::call::{call as call_any, named};
use crate::guard::GuardKind;
use crate::reason::BreakId;
use crate::tracker::{DictKey, Tracker, TrackerRef};
use crate::variables::{DictVar, Kind, VarId};
use crate::{Kwargs, Step, Tracer};
use crate::{attributes, frame_introspection, iterate, subscript};

use super::{dict_item, has_own, in_order, layer_dict, refuse_changed, registry};

/// Where a layer keeps its hooks.
pub(super) const HOOKS: [&str; 5] = [
    "_forward_pre_hooks",
    "_forward_post_hooks",
    "_forward_pre_hooks_with_kwargs_flag",
    "_forward_post_hooks_with_kwargs_flag",
    "_forward_post_hooks_always_called",
];

/// A layer, the real one, and where it comes from.
type Called<'a, 'py> = (VarId, &'a Bound<'py, PyAny>, &'a TrackerRef);

/// What `Layer.__call__` does with what is called `forward`.
pub(super) fn call<'py>(
    t: &mut Tracer<'py>,
    called: Called<'_, 'py>,
    args: &[VarId],
    kwargs: &Kwargs,
    tail: bool,
) -> Step<VarId> {
    let (layer, object, source) = called;
    // A function that resumes in `forward` is not called by Paddle's `__call__`.
    let tail = match attributes::lookup(&object.get_type(), "forward") {
        Some(forward) => tail && !frame_introspection::tells_callers(&forward)?,
        None => tail,
    };
    refuse_changed(t, object, &HOOKS)?;
    let before = of_layer(t, object, source, "_forward_pre_hooks")?;
    let after = of_layer(t, object, source, "_forward_post_hooks")?;
    if before.is_empty() && after.is_empty() {
        let forward = attributes::get(t, layer, "forward")?;
        t.tail = tail;
        // Hooks that come meanwhile wait for the next call.
        return call_any(t, forward, args, kwargs);
    }
    let class = object.get_type();
    if !has_own(t, &class, &["_dygraph_call_func"]) {
        return t.stop(BreakId::Layer, "a layer that calls its hooks itself");
    }
    if !entries(t, object, source, "_forward_post_hooks_always_called")?.is_empty() {
        return t.stop(
            BreakId::Layer,
            "a hook that is called after an exception too",
        );
    }
    // All hooks get the same two objects, and `forward` what they left in them.
    let mut inputs = t.add(Kind::Tuple(args.to_vec(), None));
    let mut given = named_arguments(t, kwargs)?;
    for hook in before {
        let result = hook.call(t, called, &[inputs], given)?;
        if t.is_none(result) {
            continue;
        }
        if hook.named {
            (inputs, given) = both(t, result)?;
        } else if is_tuple(t, result)? {
            inputs = result;
        } else {
            inputs = t.add(Kind::Tuple(vec![result], None));
        }
    }
    let forward = attributes::get(t, layer, "forward")?;
    let args = iterate::collect_for_list(t, inputs)?;
    let kwargs = named(t, given)?;
    // Paddle asks for the hooks behind it once more: that call is no tail.
    let mut output = call_any(t, forward, &args, &kwargs)?;
    refuse_changed(t, object, &HOOKS)?;
    for hook in after {
        let result = hook.call(t, called, &[inputs, output], given)?;
        if !t.is_none(result) {
            output = result;
        }
    }
    Ok(output)
}

/// A hook, and whether it is given the keyword arguments too.
struct Hook {
    function: VarId,
    named: bool,
}

impl Hook {
    /// `function(layer, inputs, output)`, or with the keyword arguments behind the inputs. What
    /// goes over the hooks of the layer finds that they changed.
    fn call(
        &self,
        t: &mut Tracer<'_>,
        (layer, object, _): Called<'_, '_>,
        values: &[VarId],
        given: VarId,
    ) -> Step<VarId> {
        let mut args = vec![layer];
        args.extend_from_slice(values);
        if self.named {
            args.insert(2, given);
        }
        let result = call_any(t, self.function, &args, &[])?;
        refuse_changed(t, object, &HOOKS)?;
        Ok(result)
    }
}

/// The hooks of a layer; which they are, and what they are given, is guarded.
fn of_layer<'py>(
    t: &mut Tracer<'py>,
    layer: &Bound<'py, PyAny>,
    source: &TrackerRef,
    which: &str,
) -> Step<Vec<Hook>> {
    let found = entries(t, layer, source, which)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let flags = entries(t, layer, source, &format!("{which}_with_kwargs_flag"))?;
    let base = dict_item(layer_dict(source), which);
    let hook = |(key, hook): (i64, Bound<'_, PyAny>)| {
        let place = Tracker::DictItem(base.clone(), DictKey::Int(key));
        Hook {
            function: t.wrap(&hook, Arc::new(place)),
            named: flags.iter().any(|(flag, _)| *flag == key),
        }
    };
    Ok(found.into_iter().map(hook).collect())
}

/// The items of one of these dictionaries in order, under the numbers of hooks; the numbers are
/// guarded.
fn entries<'py>(
    t: &mut Tracer<'py>,
    layer: &Bound<'py, PyAny>,
    source: &TrackerRef,
    which: &str,
) -> Step<Vec<(i64, Bound<'py, PyAny>)>> {
    let Some(dict) = registry(layer, which) else {
        return Ok(Vec::new());
    };
    let Some(found) = in_order(&dict)? else {
        return t.stop(
            BreakId::Layer,
            "a layer whose hooks are in a dictionary of another class",
        );
    };
    let mut entries = Vec::with_capacity(found.len());
    for (key, value) in found {
        let plain = key.is_exact_instance_of::<PyInt>();
        let Some(key) = plain.then(|| key.extract::<i64>().ok()).flatten() else {
            return t.stop(BreakId::Layer, "a layer with hooks under unusual keys");
        };
        entries.push((key, value));
    }
    let keys = entries.iter().map(|(key, _)| DictKey::Int(*key)).collect();
    let place = dict_item(layer_dict(source), which);
    t.guards.add(&place, GuardKind::DictKeys(keys));
    Ok(entries)
}

/// Keyword arguments as the dict that the hooks are given.
fn named_arguments(t: &mut Tracer<'_>, kwargs: &Kwargs) -> Step<VarId> {
    let dict = t.add(Kind::Dict(DictVar::default()));
    for (name, value) in kwargs {
        let key = t.str(name);
        subscript::set(t, dict, key, *value)?;
    }
    Ok(dict)
}

/// `isinstance(result, tuple)`
fn is_tuple(t: &mut Tracer<'_>, result: VarId) -> Step<bool> {
    let tuple = t.builtin("tuple")?;
    let tuple = t.constant(&tuple);
    is_instance(t, result, tuple)
}

/// What a hook answers that takes keyword arguments: `(args, kwargs)`.
fn both(t: &mut Tracer<'_>, result: VarId) -> Step<(VarId, VarId)> {
    if let Kind::Tuple(items, _) = t.kind(result).clone() {
        let is_sequence =
            |t: &Tracer<'_>, id| matches!(t.vars.kind(id), Kind::Tuple(..) | Kind::List(_));
        if let [inputs, given] = items[..] {
            if is_sequence(t, inputs) && matches!(t.kind(given), Kind::Dict(_)) {
                return Ok((inputs, given));
            }
        }
    }
    t.stop(BreakId::Layer, "what a forward hook returned")
}
