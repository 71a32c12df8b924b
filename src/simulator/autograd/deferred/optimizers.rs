//! Methods of Paddle's optimizers that can be deferred, and what they change.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFunction, PyList, PySet, PyType};

use crate::abi;
use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::obj::{Obj, text_of};
use crate::reason::BreakKind;
use crate::tracker::{DictKey, FunctionField, Tracker, TrackerRef};
use crate::variables::{Kind, VarId};

use super::{Act, Called, predicates};
use crate::{Kwargs, Step, Tracer, attributes, classes, provenance};

/// The package of optimizers, and what in it are none.
const PACKAGE: &str = "paddle.optimizer.";
pub(super) const SCHEDULERS: &str = "paddle.optimizer.lr";

/// Methods whose result is `None`.
const METHODS: &[&str] = &["step", "clear_grad", "zero_grad"];

/// A method that steps too. Its result is nothing only where nobody takes it.
const MINIMIZE: &str = "minimize";

/// Where scalers of losses are, and methods of those whose result is `None`.
const SCALERS: &str = "paddle.amp.grad_scaler";
const METHODS_OF_SCALERS: &[&str] = &["step", "unscale_", "update"];

/// The one argument of methods that clear gradients.
const HOW: &str = "set_to_zero";

/// What Paddle's step consists of, in the classes of optimizers and not in their instances.
const PARTS_OF_STEP: &[&str] = &[
    "_append_optimize_op",
    "_apply_optimize",
    "_create_accumulators",
    "_create_global_learning_rate",
    "_create_optimization_pass",
    "_create_param_lr",
    "_create_regularization_of_grad",
    "_finish_update",
    "_get_accumulator_master",
    "_get_auxiliary_var",
    "_global_learning_rate",
    "_is_dtype_fp16_or_bf16",
    "_maybe_refuse",
    "_update_param_group",
    "append_regularization_ops",
    "clear_grad",
    "step",
];

/// What the rate of a scheduler is read by, in its class.
const PARTS_OF_RATE: &[&str] = &["__call__", "__getattr__", "__getattribute__", "last_lr"];

/// The rate, or its scheduler, and a function that answers which parameters decay.
const RATE: &str = "_learning_rate";
const DECAYS: &str = "_apply_decay_param_fun";

/// Attributes that no step changes: the others are not read behind one. Betas and decays it takes
/// from groups.
const SETTINGS: &[&str] = &[
    DECAYS,
    RATE,
    "_grad_clip",
    "_lr_ratio",
    "_name",
    "_param_groups",
    "_parameter_list",
    "regularization",
];

/// A method of an optimizer.
pub(super) struct Method {
    /// The function, with its decorators.
    function: Obj,
    /// Its name.
    name: String,
    /// Whether it is one of a scaler.
    scales: bool,
}

fn is_optimizer(class: &Bound<'_, PyType>) -> bool {
    provenance::module_in_paddle(class)
        .is_some_and(|module| module.starts_with(PACKAGE) && module != SCHEDULERS)
}

/// The method, where `receiver` is an optimizer from outside and `function` one of Paddle's.
/// `is_dropped`: nobody takes its result.
pub(super) fn known(
    t: &mut Tracer<'_>,
    (receiver, function): (VarId, VarId),
    is_dropped: bool,
) -> Option<Method> {
    let Kind::Object(_) = t.kind(receiver) else {
        return None;
    };
    let class = t.type_of(receiver)?;
    t.source(receiver)?;
    let function = t.value(function)?;
    let name = text_of(&function, "__name__");
    let scales = provenance::module_in_paddle(&class).is_some_and(|module| module == SCALERS);
    let methods = match scales {
        true => METHODS_OF_SCALERS,
        false if is_optimizer(&class) => METHODS,
        false => return None,
    };
    let is_among = methods.contains(&&*name) || !scales && is_dropped && name == MINIMIZE;
    (is_among && provenance::is_of_paddle(&function)).then(|| Method {
        function: Obj::from(function),
        name,
        scales,
    })
}

