//! One way on behind the instruction that broke the graph: a call of a resume function.

use rustc_hash::FxHashSet;

use crate::bytecode::{Origin, ResumeSpec};
use crate::obj::Obj;
use crate::reason::Break;
use crate::simulator::Tracer;
use crate::variables::{Kind, Rebuild, VarId};

use super::live_locals;
use super::plan::ResumeFactory;
use super::reconstruct::Emitter;

/// The instruction of the original code that went to `position`.
pub(super) fn original(origin: &Origin, position: usize) -> Result<usize, Break> {
    let missing = || Break::internal("an instruction that the original code does not have");
    origin.index(position).ok_or_else(missing)
}

/// One way on after the native instruction.
pub(super) struct Arm {
    at: usize,
    rest: Vec<VarId>,
    live: Vec<(usize, VarId)>,
}

impl Arm {
    /// At an instruction of the frame's code, with these locals and what is on the stack: then, and
    /// in front of the instruction that breaks.
    pub(super) fn new(
        t: &Tracer<'_>,
        origin: &Origin,
        globals: &Obj,
        locals: &[Option<VarId>],
        (rest, stack): (&[VarId], &[VarId]),
        at: usize,
    ) -> Result<Self, Break> {
        let code = &origin.code;
        let at = original(origin, at)?;
        let value = |slot: usize| *locals.get(origin.slots[slot] as usize)?;
        let slots = live_locals::slots(t, code, globals, at, &value, rest, stack);
        let live = slots
            .into_iter()
            .filter_map(|slot| Some((slot, value(slot)?)))
            .collect();
        Ok(Self {
            at,
            rest: rest.to_vec(),
            live,
        })
    }

    /// What it takes: from the stack, and locals.
    pub(super) fn held(&self) -> impl Iterator<Item = VarId> {
        let live = self.live.iter().map(|(_, id)| *id);
        self.rest.iter().copied().chain(live)
    }

    /// Whether a local that it takes is this variable.
    pub(super) fn is_live(&self, id: VarId) -> bool {
        self.live.iter().any(|(_, live)| *live == id)
    }

    /// The resume function to go on with when the native instruction has pushed `made`, NULLs and
    /// others. `native` says that it begins with an instruction that the interpreter runs.
    pub(super) fn spec(&self, t: &Tracer<'_>, made: &[bool], native: bool) -> ResumeSpec {
        let is_null = |id: &VarId| matches!(t.vars.kind(*id), Kind::Null);
        ResumeSpec {
            at: self.at,
            nulls: self
                .rest
                .iter()
                .map(is_null)
                .chain(made.iter().copied())
                .collect(),
            live: self.live.iter().map(|(slot, _)| *slot).collect(),
            native,
        }
    }

    /// Its arguments without what the native instruction has pushed.
    pub(super) fn arguments(&self, t: &Tracer<'_>) -> Vec<VarId> {
        let is_value = |id: &VarId| !matches!(t.vars.kind(*id), Kind::Null);
        let stack = self.rest.iter().copied().filter(is_value);
        self.live.iter().map(|(_, id)| *id).chain(stack).collect()
    }

    /// Emits the call of the resume function. On the stack are the results of the native
    /// instruction; `made` says which of the items it pushed are NULL (those are not there).
    pub(super) fn emit(
        self,
        e: &mut Emitter<'_, '_>,
        made: &[bool],
        raised_at: usize,
        resume: &mut ResumeFactory<'_>,
    ) -> Result<(), Break> {
        let lasti = raised_at.checked_sub(1);
        let spec = self.spec(e.t, made, false);
        let (callable, position) = resume(None, spec, lasti.unwrap_or(0))?;
        let mut results = Vec::new();
        let on_stack = made.iter().filter(|null| !**null).count();
        let replaced = usize::from(lasti.is_some() && made.len() == 2);
        for index in 0..on_stack - replaced {
            let local = e.code.local(&format!(".result_{index}_{}", e.code.here()));
            e.code.store(local)?;
            results.push(local);
        }
        results.reverse();
        e.code.load_const(&callable)?;
        let arguments = self.arguments(e.t);
        e.values(&arguments)?;
        let mut argc = arguments.len();
        if replaced == 1 {
            let position = pyo3::types::PyInt::new(e.t.py, position).into_any();
            e.constant(&position)?;
            argc += 1;
        }
        for local in &results {
            e.code.load(*local)?;
            argc += 1;
        }
        e.code.op("BUILD_TUPLE", argc as u32)?;
        if lasti.is_some() {
            // The traceback keeps this frame: what it holds would die with the exception, or never
            // if it holds that.
            for local in results {
                e.code.op("DELETE_FAST", local)?;
            }
            e.drop_all_but(&FxHashSet::default())?;
        }
        e.code.op("BUILD_TUPLE", 2)?;
        e.code.op("RETURN_VALUE", 0)?;
        Ok(())
    }
}
