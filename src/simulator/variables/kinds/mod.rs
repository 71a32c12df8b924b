//! The kinds of variables: one file a kind, with what it holds and what it answers.

mod array;
mod callable;
mod cell;
mod class;
mod constant;
mod context;
mod dict;
mod function;
mod iterator;
mod layer;
mod list;
mod method;
mod null;
mod number;
mod object;
mod opaque;
mod partial;
mod range;
mod set;
mod slice;
mod stand_in;
mod tensor;
mod text;
mod tuple;

use std::sync::Arc;

use crate::graph::SymbolId;
use crate::obj::Obj;
use crate::tracker::TrackerRef;

use super::VarId;

pub use array::{ArrayVar, GraphArray};
pub use callable::{Callable, Module};
pub use cell::CellVar;
pub use class::Class;
pub use constant::{Const, Scalar};
pub use context::{ContextMethod, ContextVar};
pub use dict::{DictVar, DictView, DictViewKind};
pub use function::{FunctionVar, NewFunction};
pub use iterator::{Item, IterVar, Tool};
pub use layer::{Layer, Layers};
pub use list::{Appended, List, RowsVar};
pub use method::{BoundBuiltin, Method, SUPER, Super};
pub use null::{Continuation, Null};
pub use number::{Float, Int, NumberVar, SymNumber};
pub use object::{AttrOp, ObjectVar};
pub use opaque::{Lazy, Opaque};
pub use partial::Partial;
pub(crate) use range::count;
pub use range::{NumberRange, RANGE, Range};
pub use set::SetVar;
pub use slice::{PARTS, SLICE, Slice};
pub use stand_in::StandIn;
pub use tensor::{MaybeVar, TensorVar, View};
pub use text::{Text, TextPart};
pub use tuple::Tuple;

/// A value of the simulated program.
#[derive(Clone, Debug)]
pub struct Variable {
    /// What it is.
    pub kind: Kind,
    /// The real object, when it exists before the frame runs (or is a constant).
    pub value: Option<Obj>,
    /// Where the real object comes from in a later call. `None` for what the frame makes.
    pub source: Option<TrackerRef>,
    /// Whether the user's program changed it.
    pub mutated: bool,
    /// The class, where it is a subclass of the kind's that behaves like it (`paddle.Size`).
    pub class: Option<Obj>,
    /// The new instance of a subclass of `dict` or `list` whose items these are: where this is
    /// needed as an object, it is that.
    pub owner: Option<VarId>,
}

impl Variable {
    /// A value the frame makes.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            value: None,
            source: None,
            mutated: false,
            class: None,
            owner: None,
        }
    }
}

