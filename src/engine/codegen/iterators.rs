//! Iterators, and those of them that must wait for the side effects.

use crate::reason::{Break, BreakKind};
use crate::simulator::is_unchanged;
use crate::variables::kinds::DictViewKind;
use crate::variables::{Emit, Item, IterVar, Key, Kind, Rebuild, VarId};

use super::reconstruct::Emitter;

fn refuse<T>(what: &str) -> Result<T, Break> {
    Err(Break::new(BreakKind::Construct, what))
}

impl Emitter<'_, '_> {
    /// What goes on where this iterator is.
    pub(super) fn iterator(&mut self, state: &IterVar) -> Emit {
        match state {
            IterVar::Numbers {
                next,
                stop,
                step,
                item,
            } if self.t.const_int(*next).is_some() => self.rows(item, *next, *stop, *step),
            IterVar::Numbers { .. } | IterVar::Advanced => {
                refuse("an iterator over numbers of the graph")
            }
            IterVar::Sequence { over, index } => {
                self.over_items("sequence_iterator", *over, *index)
            }
            IterVar::Reversed { over, left } => self.over_items("reversed_iterator", *over, *left),
            IterVar::Dict {
                over,
                which,
                keys,
                index,
            } => self.over_dict(*over, *which, keys, *index),
            IterVar::Fixed { over, items, index } => {
                if let Kind::Layers { .. } = self.t.vars.kind(over.0) {
                    // A part of a list of layers, which the interpreter would have to make.
                    let rest = &items[*index..];
                    self.call_helper("layers_iterator", rest.len(), |this| this.values(rest))
                } else {
                    self.over_container(over.0, &over.1, *index)
                }
            }
            IterVar::Range { next, stop, step } => self.call_helper("range_iterator", 3, |this| {
                [next, stop, step]
                    .into_iter()
                    .try_for_each(|part| this.int(*part))
            }),
            IterVar::Enumerate { inner, count } => self.call_builtin("enumerate", 2, |this| {
                this.inner(*inner)?;
                this.int(*count)
            }),
            IterVar::Zip { inner, strict } => {
                let strict = pyo3::types::PyBool::new(self.t.py, *strict)
                    .to_owned()
                    .into_any();
                self.call_helper("zip_iterator", 1 + inner.len(), |this| {
                    this.constant(&strict)?;
                    this.inner_of(inner)
                })
            }
            IterVar::Map { function, inner } => self.call_builtin("map", 1 + inner.len(), |this| {
                this.value(*function)?;
                this.inner_of(inner)
            }),
            IterVar::Filter { function, inner } => self.call_builtin("filter", 2, |this| {
                this.optional(*function)?;
                this.inner(*inner)
            }),
            IterVar::Tensor { over, index } => self.call_helper("tensor_iterator", 2, |this| {
                this.value(*over)?;
                this.int(*index as i64)
            }),
            IterVar::Tool(tool) => self.tool(tool),
            IterVar::Given { .. } => refuse("an iterator that exists, made again"),
            IterVar::Generator { made_at, .. } | IterVar::Ended { made_at } => {
                let why = "a running generator is live at the break";
                Err(self.t.left_to_interpreter(*made_at, why))
            }
        }
    }

    /// What an iterator takes its items from. Who makes one asks for `iter()` of it, which the
    /// frame has done: an object with an `__iter__` in Python would see that again.
    pub(super) fn inner(&mut self, id: VarId) -> Emit {
        if let Kind::Iter(_) = self.t.vars.kind(id) {
            self.value(id)
        } else {
            self.call_helper("Itself", 1, |this| this.value(id))
        }
    }

    pub(super) fn inner_of(&mut self, ids: &[VarId]) -> Emit {
        ids.iter().try_for_each(|id| self.inner(*id))
    }

    /// An iterator over a list or tuple. One that stands behind the end of what became shorter
    /// keeps its place, which cannot be set.
    fn over_items(&mut self, helper: &str, over: VarId, at: usize) -> Emit {
        let items = self.t.vars.kind(over).items();
        if items.is_some_and(|items| at > items.len()) {
            return refuse("an iterator over a list that became shorter");
        }
        self.call_helper(helper, 2, |this| {
            this.value(over)?;
            this.int(at as i64)
        })
    }

    /// An iterator whose length only the graph knows, at its beginning.
    fn rows(&mut self, item: &Item, next: VarId, stop: VarId, step: i64) -> Emit {
        match item {
            Item::Number => self.call_helper("range_iterator", 3, |this| {
                this.value(next)?;
                this.value(stop)?;
                this.int(step)
            }),
            Item::Row(over) if self.t.const_int(next) == Some(0) => {
                self.call_builtin("iter", 1, |this| this.value(*over))
            }
            Item::Row(_) | Item::OfList(_) => refuse("an iterator over numbers of the graph"),
            Item::Counted(inner, count) => {
                // Behind its first rounds it counts from there.
                let known = self.t.const_int(next);
                let Some(count) = known.and_then(|next| next.checked_add(*count)) else {
                    return refuse("an enumeration of numbers of the graph");
                };
                self.call_builtin("enumerate", 2, |this| {
                    this.rows(inner, next, stop, step)?;
                    this.int(count)
                })
            }
            Item::Several(items) => self.call_builtin("zip", items.len(), |this| {
                let mut items = items.iter();
                items.try_for_each(|item| this.rows(item, next, stop, step))
            }),
        }
    }

    /// Whether `id` is an iterator over something that the side effects still have to change: made
    /// now it would be clamped to the old length, or find that the dict changed its size.
    pub(super) fn must_wait(&self, id: VarId) -> bool {
        let kind = self.t.vars.kind(id);
        if let Kind::Continuation { args, .. } = kind {
            return args.iter().any(|arg| self.must_wait(*arg));
        }
        let Kind::Iter(state) = kind else {
            return false;
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
                    over: (over, _), ..
                } => changes(over),
                IterVar::Range { .. }
                | IterVar::Numbers { .. }
                | IterVar::Advanced
                | IterVar::Enumerate { .. }
                | IterVar::Zip { .. }
                | IterVar::Map { .. }
                | IterVar::Filter { .. }
                | IterVar::Tensor { .. }
                | IterVar::Generator { .. }
                | IterVar::Ended { .. }
                | IterVar::Given { .. }
                | IterVar::Tool(_) => state.inner().iter().any(|inner| self.must_wait(*inner)),
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
        which: DictViewKind,
        keys: &[VarId],
        index: usize,
    ) -> Emit {
        let dict = self.t.vars.kind(over).dict();
        if !dict.is_some_and(|dict| dict.keys().eq(keys.iter().copied())) {
            return refuse("an iterator over a dict that changed");
        }
        self.advanced(over, Some(which), index)
    }

    /// Pushes an iterator over a set or a constant.
    pub(super) fn over_container(&mut self, over: VarId, keys: &[Key], index: usize) -> Emit {
        if !is_unchanged(self.t, over, keys) {
            return refuse("an iterator over a container that changed");
        }
        self.advanced(over, None, index)
    }

    fn advanced(&mut self, over: VarId, which: Option<DictViewKind>, index: usize) -> Emit {
        self.call_helper("advanced", 3, |this| {
            this.value(over)?;
            match which {
                Some(which) => this.int(which.number())?,
                None => this.constant(&this.t.py.None().into_bound(this.t.py))?,
            }
            this.int(index as i64)
        })
    }
}
