//! [`StatementIr`]: what was captured, as pure symbols.

use paddle_sot_ops::paddle::is_name_of_paddle;
use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use paddle_sot_cpython::bytecode::SourceLoc;
use paddle_sot_cpython::frame::Modules;
use paddle_sot_cpython::obj::{Obj, module_and_name};

use paddle_sot_ops::{Fact, knows};

use super::{LayerRef, Region, TensorMeta};

/// The name of a tensor that stands for a Python number which differs between calls, and the
/// attribute of what a backend makes of one.
pub const PYTHON_NUMBER: &str = "sot_number";

/// Names one value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u32);

/// What a symbol stands for.
#[derive(Clone, Debug)]
pub enum SymbolKind {
    /// A tensor with this metadata; prints as `var_N`.
    Tensor(TensorMeta),
    /// A Paddle Layer; prints as `layer_N`. The object is the one seen at translation time.
    Layer(LayerRef),
}

/// An argument or result tree.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor or a layer of the graph.
    Symbol(SymbolId),
    /// A Python constant, passed as it is.
    Const(Obj),
    /// `[..]`
    List(Vec<Arg>),
    /// `(..)`
    Tuple(Vec<Arg>),
    /// `{..}`, keys are constants.
    Dict(Vec<(Obj, Arg)>),
    /// `slice(start, stop, step)`
    Slice(Box<[Arg; 3]>),
    /// A tuple subclass built by calling the class with these items (named tuples).
    NamedTuple(Obj, Vec<Arg>),
}

impl Arg {
    /// The symbol, where it is one and no more.
    pub fn as_symbol(&self) -> Option<SymbolId> {
        match self {
            Arg::Symbol(id) => Some(*id),
            Arg::Const(_)
            | Arg::List(_)
            | Arg::Tuple(_)
            | Arg::Dict(_)
            | Arg::Slice(_)
            | Arg::NamedTuple(..) => None,
        }
    }

    /// The constant, where it is one.
    pub fn as_const(&self) -> Option<&Obj> {
        match self {
            Arg::Const(value) => Some(value),
            Arg::Symbol(_)
            | Arg::List(_)
            | Arg::Tuple(_)
            | Arg::Dict(_)
            | Arg::Slice(_)
            | Arg::NamedTuple(..) => None,
        }
    }

    /// Calls `f` for every symbol, left to right.
    pub fn for_each_symbol(&self, f: &mut impl FnMut(SymbolId)) {
        match self {
            Arg::Symbol(id) => f(*id),
            Arg::Const(_) => {}
            Arg::List(items) | Arg::Tuple(items) | Arg::NamedTuple(_, items) => {
                items.iter().for_each(|item| item.for_each_symbol(f));
            }
            Arg::Dict(items) => items.iter().for_each(|(_, item)| item.for_each_symbol(f)),
            Arg::Slice(parts) => parts.iter().for_each(|item| item.for_each_symbol(f)),
        }
    }

    /// Puts what `f` answers in the place of each symbol, left to right.
    fn rename(&mut self, f: &mut impl FnMut(SymbolId) -> SymbolId) {
        match self {
            Arg::Symbol(id) => *id = f(*id),
            Arg::Const(_) => {}
            Arg::List(items) | Arg::Tuple(items) | Arg::NamedTuple(_, items) => {
                items.iter_mut().for_each(|item| item.rename(f));
            }
            Arg::Dict(items) => items.iter_mut().for_each(|(_, item)| item.rename(f)),
            Arg::Slice(parts) => parts.iter_mut().for_each(|item| item.rename(f)),
        }
    }

    /// The first symbol in it.
    pub fn first_symbol(&self) -> Option<SymbolId> {
        let mut first = None;
        self.for_each_symbol(&mut |symbol| first = first.or(Some(symbol)));
        first
    }
}

/// What a statement calls.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function of Paddle's API (or one marked `allow_in_graph`).
    Api(Obj),
    /// A tensor method or operator dunder, called on the first argument.
    Method(Arc<str>),
    /// A read of a tensor attribute or property (`x.T`, `x.real`), on the first argument.
    Attribute(Arc<str>),
    /// A Layer; the first argument is its symbol.
    Layer(SymbolId),
    /// Nested graphs.
    Sir(Arc<Region>),
}

/// Whether a function or method of Paddle changes its first argument, by its name.
pub fn is_in_place(name: &str) -> bool {
    name.ends_with('_') && !name.ends_with("__") || knows(name, Fact::ChangesFirst)
}

