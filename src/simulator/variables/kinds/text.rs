//! Texts that differ between calls.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::bytecode::BinOp;
use crate::reason::Break;
use crate::{Step, Tracer, text_keys, texts};

use crate::variables::answers::{Finalizer, Precedence, Snapshot, builtin};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::{Rebuild, call_pure};
use crate::variables::{Key, VarId, Variable};

/// A part of a text that differs between calls.
#[derive(Clone, Debug)]
pub enum TextPart {
    /// An exact `str`.
    Text(VarId),
    /// What a pure function answers to these arguments, an exact `str`.
    Shown(VarId, Arc<[VarId]>),
}

/// An exact `str`: from outside, or made of these parts.
pub struct Text<'a>(pub &'a [TextPart]);

impl Protocol for Text<'_> {
    const NAME: &'static str = "Text";

    fn children(&self) -> Vec<VarId> {
        let mut found = Vec::new();
        for part in self.0 {
            match part {
                TextPart::Text(text) => found.push(*text),
                TextPart::Shown(function, args) => {
                    found.push(*function);
                    found.extend_from_slice(args);
                }
            }
        }
        found
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, _: &Variable) -> Option<Bound<'py, PyType>> {
        builtin(t, "str")
    }

    fn may_change(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::Never
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, _: VarId) -> Result<bool, Break> {
        for part in self.0 {
            match part {
                TextPart::Text(text) => to.value(*text)?,
                TextPart::Shown(function, args) => call_pure(to, *function, args)?,
            }
        }
        if self.0.len() > 1 {
            to.code().op("BUILD_STRING", self.0.len() as u32)?;
        }
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn hash_key(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Key> {
        text_keys::open_key(t, id)
    }

    const PRECEDENCE: Precedence = Precedence::Containers;

    fn binary(
        &self,
        t: &mut Tracer<'_>,
        op: BinOp,
        _: bool,
        (a, b): (VarId, VarId),
    ) -> Step<Option<VarId>> {
        if op == BinOp::Add {
            return Ok(texts::sum(t, a, b));
        }
        Ok(None)
    }
}
