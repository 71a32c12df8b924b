//! Guards as Python expressions, for `explain` and for logs.

use itertools::Itertools;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::obj::{name_of, shown};
use crate::tracker::{Tracker, TrackerRef};

use super::{
    CompiledGuard, Guard, GuardCompiler, GuardFailure, GuardInputs, GuardKind, GuardSet,
    NativeGuardCompiler,
};
use crate::abi::GlobalState;

/// Compiles guards to text; evaluating them is left to the native compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpressionGuardCompiler;

struct Expressions {
    native: Box<dyn CompiledGuard>,
    texts: Vec<String>,
}

impl GuardCompiler for ExpressionGuardCompiler {
    fn compile(
        &self,
        py: Python<'_>,
        guards: &GuardSet,
        slots: &[TrackerRef],
        state: &GlobalState,
    ) -> PyResult<Box<dyn CompiledGuard>> {
        let native = NativeGuardCompiler.compile(py, guards, slots, state)?;
        let texts = guards.iter().map(|guard| text(py, guard)).collect();
        Ok(Box::new(Expressions { native, texts }))
    }
}

impl CompiledGuard for Expressions {
    fn check<'py>(
        &self,
        py: Python<'py>,
        inputs: GuardInputs<'_>,
    ) -> Result<super::compile::Slots<'py>, GuardFailure> {
        self.native.check(py, inputs)
    }

    fn describe(&self) -> Vec<String> {
        self.texts.clone()
    }
}

/// What a user would write for what is at a tracker.
pub fn path(py: Python<'_>, tracker: &Tracker) -> String {
    match tracker {
        Tracker::Const(object) => {
            let object = object.bind(py);
            let of_namespace = || {
                let namespace = object.cast_exact::<PyDict>().ok()?;
                let name = namespace.get_item("__name__").ok()??;
                name.extract::<String>().ok()
            };
            let name = name_of(object).or_else(of_namespace);
            name.unwrap_or_else(|| tracker.to_string())
        }
        Tracker::DictItem(base, key) => {
            if let Tracker::InstanceDict(owner) = &**base {
                format!("{}.{}", path(py, owner), key.to_string().trim_matches('"'))
            } else {
                format!("{}[{key}]", path(py, base))
            }
        }
        Tracker::TypeAttr(base, name) => format!("{}.{name}", path(py, base)),
        Tracker::ListItem(base, at)
        | Tracker::TupleItem(base, at)
        | Tracker::DequeItem(base, at) => {
            format!("{}[{at}]", path(py, base))
        }
        Tracker::Local { .. }
        | Tracker::FreeCell { .. }
        | Tracker::Handled
        | Tracker::CellContents(_)
        | Tracker::TypeOf(_)
        | Tracker::InstanceDict(_)
        | Tracker::DictKeyAt(..)
        | Tracker::Upcoming(..)
        | Tracker::Proxied(_)
        | Tracker::ContextValue(_)
        | Tracker::Member(..)
        | Tracker::NativeAttr(..)
        | Tracker::Function(..)
        | Tracker::MethodSelf(_)
        | Tracker::MethodFunc(_)
        | Tracker::Number(..)
        | Tracker::Array(..) => tracker.to_string(),
    }
}

/// One guard as text.
pub fn text(py: Python<'_>, guard: &Guard) -> String {
    let x = path(py, &guard.tracker);
    let show = |object: &crate::obj::Obj| shown(object.bind(py));
    match &guard.kind {
        GuardKind::Present => format!("{x} exists"),
        GuardKind::Absent => format!("{x} does not exist"),
        GuardKind::TypeIs(class) => format!("type({x}) is {}", show(class)),
        GuardKind::Is(object) => format!("{x} is {}", show(object)),
        GuardKind::ConstEq(object) => format!("{x} == {}", show(object)),
        GuardKind::Len(len) => format!("len({x}) == {len}"),
        GuardKind::MaxLen(Some(most)) => format!("{x}.maxlen == {most}"),
        GuardKind::MaxLen(None) => format!("{x}.maxlen is None"),
        GuardKind::Filled(filled) => format!("{}{x}", if *filled { "" } else { "not " }),
        GuardKind::Holds(key, is) => {
            let not = if *is { "" } else { "not " };
            format!("{} {not}in {x}", show(key))
        }
        GuardKind::Elements(elements) => {
            format!("list({x}) == [{}]", elements.iter().map(show).join(", "))
        }
        GuardKind::DictKeys(keys) => format!("list({x}) == [{}]", keys.iter().join(", ")),
        GuardKind::Tensor(tensor) => {
            let dims = dims(&tensor.dims);
            let (dtype, stop) = (
                tensor.dtype.as_str(),
                if tensor.stop_gradient {
                    "True"
                } else {
                    "False"
                },
            );
            format!(
                "{x}.shape == [{dims}] and {x}.dtype == paddle.{dtype} and {x}.stop_gradient is {stop}"
            )
        }
        GuardKind::Contiguous => format!("{x}.is_contiguous()"),
        GuardKind::Apart(other) => format!("{x} has no memory in common with {}", path(py, other)),
        GuardKind::ApartFromAll(other) => {
            format!(
                "{x} has no memory in common with what {} holds",
                path(py, other)
            )
        }
        GuardKind::Unhooked => format!("{x} is a leaf without hooks"),
        GuardKind::PlainOptimizer => format!("{x} holds no code of the user's"),
        GuardKind::Array(array) => format!(
            "type({x}) is numpy.ndarray and {x}.dtype == {} and {x}.shape == ({})",
            array.dtype.bind(py),
            dims(&array.dims)
        ),
        GuardKind::Outcome(outcome) => format!(
            "{}({} {} {})",
            if outcome.holds { "" } else { "not " },
            outcome.left,
            outcome.op.symbol(),
            outcome.right
        ),
        GuardKind::SameAs(other) => format!("{x} is {}", path(py, other)),
        GuardKind::OtherThan(other) => format!("{x} is not {}", path(py, other)),
        GuardKind::Order(classes) => {
            format!("{x}.__mro__ == ({})", classes.iter().map(show).join(", "))
        }
        GuardKind::Registered(class, is) => format!(
            "{}issubclass({x}, {})",
            if *is { "" } else { "not " },
            show(class)
        ),
        GuardKind::Named(name, value) => format!("{x}.{name} == {}", show(value)),
        GuardKind::Quiet => format!("{x} ends without a destructor"),
        GuardKind::LayerState(layer) => format!("{x}: state of {} unchanged", show(layer)),
        GuardKind::Never => format!("{x} cannot be checked"),
    }
}

fn dims(dims: &[Option<i64>]) -> String {
    let shown = |dim: &Option<i64>| dim.map_or("?".to_owned(), |dim| dim.to_string());
    dims.iter().map(shown).join(", ")
}
