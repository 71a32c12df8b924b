//! Instructions that rebuild a variable. Each variable is rebuilt once and kept in a local, so that
//! two names for one object stay two names for one object.

use std::sync::Arc;

use indexmap::IndexSet;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::{BytecodeError, Code, CodeBuilder};
use crate::frame::Modules;
use crate::graph::SymbolId;
use crate::obj::{is_builtin_method, Obj};
use crate::reason::{Break, BreakKind};
use crate::simulator::fold::MAX_NESTING;
use crate::simulator::{carried_aliases, Shared, Tracer};
use crate::tracker::{Tracker, TrackerRef};
use crate::variables::{FunctionVar, Kind, NumberVar, TextPart, VarId};

static HELPERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A helper function of the generated code.
pub fn helper(py: Python<'_>, name: &str) -> Result<Obj, Break> {
    let module = HELPERS.get_or_try_init(py, || {
        py.own("paddle_sot_rs._codegen.helpers").map(Bound::unbind)
    })?;
    Ok(Obj::from(module.bind(py).getattr(name)?))
}

/// What generated code asks of the guard program and of the graph.
#[derive(Default)]
pub struct Demand {
    /// Trackers whose values are passed.
    pub slots: IndexSet<TrackerRef>,
    /// Symbols the graph must output.
    pub outputs: IndexSet<SymbolId>,
    /// Tensors that are rebuilt.
    pub tensors: IndexSet<VarId>,
    /// All that is made.
    pub made: FxHashSet<VarId>,
}

impl Demand {
    /// The position of a tracker among the slots.
    pub fn slot(&mut self, tracker: &TrackerRef) -> usize {
        self.slots.insert_full(tracker.clone()).0
    }

    /// The slot of a tensor that is an input of the graph: what comes out again is the object that
    /// went in.
    pub fn input(&mut self, t: &Tracer<'_>, symbol: SymbolId) -> Option<usize> {
        let input = t.graph.inputs.iter().find(|input| input.symbol == symbol)?;
        Some(self.slot(&input.tracker))
    }

    /// The position of a symbol among the outputs.
    pub fn output(&mut self, symbol: SymbolId) -> usize {
        self.outputs.insert_full(symbol).0
    }
}

impl From<BytecodeError> for Break {
    fn from(err: BytecodeError) -> Self {
        Break::internal(err.to_string())
    }
}

/// Emits code against slots and outputs that are numbered as they are asked for: they are locals
/// named in a prologue once all are known.
pub struct Emitter<'a, 'py> {
    /// The trace.
    pub t: &'a mut Tracer<'py>,
    /// What was asked for.
    pub demand: Demand,
    /// The code.
    pub code: CodeBuilder,
    slots: FxHashMap<usize, u32>,
    outputs: FxHashMap<usize, u32>,
    built: FxHashMap<VarId, u32>,
    building: FxHashSet<VarId>,
    /// Whether the side effects are behind us.
    pub(super) replayed: bool,
    /// What is made after the side effects.
    pub(super) waiting: Vec<VarId>,
    /// Lists of views that were made anew.
    pub(super) lists: FxHashMap<VarId, u32>,
    shared: &'a Shared,
}

/// Where generated code keeps a value.
#[derive(Clone, Copy)]
pub enum Home {
    /// In the list of slots.
    Slot(usize),
    /// In a local variable.
    Local(u32),
}

/// The answer of everything that emits.
pub type Emit = Result<(), Break>;

impl<'a, 'py> Emitter<'a, 'py> {
    /// An emitter for code that looks like `like` in tracebacks. Its parameters are a list, the
    /// slots, and a tuple, the outputs.
    pub fn new(t: &'a mut Tracer<'py>, like: &Code, shared: &'a Shared) -> Result<Self, Break> {
        let code = CodeBuilder::new(t.py, like, vec![Arc::from(".slots"), Arc::from(".outputs")])?;
        Ok(Self {
            t,
            demand: Demand::default(),
            code,
            slots: FxHashMap::default(),
            outputs: FxHashMap::default(),
            built: FxHashMap::default(),
            building: FxHashSet::default(),
            replayed: false,
            waiting: Vec::new(),
            lists: FxHashMap::default(),
            shared,
        })
    }

    fn item_of(&mut self, tuple: u32, index: usize) -> Emit {
        self.code.load(tuple)?;
        let index = pyo3::types::PyInt::new(self.t.py, index).into_any();
        self.code.load_const(&Obj::from(index))?;
        self.code.subscript()?;
        Ok(())
    }

