//! Steps of Paddle's schedulers behind deferred calls: the rate that they set is that of the next
//! step of the optimizer.
//!
//! Followed, they would write to the scheduler between calls of the train step, and a rate that the
//! optimizer has read would change too early. What reads a scheduler behind its step breaks.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::obj::{Obj, text_of};
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{Kind, VarId};

use super::{Act, Called, optimizers};
use crate::{Kwargs, Step, Tracer, attributes, classes, provenance};

/// What a step consists of, in the class and not in its instance.
const PARTS_OF_STEP: &[&str] = &["_get_closed_form_lr", "get_lr", "step"];

/// What an optimizer's first step sets, and no scheduler reads.
const NOT_READ: &str = "_var_name";

/// The function, where `receiver` is a scheduler of Paddle's from outside and this its step.
pub(super) fn known(t: &mut Tracer<'_>, receiver: VarId, function: VarId) -> Option<Obj> {
    let Kind::Object(_) = t.kind(receiver) else {
        return None;
    };
    let class = t.type_of(receiver)?;
    t.source(receiver)?;
    let function = t.value(function)?;
    let is_step = !t.deferred.is_empty()
        && is_scheduler(&class)
        && text_of(&function, "__name__") == "step"
        && provenance::is_of_paddle(&function);
    is_step.then(|| Obj::from(function))
}

/// The call of a step that no code of the user's runs in.
pub(super) fn call(
    t: &mut Tracer<'_>,
    step: Obj,
    scheduler: VarId,
    given: (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    let (Some(class), ([], [])) = (t.type_of(scheduler), given) else {
        return Ok(None);
    };
    let found = PARTS_OF_STEP
        .iter()
        .filter_map(|name| attributes::lookup(&class, name));
    if !found.into_iter().all(|it| provenance::is_of_paddle(&it)) || !is_plain(t, scheduler)? {
        return Ok(None);
    }
    classes::guard_names(t, &class, PARTS_OF_STEP);
    Ok(Some(Called {
        function: step,
        args: vec![scheduler],
        through: None,
        changes: false,
        act: Act::Other,
    }))
}

/// Whether a scheduler holds numbers, texts, lists of such and methods of Paddle's alone; guarded.
fn is_plain(t: &mut Tracer<'_>, scheduler: VarId) -> Step<bool> {
    let (Some(source), Some(own)) = (t.source(scheduler), own_dict(t, scheduler)) else {
        return Ok(false);
    };
    let held = Arc::new(Tracker::InstanceDict(source));
    for (name, value) in own.iter() {
        let name: String = name.extract()?;
        if PARTS_OF_STEP.contains(&&*name) {
            return Ok(false);
        }
        if name == NOT_READ {
            continue;
        }
        let guard = if is_plain_value(&value) {
            GuardKind::TypeIs(Obj::from(value.get_type()))
        } else if is_own_method(&value)? {
            GuardKind::Is(Obj::from(value))
        } else {
            return Ok(false);
        };
        let place = Tracker::DictItem(held.clone(), DictKey::Str(Arc::from(&*name)));
        t.guards.add(&Arc::new(place), guard);
    }
    optimizers::guard_absent(t, &held, PARTS_OF_STEP);
    Ok(true)
}

/// Whether it is a method of a scheduler, bound, and Paddle's.
fn is_own_method(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let method = py.types()?.getattr("MethodType")?;
    Ok(value.get_type().is(&method)
        && is_scheduler(&value.getattr("__self__")?.get_type())
        && provenance::is_of_paddle(&value.getattr("__func__")?))
}

fn is_plain_value(value: &Bound<'_, PyAny>) -> bool {
    let is_number = value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>();
    if is_number || value.is_none() || value.is_exact_instance_of::<PyString>() {
        return true;
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        return list.iter().all(|item| is_plain_value(&item));
    }
    let tuple = value.cast_exact::<PyTuple>();
    tuple.is_ok_and(|tuple| tuple.iter().all(|item| is_plain_value(&item)))
}

fn is_scheduler(class: &Bound<'_, PyType>) -> bool {
    provenance::module_in_paddle(class).is_some_and(|module| module == optimizers::SCHEDULERS)
}

fn own_dict<'py>(t: &Tracer<'py>, scheduler: VarId) -> Option<Bound<'py, PyDict>> {
    let object = t.value(scheduler)?;
    object.getattr("__dict__").ok()?.cast_into_exact().ok()
}

/// Whether it is a scheduler, and the frame has looked at the dictionary of its state.
pub(super) fn has_seen_state(t: &Tracer<'_>, scheduler: VarId) -> bool {
    let class = t.value(scheduler).map(|object| object.get_type());
    class.is_some_and(|class| is_scheduler(&class))
        && own_dict(t, scheduler).is_some_and(|own| t.has_looked_at(own.as_any()))
}

/// Stops where an attribute of a scheduler is read behind the step of one.
pub(super) fn check_read(t: &mut Tracer<'_>, object: VarId, name: &str) -> Step<()> {
    let steps = t.deferred.iter().any(|call| {
        let first = if let Kind::Partial { args, .. } = t.vars.kind(call.call) {
            args.first()
        } else {
            None
        };
        let class = first.and_then(|id| Some(t.value(*id)?.get_type()));
        class.is_some_and(|class| is_scheduler(&class))
    });
    if !steps {
        return Ok(());
    }
    let base = optimizers::scheduler(t.py)?;
    let Some(class) = t.type_of(object) else {
        return Ok(());
    };
    if !class.is_subclass(&base)? || optimizers::is_method(t, &class, object, name)? {
        return Ok(());
    }
    t.stop(
        BreakKind::GradientStep,
        format!("{name} of a scheduler behind its step"),
    )
}
