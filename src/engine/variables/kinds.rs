//! The kinds of variables.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::bytecode::BinOp;
use crate::graph::{Arg, Callee, SymbolId};
use crate::obj::Obj;
use crate::tracker::TrackerRef;

use super::{IterVar, Key, VarId};

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

/// A tensor: a symbol of the graph under construction.
#[derive(Clone, Debug)]
pub struct TensorVar {
    /// The symbol. In-place operations on fresh tensors rebind it.
    pub symbol: SymbolId,
    /// How it was made, when it may share the storage of another tensor.
    pub view: Option<Arc<View>>,
    /// The real class when it is a Parameter or a user's subclass.
    pub class: Option<Obj>,
}

/// An operation whose result may share the storage of its argument. Where both leave the graph, the
/// operation is done again on the real tensors.
#[derive(Debug)]
pub struct View {
    /// The tensor whose storage may be shared.
    pub base: VarId,
    /// Its symbol.
    pub base_symbol: SymbolId,
    /// The operation.
    pub callee: Callee,
    /// Its arguments, the receiver first.
    pub args: Vec<Arg>,
    /// Its keyword arguments.
    pub kwargs: Vec<(Arc<str>, Arg)>,
    /// Which of several results, and the list of them.
    pub item: Option<(VarId, usize)>,
    /// Whether gradients were on.
    pub grad_enabled: bool,
}

/// A NumPy array that the frame made. What is held is read-only, and nobody else's.
#[derive(Clone, Debug)]
pub struct ArrayVar {
    /// An array of the same numbers.
    pub value: Obj,
    /// The instruction of the outermost frame that made it.
    pub at: usize,
    /// Whether it may share its memory with another one, so that only the interpreter can make it.
    pub shares: bool,
    /// Whether something goes over it, which sees what is written meanwhile.
    pub iterated: bool,
}

/// A dict with exact key equality.
#[derive(Clone, Debug, Default)]
pub struct DictVar {
    /// Key -> (key variable, value variable), in insertion order.
    pub items: IndexMap<Key, (VarId, VarId)>,
    /// The class when it is `OrderedDict` or `defaultdict`.
    pub class: Option<Obj>,
    /// `default_factory`.
    pub default_factory: Option<VarId>,
}

impl DictVar {
    /// The variables of its keys, in insertion order.
    pub fn keys(&self) -> impl Iterator<Item = VarId> + '_ {
        self.items.values().map(|(key, _)| *key)
    }
}

/// A set or frozenset.
#[derive(Clone, Debug, Default)]
pub struct SetVar {
    /// Key -> element.
    pub items: IndexMap<Key, VarId>,
    /// Whether it is a frozenset.
    pub frozen: bool,
}

/// Where a number that differs between calls comes from.
#[derive(Clone, Copy, Debug)]
pub enum NumberVar {
    /// From outside.
    Given,
    /// A dim of a tensor.
    Dim(SymbolId, usize),
    /// What an operator makes of two others.
    Made(BinOp, VarId, VarId),
    /// What a pure function of Python answers to one or two others.
    Called(VarId, VarId, Option<VarId>),
    /// The graph makes it: a `float64` of no dims.
    Graph(SymbolId),
}

/// A cell.
#[derive(Clone, Debug)]
pub enum CellVar {
    /// A real cell nobody read yet.
    Unread,
    /// Empty.
    Empty,
    /// Full.
    Full(VarId),
}

/// A function made by the frame.
#[derive(Clone, Debug)]
pub struct NewFunction {
    /// The code object.
    pub code: Obj,
    /// The globals dict.
    pub globals: Obj,
    /// `__defaults__`, a tuple variable.
    pub defaults: Option<VarId>,
    /// `__kwdefaults__`, a dict variable.
    pub kwdefaults: Option<VarId>,
    /// `__annotations__` as built by the frame (tuple or dict variable).
    pub annotations: Option<VarId>,
    /// Cells.
    pub closure: Vec<VarId>,
    /// Attributes set on the function by the frame (`f.x = 1`, functools.wraps).
    pub attrs: Vec<(Arc<str>, VarId)>,
}

