//! Dicts and their views.

use indexmap::IndexMap;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::obj::Obj;
use crate::simulator::Tracer;

use crate::simulator::variables::protocol::{builtin, class, Finalizer, Protocol, Snapshot};
use crate::simulator::variables::{Key, Kind, VarId, Variable};

/// A dict with exact key equality.
#[derive(Clone, Debug, Default)]
pub struct DictVar {
    /// Key -> (key variable, value variable), in insertion order.
    pub items: IndexMap<Key, (VarId, VarId)>,
    /// The class when it is `OrderedDict` or `defaultdict`.
    pub class: Option<Obj>,
    /// `default_factory`.
    pub default_factory: Option<VarId>,
}

impl DictVar {
    /// The variables of its keys, in insertion order.
    pub fn keys(&self) -> impl Iterator<Item = VarId> + '_ {
        self.items.values().map(|(key, _)| *key)
    }
}

impl Protocol for DictVar {
    const NAME: &'static str = "Dict";

    fn children(&self) -> Vec<VarId> {
        let items = self.items.values().flat_map(|(key, value)| [*key, *value]);
        items.chain(self.default_factory).collect()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        match &self.class {
            Some(of) => class(t, of),
            None => builtin(t, "dict"),
        }
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Contents("set_dict", Kind::Dict(self.clone()))
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Items(self.items.values().map(|(_, value)| *value).collect())
    }
}

/// `dict.keys()`, `.values()`, `.items()` of a dict variable: 0, 1, 2.
pub struct DictView(pub VarId, pub u8);

impl Protocol for DictView {
    const NAME: &'static str = "DictView";

    fn children(&self) -> Vec<VarId> {
        vec![self.0]
    }

    fn python_type<'py>(&self, _: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        None
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }
}
