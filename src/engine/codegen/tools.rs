//! Makes what `itertools` made again, where the simulator left it.

use crate::reason::{Break, BreakKind};
use crate::variables::{Emit, Rebuild, Tool, VarId};

use super::reconstruct::Emitter;

impl Emitter<'_, '_> {
    pub(super) fn tool(&mut self, tool: &Tool) -> Emit {
        match tool {
            Tool::Chain { active, source } => self.call_helper("chain_iterator", 2, |this| {
                this.inner_of(active.as_slice())?;
                this.code.op("BUILD_TUPLE", active.iter().count() as u32)?;
                this.optional_iterator(*source)
            }),
            Tool::Rows {
                name,
                pools,
                length,
                index,
                ..
            } => self.call_helper("rows_iterator", 4, |this| {
                this.text(name)?;
                this.tuple_of(pools)?;
                this.optional_int(*length)?;
                this.int(*index as i64)
            }),
            Tool::Islice {
                inner,
                taken,
                next,
                stop,
                step,
            } => self.call_type("itertools", "islice", 4, |this| {
                this.optional_iterator(*inner)?;
                this.int(next - taken)?;
                this.optional_int(stop.map(|stop| (stop - taken).max(0)))?;
                this.int(*step)
            }),
            Tool::Count { next, step } => self.call_type("itertools", "count", 2, |this| {
                this.int(*next)?;
                this.int(*step)
            }),
            Tool::Repeat { item, left } => {
                self.call_type("itertools", "repeat", 1 + left.iter().count(), |this| {
                    this.value(*item)?;
                    left.map_or(Ok(()), |left| this.int(left))
                })
            }
            Tool::Cycle {
                inner: Some(inner),
                saved,
                ..
            } if saved.is_empty() => {
                self.call_type("itertools", "cycle", 1, |this| this.inner(*inner))
            }
            Tool::Cycle { inner: Some(_), .. } => Err(Break::new(
                BreakKind::Construct,
                "a cycle() in its first round",
            )),
            Tool::Cycle { saved, index, .. } => self.call_helper("cycle_iterator", 2, |this| {
                this.tuple_of(saved)?;
                this.int(*index as i64)
            }),
            Tool::Starmap { function, inner } => self.walking("starmap", *function, *inner),
            Tool::TakeWhile {
                function,
                inner,
                over: false,
            } => self.walking("takewhile", *function, *inner),
            Tool::TakeWhile { function, .. } => {
                self.call_type("itertools", "takewhile", 2, |this| {
                    this.value(*function)?;
                    this.tuple_of(&[])
                })
            }
            Tool::DropWhile {
                function,
                inner,
                begun: false,
            } => self.walking("dropwhile", *function, *inner),
            Tool::DropWhile { .. } => Err(Break::new(
                BreakKind::Construct,
                "a dropwhile() behind its first item",
            )),
            Tool::FilterFalse { function, inner } => {
                self.call_type("itertools", "filterfalse", 2, |this| {
                    this.optional(*function)?;
                    this.inner(*inner)
                })
            }
            Tool::Compress { data, selectors } => {
                self.call_type("itertools", "compress", 2, |this| {
                    this.inner_of(&[*data, *selectors])
                })
            }
            Tool::Accumulate {
                inner,
                function,
                total,
                initial,
            } => self.call_helper("accumulate_iterator", 4, |this| {
                this.inner(*inner)?;
                this.optional(*function)?;
                this.optional(*initial)?;
                this.tuple_of(total.as_slice())
            }),
            Tool::Pairwise { inner, old } => self.call_helper("pairwise_iterator", 2, |this| {
                this.tuple_of(old.as_slice())?;
                this.optional_iterator(*inner)
            }),
            Tool::ZipLongest { inner, fill } => {
                self.call_helper("zip_longest_iterator", 1 + inner.len(), |this| {
                    this.value(*fill)?;
                    let mut inner = inner.iter();
                    inner.try_for_each(|inner| this.optional_iterator(*inner))
                })
            }
            Tool::Batched { inner, size } => self.call_type("itertools", "batched", 2, |this| {
                this.optional_iterator(*inner)?;
                this.int(*size)
            }),
        }
    }

    /// A tool that calls a function with what it takes.
    fn walking(&mut self, name: &str, function: VarId, inner: VarId) -> Emit {
        self.call_type("itertools", name, 2, |this| {
            this.value(function)?;
            this.inner(inner)
        })
    }

    fn tuple_of(&mut self, items: &[VarId]) -> Emit {
        self.values(items)?;
        self.code.op("BUILD_TUPLE", items.len() as u32)?;
        Ok(())
    }

    /// One without items where there is nothing.
    fn optional_iterator(&mut self, value: Option<VarId>) -> Emit {
        match value {
            Some(value) => self.inner(value),
            None => self.tuple_of(&[]),
        }
    }

    fn text(&mut self, text: &str) -> Emit {
        let text = pyo3::types::PyString::new(self.t.py, text).into_any();
        self.constant(&text)
    }

    /// `None` where there is nothing.
    pub(super) fn optional(&mut self, value: Option<VarId>) -> Emit {
        match value {
            Some(value) => self.value(value),
            None => self.constant(&self.t.py.None().into_bound(self.t.py)),
        }
    }

    pub(super) fn optional_int(&mut self, value: Option<i64>) -> Emit {
        match value {
            Some(value) => self.int(value),
            None => self.optional(None),
        }
    }
}
