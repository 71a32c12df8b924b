//! `types.MappingProxyType`: an object that shows a dict. What it holds is that dict, whatever
//! other names it has.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::native;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId};

use crate::simulator::Tracer;

/// Whether this is the class of proxies.
pub fn is_exact(of: &Bound<'_, PyAny>) -> bool {
    native::is_class_of_proxies(of)
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
