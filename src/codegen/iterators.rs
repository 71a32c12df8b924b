//! Iterators over dicts, sets and constants, and iterators that must wait for the side effects.

use crate::reason::{Break, BreakKind};
use crate::variables::{IterVar, Key, Kind, VarId};

use super::reconstruct::{Emit, Emitter};

fn refuse<T>(what: &str) -> Result<T, Break> {
    Err(Break::new(BreakKind::Construct, what))
}

impl Emitter<'_, '_> {
    /// Whether `id` is an iterator over something that the side effects still have to change: made
    /// now it would be clamped to the old length, or find that the dict changed its size.
    pub(super) fn must_wait(&self, id: VarId) -> bool {
        let state = match self.t.vars.kind(id) {
            Kind::Iter(state) => state,
            Kind::Continuation { args, .. } => return args.iter().any(|arg| self.must_wait(*arg)),
            _ => return false,
        };
        let changes = |over: &VarId| {
            let var = self.t.vars.get(*over);
            var.mutated && var.source.is_some()
        };
        !self.replayed
            && match state {
                IterVar::Sequence { over, .. }
                | IterVar::Reversed { over, .. }
                | IterVar::Dict { over, .. }
                | IterVar::Fixed {
                    over: Some((over, _)),
                    ..
                } => changes(over),
                IterVar::Enumerate { inner, .. } | IterVar::Filter { inner, .. } => {
                    self.must_wait(*inner)
                }
                IterVar::Zip { inner, .. } | IterVar::Map { inner, .. } => {
                    inner.iter().any(|inner| self.must_wait(*inner))
                }
                IterVar::Tool(tool) => tool.inner().iter().any(|inner| self.must_wait(*inner)),
                _ => false,
            }
    }

    /// Declares the side effects replayed, and makes what waited for them.
    pub(super) fn late(&mut self) -> Emit {
        self.replayed = true;
        for id in std::mem::take(&mut self.waiting) {
            self.prepare(id)?;
        }
        Ok(())
    }

    /// Pushes an iterator over a dict or a view of it.
    pub(super) fn over_dict(
        &mut self,
        over: VarId,
        which: u8,
        keys: &[VarId],
        index: usize,
    ) -> Emit {
        match self.t.vars.kind(over) {
            Kind::Dict(dict) if dict.keys().eq(keys.iter().copied()) => {}
            _ => return refuse("an iterator over a dict that changed"),
        }
        self.advanced(over, Some(which), index)
    }

    /// Pushes an iterator over a set or a constant.
    pub(super) fn over_container(&mut self, over: VarId, keys: &[Key], index: usize) -> Emit {
        match self.t.vars.kind(over) {
            Kind::Set(set) if set.items.keys().eq(keys) => {}
            // What changes a set from outside breaks the graph.
            Kind::Const | Kind::Opaque => {}
            _ => return refuse("an iterator over a container that changed"),
        }
        self.advanced(over, None, index)
    }

    fn advanced(&mut self, over: VarId, which: Option<u8>, index: usize) -> Emit {
        self.call_helper("advanced", 3, |this| {
            this.value(over)?;
            match which {
                Some(which) => this.int(i64::from(which))?,
                None => this.constant(&this.t.py.None().into_bound(this.t.py))?,
            }
            this.int(index as i64)
        })
    }
}
