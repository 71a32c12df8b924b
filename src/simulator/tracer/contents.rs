//! What deques and instances of subclasses of `dict`, `list` and `tuple` hold: a configuration
//! whose attributes are its items, a list with methods of its own, what a network answers with.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::containers::{deques, proxies};
use crate::guard::GuardKind;
use crate::methods::names::CLEAR;
use crate::methods::row::{Inherited, MethodRow};
use crate::native;
use crate::obj::{Obj, ordered_dict};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{Kind, VarId, Variable};
use crate::{attributes, methods};

use super::Tracer;
use super::classify::LONGEST;

/// Of those of `dict`, the ones that do not go past the order that an `OrderedDict` keeps.
const UNORDERED: &[&str] = &["__getitem__", "__len__", "__contains__", "get"];

/// Those that an `OrderedDict` has of its own and that ask no other method.
const ORDERED_WRITERS: &[&str] = &["__setitem__", "__delitem__", CLEAR, "move_to_end"];

/// What a method of these does with an instance of a subclass.
fn does(rows: &'static [MethodRow], name: &str) -> Inherited {
    methods::inherited([rows, methods::SPECIAL], name)
}

impl<'py> Tracer<'py> {
    /// What `method`, a descriptor of a built-in class and of this name, reads or changes of the
    /// object: a dict, list or tuple like it. `None` where it is no such method, or of another
    /// object.
    pub(crate) fn contents(
        &mut self,
        id: VarId,
        method: &Bound<'_, PyAny>,
        name: &str,
    ) -> Option<VarId> {
        let of = method.getattr("__objclass__").ok()?;
        let class = self.type_of(id)?;
        // Another class than its own refuses the object.
        if !class.is_subclass(&of).ok()? {
            return None;
        }
        let ordered = ordered_dict(self.py).ok()?;
        let (reads, writes) = if deques::is_exact(&of) {
            (deques::is_exact(&class) && deques::has(name), false)
        } else if proxies::is_exact(&of) {
            (does(methods::DICT, name) == Inherited::Reads, false)
        } else if of.is(&ordered) {
            let reads = does(methods::DICT, name) == Inherited::Reads;
            (reads, ORDERED_WRITERS.contains(&name))
        } else {
            let py = self.py;
            let builtin = [
                (PyDict::type_object(py), methods::DICT),
                (PyList::type_object(py), methods::LIST),
                (PyTuple::type_object(py), methods::TUPLE),
            ];
            let mut known = builtin.iter().filter(|(class, _)| of.is(class));
            let inherited = does(known.next()?.1, name);
            let plain = !class.is_subclass(&ordered).ok()?;
            (
                inherited == Inherited::Reads && (plain || UNORDERED.contains(&name)),
                inherited == Inherited::Writes && plain,
            )
        };
        (reads || writes).then(|| self.held(id))?
    }

    /// The dict whose items `{**x}` and `dict.update(x)` copy without asking `x` for them: one, or
    /// what an instance of a subclass holds that goes over itself as a dict does.
    pub(crate) fn merged(&mut self, id: VarId) -> Option<VarId> {
        self.realize(id);
        let class = if let Kind::Object(object) = self.vars.kind(id) {
            object.class.clone()
        } else {
            return self.vars.kind(id).dict().map(|_| id);
        };
        let dict = PyDict::type_object(self.py);
        let bound = class.bind(self.py).cast::<PyType>().ok()?.clone();
        let iter = attributes::lookup(&bound, "__iter__");
        attributes::guard_type_attr(self, &class, "__iter__", iter.as_ref());
        let own = attributes::lookup(&dict, "__iter__")?;
        if !bound.is_subclass_of::<PyDict>().ok()? || !iter?.is(&own) {
            return None;
        }
        self.held(id)
    }

    fn held(&mut self, id: VarId) -> Option<VarId> {
        self.realize(id);
        let Kind::Object(object) = self.vars.kind(id) else {
            return None;
        };
        if let Some(contents) = object.contents {
            return Some(contents);
        }
        let contents = self.read(id)?;
        self.vars.update(id, |var| {
            if let Kind::Object(object) = &mut var.kind {
                object.contents = Some(contents);
            }
        });
        Some(contents)
    }

    /// A variable like a plain one of the built-in class, whose items come from the object itself.
    /// It is no second name of the object: nothing that the frame hands on holds it, and nothing
    /// changes it.
    fn read(&mut self, id: VarId) -> Option<VarId> {
        let (value, source) = (self.value(id)?, self.source(id)?);
        if self.is_closed(id) {
            return None;
        }
        if proxies::is_exact(&value.get_type()) {
            return proxies::shown(self, &value, source);
        }
        let made = self.vars.add(Variable {
            value: Some((&value).into()),
            source: Some(source.clone()),
            ..Variable::new(Kind::Opaque)
        });
        let source = Some(&source);
        if let Ok(dict) = value.cast::<PyDict>() {
            let ordered = ordered_dict(self.py).ok()?;
            let class = value
                .is_instance(&ordered)
                .ok()?
                .then(|| Obj::from(ordered));
            if dict.len() <= LONGEST {
                self.classify_dict(made, dict, class, source);
            }
        } else if let Ok(list) = value.cast::<PyList>() {
            if list.len() <= LONGEST {
                self.classify_list(made, list, source);
            }
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            if tuple.len() <= LONGEST {
                self.classify_tuple(made, tuple, None, source);
            }
        } else if deques::is_exact(&value.get_type()) {
            self.classify_deque(made, &value, source)?;
        }
        (!matches!(self.vars.kind(made), Kind::Opaque)).then_some(made)
    }

    fn classify_deque(
        &mut self,
        id: VarId,
        deque: &Bound<'py, PyAny>,
        source: Option<&TrackerRef>,
    ) -> Option<()> {
        let items: Vec<Bound<'py, PyAny>> = deque.try_iter().ok()?.collect::<PyResult<_>>().ok()?;
        if items.len() > LONGEST {
            return None;
        }
        native::know_deques(self.py).ok()?;
        self.guard_type(id, deque);
        self.guard(id, GuardKind::Len(items.len()));
        let items = items
            .iter()
            .enumerate()
            .map(|(index, item)| self.child(source, item, |base| Tracker::DequeItem(base, index)))
            .collect();
        self.set_kind(id, Kind::List(items));
        Some(())
    }
}