    fn cached(&mut self, tuple: u32, index: usize) -> Emit {
        let table = if tuple == 0 {
            &self.slots
        } else {
            &self.outputs
        };
        if let Some(local) = table.get(&index) {
            return Ok(self.code.load(*local)?);
        }
        self.item_of(tuple, index)?;
        Ok(())
    }

    /// Pushes the value at a tracker.
    pub fn source(&mut self, source: &TrackerRef) -> Emit {
        if let Tracker::Const(value) = &**source {
            return Ok(self.code.load_const(value)?);
        }
        let index = self.demand.slot(source);
        self.cached(0, index)
    }

    /// Pushes a constant object.
    pub fn constant(&mut self, value: &Bound<'_, PyAny>) -> Emit {
        Ok(self.code.load_const(&Obj::from(value))?)
    }

    /// Code objects intern strings that look like names, which may put another object in the place
    /// of one that the program computed: those are kept out of sight.
    fn plain_constant(&mut self, value: &Obj) -> Emit {
        let object = value.bind(self.t.py);
        let Ok(text) = object.cast_exact::<PyString>() else {
            return Ok(self.code.load_const(value)?);
        };
        let interned = PyString::intern(self.t.py, &text.to_string_lossy());
        if interned.is(text) {
            return Ok(self.code.load_const(value)?);
        }
        Ok(self.code.load_held(value)?)
    }

    /// Calls a helper with what `arguments` pushes.
    pub fn call_helper(
        &mut self,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        let function = helper(self.t.py, name)?;
        self.code.begin_call(&function)?;
        arguments(self)?;
        Ok(self.code.call(argc)?)
    }

    /// Drops everything but `kept`: what no later instruction of the frame can see must not live on
    /// while the native instruction runs.
    pub fn drop_all_but(&mut self, kept: &FxHashSet<VarId>) -> Emit {
        let mut slots = FxHashSet::default();
        for id in kept {
            if let Some(Home::Slot(slot)) = self.home(*id) {
                slots.insert(slot);
            }
        }
        for index in (0..self.demand.slots.len()).filter(|index| !slots.contains(index)) {
            self.vacate(Home::Slot(index))?;
        }
        let mut dropped: Vec<(VarId, u32)> = Vec::new();
        self.built.retain(|id, local| {
            let keep = kept.contains(id);
            if !keep {
                dropped.push((*id, *local));
            }
            keep
        });
        dropped.extend(self.lists.drain());
        dropped.sort_unstable();
        for (_, local) in dropped {
            self.vacate(Home::Local(local))?;
        }
        Ok(())
    }

    /// Where a variable is, once it has been made; constants are nowhere.
    pub fn home(&mut self, id: VarId) -> Option<Home> {
        if let Some(local) = self.built.get(&id) {
            return Some(Home::Local(*local));
        }
        let source = self.t.vars.get(id).source.clone()?;
        let is_constant = matches!(*source, Tracker::Const(_));
        (!is_constant).then(|| Home::Slot(self.demand.slot(&source)))
    }

    /// Nothing is there any more.
    pub fn vacate(&mut self, home: Home) -> Emit {
        let none = self.t.py.None().into_bound(self.t.py);
        self.constant(&none)?;
        match home {
            Home::Slot(index) => {
                self.code.load(0)?;
                self.int(index as i64)?;
                self.code.op("STORE_SUBSCR", 0)?;
            }
            Home::Local(local) => self.code.store(local)?,
        }
        Ok(())
    }

    pub(super) fn call_type(
        &mut self,
        module: &str,
        name: &str,
        argc: usize,
        arguments: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        let class = Obj::from(self.t.py.module(module)?.getattr(name)?);
        self.code.begin_call(&class)?;
        arguments(self)?;
        Ok(self.code.call(argc)?)
    }

    fn call_pure(&mut self, function: VarId, args: &[VarId]) -> Emit {
        let Some(function) = self.t.value(function) else {
            return Err(Break::new(
                BreakKind::Construct,
                "a function without a value",
            ));
        };
        self.code.begin_call(&Obj::from(function))?;
        self.values(args)?;
        Ok(self.code.call(args.len())?)
    }

    pub(super) fn int(&mut self, value: i64) -> Emit {
        let value = pyo3::types::PyInt::new(self.t.py, value).into_any();
        self.constant(&value)
    }

    /// Pushes every variable.
    pub fn values(&mut self, ids: &[VarId]) -> Emit {
        ids.iter().try_for_each(|id| self.value(*id))
    }

    /// Rebuilds a variable into its local, leaving nothing on the stack.
    pub fn prepare(&mut self, id: VarId) -> Emit {
        if matches!(self.t.vars.kind(id), Kind::Null) {
            return Ok(());
        }
        if self.must_wait(id) {
            self.waiting.push(id);
            return Ok(());
        }
        self.value(id)?;
        self.code.op("POP_TOP", 0)?;
        Ok(())
    }

