//! Scalars and arrays of NumPy that the program computes.

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::SymbolId;
use crate::operators::UnaryOp;
use crate::reason::{Break, BreakId};
use crate::{Step, Tracer, attributes, graph_arrays};

use crate::variables::answers::{Finalizer, Precedence, Snapshot, attribute};
use crate::variables::protocol::{self, Protocol};
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

/// A scalar or an array of NumPy that the program computes. Nothing writes to it.
pub struct GraphArray(pub SymbolId);

impl Protocol for GraphArray {
    const NAME: &'static str = "GraphArray";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        graph_arrays::class(t, self.0)?.cast_into().ok()
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        let helper = match to.tracer().flow.arrays_without_dims.contains(&self.0) {
            true => "read_array",
            false => "graph_array",
        };
        to.call_helper(helper, 1, |to| to.symbol(self.0))?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, t: &mut Tracer<'_>, id: VarId) -> Step<bool> {
        if let Some(number) = graph_arrays::number(t, id) {
            return protocol::truth(t, number);
        }
        t.stop(
            BreakId::NumPyArray,
            "the truth of a scalar or an array of NumPy that the program computes",
        )
    }

    fn len(&self, t: &mut Tracer<'_>, id: VarId) -> Step<i64> {
        graph_arrays::len(t, id)
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        graph_arrays::iterate(t, id)
    }

    fn get_item(&self, t: &mut Tracer<'_>, id: VarId, key: VarId) -> Step<VarId> {
        graph_arrays::get_item(t, id, key)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        if graph_arrays::has_method(name) {
            return Ok(Some(attributes::bound_builtin(t, id, name)));
        }
        match graph_arrays::attribute(t, id, name)? {
            Some(found) => Ok(Some(found)),
            None => attribute(t, id, name),
        }
    }

    fn unary(&self, t: &mut Tracer<'_>, id: VarId, op: UnaryOp) -> Step<VarId> {
        match op {
            UnaryOp::Negative => graph_arrays::negative(t, id),
            UnaryOp::Positive | UnaryOp::Invert => {
                t.stop(BreakId::NumPyArray, "such an operator of an array")
            }
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
        graph_arrays::binary(t, op, inplace, a, b)
    }

    fn compare(
        &self,
        t: &mut Tracer<'_>,
        op: CmpOp,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        graph_arrays::compare(t, op, a, b)
    }
}
