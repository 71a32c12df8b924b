//! Calls of a settled function that runs as it is: those that are like the last one do so without a
//! look at its guards, a number of times.
//!
//! That they run as they are is right for every call. What is compared here is only a sign that the
//! same translation would be found, and would lose again.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::abi::{self, TensorGuard};
use crate::backend;
use crate::frame;
use crate::paddle::{Paddle, tensor_meta};
use crate::sync::lock;

use crate::translate::record;

use super::Translated;
use super::cache::Entry;
use super::compile_lock::fails_on_recompile;
use super::nesting::{self, Nested};

/// Calls in a row that nothing more is asked of, at first.
const UNASKED: u32 = 63;

/// Where every translation loses each such row is twice as long as the last one, up to this.
const MOST_UNASKED: u32 = 255;

/// Translations whose calls are told from one another.
const MOST_KINDS: usize = 4;

/// What is compared of an argument.
#[derive(Clone)]
enum Sign {
    /// A tensor with this metadata.
    Tensor(TensorGuard),
    /// This object, and its class, by address.
    Object(usize, usize),
    /// Any object of this class: the guards held for several.
    Class(usize),
}

/// Calls of one translation that are alike.
pub(super) struct Alike {
    /// The translation, by address.
    of: usize,
    /// The backends that were registered; see [`backend::edits`].
    backends: u64,
    records_gradients: bool,
    /// Every translation loses: what differs would be translated, and lose as well. Tensors are not
    /// looked into then.
    all_lose: bool,
    /// Positional arguments, then the others.
    signs: SmallVec<[Sign; 4]>,
    /// The names of the others, by address.
    names: SmallVec<[usize; 2]>,
    left: u32,
    /// So many were left when the row began.
    row: u32,
}

fn class_of(value: &Bound<'_, PyAny>) -> usize {
    value.get_type().as_ptr() as usize
}

impl Sign {
    fn of(paddle: &Paddle, value: &Bound<'_, PyAny>) -> Self {
        if paddle.is_tensor(value) {
            if let Some(meta) = tensor_meta(value) {
                return Self::Tensor(TensorGuard::of(&meta));
            }
        }
        Self::Object(value.as_ptr() as usize, class_of(value))
    }

    fn fits(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Tensor(guard) => {
                paddle.is_tensor(value) && abi::tensor_matches(value.py(), value.into(), guard)
            }
            Self::Object(..) | Self::Class(_) => self.fits_class(paddle, value),
        }
    }

    /// The same without a look into tensors, which costs more than the call of a function does.
    fn fits_class(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Tensor(_) => paddle.is_tensor(value),
            Self::Object(address, _) => *address == value.as_ptr() as usize,
            Self::Class(class) => *class == class_of(value),
        }
    }

    fn is_of_class(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(_), Self::Tensor(_)) => true,
            (
                Self::Object(_, class) | Self::Class(class),
                Self::Object(_, other) | Self::Class(other),
            ) => class == other,
            (Self::Tensor(_), _) | (_, Self::Tensor(_)) => false,
        }
    }

    /// What both have in common: the guards of one translation held for both.
    fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Tensor(this), Self::Tensor(other)) if this.dims.len() == other.dims.len() => {
                for (dim, other) in this.dims.iter_mut().zip(&other.dims) {
                    if *dim != *other && dim.is_none_or(|dim| dim > 1) {
                        *dim = None;
                    }
                }
            }
            (Self::Object(this, class), Self::Object(other, same))
                if this != other && class == same =>
            {
                *self = Self::Class(*same);
            }
            (Self::Object(_, class), Self::Class(same)) if class == same => {
                *self = Self::Class(*same);
            }
            _ => {}
        }
    }
}

impl Alike {
    /// Whether calls like it are given as many arguments, by the same names.
    fn takes_like(&self, other: &Self) -> bool {
        (self.signs.len(), &self.names) == (other.signs.len(), &other.names)
    }

    /// Whether these are of the same classes, too.
    fn is_of_classes(&self, other: &Self) -> bool {
        let mut pairs = self.signs.iter().zip(&other.signs);
        self.takes_like(other) && pairs.all(|(sign, other)| sign.is_of_class(other))
    }