    /// Pushes a variable.
    pub fn value(&mut self, id: VarId) -> Emit {
        if let Some(local) = self.built.get(&id) {
            return Ok(self.code.load(*local)?);
        }
        if let Some(at) = self.t.raised_at(id) {
            let why = "an exception that was raised, or what else only the interpreter makes";
            return Err(self.t.left_to_interpreter(at, why));
        }
        let var = self.t.vars.get(id).clone();
        if let Some(source) = &var.source {
            return self.source(source);
        }
        if let Some(owner) = var.owner {
            return self.value(owner);
        }
        if let (Kind::Tensor(tensor), true) = (&var.kind, self.t.hands_on) {
            // What follows may change it, and with it what it may be.
            if let Some(at) = carried_aliases::made_at(self.t, tensor.symbol) {
                let why = "a tensor that captured control flow may have left as it was";
                return Err(self.t.left_to_interpreter(at, why));
            }
        }
        if let (Kind::Const, Some(value)) = (&var.kind, &var.value) {
            return self.plain_constant(value);
        }
        if matches!(var.kind, Kind::Null) {
            self.code.op("PUSH_NULL", 0)?;
            return Ok(());
        }
        if self.building.len() > MAX_NESTING {
            return Err(Break::new(
                BreakKind::Construct,
                "containers in containers that are too deep",
            ));
        }
        if !self.building.insert(id) {
            return Err(Break::new(
                BreakKind::Construct,
                "a container that holds itself",
            ));
        }
        let kept = self.build(id, &var.kind)?;
        self.building.remove(&id);
        if !kept {
            self.keep(id)?;
        }
        Ok(())
    }

    /// Keeps the top of the stack as the value of `id`.
    pub(super) fn keep(&mut self, id: VarId) -> Emit {
        let local = self.code.local(&format!(".value_{}", id.0));
        self.code.op("COPY", 1)?;
        self.code.store(local)?;
        self.built.insert(id, local);
        self.demand.made.insert(id);
        Ok(())
    }