/// The call of a method that no code of the user's runs in.
pub(super) fn call(
    t: &mut Tracer<'_>,
    method: &Method,
    receiver: VarId,
    given: (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    match method.scales {
        true => of_scaler(t, method, receiver, given),
        false => of_optimizer(t, method, receiver, given),
    }
}

/// A scaler that is off, as all are on a CPU, does nothing but step.
fn of_scaler(
    t: &mut Tracer<'_>,
    method: &Method,
    scaler: VarId,
    (args, kwargs): (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    let (Some(object), Some(source), []) = (t.value(scaler), t.source(scaler), kwargs) else {
        return Ok(None);
    };
    if object.getattr("_enable")?.is_truthy()? {
        return Ok(None);
    }
    let place = Tracker::DictItem(
        Arc::new(Tracker::InstanceDict(source)),
        DictKey::Str(Arc::from("_enable")),
    );
    let off = Obj::from(PyBool::new(t.py, false).to_owned().into_any());
    t.guards.add(&Arc::new(place), GuardKind::ConstEq(off));
    let steps = method.name == "step";
    let plain = match (&*method.name, args) {
        ("update", []) | ("unscale_", [_]) => true,
        ("step", [optimizer]) => steps_quietly(t, *optimizer)?,
        _ => false,
    };
    if !plain {
        return Ok(None);
    }
    Ok(Some(Called {
        function: method.function.clone(),
        args: [&[scaler], args].concat(),
        through: steps.then(|| short_step(t, "scaler_step_of")).transpose()?,
        changes: steps,
        act: match steps {
            true => Act::StepsFor,
            false => Act::Nothing,
        },
    }))
}

/// Whether it is an optimizer whose step runs no code of the user's, and whose state is not read.
fn steps_quietly(t: &mut Tracer<'_>, optimizer: VarId) -> Step<bool> {
    let Some(class) = t.type_of(optimizer) else {
        return Ok(false);
    };
    let (Some(object), Some(source)) = (t.value(optimizer), t.source(optimizer)) else {
        return Ok(false);
    };
    Ok(is_optimizer(&class)
        && !is_changed(t, &class)
        && !is_read(t, &class, &source)
        && runs_no_other_code(t, &object, &source)?)
}

fn of_optimizer(
    t: &mut Tracer<'_>,
    method: &Method,
    optimizer: VarId,
    (args, kwargs): (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    if method.name == MINIMIZE {
        return minimize(t, method, optimizer, (args, kwargs));
    }
    let mut all = vec![optimizer];
    let mut how_given = None;
    match (args, kwargs) {
        ([], []) => {}
        // How gradients are cleared.
        ([how], []) | ([], [(_, how)]) if method.name != "step" => {
            if kwargs.iter().any(|(name, _)| &**name != HOW) {
                return Ok(None);
            }
            let is_flag = |value: Bound<'_, PyAny>| value.is_exact_instance_of::<PyBool>();
            if !t.const_value(*how).is_some_and(is_flag) {
                return Ok(None);
            }
            all.push(*how);
            how_given = t.const_value(*how).map(|how| how.is_truthy());
        }
        _ => return Ok(None),
    }
    if !steps_quietly(t, optimizer)? {
        return Ok(None);
    }
    let steps = method.name == "step";
    if let (false, Some(function)) = (steps, clears_natively(t, method)?) {
        // `zero_grad` is asked for none, which is what `clear_grad` is not asked for.
        let asked = how_given.transpose()?.unwrap_or(true);
        let to_zero = t.bool(asked == (method.name == "clear_grad"));
        return Ok(Some(Called {
            function,
            args: vec![optimizer, to_zero],
            through: None,
            changes: true,
            act: Act::Clears,
        }));
    }
    let through = steps.then(|| short_step(t, "step_of")).transpose()?;
    Ok(Some(Called {
        function: method.function.clone(),
        args: all,
        through,
        // Who holds a gradient sees that it is cleared.
        changes: true,
        act: if steps { Act::Steps } else { Act::Clears },
    }))
}

/// A step by the gradients that there are.
fn minimize(
    t: &mut Tracer<'_>,
    method: &Method,
    optimizer: VarId,
    given: (&[VarId], &Kwargs),
) -> Step<Option<Called>> {
    let ([loss], []) = given else {
        return Ok(None);
    };
    let is_tensor = matches!(t.kind(*loss), Kind::Tensor(_));
    let (Some(class), Some(source)) = (t.type_of(optimizer), t.source(optimizer)) else {
        return Ok(None);
    };
    if !is_tensor || !steps_quietly(t, optimizer)? {
        return Ok(None);
    }
    // It asks for the gradients by a method.
    const GRADIENTS: &[&str] = &["backward"];
    let object = t.value(optimizer);
    let own = object
        .map(|object| object.getattr("__dict__"))
        .transpose()?;
    let is_paddles = paddles(&class, GRADIENTS[0]).is_some()
        && dict_of(own).is_some_and(|own| !own.contains(GRADIENTS[0]).unwrap_or(true));
    if !is_paddles {
        return Ok(None);
    }
    classes::guard_names(t, &class, GRADIENTS);
    guard_absent(t, &Arc::new(Tracker::InstanceDict(source)), GRADIENTS);
    Ok(Some(Called {
        function: method.function.clone(),
        args: vec![optimizer, *loss],
        through: Some(short_step(t, "minimize_of")?),
        changes: true,
        act: Act::Steps,
    }))
}

/// What clears gradients as a method of Paddle's does, where that is the one of the base class.
fn clears_natively(t: &Tracer<'_>, method: &Method) -> Step<Option<Obj>> {
    let base = t.py.module("paddle.optimizer")?.getattr("Optimizer")?;
    let own = attributes::lookup(base.cast::<PyType>().map_err(PyErr::from)?, &method.name);
    if !own.is_some_and(|own| method.function.bind(t.py).is(&own)) {
        return Ok(None);
    }
    let core = t.py.module("paddle_sot_rs._core")?;
    Ok(Some(Obj::from(core.getattr("clear_gradients")?)))
}

/// What answers with the function that runs a step, given what that takes; it notes those that run
/// Paddle's own code.
fn short_step(t: &Tracer<'_>, name: &str) -> Step<Obj> {
    let own = t.py.module("paddle_sot_rs._graph.optimizers")?;
    let note = t.options.note_own_step.clone();
    Ok(Obj::from(own.getattr("noting")?.call1((name, note))?))
}

/// Whether something that Paddle's step consists of is not Paddle's; guarded to be what it is.
fn is_changed(t: &mut Tracer<'_>, class: &Bound<'_, PyType>) -> bool {
    classes::guard_names(t, class, PARTS_OF_STEP);
    PARTS_OF_STEP.iter().any(|name| {
        let found = attributes::lookup(class, name);
        !found.is_some_and(|found| provenance::is_of_paddle(&found))
    })
}

/// Whether state that a step changes was read before it. No step hides a method: what that reads is
/// looked at by itself.
fn is_read(t: &Tracer<'_>, class: &Bound<'_, PyType>, optimizer: &TrackerRef) -> bool {
    let is_state = |tracker: &Tracker| {
        let attribute = tracker.attribute().filter(|(of, _)| *of == optimizer);
        attribute.is_some_and(|(_, name)| !is_fixed(name) && paddles(class, name).is_none())
    };
    t.guards.iter().any(|guard| {
        let mut path = std::iter::successors(Some(&guard.tracker), |tracker| tracker.base());
        path.any(|tracker| is_state(tracker))
    })
}

/// Whether all that an optimizer holds and may call is Paddle's; guarded.
fn runs_no_other_code(
    t: &mut Tracer<'_>,
    object: &Bound<'_, PyAny>,
    source: &TrackerRef,
) -> Step<bool> {
    let Ok(dict) = object.getattr("__dict__")?.cast_into_exact::<PyDict>() else {
        return Ok(false);
    };
    let own = Arc::new(Tracker::InstanceDict(source.clone()));
    for name in PARTS_OF_STEP.iter().chain(METHODS) {
        if dict.contains(*name)? {
            return Ok(false);
        }
    }
    guard_absent(t, &own, PARTS_OF_STEP);
    guard_absent(t, &own, METHODS);
    if !abi::is_plain_optimizer(object) {
        return Ok(false);
    }
    t.guards.add(source, GuardKind::PlainOptimizer);
    let place = |name: &str| {
        let place = Tracker::DictItem(own.clone(), DictKey::Str(Arc::from(name)));
        Arc::new(place)
    };
    if let Some(rate) = dict.get_item(RATE)? {
        let class = rate.get_type();
        t.guards
            .add(&place(RATE), GuardKind::TypeIs(Obj::from(class.clone())));
        if rate.is_callable() {
            classes::guard_names(t, &class, PARTS_OF_RATE);
            if !is_read_as_paddles(t.py, &class)? {
                return Ok(false);
            }
        }
    }
    if let Some(decays) = dict.get_item(DECAYS)? {
        let place = place(DECAYS);
        t.guards
            .add(&place, GuardKind::Is(Obj::from(decays.clone())));
        if !decays.is_none() {
            if !predicates::only_answers(t, &decays)? {
                return Ok(false);
            }
            let code = Arc::new(Tracker::Function(place, FunctionField::Code));
            let found = Obj::from(decays.getattr("__code__")?);
            t.guards.add(&code, GuardKind::Is(found));
        }
    }
    Ok(true)
}

/// Guards that a dictionary of an instance has none of these names.
pub(super) fn guard_absent(t: &mut Tracer<'_>, dict: &TrackerRef, names: &[&str]) {
    for name in names {
        let place = Tracker::DictItem(dict.clone(), DictKey::Str(Arc::from(*name)));
        t.guards.add(&Arc::new(place), GuardKind::Absent);
    }
}

/// The class that all schedulers have.
pub(super) fn scheduler(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let found = py.module(SCHEDULERS)?.getattr("LRScheduler")?;
    Ok(found.cast_into()?)
}

/// Whether the rate of a scheduler of this class is read as that of Paddle's own are.
fn is_read_as_paddles(py: Python<'_>, class: &Bound<'_, PyType>) -> PyResult<bool> {
    let own = scheduler(py)?;
    let finds = |class, name: &&str| attributes::lookup(class, name);
    Ok(PARTS_OF_RATE
        .iter()
        .all(|name| match (finds(class, name), finds(&own, name)) {
            (Some(found), Some(own)) => found.is(&own),
            (found, own) => found.is_none() && own.is_none(),
        }))
}

/// Whether it is an optimizer, and the frame has looked at a container of its state.
pub(super) fn has_seen_state(t: &Tracer<'_>, optimizer: VarId) -> bool {
    let Some(object) = t.value(optimizer) else {
        return false;
    };
    if !is_optimizer(&object.get_type()) {
        return false;
    }
    let Some(own) = dict_of(object.getattr("__dict__").ok()) else {
        return false;
    };
    own.iter().any(|(name, state)| {
        let is_state = name.extract().is_ok_and(|name: &str| !is_fixed(name));
        is_state && sees(t, &state)
    })
}

/// Whether the frame has looked at a container of state, or at one in it.
fn sees(t: &Tracer<'_>, state: &Bound<'_, PyAny>) -> bool {
    let is_container = |value: &Bound<'_, PyAny>| {
        value.is_instance_of::<PyDict>()
            || value.is_instance_of::<PyList>()
            || value.is_instance_of::<PySet>()
    };
    let seen = |value: &Bound<'_, PyAny>| is_container(value) && t.has_looked_at(value);
    let inner = || dict_of(Some(state.clone()));
    seen(state) || inner().is_some_and(|inner| inner.values().iter().any(|it| seen(&it)))
}

/// A dict, or one of a subclass, as accumulators are.
fn dict_of(value: Option<Bound<'_, PyAny>>) -> Option<Bound<'_, PyDict>> {
    value?.cast_into::<PyDict>().ok()
}

/// Whether no step changes what an optimizer has by this name.
fn is_fixed(name: &str) -> bool {
    [SETTINGS, METHODS, PARTS_OF_STEP]
        .iter()
        .any(|names| names.contains(&name))
}

/// The method of Paddle's that a class has by this name.
fn paddles<'py>(class: &Bound<'py, PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
    attributes::lookup(class, name).filter(|found| {
        found.is_exact_instance_of::<PyFunction>() && provenance::is_of_paddle(found)
    })
}

/// Whether an optimizer has a method of Paddle's by this name, which no step hides.
pub(super) fn is_method(
    t: &mut Tracer<'_>,
    class: &Bound<'_, PyType>,
    optimizer: VarId,
    name: &str,
) -> Step<bool> {
    let found = paddles(class, name);
    let own = t.value(optimizer).map(|object| object.getattr("__dict__"));
    let own = dict_of(own.transpose()?);
    Ok(match (found, own) {
        (Some(_), Some(own)) => !own.contains(name)?,
        _ => false,
    })
}

/// Stops where an attribute of an optimizer is read that a deferred step changes.
pub(super) fn check_read(t: &mut Tracer<'_>, object: VarId, name: &str) -> Step<()> {
    if is_fixed(name) {
        return Ok(());
    }
    let Some(class) = t.type_of(object).filter(is_optimizer) else {
        return Ok(());
    };
    if !is_method(t, &class, object, name)? {
        return t.stop(
            BreakKind::GradientStep,
            format!("{name} of an optimizer behind its step"),
        );
    }
    Ok(())
}
