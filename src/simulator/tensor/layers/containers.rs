//! Containers of layers and parameters: what they hold, without following their methods.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyType};

use crate::guard::GuardKind;
use crate::obj::is_attr;
use crate::reason::BreakKind;
use crate::tracker::DictKey;
use crate::variables::{Kind, VarId};
use crate::{Step, Tracer};

use super::{dict_item, has_own, in_order, layer_dict, refuse_changed, registry};

/// A class of Paddle's whose methods are stood in for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    LayerList,
    Sequential,
    ParameterList,
}

impl Container {
    pub(super) fn of(class: &Bound<'_, PyType>) -> Option<Self> {
        let known = [
            (Self::LayerList, "LayerList"),
            (Self::Sequential, "Sequential"),
            (Self::ParameterList, "ParameterList"),
        ];
        let is = |name| is_attr(class, "paddle.nn.layer.container", name);
        let mut known = known.into_iter();
        known.find(|(_, name)| is(name)).map(|(this, _)| this)
    }

    /// Where it keeps its items.
    fn registry(self) -> &'static str {
        match self {
            Self::LayerList | Self::Sequential => "_sub_layers",
            Self::ParameterList => "_parameters",
        }
    }

    /// The item at an index: a `Sequential` counts its items, the others go by their names.
    fn at(self, items: &[Named], index: i64) -> Option<VarId> {
        let place = || {
            let place = if index < 0 {
                index + items.len() as i64
            } else {
                index
            };
            usize::try_from(place).ok().filter(|at| *at < items.len())
        };
        let name = match self {
            Self::Sequential => return Some(items[place()?].1),
            Self::LayerList => place()?.to_string(),
            Self::ParameterList => index.to_string(),
        };
        items.iter().find(|item| *item.0 == name).map(|item| item.1)
    }
}

/// An item and its name.
type Named = (Arc<str>, VarId);

/// The items of a container, wrapped, whose names are guarded; `None` where one of these methods,
/// which would be asked for them, is not Paddle's.
fn named_items(
    t: &mut Tracer<'_>,
    layer: VarId,
    methods: &[&str],
) -> Step<Option<(Container, Vec<Named>)>> {
    if !matches!(t.kind(layer), Kind::Layer(_)) {
        return Ok(None);
    }
    let (Some(object), Some(source)) = (t.value(layer), t.source(layer)) else {
        return Ok(None);
    };
    let class = object.get_type();
    let Some(container) = Container::of(&class).filter(|_| has_own(t, &class, methods)) else {
        return Ok(None);
    };
    let which = container.registry();
    refuse_changed(t, &object, &[which])?;
    let Some(dict) = registry(&object, which) else {
        return Ok(None);
    };
    let Some(found) = in_order(&dict)? else {
        return Ok(None);
    };
    let base = dict_item(layer_dict(&source), which);
    let mut keys = Vec::new();
    let mut items = Vec::new();
    for (key, value) in found {
        let Ok(key) = key.extract::<String>() else {
            return Ok(None);
        };
        let key: Arc<str> = Arc::from(key);
        keys.push(DictKey::Str(key.clone()));
        let item = t.wrap(&value, dict_item(base.clone(), &key));
        items.push((key, item));
    }
    t.guards.add(&base, GuardKind::DictKeys(keys));
    Ok(Some((container, items)))
}

/// What a container answers with, in order, where these methods of it are asked.
pub fn items(t: &mut Tracer<'_>, layer: VarId, methods: &[&str]) -> Step<Option<Vec<VarId>>> {
    let found = named_items(t, layer, methods)?;
    Ok(found.map(|(_, items)| items.into_iter().map(|(_, item)| item).collect()))
}

/// `container[index]` with a constant int.
pub fn get_item(t: &mut Tracer<'_>, layer: VarId, key: VarId) -> Step<Option<VarId>> {
    let index = t.const_value(key);
    let index = index.filter(|index| index.is_exact_instance_of::<PyInt>());
    let Some(index) = index.and_then(|index| index.extract().ok()) else {
        return Ok(None);
    };
    let Some((container, items)) = named_items(t, layer, &["__getitem__", "__len__"])? else {
        return Ok(None);
    };
    match container.at(&items, index) {
        Some(item) => Ok(Some(item)),
        None => t.stop(BreakKind::RaisesException, "a container has no such item"),
    }
}
