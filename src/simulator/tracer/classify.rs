//! Which kind of variable a real object is, and what is guarded about it for that: a new kind of
//! variable starts here.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{
    PyDict, PyFrozenSet, PyFunction, PyInt, PyList, PyModule, PyString, PyTuple, PyType,
};

use crate::frame::{BUILTINS, COLLECTIONS, TYPES};
use crate::graph::TensorMeta;
use crate::guard::{GuardKind, TensorGuard};
use crate::native;
use crate::obj::{Obj, is_attr, items_in_order, name_in_c, of_type, ordered_dict, text_of};
use crate::paddle::tensor_meta;
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::kinds::{PARTS, RANGE, SLICE};
use crate::variables::{
    CellVar, DictVar, FunctionVar, Kind, NumberVar, ObjectVar, SetVar, TensorVar, VarId,
};
use crate::{iterate, keys, layers, made_arrays, numpy_scalars, objects};

use super::Tracer;
use super::constants::{dict_key, is_enum_like};
use super::is_plain_constant;
use super::reliance::is_of_module;

impl<'py> Tracer<'py> {
    pub(super) fn child(
        &mut self,
        source: Option<&TrackerRef>,
        value: &Bound<'py, PyAny>,
        step: impl FnOnce(TrackerRef) -> Tracker,
    ) -> VarId {
        match source {
            Some(source) => self.wrap(value, Arc::new(step(source.clone()))),
            None => self.constant(value),
        }
    }

    pub(super) fn is_fixed(&self, id: VarId) -> bool {
        self.vars
            .get(id)
            .source
            .as_ref()
            .is_some_and(|source| matches!(**source, Tracker::Const(_)))
    }

    /// Whether it is a container that the interpreter looks into.
    pub(crate) fn is_closed(&self, id: VarId) -> bool {
        let source = self.vars.get(id).source.as_ref();
        source.is_some_and(|source| self.options.varies.closed.contains(source))
    }

    /// Whether it is a class that a statement of the outermost frame's code makes, or an instance.
    fn is_of_own_class(&self, value: &Bound<'py, PyAny>) -> bool {
        let class = match value.cast::<PyType>() {
            Ok(class) => class.clone(),
            Err(_) => value.get_type(),
        };
        if !native::is_mutable(&class) {
            return false;
        }
        let Some(frame) = self.frames.locations.first() else {
            return false;
        };
        let name = text_of(class.as_any(), "__qualname__");
        let local = name.strip_prefix(&*frame.function);
        local.is_some_and(|local| local.starts_with(".<locals>."))
    }

    pub(super) fn classify(&mut self, id: VarId) {
        let Some(value) = self.value(id) else { return };
        let source = self.source(id);
        let source = source.as_ref();
        if !self.is_fixed(id) && self.is_of_own_class(&value) {
            // Another one in each call: a guard would never hold again, but keep it alive.
            return self.vars.update(id, |var| {
                var.kind = Kind::Opaque;
                var.value = None;
            });
        }
        if source.is_some_and(|source| self.options.varies.numbers.contains_key(source)) {
            self.guard_type(id, &value);
            let kind = if value.is_exact_instance_of::<PyInt>() {
                Kind::Int(NumberVar::Given)
            } else if value.is_exact_instance_of::<PyString>() {
                Kind::Text([].into())
            } else {
                Kind::Float(NumberVar::Given)
            };
            // Without its value, nothing can rely on it.
            self.vars.update(id, |var| {
                var.kind = kind;
                var.value = None;
            });
        } else if self.is_closed(id) && is_container(&value) {
            self.guard_type(id, &value);
            self.set_kind(id, Kind::Opaque);
        } else if is_plain_constant(&value) {
            self.guard(id, GuardKind::ConstEq(Obj::from(&value)));
            self.set_kind(id, Kind::Const);
        } else if numpy_scalars::is_settled(source) && native::is_scalar(&value) {
            numpy_scalars::settle(self, id, &value);
        } else if source.is_some_and(|source| source.is_deep()) {
            // Behind a break it is a local: a list whose items are linked is walked part by part.
            self.guard_type(id, &value);
            self.set_kind(id, Kind::Opaque);
        } else if self.paddle.is_tensor(&value) {
            self.classify_tensor(id, &value);
        } else if native::is_known_iterator(&value) {
            self.guard_type(id, &value);
            self.set_kind(id, Kind::Opaque);
        } else if let Some(array) = made_arrays::of_existing(self, &value, source) {
            self.guard_identity(id);
            self.set_kind(id, Kind::Array(array));
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.classify_list(id, list, source);
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.classify_tuple(id, tuple, None, source);
        } else if let Some(tuple) = objects::as_named_tuple(self, &value) {
            let class = Obj::from(value.get_type());
            self.classify_tuple(id, tuple, Some(class), source);
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.classify_dict(id, dict, None, source);
        } else if let Some(dict) = self.ordered_dict(&value) {
            let class = Obj::from(value.get_type());
            self.classify_dict(id, &dict, Some(class), source);
        } else if let (true, Ok(set)) = (self.is_fixed(id), value.cast_exact::<PyFrozenSet>()) {
            let items: Vec<_> = set.iter().collect();
            let mut made = SetVar {
                frozen: true,
                ..SetVar::default()
            };
            for item in items {
                let item = self.constant(&item);
                match keys::key_of(self, item) {
                    Ok(key) => made.items.insert(key, item),
                    Err(_) => return self.set_kind(id, Kind::Opaque),
                };
            }
            self.set_kind(id, Kind::Set(made));
        } else if value.is_exact_instance_of::<PyFunction>() {
            self.guard_type(id, &value);
            self.set_kind(id, Kind::Function(FunctionVar::Real));
        } else if value.is_instance_of::<PyModule>() && is_plain_module(&value) {
            self.guard_identity(id);
            self.set_kind(id, Kind::Module);
        } else if value.is_instance_of::<PyType>() {
            self.guard_identity(id);
            self.set_kind(id, Kind::Class);
        } else if self.paddle.is_layer(&value) {
            self.guard_type(id, &value);
            match layers::may_be_another(&value, source) {
                true => self.distinct(id),
                false => self.guard_identity(id),
            }
            let class = Obj::from(value.get_type());
            self.set_kind(id, Kind::Layer(ObjectVar::of(class)));
        } else {
            self.classify_by_type_name(id, &value, source);
        }
    }