    fn are<'a, 'py: 'a>(
        &self,
        paddle: &Paddle,
        args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> bool {
        let (positional, named) = self.signs.split_at(self.signs.len() - self.names.len());
        if positional.len() != args.len() || named.len() != kwargs.map_or(0, |it| it.len()) {
            return false;
        }
        let mut given = positional.iter().zip(args);
        let fits = match self.all_lose {
            true => Sign::fits_class,
            false => Sign::fits,
        };
        if !given.all(|(sign, value)| fits(sign, paddle, &value)) {
            return false;
        }
        let given = kwargs.into_iter().flat_map(|kwargs| kwargs.iter());
        let mut given = given.zip(self.names.iter().zip(named));
        given.all(|((name, value), (known, sign))| {
            name.as_ptr() as usize == *known && fits(sign, paddle, &value)
        })
    }
}

/// A call that goes from the caller to the original on the C stack alone.
pub struct UnaskedCall<'py> {
    py: Python<'py>,
    _nested: Nested,
}

impl<'py> UnaskedCall<'py> {
    fn new(py: Python<'py>) -> Self {
        frame::grant_c_recursion(py, 1);
        Self {
            py,
            _nested: Nested::new(),
        }
    }
}

impl Drop for UnaskedCall<'_> {
    fn drop(&mut self) {
        frame::grant_c_recursion(self.py, -1);
    }
}

impl Translated {
    /// Whether the call runs as it is, as calls like it have done.
    pub(super) fn runs_unasked<'a, 'py: 'a, I>(
        &self,
        py: Python<'py>,
        args: impl Fn() -> I,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> bool
    where
        I: ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    {
        let mut known = lock(&self.unasked);
        if known.is_empty() || record::is_on() || nesting::is_too_deep() {
            return false;
        }
        // Guards say whether it would be translated again.
        if fails_on_recompile() {
            return false;
        }
        let Ok(paddle) = Paddle::get(py) else {
            return false;
        };
        let backends = backend::edits();
        let alike = known.iter_mut().find(|alike| {
            alike.left > 0
                && alike.backends == backends
                && (alike.all_lose || alike.records_gradients == abi::records_gradients(py))
                && alike.are(paddle, args(), kwargs)
        });
        let Some(alike) = alike else {
            return false;
        };
        alike.left -= 1;
        true
    }

    /// A call with these positional arguments that runs as it is, without the way through the
    /// driver: the caller calls the original with them while this lives.
    ///
    /// What the driver does else about a call is for translations, and for who looks on.
    pub fn unasked<'a, 'py: 'a>(
        &self,
        py: Python<'py>,
        args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>> + Clone,
    ) -> Option<UnaskedCall<'py>> {
        let is_direct = self.is_current() && !nesting::is_deep() && !frame::is_hooked_by_others(py);
        (is_direct && self.runs_unasked(py, || args.clone(), None)).then(|| UnaskedCall::new(py))
    }

    /// A call of this translation runs as it is: so will those that are like it.
    pub(super) fn expect_alike(
        &self,
        py: Python<'_>,
        entry: &Entry,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) {
        // What is read through attributes may run code. An input specification is asked in each
        // call.
        if !abi::reads_natively(py) || self.specification.is_some() || self.shared.listens() {
            return;
        }
        // A call that began on a backend which was swapped since is none to go by.
        let backends = backend::edits();
        if self.generation() != backend::current(self.shared.options.backend.name()) {
            return;
        }
        let Ok(paddle) = Paddle::get(py) else {
            return;
        };
        let named = kwargs.into_iter().flat_map(|kwargs| kwargs.iter());
        let (names, named): (SmallVec<[usize; 2]>, Vec<Bound<'_, PyAny>>) = named
            .map(|(name, value)| (name.as_ptr() as usize, value))
            .unzip();
        let values = args.iter().chain(named);
        let mut made = Alike {
            of: std::ptr::from_ref(entry) as usize,
            backends,
            records_gradients: abi::records_gradients(py),
            all_lose: self.entries().iter().all(|it| it.gains.is_settled_loss()),
            signs: values.map(|value| Sign::of(paddle, &value)).collect(),
            names,
            left: 0,
            row: UNASKED,
        };
        let mut known = lock(&self.unasked);
        let is_same = |alike: &&mut Alike| {
            alike.of == made.of || (alike.all_lose && made.all_lose && alike.is_of_classes(&made))
        };
        match known.iter_mut().find(is_same) {
            Some(alike) => {
                if alike.takes_like(&made) {
                    let signs = made.signs.iter_mut().zip(&alike.signs);
                    signs.for_each(|(sign, other)| sign.join(other));
                    if made.all_lose {
                        made.row = (2 * alike.row + 1).min(MOST_UNASKED);
                    }
                }
                made.left = entry.gains.take(made.row);
                *alike = made;
            }
            None => {
                made.left = entry.gains.take(made.row);
                if known.len() == MOST_KINDS {
                    known.remove(0);
                }
                known.push(made);
            }
        }
    }
}
