//! Iterators the frame consumes.

mod tool;

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::methods;
use crate::methods::row::MethodRow;
use crate::reason::{Break, BreakKind};
use crate::variables::kinds::DictViewKind;
use crate::{Step, Tracer, generators, iterate};

use crate::variables::answers::{Finalizer, Snapshot, of_value};
use crate::variables::protocol::Protocol;
use crate::variables::rebuild::Rebuild;
use crate::variables::{Key, RowsVar, VarId, Variable};

pub use tool::Tool;

/// What an iterator that counts in the graph yields for a number.
#[derive(Clone, Debug)]
pub enum Item {
    /// The number: `range()`.
    Number,
    /// That row of a tensor.
    Row(VarId),
    /// That tensor of a list that grew in a captured loop.
    OfList(RowsVar),
    /// `enumerate()`: the number and so many, and an item.
    Counted(Box<Item>, i64),
    /// `zip()`
    Several(Vec<Item>),
}

/// The state of an iterator.
#[derive(Clone, Debug)]
pub enum IterVar {
    /// Over a list or tuple variable: the next index; sees later changes of a list, as CPython
    /// does.
    Sequence {
        /// The list, tuple or str constant.
        over: VarId,
        /// Next index.
        index: usize,
    },
    /// Over a dict or a view of it: sees values that are replaced, as CPython does.
    Dict {
        /// The dict.
        over: VarId,
        /// Its keys, values or pairs.
        which: DictViewKind,
        /// The keys it had when the iterator was made; one that is put in again is another
        /// variable.
        keys: Rc<[VarId]>,
        /// Next index.
        index: usize,
    },
    /// Over values fixed when the iterator was made (sets, constants, lists of layers).
    Fixed {
        /// What it was made from; the keys of a set then.
        over: (VarId, Rc<[Key]>),
        /// What it yields.
        items: Vec<VarId>,
        /// Next index.
        index: usize,
    },
    /// `range`: next value, stop, step.
    Range {
        /// Next value.
        next: i64,
        /// End, exclusive.
        stop: i64,
        /// Step, not zero.
        step: i64,
    },
    /// `range` whose ends are numbers of the graph, or what is made of its numbers: next value,
    /// stop, step.
    Numbers {
        /// Next value.
        next: VarId,
        /// End, exclusive.
        stop: VarId,
        /// Step, not zero.
        step: i64,
        /// What it yields.
        item: Rc<Item>,
    },
    /// Such an iterator that a captured loop has advanced: nobody knows how far.
    Advanced,
    /// `enumerate(inner, count)`.
    Enumerate {
        /// The inner iterator.
        inner: VarId,
        /// The next number.
        count: i64,
    },
    /// `zip(*inner)`.
    Zip {
        /// The inner iterators.
        inner: Vec<VarId>,
        /// `strict=True`.
        strict: bool,
    },
    /// `map(function, *inner)`.
    Map {
        /// What is called.
        function: VarId,
        /// The inner iterators.
        inner: Vec<VarId>,
    },
    /// `filter(function, inner)`; `None` filters by truth.
    Filter {
        /// The predicate.
        function: Option<VarId>,
        /// The inner iterator.
        inner: VarId,
    },
    /// `reversed(list or tuple)`: how many items are left.
    Reversed {
        /// The sequence.
        over: VarId,
        /// Items left.
        left: usize,
    },
    /// Rows of a tensor with a static first dim.
    Tensor {
        /// The tensor.
        over: VarId,
        /// Next row.
        index: usize,
    },
    /// A suspended generator frame; the number names it in the tracer's table of frames.
    Generator {
        /// The frame.
        frame: usize,
        /// The instruction of the outermost frame that made it.
        made_at: usize,
    },
    /// A generator at its end.
    Ended {
        /// The instruction of the outermost frame that made it.
        made_at: usize,
    },
    /// A tool of `itertools`.
    Tool(Tool),
    /// One that exists and of which guards see what it gives next: how many items are taken.
    Given {
        /// Since the beginning of the frame.
        taken: usize,
    },
}

impl IterVar {
    /// The iterators it advances.
    pub fn inner(&self) -> Vec<VarId> {
        match self {
            Self::Enumerate { inner, .. } | Self::Filter { inner, .. } => vec![*inner],
            Self::Zip { inner, .. } | Self::Map { inner, .. } => inner.clone(),
            Self::Tool(tool) => tool.inner(),
            Self::Sequence { .. }
            | Self::Dict { .. }
            | Self::Fixed { .. }
            | Self::Range { .. }
            | Self::Numbers { .. }
            | Self::Advanced
            | Self::Reversed { .. }
            | Self::Tensor { .. }
            | Self::Generator { .. }
            | Self::Ended { .. }
            | Self::Given { .. } => Vec::new(),
        }
    }
}

impl Protocol for IterVar {
    const NAME: &'static str = "Iter";

    fn children(&self) -> Vec<VarId> {
        match self {
            Self::Sequence { over, .. }
            | Self::Dict { over, .. }
            | Self::Fixed {
                over: (over, _), ..
            }
            | Self::Reversed { over, .. }
            | Self::Tensor { over, .. } => vec![*over],
            Self::Numbers { next, stop, .. } => vec![*next, *stop],
            Self::Map { function, inner } => [*function].into_iter().chain(inner.clone()).collect(),
            Self::Filter { function, inner } => [*inner].into_iter().chain(*function).collect(),
            Self::Tool(tool) => tool.children(),
            Self::Enumerate { .. } | Self::Zip { .. } => self.inner(),
            Self::Range { .. }
            | Self::Advanced
            | Self::Generator { .. }
            | Self::Ended { .. }
            | Self::Given { .. } => Vec::new(),
        }
    }

    fn python_type<'py>(&self, t: &Tracer<'py>, var: &Variable) -> Option<Bound<'py, PyType>> {
        of_value(t, var)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Snapshot {
        if let Self::Given { taken } = self {
            Snapshot::Taken(*taken)
        } else {
            Snapshot::Never
        }
    }

    fn reconstruct<'py, R: Rebuild<'py>>(&self, to: &mut R, id: VarId) -> Result<bool, Break> {
        if to.must_wait(id) {
            return Err(Break::new(
                BreakKind::Construct,
                "an iterator over an object that changed is held by another object",
            ));
        }
        to.iterator(self)?;
        Ok(false)
    }

    fn finalizer(&self) -> Finalizer {
        Finalizer::Nothing
    }

    fn truth(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn iter(&self, _: &mut Tracer<'_>, id: VarId) -> Step<VarId> {
        Ok(id)
    }

    fn next(&self, t: &mut Tracer<'_>, id: VarId) -> Step<Option<VarId>> {
        iterate::next_of_state(t, id, self.clone())
    }

    fn method_rows(&self) -> &'static [&'static [MethodRow]] {
        match matches!(self, Self::Generator { .. } | Self::Ended { .. }) {
            true => &[methods::ITERATOR, generators::GENERATOR],
            false => &[methods::ITERATOR],
        }
    }

    fn is_iterator(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(true)
    }

    fn is_callable(&self, _: &mut Tracer<'_>, _: VarId) -> Step<bool> {
        Ok(false)
    }
}
