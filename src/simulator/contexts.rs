//! Context managers the simulator enters itself: grad mode, `auto_cast`, `nullcontext`.

use pyo3::prelude::*;

use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::variables::{ContextVar, Kind, VarId};

use super::{Kwargs, Step, Tracer};

fn is_attr(t: &Tracer<'_>, value: &Bound<'_, PyAny>, module: &str, name: &str) -> bool {
    t.py.import(module)
        .and_then(|module| module.getattr(name))
        .is_ok_and(|found| found.is(value))
}

/// Makes a context manager for a call of a known callable; `None` when it is not one.
pub fn try_make(
    t: &mut Tracer<'_>,
    callable: VarId,
    args: &[VarId],
    kwargs: &Kwargs,
) -> Step<Option<VarId>> {
    let Some(object) = t.value(callable) else {
        return Ok(None);
    };
    let name = object
        .getattr("__name__")
        .and_then(|name| name.extract::<String>())
        .unwrap_or_default();
    let grad = |enabled: Option<bool>| (enabled, Obj::from(&object));
    let (enabled, maker) = match name.as_str() {
        "no_grad" | "no_grad_"
            if is_attr(t, &object, "paddle", "no_grad")
                || is_attr(t, &object, "paddle.base.dygraph", "no_grad_") =>
        {
            grad(Some(false))
        }
        "enable_grad" if is_attr(t, &object, "paddle", "enable_grad") => grad(Some(true)),
        "nullcontext" if is_attr(t, &object, "contextlib", "nullcontext") => {
            t.guard_identity(callable);
            let result = match (args, kwargs) {
                ([], []) => t.none(),
                ([value], []) | ([], [(_, value)]) => *value,
                _ => {
                    return t.stop(
                        BreakKind::RaisesException,
                        "nullcontext() called with wrong arguments",
                    )
                }
            };
            let make = (Obj::from(&object), args.to_vec());
            return Ok(Some(
                t.add(Kind::Context(ContextVar::Null { result, make })),
            ));
        }
        "auto_cast" | "amp_guard"
            if is_attr(t, &object, "paddle.amp", "auto_cast")
                || is_attr(t, &object, "paddle.amp.auto_cast", "amp_guard") =>
        {
            t.guard_identity(callable);
            let (args, kwargs) = (args.to_vec(), kwargs.to_vec());
            let context = ContextVar::AutoCast {
                callable: Obj::from(&object),
                args,
                kwargs,
                entered: None,
            };
            return Ok(Some(t.add(Kind::Context(context))));
        }
        _ => return Ok(None),
    };
    let Some(enabled) = enabled else {
        return Ok(None);
    };
    match args {
        [] => {}
        // `no_grad(function)` wraps the function.
        _ => {
            return t.stop(
                BreakKind::UnsupportedCall,
                format!("{name}() used as a decorator inside the function"),
            )
        }
    }
    t.guard_identity(callable);
    let context = ContextVar::GradMode {
        enabled,
        restore: None,
        make: (maker, Vec::new()),
    };
    Ok(Some(t.add(Kind::Context(context))))
}

/// `context.__enter__()`
pub fn enter(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let Kind::Context(state) = t.kind(context).clone() else {
        return t.unsupported("not a context manager");
    };
    match state {
        ContextVar::Null { result, .. } => Ok(result),
        ContextVar::GradMode { enabled, make, .. } => {
            if enabled && !t.entry_grad {
                return t.stop(
                    BreakKind::UnsupportedOperation,
                    "gradients are switched on in a function that is called without them",
                );
            }
            let restore = Some(t.grad_enabled);
            t.grad_enabled = enabled;
            t.vars.update(context, |var| {
                var.kind = Kind::Context(ContextVar::GradMode {
                    enabled,
                    restore,
                    make,
                })
            });
            Ok(t.none())
        }
        ContextVar::AutoCast { .. } => t.stop(
            BreakKind::Construct,
            "auto_cast inside of the compiled function",
        ),
    }
}

/// `context.__exit__(...)`
pub fn exit(t: &mut Tracer<'_>, context: VarId) -> Step<VarId> {
    let Kind::Context(state) = t.kind(context).clone() else {
        return t.unsupported("not a context manager");
    };
    if let ContextVar::GradMode {
        enabled,
        restore,
        make,
    } = state
    {
        let Some(before) = restore else {
            return t.unsupported("exit of a context manager that was not entered");
        };
        t.grad_enabled = before;
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
