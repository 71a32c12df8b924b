//! `import` of what is imported already: the first import of a module runs its code.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

use crate::frame::Modules;
use crate::frame_state::FrameState;
use crate::obj::Obj;
use crate::reason::BreakId;
use crate::variables::VarId;
use crate::{Step, Tracer, attributes, fold};

use super::scopes::load_from_dict;

/// `from package import name` imports the submodule where the package has no such attribute.
fn refuse_submodules(t: &mut Tracer<'_>, module: VarId, fromlist: VarId) -> Step<()> {
    let (Some(names), Some(object)) = (fold::to_object(t, fromlist), t.value(module)) else {
        return Ok(());
    };
    let Ok(names) = names.cast_into::<PyTuple>() else {
        return Ok(());
    };
    let namespace = match object.cast::<PyModule>() {
        Ok(module) => module.dict(),
        Err(_) => {
            return t.stop(
                BreakId::Import,
                "an import of something that is not a module",
            );
        }
    };
    for name in names.iter() {
        if namespace.contains("__path__")? && !namespace.contains(&name)? {
            return t.stop(BreakId::Import, "an import of a submodule");
        }
    }
    Ok(())
}

/// The whole name of what `from ..name import x` imports from.
fn absolute(t: &mut Tracer<'_>, f: &FrameState, name: &Arc<str>, up: i64) -> Step<Arc<str>> {
    let package = match load_from_dict(t, &f.globals, &Arc::from("__package__"))? {
        Some(package) => t.const_str(package),
        None => None,
    };
    let Some(mut package) = package.as_deref().filter(|package| !package.is_empty()) else {
        return t.stop(BreakId::Import, format!("relative import of {name}"));
    };
    for _ in 1..up {
        match package.rsplit_once('.') {
            Some((parent, _)) => package = parent,
            None => return t.stop(BreakId::Import, format!("relative import of {name}")),
        }
    }
    Ok(if name.is_empty() {
        Arc::from(package)
    } else {
        Arc::from(format!("{package}.{name}"))
    })
}

fn module_named(t: &mut Tracer<'_>, name: &Arc<str>, fromlist: VarId) -> Step<VarId> {
    let modules = Obj::from(t.py.module("sys")?.getattr("modules")?);
    let is_it = |value: &Obj| value.as_ptr() == modules.as_ptr();
    let mut changed = t.vars.mutated().iter().map(|id| t.vars.get(*id));
    if changed.any(|var| var.value.as_ref().is_some_and(is_it)) {
        return t.stop(BreakId::Import, "an import after a change of sys.modules");
    }
    let whole = t.is_none(fromlist);
    let wanted: Arc<str> = if whole {
        Arc::from(name.split('.').next().unwrap_or(name))
    } else {
        name.clone()
    };
    imported(t, &modules, name)?;
    let module = imported(t, &modules, &wanted)?;
    refuse_submodules(t, module, fromlist)?;
    Ok(module)
}

/// What `sys.modules` has by this name, guarded. None is no module: its import raises.
fn imported(t: &mut Tracer<'_>, modules: &Obj, name: &Arc<str>) -> Step<VarId> {
    let found = load_from_dict(t, modules, name)?;
    match found.filter(|found| !t.is_none(*found)) {
        Some(module) => {
            t.guard_identity(module);
            Ok(module)
        }
        None => t.stop(BreakId::Import, format!("first import of {name}")),
    }
}

/// Whether `__import__` is the one of Python, which is guarded: the statement calls what the
/// builtins have by that name.
fn check_import(t: &mut Tracer<'_>, f: &FrameState) -> Step<()> {
    let own = t.builtin("__import__")?;
    let found = load_from_dict(t, &f.builtins, &Arc::from("__import__"))?;
    let found = found.filter(|found| t.value(*found).is_some_and(|found| found.is(&own)));
    let Some(found) = found else {
        return t.stop(
            BreakId::Import,
            "an import through another __import__ than Python's",
        );
    };
    t.guard_identity(found);
    Ok(())
}

pub(super) fn import_name(t: &mut Tracer<'_>, f: &mut FrameState, name: &Arc<str>) -> Step<()> {
    check_import(t, f)?;
    let fromlist = f.pop(t)?;
    let level = f.pop(t)?;
    let name = match t.const_int(level) {
        Some(0) => name.clone(),
        Some(up) => absolute(t, f, name, up)?,
        None => return t.stop(BreakId::Import, "an import of an unknown level"),
    };
    let module = module_named(t, &name, fromlist)?;
    f.push(module);
    Ok(())
}

pub(super) fn import_from(t: &mut Tracer<'_>, f: &mut FrameState, name: &str) -> Step<()> {
    let module = f.peek(t, 1)?;
    // Anything else may run code of the module.
    let there = t.value(module).is_some_and(|module| {
        let dict = module.cast::<PyModule>().map(PyModuleMethods::dict);
        dict.is_ok_and(|dict| dict.contains(name).unwrap_or(false))
    });
    if !there {
        return t.stop(BreakId::Import, format!("first import of {name}"));
    }
    let value = attributes::get(t, module, name)?;
    f.push(value);
    Ok(())
}
