//! NumPy arrays that the frame made.

mod graph_array;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::{BinOp, CmpOp};
use crate::obj::Obj;
use crate::operators::UnaryOp;
use crate::reason::Break;
use crate::{Step, Tracer, attributes, comparisons, made_arrays, operators};

use crate::variables::answers::{Finalizer, Precedence, Snapshot, attribute};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

pub use graph_array::GraphArray;

/// A NumPy array that the frame made. What is held is read-only, and nobody else's.
#[derive(Clone, Debug)]
pub struct ArrayVar {
    /// An array of the same numbers.
    pub value: Obj,
    /// The instruction of the outermost frame that made it.
    pub at: usize,
    /// Whether it may share its memory with another one, so that only the interpreter can make it.
    pub shares: bool,
    /// Whether something goes over it, which sees what is written meanwhile.
    pub iterated: bool,
}

impl Protocol for ArrayVar {
    const NAME: &'static str = "Array";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        Some(self.value.bind(t.py).get_type())
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        to.call_helper("array", 1, |to| Ok(to.code().load_held(&self.value)?))?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        made_arrays::len(t, id)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        made_arrays::iterate(t, id)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        made_arrays::get_item(t, id, key)
    }

    fn set_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId, value: VarId) -> Step<()> {
        made_arrays::set_item(t, id, key, value)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if made_arrays::has_method(t.vars.kind(id), name) {
            return Ok(Some(attributes::bound_builtin(t, id, name)));
        }
        if made_arrays::has_attribute(name) {
            return made_arrays::attribute(t, id, name).map(Some);
        }
        attribute(t, id, name)
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        match made_arrays::operator(t, operators::unary_names(op).1, &[id])? {
            Some(array) => Ok(array),
            None => t.unsupported("an operator of an array"),
        }
    }

    const PRECEDENCE: Precedence = Precedence::Arrays;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        made_arrays::binary(t, op, inplace, a, b)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        let an_object = |id: VarId| operators::is_object(t.vars.kind(id));
        if an_object(a) || an_object(b) {
            return Ok(None);
        }
        made_arrays::operator(t, comparisons::name(op), &[a, b])
    }
}
