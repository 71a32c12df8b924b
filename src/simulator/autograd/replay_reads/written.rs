//! What the rest of a frame may write when the interpreter runs it, as far as its byte code tells.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashSet;

use crate::Tracer;
use crate::bytecode::{Code, Instr, flow};
use crate::methods;
use crate::variables::VarId;

use super::RunsAgain;

/// What the rest of the frames of a break may write.
#[derive(Default)]
pub(super) struct Written {
    /// Attributes and globals.
    names: FxHashSet<Arc<str>>,
    cells: FxHashSet<VarId>,
    /// Whether there are items: nobody knows of what.
    items: bool,
    /// Whether that is not known.
    anything: bool,
}

impl Written {
    /// Adds the rest of a frame, and all of its inner functions.
    pub(super) fn add(
        &mut self,
        t: &mut Tracer<'_>,
        code: &Code,
        at: usize,
        locals: &[Option<VarId>],
    ) {
        let behind = flow::reachable(code, at);
        for (it, behind) in code.instructions.iter().zip(behind) {
            if behind {
                self.note(code, &it.instr);
                self.cells
                    .extend(bound(&it.instr).and_then(|slot| *locals.get(slot)?));
            }
        }
        let mut variables = FxHashSet::default();
        self.add_inner(t, code, &mut variables);
        for (slot, local) in code.localsplus.iter().zip(locals) {
            if variables.contains(&slot.name) {
                self.cells.extend(*local);
            }
        }
    }

    /// Adds the inner functions of this code; `variables` are those that they bind.
    fn add_inner(&mut self, t: &mut Tracer<'_>, code: &Code, variables: &mut FxHashSet<Arc<str>>) {
        for item in &code.consts {
            if !item.bind(t.py).is_instance_of::<PyCode>() {
                continue;
            }
            let Ok(inner) = t.decode(item) else {
                self.anything = true;
                continue;
            };
            for it in &inner.instructions {
                self.note(&inner, &it.instr);
                let name = bound(&it.instr).map(|slot| inner.localsplus[slot].name.clone());
                variables.extend(name);
            }
            self.add_inner(t, &inner, variables);
        }
    }

    fn note(&mut self, code: &Code, instr: &Instr) {
        if let Instr::StoreAttr { name }
        | Instr::DeleteAttr { name }
        | Instr::StoreGlobal { name }
        | Instr::DeleteGlobal { name } = instr
        {
            self.names.insert(code.names[*name as usize].clone());
        }
        let is_store = matches!(
            instr,
            Instr::StoreSubscr | Instr::DeleteSubscr | Instr::StoreSlice
        );
        let is_mutator = |name: u32| methods::changes(&code.names[name as usize]);
        self.items |=
            is_store || matches!(instr, Instr::LoadAttr { name, .. } if is_mutator(*name));
    }

    pub(super) fn is_read_by(&self, operation: &RunsAgain) -> bool {
        self.anything
            || (self.items && operation.containers)
            || !self.names.is_disjoint(&operation.names)
            || !self.cells.is_disjoint(&operation.cells)
    }
}

/// The slot whose cell an instruction changes.
fn bound(instr: &Instr) -> Option<usize> {
    let (Instr::StoreDeref { local } | Instr::DeleteDeref { local }) = instr else {
        return None;
    };
    Some(*local as usize)
}