impl Callee {
    /// Whether plain Python runs code of it again for its gradient.
    pub fn runs_again(&self) -> bool {
        match self {
            Self::Sir(region) => region.runs_again(),
            Self::Api(_) | Self::Method(_) | Self::Attribute(_) | Self::Layer(_) => false,
        }
    }

    /// Whether it makes gradients of statements in front of it (`paddle.grad`): what they are made
    /// of is not among its arguments, and has to be in the same program.
    pub fn makes_gradients(&self, py: Python<'_>) -> bool {
        let Self::Api(function) = self else {
            return false;
        };
        let (module, name) = module_and_name(function.bind(py));
        module == "paddle_sot_rs._graph.control" && name == "partial_gradients"
    }

    /// Whether it changes its first argument, by the name it is called by: `-x` calls a function
    /// that is named `_neg_`.
    pub fn writes(&self, py: Python<'_>) -> bool {
        self.api_names(py)
            .first()
            .is_some_and(|name| is_in_place(name))
    }

    /// The bare names of a function of Paddle's, a tensor method or a tensor attribute, as the user
    /// wrote it first: methods may be other functions under another name (`x.cat` is `concat`).
    pub fn api_names(&self, py: Python<'_>) -> SmallVec<[String; 2]> {
        let mut names = SmallVec::new();
        match self {
            Self::Method(name) | Self::Attribute(name) => {
                names.push(name.to_string());
                let method = py
                    .paddle()
                    .and_then(|paddle| paddle.getattr("Tensor")?.getattr(&**name));
                names.extend(method.ok().and_then(|method| paddle_name(&method)));
                names.dedup();
            }
            Self::Api(function) => names.extend(paddle_name(function.bind(py))),
            Self::Layer(_) | Self::Sir(_) => {}
        }
        names
    }
}

/// The name of a function of Paddle's; generated ones (`paddle.sum`) have an underscore in front of
/// theirs.
fn paddle_name(function: &Bound<'_, PyAny>) -> Option<String> {
    let (module, name) = module_and_name(function);
    if module == "paddle_sot_rs._graph.control" {
        // Those that do what one of Paddle's does say which.
        return function.getattr("like_paddles").ok()?.extract().ok();
    }
    if !is_name_of_paddle(&module) || name.is_empty() {
        return None;
    }
    match name.strip_prefix('_') {
        Some(bare) if !bare.starts_with('_') => Some(bare.to_owned()),
        _ => Some(name),
    }
}

/// One captured call.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What is called.
    pub callee: Callee,
    /// Positional arguments. For methods and layers the receiver is the first.
    pub args: Vec<Arg>,
    /// Keyword arguments, in call order.
    pub kwargs: Vec<(Arc<str>, Arg)>,
    /// The result tree. Symbols in it are defined by this statement.
    pub output: Arg,
    /// Whether gradients were on. Metadata do not tell: some results keep the `stop_gradient` of
    /// their argument.
    pub grad_enabled: bool,
    /// Whether its result has storage of its own where other calls of it make a view: `reshape` of
    /// a tensor whose numbers do not lie in its order.
    pub copies: bool,
    /// Whether it draws random numbers, as the operations of its program say.
    pub draws: bool,
    /// Whether Paddle's Python code has computed with the -1 of an open dim on the way.
    pub computes_dims: bool,
    /// Whether it has to run by itself, on real tensors, where gradients are on: what it makes
    /// leaves the graph and shares storage with something else that leaves, and other results are
    /// computed from it.
    pub alone: bool,
    /// Tensors that it writes besides making its result: running statistics. Whoever moves
    /// statements, copies tensors or runs a graph once more asks here.
    pub updates: Vec<SymbolId>,
    /// The user's line.
    pub loc: SourceLoc,
}

impl Statement {
    /// A call that a pass puts in: with gradients on, and nothing special about it.
    pub(super) fn plain(callee: Callee, args: Vec<Arg>, output: Arg, loc: SourceLoc) -> Self {
        Self {
            callee,
            args,
            kwargs: Vec::new(),
            output,
            grad_enabled: true,
            copies: false,
            draws: false,
            computes_dims: false,
            alone: false,
            updates: Vec::new(),
            loc,
        }
    }

    /// Puts what `f` answers in the place of each symbol among the arguments, left to right.
    pub(super) fn rename_arguments(&mut self, f: &mut impl FnMut(SymbolId) -> SymbolId) {
        self.args.iter_mut().for_each(|arg| arg.rename(f));
        self.kwargs.iter_mut().for_each(|(_, arg)| arg.rename(f));
    }

