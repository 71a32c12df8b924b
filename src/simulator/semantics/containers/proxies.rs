//! `types.MappingProxyType`: an object that shows a dict. What it holds is that dict, whatever
//! other names it has.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::frame::Modules;
use crate::native;
use crate::obj::Obj;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{DictVar, Kind, ObjectVar, VarId};

use crate::{Kwargs, Step, Tracer};

/// The class of proxies in `types`.
pub const NAME: &str = "MappingProxyType";

/// Whether this is the class of proxies.
pub fn is_exact(of: &Bound<'_, PyAny>) -> bool {
    native::is_class_of_proxies(of)
}

/// `MappingProxyType(dict)`.
pub fn new(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    let ([dict], []) = (args, kwargs) else {
        return t.unsupported("a proxy with these arguments");
    };
    let is_dict = t.kind(*dict).dict().is_some_and(DictVar::is_plain);
    if !is_dict || t.vars.get(*dict).owner.is_some() {
        return t.unsupported("a proxy of another mapping than a dict");
    }
    let class = t.py.types()?.getattr(NAME)?;
    Ok(t.add(Kind::Object(ObjectVar {
        contents: Some(*dict),
        ..ObjectVar::of(Obj::from(class))
    })))
}

/// The dict that a proxy shows which exists; `None` where it is another mapping, or the namespace
/// of a class.
pub fn shown(t: &mut Tracer<'_>, proxy: &Bound<'_, PyAny>, source: TrackerRef) -> Option<VarId> {
    let dict = native::shown_by_proxy(proxy)?;
    // Each class has one.
    let of_class = dict
        .cast::<PyDict>()
        .ok()?
        .contains(pyo3::intern!(t.py, "__doc__"));
    if of_class.unwrap_or(true) {
        return None;
    }
    let dict = t.wrap(&dict, Tracker::Proxied(source).into());
    matches!(t.kind(dict), Kind::Dict(_)).then_some(dict)
}