/// What a variable is. An operation that does not name a kind leaves it to the interpreter.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The interpreter's NULL on the stack.
    Null,
    /// A real object nobody looked at: not guarded yet. See `Tracer::realize`.
    Lazy,
    /// An immutable constant whose value is known: `None`, numbers, `str`, `bytes`, `...`, dtypes,
    /// places, enum members, code objects. `Variable::value` is it.
    Const,
    /// A scalar of NumPy. `Variable::value` is it.
    Scalar,
    /// A NumPy array that the frame made of what is known.
    Array(ArrayVar),
    /// A scalar or an array of NumPy that the program computes: a tensor of its dims and dtype.
    GraphArray(SymbolId),
    /// A tensor.
    Tensor(TensorVar),
    /// An `int`, `float` or `bool` that depends on dynamic dims: a 0-d tensor symbol that Python
    /// sees as a number.
    SymNumber(SymbolId),
    /// A tensor or `None`, which captured control flow decides.
    Maybe(MaybeVar),
    /// An exact `int` of which only the type is known: it differs between calls.
    Int(NumberVar),
    /// An exact `float` of which only the type is known.
    Float(NumberVar),
    /// An exact `str` of which only the type is known: from outside, or made of these parts.
    Text(Arc<[TextPart]>),
    /// `list`
    List(Vec<VarId>),
    /// An existing `list` that nothing has looked into, and what was appended to it.
    Appended(Vec<VarId>),
    /// A `list` of an open number of tensors, which are the rows of one.
    Rows(RowsVar),
    /// `tuple`; with a class: a named tuple.
    Tuple(Vec<VarId>, Option<Obj>),
    /// `dict`, `OrderedDict`, `defaultdict`
    Dict(DictVar),
    /// What goes on in a callee that broke the graph: made by the code generator only.
    Continuation {
        /// Its resume function.
        function: Obj,
        /// The arguments of that.
        args: Vec<VarId>,
    },
    /// `dict.keys()`, `.values()`, `.items()` of a dict variable.
    DictView(VarId, DictViewKind),
    /// `set`, `frozenset`
    Set(SetVar),
    /// `slice(start, stop, step)`
    Slice([VarId; 3]),
    /// `range(start, stop, step)`
    Range(i64, i64, i64),
    /// `range(start, stop, step)` whose ends are numbers of the graph.
    NumberRange(VarId, VarId, i64),
    /// An iterator.
    Iter(IterVar),
    /// A cell.
    Cell(CellVar),
    /// A Python function.
    Function(FunctionVar),
    /// A bound method: receiver and function.
    Method {
        /// `__self__`
        receiver: VarId,
        /// `__func__`
        function: VarId,
    },
    /// A method of a builtin kind bound to a variable: `[].append`, `x.reshape`.
    BoundBuiltin {
        /// The receiver.
        receiver: VarId,
        /// The method's name.
        name: Arc<str>,
    },
    /// A callable of C or of Paddle, guarded by identity: builtin functions, API functions, ufuncs,
    /// descriptors.
    Callable,
    /// A class.
    Class,
    /// A module.
    Module,
    /// A `paddle.nn.Layer` instance, guarded by identity. Attribute writes are in the `ObjectVar`.
    Layer(ObjectVar),
    /// A `LayerList` or `Sequential` that the frame made of layers that exist: `self.blocks[1:]`.
    /// It is not rebuilt: where it is needed after all, the interpreter makes it.
    Layers {
        /// Its class.
        class: Obj,
        /// What is in it.
        items: Vec<VarId>,
    },
    /// An instance of another Python class.
    Object(ObjectVar),
    /// `super()`: the class to start after, and the receiver (object or class).
    Super {
        /// The class after which the lookup starts.
        class: Obj,
        /// The receiver.
        receiver: VarId,
    },
    /// `functools.partial`
    Partial {
        /// The callable.
        function: VarId,
        /// Positional arguments.
        args: Vec<VarId>,
        /// Keyword arguments.
        kwargs: Vec<(Arc<str>, VarId)>,
    },
    /// What a polyfill makes: the object that stands for one of C code.
    StandIn(VarId),
    /// A context manager the simulator enters itself.
    Context(ContextVar),
    /// The `__exit__` (or `__enter__` when false) of such a context manager, bound.
    ContextMethod {
        /// The context manager.
        context: VarId,
        /// `__exit__`, else `__enter__`.
        exit: bool,
    },
    /// A real object that can be passed along, not operated on. Guarded by type when looked at.
    Opaque,
}

/// Questions about one kind.
impl Kind {
    /// What a list or tuple holds.
    pub fn items(&self) -> Option<&[VarId]> {
        if let Self::List(items) | Self::Tuple(items, _) = self {
            Some(items)
        } else {
            None
        }
    }

    /// What a list or an exact tuple holds.
    pub fn plain_items(&self) -> Option<&[VarId]> {
        if let Self::List(items) | Self::Tuple(items, None) = self {
            Some(items)
        } else {
            None
        }
    }

    /// What an exact tuple holds.
    pub fn exact_tuple(&self) -> Option<&[VarId]> {
        if let Self::Tuple(items, None) = self {
            Some(items)
        } else {
            None
        }
    }

    /// The dict.
    pub fn dict(&self) -> Option<&DictVar> {
        if let Self::Dict(dict) = self {
            Some(dict)
        } else {
            None
        }
    }

    /// The attributes of an instance or a layer.
    pub fn object(&self) -> Option<&ObjectVar> {
        if let Self::Object(object) | Self::Layer(object) = self {
            Some(object)
        } else {
            None
        }
    }

    /// The tensor.
    pub fn tensor(&self) -> Option<&TensorVar> {
        if let Self::Tensor(tensor) = self {
            Some(tensor)
        } else {
            None
        }
    }

    /// A tensor of the graph, a number of no dims that is one, or the rows of a list.
    pub fn of_graph(&self) -> Option<SymbolId> {
        if let Self::SymNumber(symbol)
        | Self::Tensor(TensorVar { symbol, .. })
        | Self::Rows(RowsVar { symbol, .. }) = self
        {
            Some(*symbol)
        } else {
            None
        }
    }

    /// A number that the graph computes.
    pub fn graph_number(&self) -> Option<SymbolId> {
        if let Self::SymNumber(symbol) | Self::Float(NumberVar::Graph(symbol)) = self {
            Some(*symbol)
        } else {
            None
        }
    }
}