    /// Whether this is a method of a list that was made for one call: what a frame finds on its
    /// stack behind a break.
    fn is_list_method(&self, value: &Bound<'py, PyAny>, source: Option<&TrackerRef>) -> bool {
        let passed = source.is_some_and(|source| matches!(**source, Tracker::Local { .. }));
        let receiver = value.getattr("__self__");
        passed && receiver.is_ok_and(|receiver| receiver.is_exact_instance_of::<PyList>())
    }

    fn classify_by_type_name(
        &mut self,
        id: VarId,
        value: &Bound<'py, PyAny>,
        source: Option<&TrackerRef>,
    ) {
        let class = value.get_type();
        let name = name_in_c(&class).map(|name| name.to_string());
        match name.as_deref().unwrap_or_default() {
            "method" => {
                let (Ok(receiver), Ok(function)) =
                    (value.getattr("__self__"), value.getattr("__func__"))
                else {
                    return self.set_kind(id, Kind::Opaque);
                };
                self.guard_type(id, value);
                let receiver = self.child(source, &receiver, Tracker::MethodSelf);
                let function = self.child(source, &function, Tracker::MethodFunc);
                self.set_kind(id, Kind::Method { receiver, function });
            }
            "builtin_function_or_method" if self.is_list_method(value, source) => {
                let name: Option<String> = value
                    .getattr("__name__")
                    .and_then(|name| name.extract())
                    .ok();
                let list = self.py.get_type::<PyList>();
                let function = name.as_ref().and_then(|name| list.getattr(&**name).ok());
                let (Some(name), Some(function), Ok(receiver)) =
                    (name, function, value.getattr("__self__"))
                else {
                    return self.set_kind(id, Kind::Opaque);
                };
                self.guard_type(id, value);
                let receiver = self.child(source, &receiver, Tracker::MethodSelf);
                let function = self.child(source, &function, Tracker::MethodFunc);
                self.guard_identity(function);
                let name = Arc::from(name);
                self.set_kind(id, Kind::BoundBuiltin { receiver, name });
            }
            "builtin_function_or_method"
            | "method_descriptor"
            | "wrapper_descriptor"
            | "method-wrapper"
            | "classmethod_descriptor"
            | "getset_descriptor"
            | "member_descriptor"
            | "instancemethod"
            | "ufunc"
            | "_ArrayFunctionDispatcher"
            | "_lru_cache_wrapper"
            | "itemgetter"
            | "attrgetter"
            | "methodcaller" => {
                self.guard_identity(id);
                self.set_kind(id, Kind::Callable);
            }
            "cell" => {
                self.guard_type(id, value);
                self.set_kind(id, Kind::Cell(CellVar::Unread));
            }
            SLICE | RANGE => self.classify_const_object(id, value),
            _ if is_enum_like(value) => {
                self.guard_identity(id);
                self.set_kind(id, Kind::Const);
            }
            _ if is_python_class(&class) || is_plain_class(&class) => {
                self.guard_type(id, value);
                self.distinct(id);
                self.set_kind(id, Kind::Object(ObjectVar::of(Obj::from(class))));
            }
            _ => {
                self.guard_type(id, value);
                self.set_kind(id, Kind::Opaque);
            }
        }
    }

