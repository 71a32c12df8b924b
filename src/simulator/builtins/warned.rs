//! `warnings.warn`: shown behind the graph, as `warnings.warn_explicit` shows it for its line.
//!
//! The filters are guarded, since some raise. Where something else that can be seen comes first,
//! or the line is one of a caller, the call breaks the graph.

use std::sync::Arc;

use pyo3::exceptions::PyWarning;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use crate::frame::Modules;
use crate::guard::GuardKind;
use crate::native;
use crate::obj::Obj;
use crate::reason::BreakKind;
use crate::tracker::{DictKey, Tracker};
use crate::variables::{Kind, VarId};

use crate::tracer::is_plain_constant;
use crate::{Kwargs, Step, Tracer, recompute};

/// `warnings.warn(message, category, stacklevel)`.
pub fn warn(t: &mut Tracer<'_>, args: &[VarId], kwargs: &Kwargs) -> Step<VarId> {
    match Warned::of(t, args, kwargs)? {
        Some(warned) if !comes_late(t) && warned.is_shown(t)? => {
            let shown = warned.later(t)?;
            t.left_behind.push(shown);
            Ok(t.none())
        }
        _ => t.stop(BreakKind::UnsupportedCall, "call of warn"),
    }
}

/// Calls behind the graph what does nothing but show something, with these arguments; false where
/// that comes late.
pub fn call_later(t: &mut Tracer<'_>, function: &Bound<'_, PyAny>, args: Vec<VarId>) -> bool {
    if comes_late(t) {
        return false;
    }
    let function = t.constant(function);
    let shown = t.add(Kind::Partial {
        function,
        args,
        kwargs: Vec::new(),
    });
    t.left_behind.push(shown);
    true
}

/// Whether something comes before it that is done later behind the graph, or the code runs again.
fn comes_late(t: &Tracer<'_>) -> bool {
    let is_shown = |id: &VarId| matches!(t.vars.kind(*id), Kind::Partial { .. });
    t.flow.is_captured()
        || t.options.forward_only
        || t.grad.is_in_custom_operation()
        || recompute::check_reads(t).is_err()
        || !t.left_behind.iter().all(is_shown)
        || t.changes_what_exists()
}

/// A warning that a line of the function gives.
struct Warned<'py> {
    message: VarId,
    text: Bound<'py, PyAny>,
    category: Bound<'py, PyAny>,
    names: Bound<'py, PyAny>,
    file: String,
    line: u32,
}

impl<'py> Warned<'py> {
    /// `None` where the call is another one than those that are followed.
    fn of(t: &mut Tracer<'py>, args: &[VarId], kwargs: &Kwargs) -> Step<Option<Self>> {
        let mut given = [None; 3];
        let names = ["message", "category", "stacklevel"];
        for (slot, value) in given.iter_mut().zip(args) {
            *slot = Some(*value);
        }
        for (name, value) in kwargs {
            match names.iter().position(|known| *known == &**name) {
                Some(at) if given[at].is_none() => given[at] = Some(*value),
                _ => return Ok(None),
            }
        }
        let (Some(message), true) = (given[0], args.len() <= names.len()) else {
            return Ok(None);
        };
        let text = t.const_value(message);
        let text = text.filter(|text| text.is_exact_instance_of::<PyString>());
        // One of a caller may be in a frame that is not simulated.
        let own = given[2].is_none_or(|level| t.const_int(level).is_some_and(|level| level <= 1));
        let (Some(text), true, Some(category)) = (text, own, category(t, given[1])) else {
            return Ok(None);
        };
        let Some(names) = t.frames.simulated.last().map(|frame| frame.globals.clone()) else {
            return Ok(None);
        };
        let place = t.loc();
        Ok(Some(Self {
            message,
            text,
            category,
            names: names.bind(t.py).clone(),
            file: place.file.to_string(),
            line: place.line,
        }))
    }

    /// Whether the filters, which are guarded, show it or pass over it.
    fn is_shown(&self, t: &mut Tracer<'py>) -> Step<bool> {
        let warnings = t.py.module("warnings")?;
        let names = warnings.getattr("__dict__")?;
        let item = |name: &str| {
            let names = Arc::new(Tracker::Const(Obj::from(&names)));
            Arc::new(Tracker::DictItem(names, DictKey::Str(Arc::from(name))))
        };
        let filters = warnings.getattr("filters")?;
        let Ok(list) = filters.cast_exact::<PyList>() else {
            return Ok(false);
        };
        let helper = t.py.module("paddle_sot_rs._graph.followed")?;
        let given = (&self.text, &self.category, &self.names, self.line);
        let (before, shown) = helper.getattr("shows_warning")?.call1(given)?.extract()?;
        let place = item("filters");
        t.guards
            .add(&place, GuardKind::TypeIs(Obj::from(filters.get_type())));
        // Filters are made anew for a while in each call of many programs.
        for (at, filter) in list.iter().enumerate().take_while(|(at, _)| *at <= before) {
            let Ok(filter) = filter.cast_into_exact::<PyTuple>() else {
                return Ok(false);
            };
            let place = Arc::new(Tracker::ListItem(place.clone(), at));
            t.guards
                .add(&place, GuardKind::TypeIs(Obj::from(filter.get_type())));
            for (at, part) in filter.iter().enumerate() {
                let place = Arc::new(Tracker::TupleItem(place.clone(), at));
                let kind = match is_plain_constant(&part) {
                    true => GuardKind::ConstEq(Obj::from(part)),
                    false => GuardKind::Is(Obj::from(part)),
                };
                t.guards.add(&place, kind);
            }
        }
        if before == list.len() {
            t.guards.add(&place, GuardKind::Len(before));
            let default = warnings.getattr("defaultaction")?;
            let default = GuardKind::ConstEq(Obj::from(default));
            t.guards.add(&item("defaultaction"), default);
        }
        Ok(shown)
    }

    /// The call that shows it.
    fn later(self, t: &mut Tracer<'py>) -> Step<VarId> {
        let helper =
            t.py.module("paddle_sot_rs._graph.followed")?
                .getattr("show_warning")?;
        let function = t.constant(&helper);
        let file = t.str(&self.file);
        let line = t.int(i64::from(self.line));
        let parts = [&self.category, &self.names].map(|part| t.constant(part));
        Ok(t.add(Kind::Partial {
            function,
            args: [&[self.message, file, line], &parts[..]].concat(),
            kwargs: Vec::new(),
        }))
    }
}

/// The class of the warning: one of Python's, which nothing but C code makes.
fn category<'py>(t: &mut Tracer<'py>, given: Option<VarId>) -> Option<Bound<'py, PyAny>> {
    let category = match given.filter(|given| !t.is_none(*given)) {
        None => t.py.builtins().ok()?.getattr("UserWarning").ok()?,
        Some(given) => {
            t.realize(given);
            t.value(given)?
        }
    };
    let class = category.cast::<PyType>().ok()?;
    let plain = class.is_subclass_of::<PyWarning>().ok()? && !native::is_mutable(class);
    plain.then(|| category.clone())
}
