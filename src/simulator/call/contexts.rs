//! Context managers the simulator enters itself: grad mode, `auto_cast`, `nullcontext`.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::abi;
use crate::frame::{Modules, PADDLE};
use crate::graph::DType;
use crate::obj::{Obj, is_attr, text_of};
use crate::reason::{BreakId, BreakKind};
use crate::variables::{ContextVar, Kind, VarId};

use crate::{Kwargs, Step, Tracer, provenance};

/// Whether it is what the module has by this name, and came with.
pub(super) fn is_original(object: &Bound<'_, PyAny>, module: &str, name: &str) -> bool {
    is_attr(object, module, name) && provenance::is_original(object, module, name)
}

/// Whether it is the class of Paddle's managers of the grad mode.
pub fn is_of_grad_mode(class: &Bound<'_, PyAny>) -> bool {
    let names = ["no_grad", "enable_grad", "set_grad_enabled"];
    names.iter().any(|name| is_original(class, PADDLE, name))
}

/// `paddle.no_grad()`
pub(crate) fn no_grad(
    t: &mut Tracer<'_>,
    callee: (VarId, &Bound<'_, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    grad_mode(t, callee, args, kwargs, false)
}

/// `paddle.enable_grad()`
pub(crate) fn enable_grad(
    t: &mut Tracer<'_>,
    callee: (VarId, &Bound<'_, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    grad_mode(t, callee, args, kwargs, true)
}

fn grad_mode(
    t: &mut Tracer<'_>,
    (callee, object): (VarId, &Bound<'_, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
    enabled: bool,
) -> Step<VarId> {
    // `no_grad(function)` wraps the function.
    if !args.is_empty() || !kwargs.is_empty() {
        let name = text_of(object, "__name__");
        let why = format!("{name}() used as a decorator inside the function");
        return t.stop(BreakKind::UnsupportedCall, why);
    }
    t.guard_identity(callee);
    let context = ContextVar::GradMode {
        enabled,
        restore: None,
        make: (Obj::from(object), Vec::new()),
    };
    Ok(t.add(Kind::Context(context)))
}

/// `contextlib.nullcontext(enter_result)`
pub(crate) fn null(
    t: &mut Tracer<'_>,
    (callee, object): (VarId, &Bound<'_, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    t.guard_identity(callee);
    let given = match (args, kwargs) {
        ([], []) => None,
        ([value], []) => Some(*value),
        ([], [(name, value)]) if &**name == "enter_result" => Some(*value),
        _ => {
            let why = "nullcontext() called with wrong arguments";
            return t.stop(BreakKind::RaisesException, why);
        }
    };
    let result = given.unwrap_or_else(|| t.none());
    let make = (Obj::from(object), given.into_iter().collect());
    Ok(t.add(Kind::Context(ContextVar::Null { result, make })))
}

/// `paddle.amp.auto_cast(...)`
pub(crate) fn auto_cast(
    t: &mut Tracer<'_>,
    (callee, object): (VarId, &Bound<'_, PyAny>),
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<VarId> {
    t.guard_identity(callee);
    let context = ContextVar::AutoCast {
        callable: Obj::from(object),
        args: args.to_vec(),
        kwargs: kwargs.to_vec(),
        entered: false,
    };
    Ok(t.add(Kind::Context(context)))
}

/// `context.__enter__()`
pub(crate) fn enter(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let Kind::Context(state) = t.kind(context).clone() else {
        return t.stop(BreakId::Context, "not a context manager");
    };
    match state {
        ContextVar::Null { result, .. } => Ok(result),
        ContextVar::GradMode { enabled, make, .. } => {
            if enabled && !t.grad.at_entry {
                return t.stop(
                    BreakKind::UnsupportedOperation,
                    "gradients are switched on in a function that is called without them",
                );
            }
            let restore = Some(t.grad.enabled);
            t.grad.enabled = enabled;
            t.grad.cut_off += usize::from(!enabled);
            t.vars.update(context, |var| {
                var.kind = Kind::Context(ContextVar::GradMode {
                    enabled,
                    restore,
                    make,
                })
            });
            Ok(t.none())
        }
        ContextVar::AutoCast {
            callable,
            args,
            kwargs,
            ..
        } => {
            if !casts_nothing(t, &args, &kwargs)? {
                return t.stop(
                    BreakId::AutoCast,
                    "auto_cast with these arguments, or not on a CPU",
                );
            }
            t.grad.auto_casts += 1;
            let entered = true;
            t.vars.update(context, |var| {
                var.kind = Kind::Context(ContextVar::AutoCast {
                    callable,
                    args,
                    kwargs,
                    entered,
                })
            });
            Ok(t.none())
        }
    }
}

/// Whether `auto_cast` with these arguments is known to do nothing but warn: on a CPU nothing is
/// cast.
fn casts_nothing(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<bool> {
    let framework = t.py.module("paddle.base.framework")?;
    let place = framework.call_method0("_current_expected_place")?;
    if !abi::is_cpu_place(&place)? {
        return Ok(false);
    }
    let names = [
        "enable",
        "custom_white_list",
        "custom_black_list",
        "level",
        "dtype",
        "use_promote",
    ];
    let given = names.iter().copied().zip(args.iter().copied());
    let named = kwargs.iter().map(|(name, value)| (&**name, *value));
    let all: Vec<(&str, VarId)> = given.chain(named).collect();
    let mut valid = args.len() <= names.len();
    let mut listed: Vec<Arc<str>> = Vec::new();
    for (name, value) in all {
        let text = t.const_str(value).map(|text| text.to_lowercase());
        valid &= match name {
            "enable" | "use_promote" => t
                .const_value(value)
                .is_some_and(|value| value.is_exact_instance_of::<pyo3::types::PyBool>()),
            // Paddle raises for a name in both of them.
            "custom_white_list" | "custom_black_list" => match names_in(t, value) {
                Some(names) => {
                    let apart = names.iter().all(|name| !listed.contains(name));
                    listed.extend(names);
                    apart
                }
                None => t.is_none(value),
            },
            "level" => text.is_some_and(|text| matches!(&*text, "o0" | "od" | "o1" | "o2")),
            "dtype" => text.is_some_and(|text| {
                [DType::Float16, DType::BFloat16]
                    .iter()
                    .any(|half| half.as_str() == &*text)
            }),
            _ => false,
        };
    }
    Ok(valid)
}

/// The names of operators in a list, tuple or set.
fn names_in(t: &mut Tracer<'_>, value: VarId) -> Option<Vec<Arc<str>>> {
    t.realize(value);
    let items: Vec<VarId> = if let Kind::Set(set) = t.kind(value) {
        set.items.values().copied().collect()
    } else {
        t.kind(value).plain_items()?.to_vec()
    };
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        t.realize(item);
        names.push(Arc::from(&*t.const_str(item)?));
    }
    Some(names)
}

/// `context.__exit__(...)`
pub(crate) fn exit(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let Kind::Context(state) = t.kind(context).clone() else {
        return t.stop(BreakId::Context, "not a context manager");
    };
    if let ContextVar::AutoCast {
        callable,
        args,
        kwargs,
        entered: true,
    } = state
    {
        t.grad.auto_casts -= 1;
        t.left_behind.push(context);
        let entered = false;
        t.vars.update(context, |var| {
            var.kind = Kind::Context(ContextVar::AutoCast {
                callable,
                args,
                kwargs,
                entered,
            })
        });
        return Ok(t.none());
    }
    if let ContextVar::GradMode {
        enabled,
        restore,
        make,
    } = state
    {
        let Some(before) = restore else {
            return t.stop(
                BreakId::Context,
                "exit of a context manager that was not entered",
            );
        };
        t.grad.enabled = before;
        t.vars.update(context, |var| {
            var.kind = Kind::Context(ContextVar::GradMode {
                enabled,
                restore: None,
                make,
            })
        });
    }
    let none = t.none();
    Ok(none)
}