/// A Python function.
#[derive(Clone, Debug)]
pub enum FunctionVar {
    /// It exists: `Variable::value` is the function object.
    Real,
    /// The frame made it.
    New(Box<NewFunction>),
}

/// One attribute write or delete, in program order.
#[derive(Clone, Debug)]
pub struct AttrOp {
    /// The attribute.
    pub name: Arc<str>,
    /// The new value; `None` deletes.
    pub value: Option<VarId>,
    /// Whether it goes through `Layer.__setattr__`, which registers tensors as buffers.
    pub registers: bool,
}

impl AttrOp {
    /// The function of the generated code's helpers that writes the attribute.
    pub fn helper(&self) -> &'static str {
        if self.registers {
            "register_attribute"
        } else {
            "set_attribute"
        }
    }
}

/// An instance of a Python class (also Layers: see [`Kind::Layer`]).
#[derive(Clone, Debug)]
pub struct ObjectVar {
    /// Its class.
    pub class: Obj,
    /// Writes and deletes of instance attributes since the frame began, in order. For an object
    /// the frame made this is its whole state.
    pub writes: Vec<AttrOp>,
    /// `args` of a new exception.
    pub base: Option<VarId>,
    /// What a deque or an instance of a subclass of `list`, `dict` or `tuple` holds as one: of one
    /// that exists, once something has read it.
    pub contents: Option<VarId>,
    /// `maxlen` of a new deque.
    pub most: Option<usize>,
}

impl ObjectVar {
    /// An instance of a class, with nothing written to it.
    pub fn of(class: Obj) -> Self {
        Self {
            class,
            writes: Vec::new(),
            base: None,
            contents: None,
            most: None,
        }
    }

    /// What the frame last did to this attribute in the dictionary of the instance: `Some(None)`
    /// means that it is not there, as it was deleted, or became a buffer.
    pub fn written(&self, name: &str) -> Option<Option<VarId>> {
        let mut latest = self.writes.iter().rev();
        let last = latest.find(|op| &*op.name == name)?;
        Some(last.value.filter(|_| !last.registers))
    }

    /// The buffer that the frame last made of this attribute of a layer.
    pub fn registered(&self, name: &str) -> Option<VarId> {
        let mut latest = self.writes.iter().rev();
        latest.find(|op| op.registers && &*op.name == name)?.value
    }
}

/// Context managers the simulator enters itself.
#[derive(Clone, Debug)]
pub enum ContextVar {
    /// `paddle.no_grad()`, `enable_grad()`, `set_grad_enabled(flag)`: the flag it sets.
    GradMode {
        /// Grad mode inside.
        enabled: bool,
        /// Grad mode to restore, while entered.
        restore: Option<bool>,
        /// The callable and arguments that make the real object.
        make: (Obj, Vec<VarId>),
    },
    /// `paddle.amp.auto_cast(...)`: the callable, positional and keyword arguments that make the
    /// real object.
    AutoCast {
        /// `paddle.amp.auto_cast` or `amp_guard`.
        callable: Obj,
        /// Positional arguments.
        args: Vec<VarId>,
        /// Keyword arguments.
        kwargs: Vec<(Arc<str>, VarId)>,
        /// Whether it is entered.
        entered: bool,
    },
    /// `contextlib.nullcontext(x)` and others that do nothing.
    Null {
        /// What `__enter__` answers.
        result: VarId,
        /// The callable and arguments that make the real object.
        make: (Obj, Vec<VarId>),
    },
}

/// A part of a text that differs between calls.
#[derive(Clone, Debug)]
pub enum TextPart {
    /// An exact `str`.
    Text(VarId),
    /// What a pure function answers to these arguments, an exact `str`.
    Shown(VarId, Arc<[VarId]>),
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
    /// A tensor.
    Tensor(TensorVar),
    /// An `int`, `float` or `bool` that depends on dynamic dims: a 0-d tensor symbol that Python
    /// sees as a number.
    SymNumber(SymbolId),
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
    /// `dict.keys()`, `.values()`, `.items()` of a dict variable: 0, 1, 2.
    DictView(VarId, u8),
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
