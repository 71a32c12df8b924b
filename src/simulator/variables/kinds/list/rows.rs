//! Lists that grew in a captured loop: how many tensors they hold, only the program knows.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use crate::bytecode::{BinOp, CmpOp};
use crate::graph::SymbolId;
use crate::reason::{Break, BreakKind};
use crate::{Kwargs, Step, Tracer, grown_lists};

use crate::variables::answers::{Exports, Finalizer, Precedence, Snapshot, attribute_of_container};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{VarId, Variable};

/// A list of tensors that are the rows of one.
#[derive(Clone, Copy, Debug)]
pub struct RowsVar {
    /// The tensor; its first dim is open.
    pub symbol: SymbolId,
    /// The instruction of the outermost frame that made it.
    pub at: usize,
    /// Whether it may hold none.
    pub may_be_empty: bool,
    /// Whether there is an iterator over it, which would see what is appended.
    pub iterated: bool,
}

impl Protocol for RowsVar {
    const NAME: &'static str = "Rows";

    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        Some(t.py.get_type::<PyList>())
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        if to.tracer().at_break.hands_on {
            // Native code may change what it holds, or ask whether that is something else.
            let why = "a list that grows in a captured loop goes on to native code";
            return Err(to.tracer().left_to_interpreter(self.at, why));
        }
        to.call_helper("list_of_rows", 1, |to| to.symbol(self.symbol))?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn iter(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        grown_lists::iterate(t, id, *self)
    }

    fn reversed(&self, t: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        grown_lists::reversed(t, id, *self)
    }

    fn get_item(&self, t: &mut Tracer<'_>, _: VarId, key: VarId) -> Step<VarId> {
        grown_lists::item(t, *self, key)
    }

    fn get_attr(&self, t: &mut Tracer<'_>, id: VarId, name: &str) -> Step<Option<VarId>> {
        attribute_of_container(t, id, name)
    }

    fn has_method(&self, _: &mut Tracer<'_>, _: VarId, name: &str) -> Step<bool> {
        Ok(matches!(
            name,
            grown_lists::APPEND | grown_lists::EXTEND | grown_lists::POP | grown_lists::REVERSE
        ))
    }

    fn method(
        &self,
        t: &mut Tracer<'_>,
        id: VarId,
        name: &str,
        args: &[VarId],
        kwargs: &Kwargs,
    ) -> Step<VarId> {
        match (name, args, kwargs) {
            (grown_lists::APPEND, [value], []) => grown_lists::append(t, id, *self, *value),
            (grown_lists::EXTEND, [values], []) => {
                grown_lists::extend(t, id, *values)?;
                Ok(t.none())
            }
            (grown_lists::POP, [] | [_], []) => grown_lists::pop(t, id, *self, args),
            (grown_lists::REVERSE, [], []) => grown_lists::reverse(t, id, *self),
            _ => grown_lists::refuse(t, &format!("{name}()")),
        }
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        inplace: bool,
        (list, values): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        if op == BinOp::Add && inplace && matches!(t.kind(list), crate::variables::Kind::Rows(_)) {
            grown_lists::extend(t, list, values)?;
            return Ok(Some(list));
        }
        grown_lists::refuse(t, "an operator")
    }

    fn compare(&self, t: &mut Tracer<'_>, _: CmpOp, _: (VarId, VarId)) -> Step<Option<VarId>> {
        grown_lists::refuse(t, "a comparison")
    }

    fn exports(&self, _: &Tracer<'_>) -> Result<Exports, Break> {
        Err(Break::new(
            BreakKind::UnsupportedOperation,
            "the function returns a list that grows in a loop, and a program has so many results in each call: return \
             paddle.stack() or paddle.concat() of it",
        ))
    }
}