    /// Has it call this stand-in for its layer, with what is in the place of what that holds.
    pub(super) fn call_stand_in(&mut self, stand_in: SymbolId, given: Vec<Arg>) {
        self.callee = Callee::Layer(stand_in);
        self.args[0] = Arg::Symbol(stand_in);
        self.args.insert(1, Arg::List(given));
    }

    /// Calls `f` for every symbol among the arguments, left to right. The symbol of a layer that is
    /// called is none of them.
    pub fn for_each_argument(&self, f: &mut impl FnMut(SymbolId)) {
        self.args.iter().for_each(|arg| arg.for_each_symbol(f));
        for (_, arg) in &self.kwargs {
            arg.for_each_symbol(f);
        }
    }
}

/// A captured graph: inputs, outputs and statements, no values.
#[derive(Clone, Debug, Default)]
pub struct StatementIr {
    /// `SIR_0`, ...
    pub name: String,
    /// Input symbols: layers first, then tensors, each in order of first use.
    pub inputs: Vec<SymbolId>,
    /// Output symbols.
    pub outputs: Vec<SymbolId>,
    /// The calls, in order.
    pub statements: Vec<Statement>,
    /// What each symbol is, indexed by `SymbolId`.
    pub symbols: Vec<SymbolKind>,
}

impl StatementIr {
    /// Has the statements that make these run by themselves.
    pub fn run_alone(&mut self, made: &FxHashSet<SymbolId>) {
        for statement in &mut self.statements {
            statement.output.for_each_symbol(&mut |id| {
                statement.alone |= made.contains(&id);
            });
        }
    }

    /// What `id` is.
    pub fn kind(&self, id: SymbolId) -> &SymbolKind {
        &self.symbols[id.0 as usize]
    }

    /// The metadata of `id`, when it is a tensor.
    pub fn meta(&self, id: SymbolId) -> Option<&TensorMeta> {
        match self.kind(id) {
            SymbolKind::Tensor(meta) => Some(meta),
            SymbolKind::Layer(_) => None,
        }
    }

    /// Whether a tensor has dims that differ between calls.
    pub fn has_open_dims(&self) -> bool {
        let is_open = |kind: &SymbolKind| matches!(kind, SymbolKind::Tensor(meta) if meta.shape.contains(&-1));
        self.symbols.iter().any(is_open)
    }

    /// The tensors among the inputs, in order.
    pub fn tensor_inputs(&self) -> impl Iterator<Item = SymbolId> + '_ {
        let inputs = self.inputs.iter().copied();
        inputs.filter(|id| matches!(self.kind(*id), SymbolKind::Tensor(_)))
    }

    /// Whether `id` is a tensor that needs a gradient.
    pub fn has_gradient(&self, id: SymbolId) -> bool {
        self.meta(id).is_some_and(|meta| !meta.stop_gradient)
    }

    /// Whether gradients flow through `id`: eager mode also says of whole numbers that they need
    /// one.
    pub fn carries_gradient(&self, id: SymbolId) -> bool {
        let differentiable =
            |meta: &TensorMeta| !meta.stop_gradient && meta.dtype.is_differentiable();
        self.meta(id).is_some_and(differentiable)
    }

    /// Whether a statement makes gradients of others.
    pub fn makes_gradients(&self, py: Python<'_>) -> bool {
        self.statements
            .iter()
            .any(|it| it.callee.makes_gradients(py))
    }

    /// Whether a statement holds nested graphs.
    pub fn has_regions(&self) -> bool {
        let nested = |statement: &Statement| matches!(statement.callee, Callee::Sir(_));
        self.statements.iter().any(nested)
    }

    /// Whether a statement is captured control flow or `recompute`, or a custom operation with such
    /// in it.
    pub fn has_control_flow(&self) -> bool {
        self.statements.iter().any(|it| match &it.callee {
            Callee::Sir(region) if matches!(**region, Region::PyLayer { .. }) => {
                let blocks = region.blocks();
                blocks.iter().any(|(_, block)| block.has_control_flow())
            }
            Callee::Sir(_) => true,
            Callee::Api(_) | Callee::Method(_) | Callee::Attribute(_) | Callee::Layer(_) => false,
        })
    }

    /// `var_3`, `layer_0`: numbered per kind.
    pub fn symbol_name(&self, id: SymbolId) -> String {
        let is_layer = |kind: &SymbolKind| matches!(kind, SymbolKind::Layer(_));
        let layer = is_layer(self.kind(id));
        let number = self.symbols[..id.0 as usize]
            .iter()
            .filter(|kind| is_layer(kind) == layer)
            .count();
        format!("{}_{number}", if layer { "layer" } else { "var" })
    }
}

impl fmt::Display for SymbolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}
