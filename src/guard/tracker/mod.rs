//! Where a value came from.
//!
//! A [`Tracker`] is a path from the frame's inputs to a value, made of reads that run no user code.
//! The guard program walks these paths natively, checks what was relied on, and leaves the values
//! in slots: the same slots feed the compiled graph and the generated code, so what was checked is
//! what is used.

pub mod number;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub use crate::native::{DictKey, FunctionField};
use crate::obj::Obj;
use crate::ops::meta::DType;
use number::Number;

/// A shared tracker.
pub type TrackerRef = Arc<Tracker>;

/// Tells trackers apart without keeping alive what they start from, for what is remembered longer
/// than guards.
///
/// Two trackers may share one, also those of an object and of another at the same address later:
/// nothing that has to be right can depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place(u64);

impl Place {
    /// Of this tracker.
    pub fn of(tracker: &Tracker) -> Self {
        let mut hasher = DefaultHasher::new();
        tracker.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tracker {
    /// The frame's fast local of this index (arguments bound, cells not made yet).
    Local {
        /// Index into the frame's locals.
        index: usize,
        /// Its name.
        name: Arc<str>,
    },
    /// The cell object at this index of the running function's `__closure__`.
    FreeCell {
        /// Index into `co_freevars`.
        index: usize,
        /// Its name.
        name: Arc<str>,
    },
    /// The exception that the caller handles, or `None`: `sys.exception()`.
    Handled,
    /// An object fixed at translation time (a module, a globals dict, a type).
    Const(Obj),
    /// The content of a cell.
    CellContents(TrackerRef),
    /// `type(x)`.
    TypeOf(TrackerRef),
    /// The instance dictionary of `x`, read without running `__getattribute__`.
    InstanceDict(TrackerRef),
    /// Value of a constant key in a `dict` (exact or subclass), read with `PyDict_GetItem`.
    DictItem(TrackerRef, DictKey),
    /// The n-th key of a dict, in order.
    DictKeyAt(TrackerRef, usize),
    /// Item of a `list` (or subclass), read from its storage.
    ListItem(TrackerRef, usize),
    /// Item of a `tuple` (or subclass), read from its storage.
    TupleItem(TrackerRef, usize),
    /// Item of a `collections.deque`.
    DequeItem(TrackerRef, usize),
    /// What an iterator gives when so many items more are taken.
    Upcoming(TrackerRef, usize),
    /// The dict that a `mappingproxy` shows.
    Proxied(TrackerRef),
    /// What a `ContextVar` is set to in the context of the call.
    ContextValue(TrackerRef),
    /// What `name` resolves to along the MRO of the type `x`, unbound (`_PyType_Lookup`).
    TypeAttr(TrackerRef, Arc<str>),
    /// A `__slots__` member of `x`, read through its member descriptor.
    Member(TrackerRef, Arc<str>),
    /// An attribute read with the generic lookup through a getset/member descriptor of a C type.
    NativeAttr(TrackerRef, Arc<str>),
    /// A field of a function object.
    Function(TrackerRef, FunctionField),
    /// `__self__` of a bound method.
    MethodSelf(TrackerRef),
    /// `__func__` of a bound method.
    MethodFunc(TrackerRef),
    /// A tensor made of a number: no guard reads it, the caller of the graph makes it.
    Number(Arc<Number>, DType),
    /// A tensor made of a NumPy array: no guard reads it, the caller of the graph makes it.
    Array(TrackerRef, ArrayMaker),
}

/// What makes a tensor of a NumPy array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayMaker {
    /// `paddle.to_tensor`, of this dtype.
    ToTensor(Option<DType>),
    /// `paddle.assign`.
    Assign,
}

impl Tracker {
    /// Whether there may be nothing there in another call, where no other guard says that there is:
    /// what is only asked for, or not looked at, is guarded to exist.
    pub fn may_vanish(&self) -> bool {
        match self {
            Self::DictItem(base, _) => matches!(**base, Self::InstanceDict(_) | Self::Const(_)),
            Self::TypeAttr(..)
            | Self::CellContents(_)
            | Self::Member(..)
            | Self::Upcoming(..)
            | Self::ContextValue(_) => true,
            Self::Local { .. }
            | Self::FreeCell { .. }
            | Self::Handled
            | Self::Const(_)
            | Self::TypeOf(_)
            | Self::InstanceDict(_)
            | Self::DictKeyAt(..)
            | Self::ListItem(..)
            | Self::TupleItem(..)
            | Self::DequeItem(..)
            | Self::Proxied(_)
            | Self::NativeAttr(..)
            | Self::Function(..)
            | Self::MethodSelf(_)
            | Self::MethodFunc(_)
            | Self::Number(..)
            | Self::Array(..) => false,
        }
    }

