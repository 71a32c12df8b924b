//! [`OutTree`]: results that Rust can build without byte code.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::obj::Obj;
use crate::simulator::{Tracer, carried_aliases};
use crate::tracker::Tracker;
use crate::variables::{Form, VarId};

use super::reconstruct::Demand;

/// The shape of a result.
#[derive(Clone, Debug)]
pub enum OutTree {
    /// An output of the graph.
    Graph(usize),
    /// A slot of the guard program.
    Slot(usize),
    /// A constant.
    Const(Obj),
    /// A fresh list.
    List(Vec<OutTree>),
    /// A call of a class with a fresh list.
    Made(Obj, Vec<OutTree>),
    /// A fresh tuple.
    Tuple(Vec<OutTree>),
    /// A fresh dict.
    Dict(Vec<(OutTree, OutTree)>),
}

impl OutTree {
    /// Builds the result. `slots` are borrowed pointers that the caller keeps alive.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn build(
        &self,
        py: Python<'_>,
        outputs: &[Py<PyAny>],
        slots: &[Bound<'_, PyAny>],
    ) -> PyResult<Py<PyAny>> {
        let many = |items: &[OutTree]| {
            items
                .iter()
                .map(|item| item.build(py, outputs, slots))
                .collect::<PyResult<Vec<_>>>()
        };
        Ok(match self {
            Self::Graph(index) => outputs[*index].clone_ref(py),
            Self::Slot(index) => slots[*index].clone().unbind(),
            Self::Const(value) => value.py(py),
            Self::List(items) => PyList::new(py, many(items)?)?.into_any().unbind(),
            Self::Made(class, items) => class
                .bind(py)
                .call1((PyList::new(py, many(items)?)?,))?
                .unbind(),
            Self::Tuple(items) => PyTuple::new(py, many(items)?)?.into_any().unbind(),
            Self::Dict(items) => {
                let dict = PyDict::new(py);
                for (key, value) in items {
                    dict.set_item(
                        key.build(py, outputs, slots)?,
                        value.build(py, outputs, slots)?,
                    )?;
                }
                dict.into_any().unbind()
            }
        })
    }
}

/// Deeper trees are left to generated code.
const DEEP: usize = 64;

/// The tree for `id`; `None` when it needs generated code: unusual values, and containers that are
/// found twice (they must stay one object) or inside of themselves.
pub fn tree(
    t: &Tracer<'_>,
    demand: &mut Demand,
    id: VarId,
    seen: &mut Vec<VarId>,
    depth: usize,
) -> Option<OutTree> {
    // Generated code knows what to do.
    if t.raised_at(id).is_some() {
        return None;
    }
    let var = t.vars.get(id).clone();
    if let Some(source) = &var.source {
        if let Tracker::Const(value) = &**source {
            return Some(OutTree::Const(value.clone()));
        }
        return Some(OutTree::Slot(demand.slot(source)));
    }
    let form = var.kind.form();
    match (&form, &var.value) {
        (Form::Const, Some(value)) => return Some(OutTree::Const(value.clone())),
        (Form::Tensor(symbol, _), _) => {
            if t.at_break.hands_on && carried_aliases::made_at(t, id).is_some() {
                return None;
            }
            demand.tensors.insert(id);
            return Some(match demand.input(t, *symbol) {
                Some(slot) => OutTree::Slot(slot),
                None => OutTree::Graph(demand.output(*symbol)),
            });
        }
        _ => {}
    }
    // Before the items: a container inside of itself ends here.
    if depth > DEEP || seen.contains(&id) {
        return None;
    }
    seen.push(id);
    demand.made.insert(id);
    let mut many = |items: &[VarId]| {
        items
            .iter()
            .map(|item| tree(t, demand, *item, seen, depth + 1))
            .collect::<Option<Vec<_>>>()
    };
    match &form {
        Form::Tuple(items, None) => Some(OutTree::Tuple(many(items)?)),
        Form::List(items) => {
            let items = many(items)?;
            Some(match &var.class {
                Some(class) => OutTree::Made(class.clone(), items),
                None => OutTree::List(items),
            })
        }
        Form::Dict(dict) if dict.is_plain() => {
            let keys: Vec<VarId> = dict.keys().collect();
            let values: Vec<VarId> = dict.items.values().map(|(_, value)| *value).collect();
            let (keys, values) = (many(&keys)?, many(&values)?);
            Some(OutTree::Dict(keys.into_iter().zip(values).collect()))
        }
        Form::Tensor(..)
        | Form::Number(_)
        | Form::Const
        | Form::Tuple(..)
        | Form::Dict(_)
        | Form::Other => None,
    }
}