    fn classify_const_object(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        let parts = PARTS.map(|name| value.getattr(name));
        let [Ok(start), Ok(stop), Ok(step)] = parts else {
            return self.set_kind(id, Kind::Opaque);
        };
        let plain = [&start, &stop, &step]
            .iter()
            .all(|part| is_plain_constant(part));
        if !plain {
            self.guard_type(id, value);
            return self.set_kind(id, Kind::Opaque);
        }
        self.guard(id, GuardKind::ConstEq(Obj::from(value)));
        if value.get_type().name().is_ok_and(|name| name == RANGE) {
            match (start.extract(), stop.extract(), step.extract()) {
                (Ok(start), Ok(stop), Ok(step)) if iterate::is_short(start, stop, step) => {
                    self.set_kind(id, Kind::Range(start, stop, step))
                }
                _ => self.set_kind(id, Kind::Opaque),
            }
        } else {
            let parts = [start, stop, step].map(|part| self.constant(&part));
            self.set_kind(id, Kind::Slice(parts));
        }
    }

    /// Opens the dims that differ between calls of what is found at `source`.
    pub(crate) fn leave_open(&self, source: &TrackerRef, meta: &mut TensorMeta) {
        for &dim in self.options.varies.dims.get(source).into_iter().flatten() {
            if let Some(open) = meta.shape.get_mut(dim) {
                *open = -1;
            }
        }
    }

    fn classify_tensor(&mut self, id: VarId, value: &Bound<'py, PyAny>) {
        let Some(meta) = tensor_meta(value) else {
            self.guard_type(id, value);
            return self.set_kind(id, Kind::Opaque);
        };
        let Some(source) = self.source(id) else {
            // A tensor without a source cannot be an input of the graph.
            return self.set_kind(id, Kind::Opaque);
        };
        let mut traced = meta.clone();
        self.leave_open(&source, &mut traced);
        self.guard_type(id, value);
        self.guard(id, GuardKind::Tensor(TensorGuard::of(&traced)));
        let class = value.get_type();
        let class = (!class.is(self.paddle.tensor.bind(self.py))).then(|| Obj::from(class));
        match self
            .graph
            .tensor_input(self.py, Obj::from(value), traced, source)
        {
            Ok(symbol) => {
                self.distinct(id);
                self.set_kind(
                    id,
                    Kind::Tensor(TensorVar {
                        symbol,
                        view: None,
                        class,
                    }),
                );
            }
            Err(_) => self.set_kind(id, Kind::Opaque),
        }
    }

    fn ordered_dict(&self, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
        let class = ordered_dict(self.py).ok()?;
        if value.get_type().is(&class) {
            value.cast::<PyDict>().ok().cloned()
        } else {
            None
        }
    }

    pub(super) fn classify_list(
        &mut self,
        id: VarId,
        list: &Bound<'py, PyList>,
        source: Option<&TrackerRef>,
    ) {
        self.guard_type(id, list.as_any());
        self.guard(id, GuardKind::Len(list.len()));
        self.distinct(id);
        let items = list
            .iter()
            .enumerate()
            .map(|(index, item)| self.child(source, &item, |base| Tracker::ListItem(base, index)))
            .collect();
        self.set_kind(id, Kind::List(items));
    }

    pub(super) fn classify_tuple(
        &mut self,
        id: VarId,
        tuple: &Bound<'py, PyTuple>,
        class: Option<Obj>,
        source: Option<&TrackerRef>,
    ) {
        let fixed = source.is_none_or(|source| matches!(**source, Tracker::Const(_)));
        if !fixed {
            self.guard_type(id, tuple.as_any());
            self.guard(id, GuardKind::Len(tuple.len()));
        }
        let source = source.filter(|_| !fixed);
        let items = tuple
            .iter()
            .enumerate()
            .map(|(index, item)| self.child(source, &item, |base| Tracker::TupleItem(base, index)))
            .collect();
        self.set_kind(id, Kind::Tuple(items, class));
    }