    /// Pushes a freshly built value; true when it was kept already.
    fn build(&mut self, id: VarId, kind: &Kind) -> Result<bool, Break> {
        match kind {
            Kind::Tensor(tensor) => {
                self.demand.tensors.insert(id);
                match &tensor.view {
                    Some(view) if self.shared.is_made_anew(self.t, id) => {
                        self.view(view)?;
                    }
                    _ => self.symbol(tensor.symbol)?,
                }
            }
            Kind::SymNumber(symbol) | Kind::Float(NumberVar::Graph(symbol)) => {
                self.call_helper("number", 1, |this| this.symbol(*symbol))?;
            }
            Kind::Int(NumberVar::Dim(symbol, dim)) => {
                self.symbol(*symbol)?;
                self.code.load_attr("shape")?;
                self.int(*dim as i64)?;
                self.code.subscript()?;
            }
            Kind::Int(NumberVar::Made(op, a, b)) | Kind::Float(NumberVar::Made(op, a, b)) => {
                self.call_type("operator", op.stem(), 2, |this| this.values(&[*a, *b]))?;
            }
            Kind::Int(NumberVar::Called(function, a, b))
            | Kind::Float(NumberVar::Called(function, a, b)) => {
                let args: Vec<VarId> = [Some(*a), *b].into_iter().flatten().collect();
                self.call_pure(*function, &args)?;
            }
            Kind::Text(parts) => {
                for part in parts.iter() {
                    match part {
                        TextPart::Text(text) => self.value(*text)?,
                        TextPart::Shown(function, args) => self.call_pure(*function, args)?,
                    }
                }
                if parts.len() > 1 {
                    self.code.op("BUILD_STRING", parts.len() as u32)?;
                }
            }
            Kind::Array(array) => {
                self.call_helper("array", 1, |this| Ok(this.code.load_held(&array.value)?))?;
            }
            Kind::List(items) => {
                let class = self.t.vars.get(id).class.clone();
                if let Some(class) = &class {
                    self.code.begin_call(class)?;
                }
                self.values(items)?;
                self.code.op("BUILD_LIST", items.len() as u32)?;
                if class.is_some() {
                    self.code.call(1)?;
                }
            }
            Kind::Tuple(items, None) => {
                self.values(items)?;
                self.code.op("BUILD_TUPLE", items.len() as u32)?;
            }
            Kind::Tuple(items, Some(class)) => {
                self.code.begin_call(class)?;
                self.values(items)?;
                self.code.call(items.len())?;
            }
            Kind::Dict(dict) => {
                if let Some(class) = &dict.class {
                    self.code.begin_call(class)?;
                }
                if let Some(factory) = dict.default_factory {
                    self.values(&[factory])?;
                }
                let items: Vec<VarId> = dict
                    .items
                    .values()
                    .flat_map(|(key, value)| [*key, *value])
                    .collect();
                self.values(&items)?;
                self.code.op("BUILD_MAP", dict.items.len() as u32)?;
                if dict.class.is_some() {
                    self.code
                        .call(1 + usize::from(dict.default_factory.is_some()))?;
                }
            }
            Kind::Set(set) => {
                let items: Vec<VarId> = set.items.values().copied().collect();
                if set.frozen {
                    self.call_type("builtins", "frozenset", 1, |this| {
                        this.values(&items)?;
                        this.code.op("BUILD_TUPLE", items.len() as u32)?;
                        Ok(())
                    })?;
                } else {
                    self.values(&items)?;
                    self.code.op("BUILD_SET", items.len() as u32)?;
                }
            }
            Kind::Slice(parts) => {
                self.values(parts)?;
                self.code.op("BUILD_SLICE", 3)?;
            }
            Kind::Range(start, stop, step) => {
                self.call_type("builtins", "range", 3, |this| {
                    [start, stop, step]
                        .into_iter()
                        .try_for_each(|part| this.int(*part))
                })?;
            }
            Kind::Iter(_) if self.must_wait(id) => {
                return Err(Break::new(
                    BreakKind::Construct,
                    "an iterator over an object that changed is held by another object",
                ));
            }
            Kind::Iter(state) => self.iterator(state)?,
            Kind::Cell(content) => return self.cell(id, content),
            Kind::Function(FunctionVar::New(new)) => self.function(new)?,
            Kind::Method { receiver, function } if self.binds_itself(*function) => {
                self.call_helper("bind", 2, |this| this.values(&[*function, *receiver]))?;
            }
            Kind::Method { receiver, function } => {
                self.call_type("types", "MethodType", 2, |this| {
                    this.values(&[*function, *receiver])
                })?;
            }
            Kind::BoundBuiltin { receiver, name } => {
                self.value(*receiver)?;
                self.code.load_attr(name)?;
            }
            Kind::Object(object) => return self.object(id, object),
            Kind::Super { class, receiver } => {
                self.call_type("builtins", "super", 2, |this| {
                    this.code.load_const(class)?;
                    this.value(*receiver)
                })?;
            }
            Kind::Partial {
                function,
                args,
                kwargs,
            } => self.with_names("make_partial", args, kwargs, |this| this.value(*function))?,
            Kind::Continuation { function, args } => {
                let hold = Obj::from(function.bind(self.t.py).getattr("hold")?);
                self.code.begin_call(&hold)?;
                self.values(args)?;
                self.code.op("BUILD_TUPLE", args.len() as u32)?;
                self.code.call(1)?;
            }
            Kind::DictView(dict, which) => {
                self.call_helper("view", 2, |this| {
                    this.value(*dict)?;
                    this.int(i64::from(*which))
                })?;
            }
            Kind::Context(context) => self.context(context)?,
            Kind::ContextMethod { context, exit } => {
                self.value(*context)?;
                self.code
                    .load_attr(if *exit { "__exit__" } else { "__enter__" })?;
            }
            other => {
                let kind = other.name();
                return Err(Break::new(
                    BreakKind::Construct,
                    format!("a value of kind {kind} is live at the break"),
                ));
            }
        }
        Ok(false)
    }

    /// Pushes an input or output of the graph.
    pub(super) fn symbol(&mut self, symbol: SymbolId) -> Emit {
        match self.demand.input(self.t, symbol) {
            Some(slot) => self.cached(0, slot),
            None => {
                let index = self.demand.output(symbol);
                self.cached(1, index)
            }
        }
    }

    /// Whether it is a method of a builtin class: what they make of an object is no
    /// `types.MethodType`.
    fn binds_itself(&mut self, function: VarId) -> bool {
        let function = self.t.value(function);
        function.is_some_and(|function| is_builtin_method(&function))
    }

    pub(super) fn with_names(
        &mut self,
        name: &str,
        args: &[VarId],
        kwargs: &[(Arc<str>, VarId)],
        function: impl FnOnce(&mut Self) -> Emit,
    ) -> Emit {
        let names = PyTuple::new(
            self.t.py,
            kwargs.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
        )?
        .into_any();
        let values: Vec<VarId> = args
            .iter()
            .copied()
            .chain(kwargs.iter().map(|(_, value)| *value))
            .collect();
        self.call_helper(name, 2 + values.len(), |this| {
            function(this)?;
            this.constant(&names)?;
            this.values(&values)
        })
    }
}