    /// The object and the name, where this is an item of an object's dictionary.
    pub fn attribute(&self) -> Option<(&TrackerRef, &str)> {
        let Self::DictItem(dict, DictKey::Str(name)) = self else {
            return None;
        };
        let Self::InstanceDict(owner) = &**dict else {
            return None;
        };
        Some((owner, name))
    }

    /// Whether there are more reads behind each other than are followed: whoever walks a path walks
    /// all of it.
    pub fn is_deep(&self) -> bool {
        const DEEPEST: usize = 512;
        std::iter::successors(self.base(), |tracker| tracker.base())
            .nth(DEEPEST)
            .is_some()
    }

    /// The tracker this one reads from.
    pub fn base(&self) -> Option<&TrackerRef> {
        match self {
            Self::Local { .. }
            | Self::FreeCell { .. }
            | Self::Handled
            | Self::Const(_)
            | Self::Number(..)
            | Self::Array(..) => None,
            Self::CellContents(base)
            | Self::TypeOf(base)
            | Self::InstanceDict(base)
            | Self::DictItem(base, _)
            | Self::DictKeyAt(base, _)
            | Self::ListItem(base, _)
            | Self::TupleItem(base, _)
            | Self::DequeItem(base, _)
            | Self::Upcoming(base, _)
            | Self::Proxied(base)
            | Self::ContextValue(base)
            | Self::TypeAttr(base, _)
            | Self::Member(base, _)
            | Self::NativeAttr(base, _)
            | Self::Function(base, _)
            | Self::MethodSelf(base)
            | Self::MethodFunc(base) => Some(base),
        }
    }
}

/// Prints a tracker as the Python expression a user would write for it.
impl fmt::Display for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { name, .. } | Self::FreeCell { name, .. } => f.write_str(name),
            Self::Handled => f.write_str("sys.exception()"),
            Self::Proxied(base) => write!(f, "{base}"),
            Self::ContextValue(base) => write!(f, "{base}.get()"),
            Self::Const(obj) => write!(f, "<const {:p}>", obj.as_ptr()),
            Self::CellContents(base) => write!(f, "{base}"),
            Self::TypeOf(base) => write!(f, "type({base})"),
            Self::InstanceDict(base) => write!(f, "{base}.__dict__"),
            Self::DictItem(base, key) => match (&**base, key) {
                (Self::InstanceDict(owner), DictKey::Str(name)) => write!(f, "{owner}.{name}"),
                _ => write!(f, "{base}[{key}]"),
            },
            Self::DictKeyAt(base, index) => write!(f, "list({base})[{index}]"),
            Self::ListItem(base, index)
            | Self::TupleItem(base, index)
            | Self::DequeItem(base, index) => {
                write!(f, "{base}[{index}]")
            }
            Self::Upcoming(base, 0) => write!(f, "next({base})"),
            Self::Upcoming(base, ahead) => write!(f, "item {ahead} of {base}"),
            Self::TypeAttr(base, name)
            | Self::Member(base, name)
            | Self::NativeAttr(base, name) => {
                write!(f, "{base}.{name}")
            }
            Self::Function(base, field) => match field {
                FunctionField::Code => write!(f, "{base}.__code__"),
                FunctionField::Globals => write!(f, "{base}.__globals__"),
                FunctionField::Defaults => write!(f, "{base}.__defaults__"),
                FunctionField::KwDefaults => write!(f, "{base}.__kwdefaults__"),
                FunctionField::ClosureCell(index) => write!(f, "{base}.__closure__[{index}]"),
            },
            Self::MethodSelf(base) => write!(f, "{base}.__self__"),
            Self::MethodFunc(base) => write!(f, "{base}.__func__"),
            Self::Number(number, dtype) => write!(f, "{number} as {}", dtype.as_str()),
            Self::Array(place, ArrayMaker::Assign) => write!(f, "assign({place})"),
            Self::Array(place, ArrayMaker::ToTensor(None)) => write!(f, "to_tensor({place})"),
            Self::Array(place, ArrayMaker::ToTensor(Some(dtype))) => {
                write!(f, "to_tensor({place}, {:?})", dtype.as_str())
            }
        }
    }
}
