//! `import` of what is imported already: the first import of a module runs its code.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::simulator::frame::FrameState;
use crate::simulator::{fold, Step, Tracer};
use crate::variables::VarId;

use super::scopes::load_from_dict;

/// `from package import name` imports the submodule where the package has no such attribute.
fn refuse_submodules(t: &mut Tracer<'_>, module: VarId, fromlist: VarId) -> Step<()> {
    let (Some(names), Some(object)) = (fold::to_object(t, fromlist), t.value(module)) else {
        return Ok(());
    };
    let Ok(names) = names.cast_into::<PyTuple>() else {
        return Ok(());
    };
    let namespace = match object.cast::<pyo3::types::PyModule>() {
        Ok(module) => module.dict(),
        Err(_) => return t.unsupported("an import of something that is not a module"),
    };
    for name in names.iter() {
        if namespace.contains("__path__")? && !namespace.contains(&name)? {
            return t.stop(BreakKind::UnsupportedCall, "an import of a submodule");
        }
    }
    Ok(())
}

/// The whole name of what `from ..name import x` imports from.
pub(super) fn absolute(
    t: &mut Tracer<'_>,
    f: &FrameState,
    name: &Arc<str>,
    up: i64,
) -> Step<Arc<str>> {
    let package = match load_from_dict(t, &f.globals, &Arc::from("__package__"))? {
        Some(package) => t.const_str(package),
        None => None,
    };
    let Some(mut package) = package.as_deref().filter(|package| !package.is_empty()) else {
        return t.unsupported(format!("relative import of {name}"));
    };
    for _ in 1..up {
        match package.rsplit_once('.') {
            Some((parent, _)) => package = parent,
            None => return t.unsupported(format!("relative import of {name}")),
        }
    }
    Ok(if name.is_empty() {
        Arc::from(package)
    } else {
        Arc::from(format!("{package}.{name}"))
    })
}

pub(super) fn import_name(t: &mut Tracer<'_>, name: &Arc<str>, fromlist: VarId) -> Step<VarId> {
    let modules = Obj::from(t.py.import("sys")?.getattr("modules")?);
    let whole = t.is_none(fromlist);
    let wanted: Arc<str> = if whole {
        Arc::from(name.split('.').next().unwrap_or(name))
    } else {
        name.clone()
    };
    for needed in [name, &wanted] {
        if load_from_dict(t, &modules, needed)?.is_none() {
            return t.stop(
                BreakKind::UnsupportedCall,
                format!("first import of {needed}"),
            );
        }
    }
    match load_from_dict(t, &modules, &wanted)? {
        Some(module) => {
            refuse_submodules(t, module, fromlist)?;
            Ok(module)
        }
        None => t.stop(
            BreakKind::UnsupportedCall,
            format!("first import of {wanted}"),
        ),
    }
}
