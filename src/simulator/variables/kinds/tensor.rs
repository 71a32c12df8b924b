//! Tensors.

mod maybe;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::{Arg, Callee, SymbolId};
use crate::obj::Obj;
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId, BreakKind};
use crate::subclasses::refuse_own;
use crate::subscript::index_range;
use crate::{
    Step, Tracer, arrays, attributes, carried_aliases, comparisons, keys, operators, rows, tensors,
};

use crate::variables::answers::{
    Exports, Finalizer, Form, Precedence, Snapshot, class, no_assignment,
};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{IterVar, Key, Kind, VarId, Variable};

pub use maybe::MaybeVar;

/// A tensor: a symbol of the graph under construction.
#[derive(Clone, Debug)]
pub struct TensorVar {
    /// The symbol. In-place operations on fresh tensors rebind it.
    pub symbol: SymbolId,
    /// How it was made, when it may share the storage of another tensor.
    pub view: Option<Arc<View>>,
    /// The real class when it is a Parameter or a user's subclass.
    pub class: Option<Obj>,
}

/// An operation whose result may share the storage of its argument. Where both leave the graph, the
/// operation is done again on the real tensors.
#[derive(Debug)]
pub struct View {
    /// The tensor whose storage may be shared.
    pub base: VarId,
    /// Its symbol.
    pub base_symbol: SymbolId,
    /// The operation.
    pub callee: Callee,
    /// Its arguments, the receiver first.
    pub args: Vec<Arg>,
    /// Its keyword arguments.
    pub kwargs: Vec<(Arc<str>, Arg)>,
    /// Which of several results, and the list of them.
    pub item: Option<(VarId, usize)>,
    /// Whether gradients were on.
    pub grad_enabled: bool,
}

impl Protocol for TensorVar {
    const NAME: &'static str = "Tensor";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        class(t, self.class.as_ref().unwrap_or(&t.paddle.tensor))
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        to.tensor(id, self)?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        t.stop(
            BreakKind::TensorBranch,
            "the truth of a tensor decides what is executed next",
        )
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        refuse_own(t, id, &["__len__"])?;
        match t
            .graph
            .meta(self.symbol)
            .and_then(|meta| meta.shape.first().copied())
        {
            Some(dim) if dim >= 0 => Ok(dim),
            Some(_) => t.stop(
                BreakId::TensorLoop,
                "the length of a tensor with a dynamic first dim",
            ),
            None => t.stop(BreakKind::RaisesException, "the length of a 0-d tensor"),
        }
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        refuse_own(t, id, &["__iter__", "__getitem__"])?;
        let state = match rows::over(t, id)? {
            Some(rows) => rows,
            None => {
                self.len(t, id)?;
                IterVar::Tensor { over: id, index: 0 }
            }
        };
        Ok(t.add(Kind::Iter(state)))
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        refuse_own(t, id, &["__reversed__", "__len__", "__getitem__"])?;
        let left = self.len(t, id)? as usize;
        Ok(t.add(Kind::Iter(IterVar::Reversed { over: id, left })))
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        refuse_own(t, id, &["__getitem__"])?;
        let key = arrays::index(t, key)?;
        // A program puts the dim of such a mask elsewhere than eager mode.
        if let Some(keys) = t.kind(key).exact_tuple().map(<[VarId]>::to_vec) {
            let is_bool = |value: Bound<'_, PyAny>| value.is_exact_instance_of::<PyBool>();
            if keys
                .into_iter()
                .any(|id| t.const_value(id).is_some_and(is_bool))
            {
                return t.stop(BreakId::Subscript, "a bool in the key of a tensor");
            }
        }
        index_range::check(t, id, key)?;
        tensors::method(t, id, "__getitem__", &[key], &[])
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        refuse_own(t, id, &["__setitem__"])?;
        tensors::set_item(t, id, key, value)
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        if carried_aliases::is_of_two(t, self.symbol) {
            return t.stop(
                BreakId::Key,
                "a key that may be one of two tensors, which captured control flow decides",
            );
        }
        keys::identity(t, id)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        tensors::attribute(t, id, name).map(Some)
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        tensors::method(t, id, operators::unary_names(op).0, &[], &[])
    }

    fn argument(&self, _: &mut Tracer<'_>, _: VarId) -> Step<Arg> {
        Ok(Arg::Symbol(self.symbol))
    }

    const PRECEDENCE: Precedence = Precedence::Tensors;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        operators::tensor_binary(t, op, inplace, a, b).map(Some)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        comparisons::tensor_compare(t, op, a, b).map(Some)
    }

    fn set_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str, value: VarId) -> Step<()> {
        match attributes::set_on_tensor(t, id, name, value)? {
            true => Ok(()),
            false => no_assignment(t, name),
        }
    }

    fn form(&self) -> Form {
        Form::Tensor(self.symbol, self.class.clone())
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Ok(Exports::Output(self.symbol))
    }
}