    pub(super) fn classify_dict(
        &mut self,
        id: VarId,
        dict: &Bound<'py, PyDict>,
        class: Option<Obj>,
        source: Option<&TrackerRef>,
    ) {
        self.guard_type(id, dict.as_any());
        let is_namespace =
            self.seen.namespaces.contains_key(&(dict.as_ptr() as usize)) || is_of_module(dict);
        if is_namespace {
            // Its items are variables of the program, and attributes of an object, by other names.
            return self.set_kind(id, Kind::Opaque);
        }
        let Ok(Some(found)) = items_in_order(dict) else {
            return self.set_kind(id, Kind::Opaque);
        };
        let mut keys = Vec::with_capacity(dict.len());
        for (key, _) in &found {
            // A dict that the caller makes anew may have other tuples as keys each time.
            let is_other_tuple =
                key.is_instance_of::<PyTuple>() && !numpy_scalars::is_settled(source);
            match dict_key(key).filter(|_| !is_other_tuple) {
                Some(key) => keys.push(key),
                None => return self.set_kind(id, Kind::Opaque),
            }
        }
        self.guard(id, GuardKind::DictKeys(keys.clone()));
        self.distinct(id);
        let mut items = DictVar {
            class,
            ..DictVar::default()
        };
        for ((key, value), dict_key) in found.into_iter().zip(keys) {
            let key = self.constant(&key);
            let Ok(simulated) = keys::key_of(self, key) else {
                return self.set_kind(id, Kind::Opaque);
            };
            let value = self.child(source, &value, |base| Tracker::DictItem(base, dict_key));
            items.items.insert(simulated, (key, value));
        }
        self.set_kind(id, Kind::Dict(items));
    }
}

/// Containers that are not looked into: every item would be a guard.
pub(super) const LONGEST: usize = 4096;

pub(super) fn is_long(value: &Bound<'_, PyAny>) -> bool {
    is_container(value) && value.len().is_ok_and(|len| len > LONGEST)
}

fn is_container(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyDict>()
}

/// Special names that the class of a module may define: the simulation of modules looks for no
/// other.
const OF_MODULES: [&str; 14] = [
    "__annotations__",
    "__call__",
    "__dict__",
    "__dir__",
    "__doc__",
    "__firstlineno__",
    "__getattr__",
    "__init__",
    "__module__",
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__static_attributes__",
    "__weakref__",
];

/// A module that acts as modules do; `__getattr__` in its namespace or its class aside.
fn is_plain_module(value: &Bound<'_, PyAny>) -> bool {
    let plain = value.py().get_type::<PyModule>();
    let order = native::mro(&value.get_type());
    let is_harmless = |name: &Bound<'_, PyAny>| {
        name.extract::<&str>()
            .is_ok_and(|name| !name.starts_with("__") || OF_MODULES.contains(&name))
    };
    order
        .iter()
        .take_while(|class| !class.is(&plain))
        .all(|class| {
            let names = class
                .cast::<PyType>()
                .ok()
                .and_then(|class| of_type(class, "__dict__"));
            let names = names.and_then(|names| names.try_iter().ok());
            names.is_some_and(|mut names| {
                names.all(|name| name.is_ok_and(|name| is_harmless(&name)))
            })
        })
}

/// Whether the class was made by a `class` statement (a heap type with Python-level layout).
fn is_python_class(class: &Bound<'_, PyType>) -> bool {
    const HEAPTYPE: u64 = 1 << 9;
    let flags = of_type(class, "__flags__").and_then(|flags| flags.extract::<u64>().ok());
    let module = of_type(class, "__module__").and_then(|module| module.extract::<String>().ok());
    let names = of_type(class, "__dict__");
    flags.is_some_and(|flags| flags & HEAPTYPE != 0)
        && module.is_some_and(|module| module != BUILTINS)
        && names.is_some_and(|names| names.contains("__module__").unwrap_or(false))
}

/// Classes written in C whose attributes are found and set as those of any object: their layout as
/// that of Python's classes differs between versions.
fn is_plain_class(class: &Bound<'_, PyType>) -> bool {
    let of_collections = |name| is_attr(class, COLLECTIONS, name);
    is_attr(class, TYPES, "SimpleNamespace")
        || of_collections("defaultdict")
        || of_collections("deque")
        || is_attr(class, TYPES, "MappingProxyType")
        || is_attr(class, "contextvars", "ContextVar")
}
